"""A practitioner has one file per person and a patient tomorrow; first in Python, then in the shell."""

import csv
from pathlib import Path

import numpy as np
from journeys.readme import block, run
from subjects import mixed_subjects

from braindecode_censor.cli.main import main

X, y, subjects = mixed_subjects(6, 24, n_times=64)
words = np.array(["rest", "move"])
Path("recordings").mkdir()
for k in range(1, 7):
    mine = subjects == k
    np.savez(f"subject_{k:02}.npz" if k < 6 else "tomorrow.npz", X=X[mine], y=y[mine])
    content = {"X": X[mine], "y": words[y[mine]], "sfreq": 64.0, "unit": "uV"}
    if k == 6:
        del content["y"]  # nobody knows what the patient will be doing
    np.savez(f"recordings/subject_{k:02}.npz" if k < 6 else "patient.npz", **content)

quick = {"range(1, 9)": "range(1, 6)", '"10m"': 'None, candidates=["waveform", "riemann"], verbose=0'}
names = run(block("python", "AutoTransferClassifier(", **quick))
truth = y[subjects == 6]
assert np.mean(names["classes"] == truth) > 0.8
assert "5 people, none of whom was seen" in str(names["clf"].heldout_)

fit = "fit --data recordings --out shell_decoder --time none --candidates waveform riemann --quiet"
assert main(fit.split()) == 0
assert main(["leaderboard", "--decoder", "shell_decoder"]) == 0
assert (
    main(["predict", "--decoder", "shell_decoder", "--data", "patient.npz", "--out", "y.csv", "--adapt"]) == 0
)
with open("y.csv") as file:
    said = [row["y"] for row in csv.DictReader(file)]
assert np.mean(np.array(said) == words[truth]) > 0.8
assert Path("shell_decoder/model_card.md").is_file()
