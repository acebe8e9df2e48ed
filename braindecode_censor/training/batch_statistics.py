"""Batch-norm statistics of one subject, shrunk towards the population's: of a block of trials, or trial by trial."""

from contextlib import contextmanager
from math import ceil

import torch
from torch import nn

__all__ = ["SubjectStatistics", "adapt_batch_norms", "find_batch_norms", "stream_batch_norms"]

# Trials that run through the network at a time.
_CHUNK = 64


class SubjectStatistics:
    r"""Mean and variance of the input of a batch norm, over the trials of one subject.

    With n trials of the subject and a prior of :math:`n_0` trials, the layer uses

    .. math:: \frac{n\,m + n_0\,\mu}{n + n_0}, \qquad \frac{n\,v + n_0\,\sigma^2}{n + n_0}

    where m and v are the subject's mean and variance, and μ and σ² the running statistics after training. In a
    stream, trial k weighs k: the first trials were normalised by a rough estimate of the subject's amplitude.
    """

    is_learning = True

    def __init__(self, layer, prior):
        self.layer, self.prior = layer, prior
        # The layer's own change, so these are copies.
        self.population = layer.running_mean.double().clone(), layer.running_var.double().clone()
        self.n_trials = self.n_numbers = 0
        self.sums = torch.zeros_like(self.population[0]), torch.zeros_like(self.population[1])

    def add(self, _, inputs, weight=1):
        """Add an input of the layer, as a hook of the layer."""
        x = inputs[0].detach().transpose(0, 1).flatten(1).double()
        self.n_numbers += weight * x.shape[1]
        self.sums = self.sums[0] + weight * x.sum(1), self.sums[1] + weight * x.square().sum(1)

    def add_moments(self, mean, var, n_numbers):
        """Add the statistics of some of the trials."""
        mean, var = mean.double(), var.double()
        squares = (n_numbers - 1) * var + n_numbers * mean.square()
        self.n_numbers += n_numbers
        self.sums = self.sums[0] + n_numbers * mean, self.sums[1] + squares

    def write(self):
        """Set the running statistics of the layer to the shrunk statistics of all trials so far."""
        mean = self.sums[0] / self.n_numbers
        # torch's running variance is unbiased, too.
        var = (self.sums[1] / self.n_numbers - mean.square()) * (self.n_numbers / max(1, self.n_numbers - 1))
        weight = self.n_trials / (self.n_trials + self.prior)
        self.layer.running_mean.copy_(torch.lerp(self.population[0], mean, weight))
        self.layer.running_var.copy_(torch.lerp(self.population[1], var.clamp_min(0), weight))


def find_batch_norms(module, x):
    """Return layer -> numbers per trial of each call, for batch norms with statistics, in the order of the calls."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    layers = [layer for layer in layers if layer.running_mean is not None]
    calls = {}

    def record(layer, inputs):
        calls.setdefault(layer, []).append(inputs[0][:, 0].numel() // len(x))

    hooks = [layer.register_forward_pre_hook(record) for layer in layers]
    try:
        if layers:
            module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


@torch.no_grad()
def adapt_batch_norms(module, x, prior, device):
    """Set the statistics of every batch norm to those of these trials, shrunk towards the present ones.

    Notes
    -----
    The input of a batch norm depends on the batch norms before it. So they are adapted one after the other.
    """
    for layer, calls in find_batch_norms(module, x[:1].to(device)).items():
        statistics = SubjectStatistics(layer, prior)
        collect = _collect_by_torch if _is_exact_in_torch(layer, calls, len(x)) else _collect_by_hook
        with collect(layer, statistics) as add:
            for chunk in x.tensor_split(ceil(len(x) / _CHUNK)):
                module(chunk.to(device))
                add(len(chunk) * calls[0])
        statistics.n_trials = len(x)
        statistics.write()


def _is_exact_in_torch(layer, calls, n_trials):
    """Return whether torch's own statistics in training mode are those of all inputs of the layer."""
    is_plain = type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) and layer.track_running_stats
    # torch keeps the statistics of the last call, and raises for a single number.
    return is_plain and layer.num_batches_tracked is not None and len(calls) == 1 and n_trials * calls[0] > 1


@contextmanager
def _collect_by_torch(layer, statistics):
    """Set this layer alone to training mode, in which torch and ``FastEEGNet`` compute the statistics fast."""
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
def _collect_by_hook(layer, statistics):
    """Sum up all inputs of the layer, which works for any network."""
    hook = layer.register_forward_pre_hook(statistics.add)
    try:
        yield lambda n_numbers: None
    finally:
        hook.remove()


@torch.no_grad()
def stream_batch_norms(module, x, prior):
    """Add hooks by which every batch norm updates its statistics with each trial before it normalises the trial.

    Return the statistics, whose ``is_learning`` switches this off and on.
    """
    every = []
    for layer in find_batch_norms(module, x):
        statistics = SubjectStatistics(layer, prior)

        def update(_, inputs, statistics=statistics):
            if not statistics.is_learning:
                return
            statistics.n_trials += 1
            statistics.add(_, inputs, weight=statistics.n_trials)
            statistics.write()

        layer.register_forward_pre_hook(update)
        every.append(statistics)
    return every
