"""
A Braindecode model in Lightning
================================

Encoder and critic have separate optimisers, so the module calls them itself (``automatic_optimization = False``). The
example needs ``pip install lightning`` and is not run when the documentation is built.
"""

# %%
# The module
# ----------
# A hook stores the input of the last layer, which is the latent code. Encoder and classifier take a step on task loss
# plus penalty, then the critic on the same batch. The critic's parameters belong to the penalty and to the second
# optimiser.

import lightning
import torch
from braindecode.models import EEGNet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.training.leakage import subject_leakage


class CensoredModule(lightning.LightningModule):
    def __init__(self, network, penalty, weight):
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self.criterion = bc.CensoredLoss(nn.CrossEntropyLoss(), penalty, weight=weight)
        network.final_layer.register_forward_pre_hook(self.store_code)

    def store_code(self, layer, inputs):
        self.code = inputs[0].flatten(1)

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, batch_idx):
        x, y, s = batch
        model_step, critic_step = self.optimizers()
        logits, z = self(x), self.code
        loss = self.criterion(logits, y, z, s)
        model_step.zero_grad()
        self.manual_backward(loss)
        model_step.step()
        critic_step.zero_grad()
        self.manual_backward(self.criterion.critic_loss(z, s, y))
        critic_step.step()
        self.log("loss", loss)

    def configure_optimizers(self):
        model_step = torch.optim.AdamW(self.network.parameters(), lr=5e-3)
        return model_step, torch.optim.AdamW(self.criterion.critic_parameters(), lr=5e-3)


# %%
# Training
# --------

X, y, subjects = SimulatedSubjects(6, 60, n_chans=8, preset="easy", seed=3).arrays()
X = torch.tensor(X / X.std(), dtype=torch.float32)
y, s = torch.tensor(y), torch.tensor(subjects - 1)
source = s < 5  # subject 5 is the new subject


def train(weight):
    lightning.seed_everything(0, verbose=False)
    network = EEGNet(n_chans=8, n_outputs=2, n_times=X.shape[2])
    size = network.final_layer.conv_classifier.weight[
        0
    ].numel()  # one weight per class and feature of the code
    penalty = bc.make_penalty("adv", mode="conditional", n_features=size, n_subjects=5, n_classes=2)
    module = CensoredModule(network, penalty, weight)
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=15, accelerator="cpu", enable_model_summary=False, **options)
    trainer.fit(
        module, DataLoader(TensorDataset(X[source], y[source], s[source]), batch_size=50, shuffle=True)
    )
    module.eval()
    with torch.no_grad():
        correct = module(X[~source]).argmax(1) == y[~source]
        module(X[source])
    return module.code.numpy(), correct.float().mean().item()


for weight in (0.0, 0.3):
    z, accuracy = train(weight)
    report = subject_leakage(z, y[source], s[source], probes=("logistic",))
    excess = report.set_index("view").loc["within class", "excess"]
    print(f"weight {weight:g}: subject over chance {excess:.2f}, accuracy on the new subject {accuracy:.3f}")
