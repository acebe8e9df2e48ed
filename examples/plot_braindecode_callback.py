"""
Add censoring to a Braindecode classifier
=========================================

One callback censors the latent code of an :class:`~braindecode.EEGClassifier` that is trained on several subjects. The
module, the loss, the optimiser and the training loop do not change.
"""

# %%
# Six subjects
# ------------
# The data are simulated. All subjects have the same late response to a target. Offset and background rhythms differ
# between subjects and are independent of the task. The data are arrays: trials x channels x samples, and a class and a
# subject for every trial.

import matplotlib.pyplot as plt
import torch
from braindecode import EEGClassifier
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor import Censor
from braindecode_censor.datasets import SimulatedSubjects

effects = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
data = SimulatedSubjects(6, 80, preset="easy", shift=1.0, n_chans=8, sfreq=64.0, effects=effects, seed=21)
X, y, subjects = data.arrays()
X, unseen = X.astype("float32"), subjects == 6
X = (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True)

# %%
# Train twice
# -----------
# With ``weight=0`` the callback only monitors: training is bit for bit the same as without it, and the history
# contains the accuracy of a critic that predicts the subject from the code. With a positive weight, the encoder is
# trained against this critic. Arrays have no subject labels, so the callback receives them. It finds them itself in a
# Braindecode dataset with a column ``subject`` in its description, and in the metadata of MNE epochs.


def train(weight):
    torch.manual_seed(0)
    censor = Censor("adv", mode="conditional", weight=weight, subjects=subjects[~unseen], critic_lr=1e-2)
    clf = EEGClassifier(
        "EEGNet",
        callbacks=[censor],
        optimizer=torch.optim.AdamW,
        lr=5e-3,
        batch_size=32,
        max_epochs=12,
        train_split=None,
        verbose=0,
        module__final_layer_with_constraint=True,
    )
    return clf.fit(X[~unseen], y[~unseen])


nets = {"monitor (weight 0)": train(0.0), "censor (weight 0.5)": train(0.5)}

# %%
# The history
# -----------
# ``train_loss`` is the task loss without the penalty. ``subject_accuracy`` is the accuracy of the critic and
# ``subject_chance`` its chance level. If the accuracy stays at chance from the first epoch, the critic does not learn:
# increase ``critic_lr``.

figure, (accuracy_axes, loss_axes) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name, net in nets.items():
    accuracy_axes.plot(net.history[:, "subject_accuracy"], label=name)
    loss_axes.plot(net.history[:, "train_loss"], label=name)
accuracy_axes.axhline(net.history[-1, "subject_chance"], color="k", ls=":", label="chance")
accuracy_axes.set(xlabel="epoch", ylabel="subject accuracy of the critic", ylim=(0, 1))
loss_axes.set(xlabel="epoch", ylabel="task loss")
accuracy_axes.legend()

for name, net in nets.items():
    critic = sum(net.history[-3:, "subject_accuracy"]) / 3
    score = balanced_accuracy_score(y[unseen], net.predict(X[unseen]))
    print(f"{name:22s} critic {critic:.2f}, balanced accuracy on a subject never seen {score:.2f}")

# %%
# The critic's accuracy decreases. The effect on the accuracy for new subjects needs many subjects and seeds, see
# :doc:`plot_own_epochs`. The critic is trained against the encoder, so it underestimates the remaining subject leakage;
# fresh probes measure it, see :doc:`plot_leakage_report`.
