"""The small network that measures train against the encoder."""

import torch
from torch import nn
from torch.nn import functional as F

from braindecode_censor.penalties.batch import one_hot_rows

__all__ = ["LabelledMLP"]


class LabelledMLP(nn.Module):
    """A multilayer perceptron of z and, optionally, of labels.

    A label enters the first layer as a one-hot vector would, by a learned offset per value, so a batch can be
    evaluated for *all* labels without repeating the product with z.
    """

    def __init__(self, n_features, n_outputs, hidden, n_labels=(), slope=None):
        super().__init__()
        widths = [n_features, *hidden, n_outputs]
        bound = (n_features + sum(n_labels)) ** -0.5
        self.n_outputs, self.slope = n_outputs, slope
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:]))
        self.offsets = nn.ParameterList(torch.empty(n, hidden[0]).uniform_(-bound, bound) for n in n_labels)

    def forward(self, z, *labels, frozen=False):
        """Evaluate."""
        if sum(label is None or label.ndim == 2 for label in labels) > 1:
            raise ValueError("labels: only one can be None, which stands for all its values.")

        def constant(parameter):
            return parameter.detach() if frozen else parameter

        first, *others = [(constant(layer.weight), constant(layer.bias)) for layer in self.layers]
        h, every = F.linear(z, *first), None
        for i, label in enumerate(labels):
            offset = constant(self.offsets[i])
            if label is None:
                every = offset
            elif label.ndim == 2:
                every = label @ offset
            else:  # a product with one-hot rows, for indexing would add up gradients in any order on a GPU
                h = h + one_hot_rows(label, len(offset), z.dtype).T @ offset
        if every is not None:
            h = h.unsqueeze(-2) + every
        for weight, bias in others:  # in place, because the gradient of either follows from its result
            h = F.elu_(h) if self.slope is None else F.leaky_relu_(h, self.slope)
            h = F.linear(h, weight, bias)
        return h
