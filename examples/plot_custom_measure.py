"""
A measure of your own
=====================

The penalties share one idea: a *measure* of how much the latent code depends on the subject. To try another one you
write a class with one method; modes, critics' training, the callback, the estimator and YAML come for free.
"""

# %%
# Fisher's ratio
# --------------
# How far apart are the subjects' means, compared with the spread of each subject's own trials? That is the ratio of
# one-way analysis of variance and of linear discriminants. It is cheaper than a kernel distance and sees less: two
# people whose codes have the same mean look alike to it.
#
# A measure gets the code ``z`` and a :class:`~braindecode_censor.penalties.batch.Batch` of labels. Subjects are
# *rows of weights*: row m of ``cells`` is one for the trials of subject m, within each class if the mode asks for that.
# Never pick trials by subject: with weights one matrix product serves everybody, and shapes do not depend on
# the data, so that compiled code works.

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
import torch

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.penalties.batch import cell_rows
from braindecode_censor.penalties.measures import MEASURES, Measure
from braindecode_censor.penalties.measures.base import mean_over_strata
from braindecode_censor.penalties.options import Choice, Range


class FisherRatio(Measure):
    """Scatter of the subjects' means over the scatter of trials around them."""

    nuisances = ("discrete",)
    search_space: ClassVar = {"weight": Range(0.3, 30.0, log=True), "min_trials": Choice((2, 4))}

    def censor(self, z, batch):
        _, cells = cell_rows(batch, z.dtype)  # classes x subjects x trials
        usable = self.usable_strata(cells)
        cells = cells * (cells.sum(-1, keepdim=True) >= self.min_trials)
        counts = cells.sum(-1, keepdim=True)
        means = cells @ z / counts.clamp_min(1)
        centre = (counts * means).sum(1, keepdim=True) / counts.sum(1, keepdim=True).clamp_min(1)
        between = (counts * (means - centre) ** 2).sum((1, 2))
        total = (cells.sum(1) * ((z - centre) ** 2).sum(-1)).sum(-1)
        ratio = between / (total - between).clamp_min(1e-12)
        return mean_over_strata(ratio, usable, self.reduction)


# %%
# Its ``search_space`` says what a search may choose for it: grids, Optuna and tables take the options from there, so an
# option is written once. Here ``min_trials`` is one that all measures have; an argument of your own constructor works
# the same way.
#
# Register it
# -----------
# The registry is a dict. From now on the name works everywhere a method's name does. (Other processes have their own
# dict: with several workers, put the class and this line into a module that they import.)

MEASURES["fisher"] = FisherRatio

# %%
# Check it before you train with it: zero for equal subjects, larger for different ones, the right gradient, and a
# known answer. Subjects who do not differ have the ratio (M - 1) / (N - M) on average, for M subjects and N trials.

torch.manual_seed(0)
s, y = torch.arange(64) % 4, torch.arange(64) // 4 % 2
penalty = bc.make_penalty("fisher", n_subjects=4)
alike = torch.randn(16, 6).repeat_interleave(4, dim=0)
noise = torch.stack([penalty(torch.randn(64, 6), s) for _ in range(300)]).mean()
apart = torch.randn(64, 6) + s[:, None]
print(f"the same trials {penalty(alike, s):.3f}, different people {penalty(apart, s):.3f}")
print(f"no difference: {noise:.4f} on average, expected {3 / 60:.4f}")

z = apart.double().requires_grad_()
conditional = bc.make_penalty("fisher", mode="conditional", n_subjects=4, n_classes=2)
assert torch.autograd.gradcheck(lambda z: conditional(z, s, y), z)
assert abs(penalty(alike, s)) < 1e-5
assert abs(noise - 3 / 60) < 0.01

# %%
# Use it
# ------
# In the estimator, so also in a MOABB pipeline: ``penalty: fisher``. The paper's protocol leaves more of the subject in
# the signals than the defaults do, so there is more to censor.

effects = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
data = SimulatedSubjects(6, 120, preset="easy", shift=1.0, n_chans=8, effects=effects, seed=23)
X, y, subjects = data.arrays()
position = np.tile(np.arange(120), 6)
train = position < 70
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
options = {"censoring": "conditional", "weight": 5.0, "max_epochs": 15, "lr": 1e-2, "batch_size": 64}
for place, penalty in enumerate([None, "mmd", "fisher"]):
    clf = bc.CensoredEEGClassifier(penalty=penalty, **{**bc.PAPER, **options})
    clf.fit(X[train], y[train], subjects=subjects[train])
    report = clf.subject_leakage(X[~train], y[~train], subjects[~train])
    row = report[(report["view"] == "within class") & (report["probe"] == "kernel")].iloc[0]
    spread = [[row["excess"] - row["low"]], [row["high"] - row["excess"]]]
    axes.errorbar(place, row["excess"], spread, fmt="o", capsize=4)
    print(
        f"{penalty or 'plain':6s} subject accuracy over chance {row['excess']:.2f} "
        f"({row['low']:.2f} to {row['high']:.2f}), validation accuracy {clf.valid_score_:.2f}"
    )
axes.set(
    xticks=range(3), xticklabels=["plain", "mmd", "fisher"], ylabel="kernel probe over chance, within class"
)
axes.axhline(0, color="k", ls=":")
plt.show()

# %%
# The two penalties have different units, so equal weights are not equal strengths; a fair comparison tunes each.
