"""Batch-norm statistics of one person, shrunk towards the population's: of a block of trials, or trial by trial."""

from contextlib import contextmanager
from math import ceil

import torch
from torch import nn

__all__ = ["PersonStatistics", "adapt_batch_norms", "find_batch_norms", "stream_batch_norms"]

# Trials that run through the network at a time.
_CHUNK = 64


class PersonStatistics:
    r"""Mean and variance of what enters a batch norm, over the trials of one person.

    With n trials of the person and a prior of :math:`n_0` trials, the layer uses

    .. math:: \frac{n\,m + n_0\,\mu}{n + n_0}, \qquad \frac{n\,v + n_0\,\sigma^2}{n + n_0}

    where m and v are the person's mean and variance, and μ and σ² those that training has left in the layer.
    """

    def __init__(self, layer, prior):
        self.layer, self.prior = layer, prior
        # copies, because the layer's own change
        self.population = layer.running_mean.double().clone(), layer.running_var.double().clone()
        self.n_trials = self.n_numbers = 0
        self.sums = torch.zeros_like(self.population[0]), torch.zeros_like(self.population[1])

    def add(self, _, inputs):
        """Take in what enters the layer; this is a hook of the layer."""
        x = inputs[0].detach().transpose(0, 1).flatten(1).double()
        self.n_numbers += x.shape[1]
        self.sums = self.sums[0] + x.sum(1), self.sums[1] + x.square().sum(1)

    def add_moments(self, mean, var, n_numbers):
        """Take in the statistics of a part of the trials."""
        mean, var = mean.double(), var.double()
        squares = (n_numbers - 1) * var + n_numbers * mean.square()
        self.n_numbers += n_numbers
        self.sums = self.sums[0] + n_numbers * mean, self.sums[1] + squares

    def write(self):
        """Give the layer the shrunk statistics of all trials so far."""
        mean = self.sums[0] / self.n_numbers
        # as torch keeps it: without the bias of a small number of samples
        var = (self.sums[1] / self.n_numbers - mean.square()) * (self.n_numbers / max(1, self.n_numbers - 1))
        share = self.n_trials / (self.n_trials + self.prior)
        self.layer.running_mean.copy_(torch.lerp(self.population[0], mean, share))
        self.layer.running_var.copy_(torch.lerp(self.population[1], var.clamp_min(0), share))


def find_batch_norms(module, x):
    """Find the batch norms that keep statistics, in the order in which a trial passes them."""
    kind = nn.modules.batchnorm._BatchNorm
    layers = [part for part in module.modules() if isinstance(part, kind) and part.running_mean is not None]
    called = {}

    def note(layer, inputs):
        called.setdefault(layer, []).append(inputs[0][:, 0].numel() // len(x))

    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    try:
        if layers:
            module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return called


@torch.no_grad()
def adapt_batch_norms(module, x, prior, device):
    """Give every batch norm the statistics of these trials, shrunk towards those it has.

    Notes
    -----
    What enters a batch norm depends on those before it. So they are taken one after the other: each sees the trials as
    the ones before it, with their new statistics, let them through.
    """
    for layer, calls in find_batch_norms(module, x[:1].to(device)).items():
        statistics = PersonStatistics(layer, prior)
        look = _look_by_torch if _counts_all(layer, calls, len(x)) else _look_by_hook
        with look(layer, statistics) as note:
            for chunk in x.tensor_split(ceil(len(x) / _CHUNK)):
                module(chunk.to(device))
                note(len(chunk) * calls[0])
        statistics.n_trials = len(x)
        statistics.write()


def _counts_all(layer, calls, n_trials):
    """Tell whether torch's own statistics are those of all that a person's trials bring to the layer."""
    known = type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) and layer.track_running_stats
    # of several calls it would keep the last, and it refuses a single number
    return known and layer.num_batches_tracked is not None and len(calls) == 1 and n_trials * calls[0] > 1


@contextmanager
def _look_by_torch(layer, statistics):
    """Let the layer, and no other, take the statistics of every batch for its own, as it does in training.

    A network that knows a faster way to them, as :class:`~braindecode_censor.FastEEGNet` does, goes that way.
    """
    momentum, batches = layer.momentum, layer.num_batches_tracked.clone()
    layer.train().momentum = 1.0
    try:
        yield lambda n_numbers: statistics.add_moments(layer.running_mean, layer.running_var, n_numbers)
    finally:
        layer.eval().momentum = momentum
        layer.num_batches_tracked.copy_(batches)
        layer.running_mean.copy_(statistics.population[0])
        layer.running_var.copy_(statistics.population[1])


@contextmanager
def _look_by_hook(layer, statistics):
    """Count every number that enters the layer; this works for any network, in its stock order."""
    hook = layer.register_forward_pre_hook(statistics.add)
    try:
        yield lambda n_numbers: None
    finally:
        hook.remove()


@torch.no_grad()
def stream_batch_norms(module, x, prior):
    """Let every batch norm learn from each trial that passes, before it normalises the trial."""
    for layer in find_batch_norms(module, x):
        statistics = PersonStatistics(layer, prior)

        def learn(_, inputs, statistics=statistics):
            statistics.add(_, inputs)
            statistics.n_trials += 1
            statistics.write()

        layer.register_forward_pre_hook(learn)
