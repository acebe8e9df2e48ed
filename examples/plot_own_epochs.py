"""
Your own epochs
===============

Arrays or MNE epochs of a study become a MOABB dataset. MOABB's leave-one-subject-out evaluation then compares plain and
censored training.
"""

# %%
# A folder with one file per subject
# ----------------------------------
# The format is .npz: trials, classes, channel names and sampling rate. ``subject_01-epo.fif``, as MNE writes it, works
# too. The trials of this example are simulated.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from moabb.evaluations import CrossSubjectEvaluation

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm, save_subject

# MOABB's default mode provides no target data, of which the normaliser warns in every fold.
warnings.filterwarnings("ignore", message=".*no trials of the new subject")
folder = Path(tempfile.mkdtemp())
simulated = SimulatedSubjects(6, 40, preset="easy", n_chans=8, sfreq=64.0, seed=3)
trials, classes, subjects = simulated.arrays()
for subject in range(1, 7):
    save_subject(
        folder / f"subject_{subject:02d}.npz",
        trials[subjects == subject],
        classes[subjects == subject],
        label_names=["NonTarget", "Target"],
        sfreq=64.0,
        ch_names=["Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8"],
        ch_types="eeg",
    )
print(sorted(path.name for path in folder.iterdir()))

# %%
# The MOABB dataset
# -----------------
# ``default_paradigm`` returns the trials without a filter and scores by balanced accuracy. ``fmin=``, ``fmax=`` and
# ``resample=`` change this. The estimator normalises the trials.

dataset = EpochsFolder(folder)
paradigm = default_paradigm(dataset)
X, y, metadata = paradigm.get_data(dataset)
print(X.shape, metadata["subject"].value_counts().to_dict())

# %%
# Leave one subject out
# ---------------------
# The estimator requests subject labels from MOABB. In every fold one subject is the test subject, and the decoder is
# trained on all other subjects.

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
# Results per subject
# -------------------
# The figure has one line per test subject. With six subjects and one seed, differences of a few points are noise, as
# the standard error shows.

figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
axes.plot(table.T, "o-", color="0.6")
axes.plot(table.mean(), "kx-", lw=2, label="mean")
axes.axhline(0.5, color="k", ls=":", lw=1, label="chance")
axes.set(ylabel="balanced accuracy, new subject", xlim=(-0.3, 1.3))
axes.legend()
gain = table["censored"] - table["plain"]
print(f"gain {gain.mean():+.3f}, standard error over subjects {gain.sem():.3f}")
