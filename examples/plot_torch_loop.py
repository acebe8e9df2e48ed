"""
A plain torch loop
==================

No skorch, no Braindecode, nothing about EEG: a loss to call in your own training loop, on any network with a latent
code.
"""

# %%
# Subjects who cannot be told apart by the task
# ---------------------------------------------
# Twenty features: one tells the class, three tell the subject. A network has no reason to drop the latter.

import matplotlib.pyplot as plt
import torch
from torch import nn

import braindecode_censor as bc
from braindecode_censor.training.leakage import subject_leakage

torch.manual_seed(0)
N_SUBJECTS, N_CLASSES = 5, 2


def draw(n):
    s, y = torch.randint(N_SUBJECTS, (n,)), torch.randint(N_CLASSES, (n,))
    x = torch.randn(n, 20)
    x[:, 0] += 2.0 * y
    x[:, 1:4] += 2.0 * centres[s]
    return x, y, s


centres = torch.randn(N_SUBJECTS, 3)
x_train, y_train, s_train = draw(1500)
x_test, y_test, s_test = draw(500)

# %%
# The loop
# --------
# Two optimisers. The critic belongs to the penalty, so its parameters must not be among the model's. Encoder and
# classifier step on the sum of task loss and weighted penalty, then the critic on the same batch's detached code.
# Penalties without a critic (``mmd``, ``pairmmd``, ``mige``) have no critic parameters, and the critic's three
# lines fall away.


def train(weight, epochs=10):
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
    classifier = nn.Linear(8, N_CLASSES)
    penalty = bc.make_penalty("adv", n_features=8, n_subjects=N_SUBJECTS)
    criterion = bc.CensoredLoss(nn.CrossEntropyLoss(), penalty, weight=weight)
    model_step = torch.optim.AdamW([*encoder.parameters(), *classifier.parameters()], lr=3e-3)
    critic_step = torch.optim.AdamW(criterion.critic_parameters(), lr=3e-3)
    nats = []
    for _ in range(epochs):
        for batch in torch.randperm(len(x_train)).split(100):
            x, y, s = x_train[batch], y_train[batch], s_train[batch]
            z = encoder(x)
            model_step.zero_grad()
            criterion(classifier(z), y, z, s).backward()
            model_step.step()
            critic_step.zero_grad()
            criterion.critic_loss(z, s, y).backward()
            critic_step.step()
        with torch.no_grad():
            z = encoder(x_test)
            nats.append(penalty(z, s_test).item())
    accuracy = (classifier(z).argmax(1) == y_test).float().mean().item()
    return z.numpy(), nats, accuracy


# %%
# For the adversary the penalty is a lower bound on the mutual information between code and subject, in nats. It can
# be negative: then the critic is worse than guessing. Being the critic's own account it says little
# about what a fresh probe would find, so that is measured, too.

figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
for weight in (0.0, 0.1, 1.0):
    z, nats, accuracy = train(weight)
    report = subject_leakage(z, y_test, s_test)
    excess = report[report["view"] == "marginal"].set_index("probe")["excess"]
    axes.plot(nats, label=f"weight {weight:g}")
    print(
        f"weight {weight:<4g} task accuracy {accuracy:.3f}; subject over chance: "
        f"logistic {excess['logistic']:.2f}, kernel {excess['kernel']:.2f}"
    )
axes.set(xlabel="epoch", ylabel="the critic's bound on I(z; s), nats")
axes.legend()
plt.show()

# %%
# Averages hide what a single number would: look whether the linear *and* the kernel probe fall, and whether the task
# survives. Here both can, because class and subject sit in different features; in recordings they rarely do.
