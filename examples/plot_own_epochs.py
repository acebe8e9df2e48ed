"""
Your own epochs
===============

From arrays or MNE epochs of your study to a leave-one-subject-out comparison of plain and censored training, by
MOABB's own evaluation.
"""

# %%
# A folder with one file per subject
# ----------------------------------
# The format is plain numpy: trials, classes, channel names, sampling rate. ``subject_01-epo.fif`` as MNE writes it
# works just as well. Here the trials come from a simulator; put yours in their place.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from moabb.evaluations import CrossSubjectEvaluation

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm, save_subject

# MOABB's default mode shows nothing of the new person; the decoder says so each time.
warnings.filterwarnings("ignore", message=".*no trials of the new person")
folder = Path(tempfile.mkdtemp())
simulated = SimulatedSubjects(6, 40, preset="easy", n_chans=8, sfreq=64.0, seed=3)
trials, classes, who = simulated.arrays()
for subject in range(1, 7):
    save_subject(
        folder / f"subject_{subject:02d}.npz",
        trials[who == subject],
        classes[who == subject],
        label_names=["NonTarget", "Target"],
        sfreq=64.0,
        ch_names=["Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8"],
        ch_types="eeg",
    )
print(sorted(path.name for path in folder.iterdir()))

# %%
# It is a MOABB dataset now
# -------------------------
# ``default_paradigm`` hands the trials over as they are, without a filter, and scores by balanced accuracy. ``fmin=``,
# ``fmax=`` and ``resample=`` change that; normalising is the estimator's business.

dataset = EpochsFolder(folder)
paradigm = default_paradigm(dataset)
X, y, metadata = paradigm.get_data(dataset)
print(X.shape, metadata["subject"].value_counts().to_dict())

# %%
# Leave one subject out
# ---------------------
# The estimator asks for subject labels and MOABB hands them over. In every fold one subject tests and all others
# train, so nobody is tested by a decoder that has seen them.

training = {"max_epochs": 6, "lr": 1e-2, "batch_size": 32}
pipelines = {
    "plain": CensoredEEGClassifier(penalty=None, **training),
    "censored": CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=0.3, **training),
}
evaluation = CrossSubjectEvaluation(
    paradigm, [dataset], hdf5_path=str(folder / "results"), n_jobs=1, overwrite=True
)
scores = evaluation.process(pipelines)
table = scores.pivot(index="subject", columns="pipeline", values="score")[["plain", "censored"]]
print(table.round(3))

# %%
# Look at people, not only at the mean
# ------------------------------------
# A line per test subject. Six subjects and one seed: differences of a few points are noise here, and the gain's
# own spread says so.

figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
axes.plot(table.T, "o-", color="0.6")
axes.plot(table.mean(), "kx-", lw=2, label="mean")
axes.axhline(0.5, color="k", ls=":", lw=1, label="guessing")
axes.set(ylabel="balanced accuracy, person never seen", xlim=(-0.3, 1.3))
axes.legend()
gain = table["censored"] - table["plain"]
print(f"gain {gain.mean():+.3f}, standard error over subjects {gain.sem():.3f}")
