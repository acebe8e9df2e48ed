"""
A Braindecode model in your own torch loop
==========================================

You like Braindecode's networks and your own training loop. A hook reads the latent code where the network makes its
decision; the loss and the critic's step are those of any torch loop.
"""

# %%
# People and a network
# --------------------
# Simulated recordings: five people to learn from, and one who comes later.

import matplotlib.pyplot as plt
import torch
from braindecode.models import EEGNet
from torch import nn

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.training.leakage import subject_leakage

X, y, subjects = SimulatedSubjects(6, 60, n_chans=8, sfreq=64.0, preset="easy", seed=3).arrays()
X = torch.tensor(X / X.std(), dtype=torch.float32)
y, s = torch.tensor(y), torch.tensor(subjects - 1)
known = s < 5

# %%
# The latent code
# ---------------
# What enters ``final_layer`` is the code: the classifier sees nothing else. A hook keeps it during the forward pass, so
# that the network is run once.


class WithCode(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network
        network.final_layer.register_forward_pre_hook(self.keep)

    def keep(self, layer, inputs):
        self.code = inputs[0].flatten(1)

    def forward(self, x):
        logits = self.network(x)
        return logits, self.code


# %%
# The loop
# --------
# The critic belongs to the penalty, so its parameters must not be among the network's.


def train(weight, epochs=15):
    torch.manual_seed(0)
    model = WithCode(EEGNet(n_chans=8, n_outputs=2, n_times=X.shape[2]))
    n_features = model(X[:2])[1].shape[1]
    penalty = bc.make_penalty("adv", mode="conditional", n_features=n_features, n_subjects=5, n_classes=2)
    criterion = bc.CensoredLoss(nn.CrossEntropyLoss(), penalty, weight=weight)
    model_step = torch.optim.AdamW(model.parameters(), lr=5e-3)
    critic_step = torch.optim.AdamW(criterion.critic_parameters(), lr=5e-3)
    places = torch.where(known)[0]
    for _ in range(epochs):
        for batch in places[torch.randperm(len(places))].split(50):
            logits, z = model(X[batch])
            model_step.zero_grad()
            criterion(logits, y[batch], z, s[batch]).backward()
            model_step.step()
            critic_step.zero_grad()
            criterion.critic_loss(z, s[batch], y[batch]).backward()
            critic_step.step()
    model.eval()
    with torch.no_grad():
        _, z = model(X[known])
        right = model(X[~known])[0].argmax(1) == y[~known]
    return z.numpy(), right.float().mean().item()


# %%
# Before and after
# ----------------
# Fresh probes, which no training has seen, try to tell the five people apart within each class.

figure, axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
for weight in (0.0, 0.5):
    z, accuracy = train(weight)
    report = subject_leakage(z, y[known], s[known], probes=("logistic",))
    excess = report.set_index("view").loc["within class", "excess"]
    print(f"weight {weight:g}: subject over chance {excess:.2f}, accuracy on somebody new {accuracy:.3f}")
    axes.bar(f"weight {weight:g}", excess)
axes.set(ylabel="subject read over chance, within class")
plt.show()

# %%
# ``examples/lightning_module.py`` is the same in Lightning.
