"""
Add censoring to a Braindecode classifier
=========================================

You have an :class:`~braindecode.EEGClassifier` and recordings of several people. One callback makes its latent code
say less about whose brain it is; your module, loss, optimiser and training loop stay as they are.
"""

# %%
# Recordings of six people
# --------------------------
# Simulated, so that the example needs no download. Everybody has the same late response to a target, and an offset
# and background rhythms of their own, which tell who it is and nothing about the task. Arrays like these are
# all you need: trials x channels x samples, a class and a subject for every trial.

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
# With ``weight=0`` the callback only watches: training is the same, bit for bit, as without it, and the history
# shows how well a critic reads the subject from the code. With a weight, the encoder works against that critic.
# Arrays do not carry subject labels, so the callback gets them; a Braindecode dataset with a column ``subject`` in
# its description, or MNE epochs with one in their metadata, brings them along.


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


nets = {"watch only (weight 0)": train(0.0), "censor (weight 0.5)": train(0.5)}

# %%
# What happened
# -------------
# ``train_loss`` is the task loss alone, so early stopping and learning curves keep their meaning. Beside it stand
# ``subject_accuracy``, the critic's, and ``subject_chance``, what it would get by guessing. If the accuracy stays at
# chance from the first epoch, suspect the critic, not the encoder: raise ``critic_lr``.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name, net in nets.items():
    left.plot(net.history[:, "subject_accuracy"], label=name)
    right.plot(net.history[:, "train_loss"], label=name)
left.axhline(net.history[-1, "subject_chance"], color="k", ls=":", label="guessing")
left.set(xlabel="epoch", ylabel="critic names the subject", ylim=(0, 1))
right.set(xlabel="epoch", ylabel="task loss")
left.legend()

for name, net in nets.items():
    critic = sum(net.history[-3:, "subject_accuracy"]) / 3
    score = balanced_accuracy_score(y[unseen], net.predict(X[unseen]))
    print(f"{name:22s} critic {critic:.2f}, balanced accuracy on a person never seen {score:.2f}")

# %%
# The critic now reads less. Whether the decoder got better for the sixth person is another question, and one
# person and one seed cannot answer it: compare over many, as in :doc:`plot_own_epochs`. The critic
# is also the encoder's own opponent, so it is no fair judge of what is left; that is a fresh probe's job, see
# :doc:`plot_leakage_report`.
