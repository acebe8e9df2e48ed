"""What many fitted networks say, side by side: new people decoded, and fresh probes that guess the person."""

import copy

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import nn
from torch.func import functional_call, vmap

__all__ = ["Networks", "leakage_of_codes", "probe_codes"]

_RIDGE = 0.1  # of the number of trials: the probe must not fit noise where features are as trials


class Networks:
    """Fitted networks of one architecture, whose weights lie side by side so that one pass runs all of them."""

    def __init__(self, estimators, at_once=32):
        first = estimators[0]
        self.module = copy.deepcopy(first.module_).eval()
        head = self.module.final_layer
        head.forward = lambda h, plain=head.forward: (h.flatten(1), plain(h))  # the code beside the scores
        self.device, self.at_once, self.n_networks = first.device, at_once, len(estimators)
        states = [estimator.module_.state_dict() for estimator in estimators]
        weights = {name for name, _ in first.module_.named_parameters()}
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        self.parameters = {name: tensor for name, tensor in stacked.items() if name in weights}
        self.buffers = {name: tensor for name, tensor in stacked.items() if name not in weights}
        kind = nn.modules.batchnorm._BatchNorm
        self.norms = [layer for layer in self.module.modules() if isinstance(layer, kind)]

    def decode(self, rows, x, prior=None):
        """Return what some networks say about the trials of one person."""
        return torch.softmax(self._run(rows, x, prior)[1], dim=-1).cpu().numpy()

    def encode(self, rows, x):
        """Return the latent codes of trials."""
        return self._run(rows, x)[0]

    @torch.no_grad()
    def _run(self, rows, x, prior=None):
        x = torch.as_tensor(x, dtype=torch.float32, device=self.device)
        found = []
        for part in torch.as_tensor(rows, device=self.device).split(self.at_once):
            parameters = {name: tensor[part] for name, tensor in self.parameters.items()}
            buffers = {name: tensor[part] for name, tensor in self.buffers.items()}
            if prior is not None:
                buffers = self._adapt(parameters, buffers, x, prior)
            found.append(self._forward(parameters, buffers, x)[:2])
        return [torch.cat(parts) for parts in zip(*found)]

    def _adapt(self, parameters, buffers, x, prior):
        """Let one batch norm after the other learn the trials, as the ones before it let them through.

        A layer in training mode moves its statistics towards those of the batch by its momentum: that is the shrinkage.
        """
        share = len(x) / (len(x) + prior)
        for layer in self.norms:
            before = layer.momentum
            layer.train()
            layer.momentum = share
            buffers = self._forward(parameters, buffers, x)[2]
            layer.eval()
            layer.momentum = before
        return buffers

    def _forward(self, parameters, buffers, x):
        return vmap(self._forward_one, in_dims=(0, 0, None))(parameters, buffers, x)

    def _forward_one(self, parameters, buffers, x):
        buffers = {name: tensor.clone() for name, tensor in buffers.items()}
        z, logits = functional_call(self.module, {**parameters, **buffers}, (x,))
        return z, logits, buffers


@torch.no_grad()
def probe_codes(z, subjects, n_splits=3, seed=0):
    """Cross-validate a fresh linear probe for each of many codes of the same trials."""
    people, labels, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    n_splits = min(n_splits, counts.min())
    if len(people) < 2 or n_splits < 2:
        raise ValueError(
            f"subjects has {len(people)} people with {counts.min()} trials or more each: a probe needs two of both."
        )
    z, hot = z.double(), torch.eye(len(people), dtype=torch.double, device=z.device)[labels]
    guesses = torch.zeros(z.shape[:2], dtype=torch.long, device=z.device)
    for train, test in StratifiedKFold(n_splits, shuffle=True, random_state=seed).split(labels, labels):
        mean, scale = z[:, train].mean(1, keepdim=True), z[:, train].std(1, keepdim=True, correction=0)
        scaled = (z - mean) / torch.where(scale > 0, scale, 1.0)
        features, target = scaled[:, train], hot[train] - hot[train].mean(0)
        gram = features.mT @ features
        gram.diagonal(dim1=1, dim2=2).add_(_RIDGE * len(train))
        weights = torch.cholesky_solve(features.mT @ target, torch.linalg.cholesky(gram))
        guesses[:, test] = (scaled[:, test] @ weights + hot[train].mean(0)).argmax(-1)
    right = (guesses.cpu().numpy() == labels).astype(float)
    return np.stack([right[:, labels == person].mean(1) for person in range(len(people))]).mean(0)


def leakage_of_codes(z, y, subjects, **options):
    """Tell how often fresh probes name the person: from the whole code and its first half, over all and within classes."""
    within = [
        probe_codes(z[:, mine], subjects[mine], **options)
        for mine in (np.flatnonzero(y == k) for k in np.unique(y))
    ]
    return {
        "marginal": probe_codes(z, subjects, **options),
        "conditional": np.mean(within, axis=0),
        "complementary": probe_codes(z[..., : z.shape[-1] // 2], subjects, **options),
    }
