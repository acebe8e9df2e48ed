"""The network that adversarial measures train against the encoder."""

import torch
from torch import nn
from torch.nn import functional as F

from braindecode_censor.penalties.batch import one_hot_rows

__all__ = ["LabelledMLP"]


class LabelledMLP(nn.Module):
    """A multilayer perceptron of z and, optionally, of labels.

    A label adds a learned offset to the first layer, as a one-hot vector would, so a batch can be evaluated for
    *all* values of a label without repeating the product with z.
    """

    def __init__(self, n_features, n_outputs, hidden, n_labels=(), slope=None):
        super().__init__()
        widths = [n_features, *hidden, n_outputs]
        bound = (n_features + sum(n_labels)) ** -0.5
        self.n_outputs, self.slope = n_outputs, slope
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:]))
        self.offsets = nn.ParameterList(torch.empty(n, hidden[0]).uniform_(-bound, bound) for n in n_labels)

    def forward(self, z, *labels, frozen=False):
        """Return outputs (n, n_outputs); (n, k, n_outputs) for one label None (all k values) or k one-hot rows."""
        if sum(label is None or label.ndim == 2 for label in labels) > 1:
            raise ValueError("labels: only one can be None, which stands for all its values.")

        def constant(parameter):
            return parameter.detach() if frozen else parameter

        first, *deeper = [(constant(layer.weight), constant(layer.bias)) for layer in self.layers]
        h, offsets = F.linear(z, *first), None
        for i, label in enumerate(labels):
            offset = constant(self.offsets[i])
            if label is None:
                offsets = offset
            elif label.ndim == 2:
                offsets = label @ offset
            else:  # A product with one-hot rows: indexing on a GPU sums gradients in random order.
                h = h + one_hot_rows(label, len(offset), z.dtype).T @ offset
        if offsets is not None:
            h = h.unsqueeze(-2) + offsets
        for weight, bias in deeper:  # In place: the gradient of either activation follows from its output.
            h = F.elu_(h) if self.slope is None else F.leaky_relu_(h, self.slope)
            h = F.linear(h, weight, bias)
        return h
