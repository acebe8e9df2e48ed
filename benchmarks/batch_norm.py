"""What the momentum of batch norm does to the validation loss of early epochs.

EEGNet's running statistics move by 1 % per batch. A dataset of this field has about ten batches per epoch, so
they trail the weights by ten epochs, and the validation loss, which decides which epoch is kept, is that of a
network nobody trained. Each setting is trained with the same seeds; beside the validation loss stands the one
with statistics recomputed from all training trials, which is what the weights are worth.

    python benchmarks/batch_norm.py
"""

import argparse
import copy
import warnings

import numpy as np
import torch
from front_simulated import simulate
from skorch.callbacks import Callback
from torch.nn.modules.batchnorm import _BatchNorm

from braindecode_censor import PAPER, CensoredEEGClassifier

MOMENTA = (0.01, 0.1, 0.3)


class ExactLoss(Callback):
    """Validation loss after recomputing the statistics from the training trials, without dropout."""

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        """Record the loss and put everything back.

        Parameters
        ----------
        net : NeuralNet
            The net.
        dataset_train, dataset_valid : Subset
            Trials.
        **kwargs
            Ignored.
        """
        kept = copy.deepcopy(net.module_.state_dict())
        net.module_.eval()
        for part in net.module_.modules():
            if isinstance(part, _BatchNorm):
                part.train()
                part.momentum, part.kept_ = 1.0, part.momentum
        with torch.no_grad():
            net.module_(dataset_train[list(range(len(dataset_train)))][0])
            net.module_.eval()
            x, y = dataset_valid[list(range(len(dataset_valid)))]
            net.criterion_.eval()
            net.history.record("exact_loss", net.criterion_(net.module_(x), y).item())
        for part in net.module_.modules():
            if isinstance(part, _BatchNorm):
                part.momentum = part.kept_
        net.module_.load_state_dict(kept)


def main():
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    shown = [epoch for epoch in (1, 2, 3, 5, 10, 20, 40) if epoch <= arguments.epochs]
    print("| momentum | loss | " + " | ".join(f"epoch {e}" for e in shown) + " | mean gap | epoch kept |")
    print("|---" * (len(shown) + 4) + "|")
    for momentum in MOMENTA:
        logged, exact, kept = [], [], []
        for seed in range(arguments.seeds):
            options = {"penalty": None, "max_epochs": arguments.epochs, "batch_norm_momentum": momentum}
            options |= {"random_state": seed, "callbacks": [("exact", ExactLoss())]}
            clf = CensoredEEGClassifier(**{**PAPER, **options}).fit(*simulate(seed)["train"])
            logged.append(clf.history[:, "valid_loss"])
            exact.append(clf.history[:, "exact_loss"])
            kept.append(clf.best_epoch_)
        gap = np.abs(np.array(logged) - exact).mean()
        for name, losses in (("logged", logged), ("exact", exact)):
            values = " | ".join(f"{np.mean(losses, axis=0)[e - 1]:.3f}" for e in shown)
            last = f"{gap:.3f} | {np.mean(kept):.0f}" if name == "logged" else " | "
            print(f"| {momentum} | {name} | {values} | {last} |", flush=True)


if __name__ == "__main__":
    main()
