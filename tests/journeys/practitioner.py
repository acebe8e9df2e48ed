"""A practitioner has one file per subject: the shell fits and decodes, Python loads, adapts and streams."""

import csv
import shlex

import numpy as np
from journeys.readme import block
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.cli.main import main
from braindecode_censor.datasets import save_subject

X, y, subjects = mixed_subjects(6, 24, n_times=64)
new, labels = subjects == 6, np.array(["rest", "move"])
for k in range(1, 6):
    rows = subjects == k
    save_subject(f"recordings/subject_{k:02}.npz", X[rows], labels[y[rows]], sfreq=64.0, unit="uV")
np.savez("subject_08.npz", X=X[new], sfreq=64.0, unit="uV")  # without labels

for line in block(
    "sh", "autotransfer fit", {"10m": "none --candidates waveform riemann --quiet"}
).splitlines():
    assert main(shlex.split(line)[1:]) == 0
with open("predictions.csv") as file:
    predictions = np.array([row["prediction"] for row in csv.DictReader(file)])
assert np.mean(predictions == labels[y[new]]) > 0.8

clf = bc.AutoTransferClassifier.load("my_decoder")
assert "5 held-out subjects" in str(clf.heldout_)
assert np.array_equal(clf.adapt(X[new]).predict(X[new]), predictions)
assert np.mean(clf.adapt(X[new][:8], labels[y[new][:8]]).predict(X[new][8:]) == labels[y[new][8:]]) > 0.6
stream = clf.stream()
streamed = [stream.predict(trial[None])[0] for trial in X[new]]
assert np.mean(np.array(streamed) == labels[y[new]]) > 0.7
