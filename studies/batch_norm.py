"""Momentum of batch norm and the validation loss of early epochs.

EEGNet's running statistics move by 1 % per batch. A dataset of this field has about ten batches per epoch, so they lag
ten epochs behind the weights. The validation loss, which decides about the final weights, is then that of another
network. Every momentum is trained with the same seeds; beside the validation loss stands the one with statistics
recomputed from all training trials.

    python -m studies.batch_norm
"""

import argparse
import copy
import warnings

import numpy as np
import torch
from skorch.callbacks import Callback
from torch.nn.modules.batchnorm import _BatchNorm

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.datasets import SimulatedSubjects

MOMENTA = (0.01, 0.1, 0.3)
EPOCHS = (1, 2, 3, 5, 10, 20, 40)
EFFECTS = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 12.0}


def simulate(seed):
    """Return 80 trials of each of seven subjects."""
    X, y, subjects = SimulatedSubjects(
        11, 140, seed=seed, shift=1.0, snr=1.5, n_chans=8, effects=EFFECTS
    ).arrays()
    mask = (subjects <= 7) & (np.arange(len(y)) % 140 < 80)
    return X[mask], y[mask], subjects[mask]


class ExactLoss(Callback):
    """Validation loss with statistics recomputed from the training trials, without dropout."""

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        """Record the loss and restore the network."""
        state, momenta = copy.deepcopy(net.module_.state_dict()), {}
        net.module_.eval()
        for module in net.module_.modules():
            if isinstance(module, _BatchNorm):
                momenta[module.train()] = module.momentum
                module.momentum = 1.0
        with torch.no_grad():
            net.module_(dataset_train[list(range(len(dataset_train)))][0])
            net.module_.eval()
            x, y = dataset_valid[list(range(len(dataset_valid)))]
            net.criterion_.eval()
            net.history.record("exact_loss", net.criterion_(net.module_(x), y).item())
        for module, momentum in momenta.items():
            module.momentum = momentum
        net.module_.load_state_dict(state)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    epochs = [epoch for epoch in EPOCHS if epoch <= args.epochs]
    print("| momentum | loss | " + " | ".join(f"epoch {e}" for e in epochs) + " | mean gap | best epoch |")
    print("|---" * (len(epochs) + 4) + "|")
    for momentum in MOMENTA:
        logged, exact, best_epochs = [], [], []
        for seed in range(args.seeds):
            options = {"penalty": None, "max_epochs": args.epochs, "batch_norm_momentum": momentum}
            options |= {"random_state": seed, "callbacks": [("exact", ExactLoss())]}
            clf = CensoredEEGClassifier(**{**PAPER, **options}).fit(*simulate(seed))
            logged.append(clf.history[:, "valid_loss"])
            exact.append(clf.history[:, "exact_loss"])
            best_epochs.append(clf.best_epoch_)
        gap = np.abs(np.array(logged) - exact).mean()
        for name, losses in (("logged", logged), ("exact", exact)):
            values = " | ".join(f"{np.mean(losses, axis=0)[e - 1]:.3f}" for e in epochs)
            last = f"{gap:.3f} | {np.mean(best_epochs):.0f}" if name == "logged" else " | "
            print(f"| {momentum} | {name} | {values} | {last} |", flush=True)


if __name__ == "__main__":
    main()
