"""Small networks that measures train against the encoder."""

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["LabelledMLP"]


class LabelledMLP(nn.Module):
    r"""A multilayer perceptron of z and, optionally, of labels.

    A label enters the first layer as a one-hot vector would, by a learned offset per value, so a batch can be
    evaluated for *all* labels without repeating the product with z.

    Parameters
    ----------
    n_features : int
        Width of z.
    n_outputs : int
        Width of the output.
    hidden : sequence of int
        Widths of the hidden layers.
    n_labels : sequence of int
        Number of values of each label.
    """

    def __init__(self, n_features, n_outputs, hidden, n_labels=()):
        super().__init__()
        widths = [n_features, *hidden, n_outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:]))
        bound = (n_features + sum(n_labels)) ** -0.5
        self.offsets = nn.ParameterList(torch.empty(n, hidden[0]).uniform_(-bound, bound) for n in n_labels)

    def forward(self, z, *labels, frozen=False):
        """Evaluate.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        *labels : Tensor of shape (n,), or None
            One per label of the constructor. None evaluates every value of that label and adds an axis of
            the label's length before the last axis.
        frozen : bool
            Treat the parameters as constants, so that the encoder's gradient never trains the critic.

        Returns
        -------
        output : Tensor of shape (n, n_outputs) or (n, n_labels, n_outputs)
            Output of the last layer.
        """
        first, *rest = self.layers
        h = _linear(first, z, frozen)
        for offset, label in zip(self.offsets, labels):
            offset = offset.detach() if frozen else offset
            h = h.unsqueeze(-2) + offset if label is None else h + offset[label]
        shape = h.shape[:-1]
        for layer in rest:
            # ELU, because a narrow bottleneck of rectifiers dies; in place, because its gradient then follows
            # from its result, without a second exponential; and on rows, because a layer makes more axes by a view
            h = _linear(layer, F.elu_(h).flatten(0, -2), frozen)
        return h.unflatten(0, shape)


def _linear(layer, x, frozen):
    weight, bias = layer.weight, layer.bias
    return F.linear(x, weight.detach(), bias.detach()) if frozen else F.linear(x, weight, bias)
