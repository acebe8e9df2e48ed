"""
Reading the leakage report
==========================

Did censoring work? The penalty's value cannot tell: a critic that has given up and a code that has nothing to give
look alike. The report trains *fresh* probes on the latent code and asks them who it is.
"""

# %%
# Subjects who differ in their labels, too
# ----------------------------------------
# In this simulation some people saw more targets than others (``label_shift``). A code that knows the class then
# necessarily knows something about the person, and should: that is why the report has two views.

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
# Keep trials apart for the probes
# --------------------------------
# Of every training subject 70 trials train and the rest are for the probes: on trials that were trained
# on, a net that memorises looks worse than it is to others, and a censored one better.

position = np.concatenate([np.arange((subjects == subject).sum()) for subject in np.unique(subjects)])
unseen = subjects == 6
train, probe = ~unseen & (position < 70), ~unseen & (position >= 70)
training = {"max_epochs": 12, "lr": 1e-2, "batch_size": 32}
nets = {
    "plain": CensoredEEGClassifier(penalty=None, **training),
    "marginal": CensoredEEGClassifier(penalty="mmd", censoring="marginal", weight=10.0, **training),
    "conditional": CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=10.0, **training),
}
for net in nets.values():
    net.fit(X[train], y[train], subjects=subjects[train])

# %%
# One report
# ----------
# Rows are two probes (a linear one, and a kernel one that also finds curved boundaries) times two views. *marginal*:
# can the subject be told from the code? *within class*: can it be told among trials of the same class? ``excess`` is
# balanced accuracy minus chance, ``low`` to ``high`` its bootstrap interval. Zero excess is a code that tells nothing
# to these probes, and no probe can prove more than that.

reports = {name: net.subject_leakage(X[probe], y[probe], subjects[probe]) for name, net in nets.items()}
print(reports["plain"].round(3).to_string(index=False))

# %%
# What would an ideal code leak? One that knows the class and nothing else is the class itself:

ideal = subject_leakage(np.eye(2)[y[probe]], y[probe], subjects[probe])
ideal = ideal[ideal["probe"] == "logistic"].set_index("view")["excess"]
print(ideal.round(3).to_string())

# %%
# Three nets side by side
# -----------------------
# The dotted line in the left panel is what the class alone gives away. To push the marginal leakage
# below it is to throw the task away; within a class there is nothing to lose, so that is the view to judge
# conditional censoring by.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for place, (name, net) in enumerate(nets.items()):
    report = reports[name]
    for panel, view in zip(panels, ["marginal", "within class"]):
        rows = report[report["view"] == view]
        for shift, (_, row) in zip((-0.15, 0.15), rows.iterrows()):
            spread = [[row["excess"] - row["low"]], [row["high"] - row["excess"]]]
            marker = "o" if row["probe"] == "logistic" else "s"
            panel.errorbar(place + shift, row["excess"], spread, marker=marker, color=f"C{place}", capsize=3)
        panel.set(title=view, xticks=range(3), xticklabels=list(nets))
    person = net.adapt(X[unseen])  # the unseen person's trials, without their classes
    score = balanced_accuracy_score(y[unseen], person.predict(X[unseen]))
    excess = report.groupby("view")["excess"].mean()
    print(
        f"{name:12s} marginal {excess['marginal']:.2f}, within class {excess['within class']:.2f}, "
        f"accuracy on subject 6: {score:.2f}"
    )
panels[0].axhline(ideal["marginal"], color="k", ls=":")
panels[1].axhline(0, color="k", ls=":")
panels[0].set_ylabel("subject accuracy over chance")
plt.show()
