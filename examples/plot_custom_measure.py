"""
A measure of your own
=====================

A *measure* estimates the dependence between latent code and subject. A new measure is a class with one method. All
modes, the callback, the estimator and YAML files then support it.
"""

# %%
# Fisher's ratio
# --------------
# Fisher's ratio is the scatter of the subjects' means over the scatter of trials around them, as in one-way analysis of
# variance. It is cheaper than a kernel distance, but does not distinguish subjects whose codes have equal means.
#
# A measure receives the code ``z`` and a :class:`~braindecode_censor.penalties.batch.Batch` of labels. Subjects are
# *rows of weights*: row m of ``cells`` is one for the trials of subject m, within each class in conditional mode. Do
# not select trials by subject: with weights one matrix product covers all subjects, and shapes do not depend on the
# data, as compiled code requires.

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
# ``search_space`` holds the values that a search can choose; grids, Optuna and tables read it. ``min_trials`` is an
# option of all measures; further arguments of the constructor work in the same way.
#
# Register it
# -----------
# The registry is a dict. A registered name works wherever a method's name does. Every process has its own dict: with
# several workers, put the class and this line into a module that they import.

MEASURES["fisher"] = FisherRatio

# %%
# Check a measure before training: its value is zero for equal subjects and larger for different ones, and its gradient
# passes ``gradcheck``. Subjects with the same distribution have a mean ratio of (M - 1) / (N - M), for M subjects and N
# trials.

torch.manual_seed(0)
s, y = torch.arange(64) % 4, torch.arange(64) // 4 % 2
penalty = bc.make_penalty("fisher", n_subjects=4)
equal = torch.randn(16, 6).repeat_interleave(4, dim=0)
noise = torch.stack([penalty(torch.randn(64, 6), s) for _ in range(300)]).mean()
different = torch.randn(64, 6) + s[:, None]
print(f"equal subjects {penalty(equal, s):.3f}, different subjects {penalty(different, s):.3f}")
print(f"same distribution: mean {noise:.4f}, expected {3 / 60:.4f}")

z = different.double().requires_grad_()
conditional = bc.make_penalty("fisher", mode="conditional", n_subjects=4, n_classes=2)
assert torch.autograd.gradcheck(lambda z: conditional(z, s, y), z)
assert abs(penalty(equal, s)) < 1e-5
assert abs(noise - 3 / 60) < 0.01

# %%
# Use it
# ------
# The estimator takes the name, and so does a MOABB pipeline: ``penalty: fisher``. This example uses the paper's
# protocol, which leaves more subject information in the signals than the defaults.

effects = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
data = SimulatedSubjects(6, 120, preset="easy", shift=1.0, n_chans=8, effects=effects, seed=23)
X, y, subjects = data.arrays()
position = np.tile(np.arange(120), 6)
train = position < 70
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
options = {"censoring": "conditional", "weight": 5.0, "max_epochs": 15, "lr": 1e-2, "batch_size": 64}
for i, penalty in enumerate([None, "mmd", "fisher"]):
    clf = bc.CensoredEEGClassifier(penalty=penalty, **{**bc.PAPER, **options})
    clf.fit(X[train], y[train], subjects=subjects[train])
    report = clf.subject_leakage(X[~train], y[~train], subjects[~train])
    row = report[(report["view"] == "within class") & (report["probe"] == "kernel")].iloc[0]
    spread = [[row["excess"] - row["low"]], [row["high"] - row["excess"]]]
    axes.errorbar(i, row["excess"], spread, fmt="o", capsize=4)
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
# The two penalties have different units, so equal penalty weights do not mean equal strength. A fair comparison tunes
# each weight.
