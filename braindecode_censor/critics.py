"""Small networks that measures train against the encoder."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.adam import adam

from braindecode_censor.weights import one_hot_rows

__all__ = ["LabelledMLP", "VectorAdam"]


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
        shape = h.shape
        for layer in rest:
            # ELU, because a narrow bottleneck of rectifiers dies; in place, because its gradient then follows
            # from its result, without a second exponential; and on rows, because a layer makes more axes by a view
            h = F.elu_(h)
            h = _linear(layer, h if h.ndim == 2 else h.flatten(0, -2), frozen)
        return h if len(shape) == 2 else h.view(*shape[:-1], -1)

    @property
    def is_plain(self):
        """Whether nobody has changed or frozen anything, so that :meth:`pull_back` knows all there is to know."""
        modules = (self, *self.layers)
        hooked = any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in modules)
        changed = any(type(layer) is not nn.Linear for layer in self.layers) or "forward" in vars(self)
        return not (hooked or changed) and all(p.requires_grad for p in self.parameters())

    @torch.no_grad()
    def trace(self, z, *labels):
        """Evaluate without autograd, which takes longer to follow a network this small than the network itself.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        *labels : Tensor of shape (n,), or None
            See :meth:`forward`.

        Returns
        -------
        output : Tensor of shape (n, n_outputs) or (n, n_labels, n_outputs)
            Output of the last layer.
        tape : tuple
            What :meth:`pull_back` needs.
        """
        first, *rest = self.layers
        h = F.linear(z, first.weight, first.bias)
        for offset, label in zip(self.offsets, labels):
            h = h.unsqueeze(-2) + offset if label is None else h + offset[label]
        shape, hidden = h.shape, []
        h = h.flatten(0, -2)
        for layer in rest:
            h = _elu(h)
            hidden.append(h)
            h = F.linear(h, layer.weight, layer.bias)
        return h.view(*shape[:-1], -1), (z, labels, shape, hidden)

    @torch.no_grad()
    def pull_back(self, gradient, tape, to):
        """Turn a gradient in the output into one in the input or in the parameters: back-propagation by hand.

        Parameters
        ----------
        gradient : Tensor of shape (n, n_outputs) or (n, n_labels, n_outputs)
            Of some number, in the output.
        tape : tuple
            From :meth:`trace`.
        to : {"z", "parameters"}
            Of what the gradient is wanted.

        Returns
        -------
        gradient : Tensor of shape (n, n_features), or list of Tensor
            In z, or in all parameters in the order of ``parameters()``.
        """
        z, labels, shape, hidden = tape
        first, *rest = self.layers
        g, found = gradient.flatten(0, -2), []
        for layer, h in zip(reversed(rest), reversed(hidden)):
            if to == "parameters":
                found = [g.T @ h, g.sum(0), *found]
            g = _elu_backward(g @ layer.weight, 1, 1, 1, True, h)
        g = g.view(shape)
        into_first = g if g.ndim == 2 else g.sum(1)
        if to == "z":
            return into_first @ first.weight
        offsets = [_into_offset(g, offset, label) for offset, label in zip(self.offsets, labels)]
        return [into_first.T @ z, into_first.sum(0), *found, *offsets]


def _into_offset(g, offset, label):
    """Gradient in a label's offsets (n_labels, hidden) from that in the first layer (n, [n_labels,] hidden)."""
    if label is None:
        return g.sum(0)
    rows = g.sum_to_size(*label.shape, g.shape[-1]).flatten(0, -2)
    return one_hot_rows(label.flatten(), len(offset), g.dtype) @ rows  # indexing adds in any order on a GPU


def _elu(h):
    """ELU, in place where that is faster: torch's takes its time over each number, this one over each pass."""
    if h.numel() < 2**14 or h.is_cuda:
        return F.elu_(h)
    return torch.maximum(h, h.clamp(max=0).exp_().sub_(1))


# of ELU from its result, for it was computed in place: gradient, alpha, scale, scale of the input, "result", result
_elu_backward = torch.ops.aten.elu_backward.default


def _linear(layer, x, frozen):
    weight, bias = layer.weight, layer.bias
    return F.linear(x, weight.detach(), bias.detach()) if frozen else F.linear(x, weight, bias)


class VectorAdam:
    """Adam on many parameters as one vector.

    A critic has many small parameters: torch's own optimisers spend more time on going through them than a critic's
    gradient takes. Here the parameters are views of one vector, and a step is one fused operation.

    Parameters
    ----------
    parameters : list of Parameter
        What to optimise; their memory is replaced.
    lr : float
        Learning rate.
    """

    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), float(lr)
        self.defaults = {"betas": (0.9, 0.999), "eps": 1e-8}  # those of torch.optim.Adam
        self.vector = torch.cat([p.detach().flatten() for p in self.parameters])
        self.first, self.second = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.count = torch.zeros((), dtype=torch.float32, device=self.vector.device)
        self._tie()

    def __setstate__(self, state):
        vars(self).update(state)
        self._tie()  # copying and pickling take the views apart

    def _tie(self):
        """Make the parameters views of the vector."""
        for p, value in zip(self.parameters, self.vector.split([p.numel() for p in self.parameters])):
            p.data = value.view_as(p)

    def _follow(self):
        """Take the parameters as they are, if somebody has given them other memory, type or device."""
        if self.parameters[0].data_ptr() != self.vector.data_ptr():
            self.vector = torch.cat([p.detach().flatten() for p in self.parameters])
            self.first, self.second = self.first.to(self.vector), self.second.to(self.vector)
            self.count = self.count.to(self.vector.device)
            self._tie()

    def step(self, gradients):
        """Take a step.

        Parameters
        ----------
        gradients : sequence of Tensor
            Of a loss, in each parameter.
        """
        self._follow()
        gradient = torch.cat([g.flatten() for g in gradients])
        state = [self.vector], [gradient], [self.first], [self.second], [], [self.count]
        (beta1, beta2), eps = self.defaults["betas"], self.defaults["eps"]
        adam(
            *state,
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=self.lr,
            weight_decay=0,
            eps=eps,
            maximize=False,
        )
