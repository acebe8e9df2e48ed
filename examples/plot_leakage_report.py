"""
Reading the subject leakage report
==================================

The value of a penalty does not show whether censoring worked: it is low for a code without subject information, and for
a critic that failed. The report trains *fresh* probes that predict the subject from the latent code.
"""

# %%
# Subjects with different class proportions
# -----------------------------------------
# In this simulation the proportion of targets differs between subjects (``label_shift``). A code that predicts the
# class then necessarily contains subject information. The report therefore has two views.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.training.leakage import subject_leakage

effects = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
data = SimulatedSubjects(
    6, 120, preset="easy", shift=1.0, label_shift=1.5, n_chans=8, effects=effects, seed=22
)
X, y, subjects = data.arrays()
print(pd.crosstab(subjects, y))

# %%
# Separate trials for the probes
# ------------------------------
# The networks are trained on 70 trials of every source subject, and the probes use the remaining ones. On training
# trials the leakage of a network that memorises is too high, and that of a censored one too low.

position = np.concatenate([np.arange((subjects == subject).sum()) for subject in np.unique(subjects)])
unseen = subjects == 6
train, probe = ~unseen & (position < 70), ~unseen & (position >= 70)
training = {"max_epochs": 12, "lr": 1e-2, "batch_size": 32}
nets = {
    "plain": CensoredEEGClassifier(penalty=None, **training),
    "marginal": CensoredEEGClassifier(penalty="mmd", censoring="marginal", weight=10.0, **training),
    "conditional": CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=10.0, **training),
}
warnings.filterwarnings("ignore", message="subject 4, subject 5|subject [45]:")  # lopsided on purpose
for net in nets.values():
    net.fit(X[train], y[train], subjects=subjects[train])

# %%
# One report
# ----------
# Rows are two probes (linear and kernel) times two views: *marginal* uses all trials, *within class* the trials of one
# class at a time. ``excess`` is balanced accuracy minus chance, and ``low`` to ``high`` its bootstrap interval. With an
# excess of zero these probes find no subject information; other probes still might.

reports = {name: net.subject_leakage(X[probe], y[probe], subjects[probe]) for name, net in nets.items()}
print(reports["plain"].round(3).to_string(index=False))

# %%
# For comparison, the class itself is a code with all information about the task and nothing else:

ideal = subject_leakage(np.eye(2)[y[probe]], y[probe], subjects[probe])
ideal = ideal[ideal["probe"] == "logistic"].set_index("view")["excess"]
print(ideal.round(3).to_string())

# %%
# Three decoders
# --------------
# The dotted line in the left panel is the subject leakage of the class itself. A lower marginal leakage loses task
# information. The view within class has no such bound and is the one for conditional censoring.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for i, (name, net) in enumerate(nets.items()):
    report = reports[name]
    for panel, view in zip(panels, ["marginal", "within class"]):
        rows = report[report["view"] == view]
        for shift, (_, row) in zip((-0.15, 0.15), rows.iterrows()):
            spread = [[row["excess"] - row["low"]], [row["high"] - row["excess"]]]
            marker = "o" if row["probe"] == "logistic" else "s"
            panel.errorbar(i + shift, row["excess"], spread, marker=marker, color=f"C{i}", capsize=3)
        panel.set(title=view, xticks=range(3), xticklabels=list(nets))
    adapted = net.adapt(X[unseen])  # trials of the target subject, without their classes
    score = balanced_accuracy_score(y[unseen], adapted.predict(X[unseen]))
    excess = report.groupby("view")["excess"].mean()
    print(
        f"{name:12s} marginal {excess['marginal']:.2f}, within class {excess['within class']:.2f}, "
        f"accuracy on subject 6: {score:.2f}"
    )
panels[0].axhline(ideal["marginal"], color="k", ls=":")
panels[1].axhline(0, color="k", ls=":")
panels[0].set_ylabel("subject accuracy over chance")
plt.show()
