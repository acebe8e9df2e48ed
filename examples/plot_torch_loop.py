"""
A plain torch loop
==================

The loss for a plain torch loop works with any network that has a latent code. It needs neither skorch nor Braindecode.
"""

# %%
# Data
# ----
# Of twenty features one depends on the class and three on the subject. Plain training has no reason to discard the
# latter.

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
# There are two optimisers. Encoder and classifier take a step on task loss plus weighted penalty, then the critic on
# the same batch, with a detached code. The critic's parameters belong to the penalty. ``mmd``, ``pairmmd`` and
# ``mige`` have no critic: ``penalty.has_critic`` is False, and the second optimiser is not needed.


def train(weight, method="adv", epochs=10):
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
    classifier = nn.Linear(8, N_CLASSES)
    penalty = bc.make_penalty(method, n_features=8, n_subjects=N_SUBJECTS)
    criterion = bc.CensoredLoss(nn.CrossEntropyLoss(), penalty, weight=weight)
    model_step = torch.optim.AdamW([*encoder.parameters(), *classifier.parameters()], lr=3e-3)
    critic_step = torch.optim.AdamW(penalty.critic_parameters(), lr=3e-3) if penalty.has_critic else None
    values = []
    for _ in range(epochs):
        for batch in torch.randperm(len(x_train)).split(100):
            x, y, s = x_train[batch], y_train[batch], s_train[batch]
            z = encoder(x)
            model_step.zero_grad()
            criterion(classifier(z), y, z, s).backward()
            model_step.step()
            if penalty.has_critic:
                critic_step.zero_grad()
                criterion.critic_loss(z, s, y).backward()
                critic_step.step()
        with torch.no_grad():
            z = encoder(x_test)
            values.append(penalty(z, s_test).item())
    accuracy = (classifier(z).argmax(1) == y_test).float().mean().item()
    return z.numpy(), values, accuracy


# %%
# The penalty of the adversary is a lower bound on the mutual information between code and subject, in nats. It is
# negative if the critic is worse than chance. The bound depends on the critic, so fresh probes measure the subject
# leakage.

figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
for weight in (0.0, 0.1, 1.0):
    z, values, accuracy = train(weight)
    report = subject_leakage(z, y_test, s_test)
    excess = report[report["view"] == "marginal"].set_index("probe")["excess"]
    axes.plot(values, label=f"weight {weight:g}")
    print(
        f"weight {weight:<4g} task accuracy {accuracy:.3f}; subject over chance: "
        f"logistic {excess['logistic']:.2f}, kernel {excess['kernel']:.2f}"
    )
axes.set(xlabel="epoch", ylabel="the critic's bound on I(z; s), nats")
axes.legend()
plt.show()

# %%
# Check that the linear *and* the kernel probe decrease while the task accuracy does not. Here both are possible, since
# class and subject affect different features; in recordings they rarely do.

train(0.1, method="mmd")  # The same loop runs without a critic.
