"""Small networks that measures train against the encoder."""

import threading

import torch
from torch import nn
from torch.nn import functional as F

from braindecode_censor.penalties.batch import one_hot_rows

__all__ = ["LabelledMLP", "VectorAdam", "is_labelled_mlp"]


class LabelledMLP(nn.Module):
    r"""A multilayer perceptron of z and, optionally, of labels; or several of one shape, each for a code of its own.

    A label enters the first layer as a one-hot vector would, by a learned offset per value, so a batch can be
    evaluated for *all* labels without repeating the product with z. Every parameter has a first axis for the networks:
    :meth:`join` stacks them along it, and one product does the work of all.

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
        for i, layer in enumerate(nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:])):
            self.register_parameter(f"weight_{i}", nn.Parameter(layer.weight.detach()[None]))
            self.register_parameter(f"bias_{i}", nn.Parameter(layer.bias.detach()[None, None]))
        bound = (n_features + sum(n_labels)) ** -0.5
        for i, n in enumerate(n_labels):
            offset = torch.empty(1, n, hidden[0]).uniform_(-bound, bound)
            self.register_parameter(f"offset_{i}", nn.Parameter(offset))
        self.n_outputs, self.n_tensors = n_outputs, 2 * len(widths) - 2  # of the layers; the rest are offsets
        self.names = tuple(self._parameters)
        self.scratch = _Scratch()

    def extra_repr(self):
        """Return what the module prints inside its parentheses."""
        widths = [
            self.weight_0.shape[-1],
            *(getattr(self, n).shape[1] for n in self.names[: self.n_tensors : 2]),
        ]
        labels = [getattr(self, n).shape[1] for n in self.names[self.n_tensors :]]
        return f"widths={widths}, n_labels={labels}, networks={len(self.weight_0)}"

    def join(self, others):
        """Take in other networks of the same shape; from then on there is a code for each.

        Parameters
        ----------
        others : sequence of LabelledMLP
            The networks; their parameters are copied.
        """
        for name in self.names:
            stacked = torch.cat([getattr(mlp, name).detach() for mlp in (self, *others)])
            setattr(self, name, nn.Parameter(stacked))

    def forward(self, z, *labels, frozen=False, only=None):
        """Evaluate.

        Parameters
        ----------
        z : Tensor of shape (n, n_features), or (n_codes, n, n_features)
            Latent code, or one for each network.
        *labels : Tensor of shape (n,) or (n_labels, n), or None
            One per label of the constructor, as integers or as indicator rows. None evaluates every value of that
            label and adds an axis of the label's length before the last axis.
        frozen : bool
            Treat the parameters as constants, so that the encoder's gradient never trains the critic.
        only : int, optional
            Evaluate only this one of several networks.

        Returns
        -------
        output : Tensor of shape ([n_codes,] n, [n_labels,] n_outputs)
            Output of the last layer.
        """
        tensors = _pick([getattr(self, name) for name in self.names], only)
        tensors = [tensor.detach() for tensor in tensors] if frozen else tensors
        # ELU, because a narrow bottleneck of rectifiers dies; in place, because its gradient then follows from its
        # result, without a second exponential
        output, _ = self._run(
            tensors, z if z.ndim == 3 else z[None], labels, lambda h, _: F.elu_(h), _no_scratch
        )
        return output if z.ndim == 3 else output[0]

    def _run(self, tensors, codes, labels, activate, take):
        """Output (n_codes, n, [n_labels,] n_outputs), and the values of the hidden layers (n_codes, rows, width)."""
        layers, offsets = tensors[: self.n_tensors], tensors[self.n_tensors :]
        weight, bias = layers[:2]
        every = None
        for offset, label in zip(offsets, labels):
            if label is None:
                if every is not None:
                    raise ValueError("labels: only one can be None, which stands for all its values.")
                every = offset
            else:  # rows, for indexing would add up gradients in any order on a GPU
                rows = _as_rows(label, offset).mT.expand(len(offset), -1, -1)
                bias = torch.baddbmm(bias, rows, offset)
        lead, width = codes.shape[:2], weight.shape[1]
        h = torch.baddbmm(bias, codes, weight.mT, out=take("first", bias, *lead, width))
        if every is not None:
            into = take(0, bias, *lead, every.shape[1], width)
            h = torch.add(h.unsqueeze(2), every.unsqueeze(1), out=into)
        hidden = [activate(h.flatten(1, -2), take)]
        for i, (weight, bias) in enumerate(zip(layers[2:-2:2], layers[3:-2:2]), 1):
            into = take(i, bias, *hidden[-1].shape[:2], weight.shape[1])
            hidden.append(activate(torch.baddbmm(bias, hidden[-1], weight.mT, out=into), take))
        into = take("output", bias, *hidden[-1].shape[:2], self.n_outputs)
        output = torch.baddbmm(layers[-1], hidden[-1], layers[-2].mT, out=into)
        return (output if every is None else output.unflatten(1, (-1, every.shape[1]))), hidden

    @property
    def is_plain(self):
        """Whether nobody has changed or frozen anything, so that :meth:`pull_back` knows all there is to know."""
        hooked = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
        own = tuple(self._parameters) == self.names and all(p.requires_grad for p in self.parameters())
        return own and not hooked and is_labelled_mlp(self)

    def trace(self, codes, *labels, only=None):
        """Evaluate by hand, for autograd takes longer to follow a network this small than the network itself.

        To be called without autograd, and if :attr:`is_plain`.

        Parameters
        ----------
        codes : Tensor of shape (n_codes, n, n_features)
            A latent code for each network.
        *labels : Tensor of shape (n,) or (n_labels, n), or None
            See :meth:`forward`.
        only : int, optional
            See :meth:`forward`.

        Returns
        -------
        output : Tensor of shape (n_codes, n, [n_labels,] n_outputs)
            Output of the last layer; like the tape to be used before the next call.
        tape : tuple
            What :meth:`pull_back` needs.
        """
        tensors = _pick(tuple(self._parameters.values()), only)  # faster than by name
        output, hidden = self._run(tensors, codes, labels, _elu, self.scratch.take)
        return output, (tensors, codes, labels, hidden)

    def pull_back(self, gradient, tape, to):
        """Turn a gradient in the output into one in the input or in the parameters: back-propagation by hand.

        Parameters
        ----------
        gradient : Tensor of shape (n_codes, n, [n_labels,] n_outputs)
            Of some number, in the output.
        tape : tuple
            From :meth:`trace`.
        to : {"z", "parameters", "both"}
            Of what the gradient is wanted.

        Returns
        -------
        gradient : Tensor of shape (n_codes, n, n_features), or list of Tensor, or tuple of these two
            In the codes, or in all parameters in the order of ``parameters()``.
        """
        tensors, codes, labels, hidden = tape
        weights, shape = tensors[: self.n_tensors : 2], gradient.shape[:-1]
        g, found = gradient.flatten(1, -2), []
        for i, (weight, h) in enumerate(zip(reversed(weights), reversed(hidden))):
            if to != "z":
                found = [torch.bmm(g.mT, h), g.sum(1, keepdim=True), *found]
            g = torch.bmm(g, weight, out=self.scratch.take(("back", i % 2), g, *h.shape))
            g = _elu_backward(g, 1, 1, 1, True, h, grad_input=g)
        into_first = g if len(shape) == 2 else g.view(*shape, -1).sum(2)
        into_codes = None if to == "parameters" else torch.bmm(into_first, weights[0])
        if to == "z":
            return into_codes
        offsets = tensors[self.n_tensors :]
        found = [torch.bmm(into_first.mT, codes), into_first.sum(1, keepdim=True), *found]
        for offset, label in zip(offsets, labels):
            found.append(g.view(*shape, -1).sum(1) if label is None else _as_rows(label, offset) @ into_first)
        return found if to == "parameters" else (into_codes, found)

    def pull_back_rows(self, gradients, tape, weights):
        """Pull back every row for itself, and add the rows up with weights for the parameters.

        For several losses that are sums of the same numbers with other weights.

        Parameters
        ----------
        gradients : Tensor of shape (n_codes, n, n_labels, n_outputs)
            Of a number of every row, in the output; weighed in place.
        tape : tuple
            From :meth:`trace` with a label that is None; used up.
        weights : Tensor of shape (n_codes, n, n_labels)
            Of the rows.

        Returns
        -------
        rows : Tensor of shape (n_codes, n, n_labels, width)
            Gradient of every row's number in what enters the first activation; to be used before the next call.
        weighed : Tensor of shape (n_codes, n, width)
            The same, weighed and added up over the label's values.
        gradients : list of Tensor
            In the parameters, of the weighed sum.
        """
        tensors, codes, labels, hidden = tape
        g, weight = gradients.flatten(1, 2), weights.flatten(1).unsqueeze(-1)
        found = []
        for i, (matrix, h) in enumerate(zip(reversed(tensors[: self.n_tensors : 2]), reversed(hidden))):
            into = torch.bmm(g, matrix, out=self.scratch.take(("back", i % 2), g, *h.shape))
            into = _elu_backward(into, 1, 1, 1, True, h, grad_input=into)
            bias = torch.bmm(weight.mT, g)
            (g if g.shape[-1] < h.shape[-1] else h).mul_(weight)  # the narrower one takes less time
            found = [torch.bmm(g.mT, h), bias, *found]
            g = into
        rows = g.view(*weights.shape, -1)
        weighed = torch.mul(rows, weights.unsqueeze(-1), out=h.view(rows.shape))
        into_first = weighed.sum(2)
        found = [torch.bmm(into_first.mT, codes), into_first.sum(1, keepdim=True), *found]
        for offset, label in zip(tensors[self.n_tensors :], labels):
            found.append(weighed.sum(1) if label is None else _as_rows(label, offset) @ into_first)
        return rows, into_first, found


class _Scratch(dict):
    """Memory for intermediate results, the same in each step: fresh memory takes longer to get than to fill."""

    _MOST = 2**26  # bytes

    def take(self, name, like, *shape):
        """Tensor of a shape, of the type and on the device of another; what it holds counts until its next use."""
        # what is made in inference mode cannot be written to elsewhere
        where = like.device, threading.get_ident(), torch.is_inference_mode_enabled()
        key = name, shape, like.dtype, *where
        if key not in self:
            self[key] = like.new_empty(shape)
            if sum(tensor.nbytes for tensor in self.values()) > self._MOST:  # batches of many sizes
                self.clear()
                self[key] = like.new_empty(shape)
        return self[key]

    def __reduce__(self):
        return _Scratch, ()  # nothing to copy or to pickle


def _no_scratch(*_):
    """For autograd, which keeps its own."""


def is_labelled_mlp(critic):
    """Tell whether a critic is a :class:`LabelledMLP`, not a network of a user's own.

    Parameters
    ----------
    critic : nn.Module
        Any.

    Returns
    -------
    known : bool
        Whether it can be joined, takes rows, and is traced.
    """
    return getattr(type(critic), "forward", None) is LabelledMLP.forward and "forward" not in vars(critic)


def _as_rows(label, offset):
    """Indicator rows (n_labels, n) of a label."""
    return label if label.is_floating_point() else one_hot_rows(label, offset.shape[1], offset.dtype)


def _pick(tensors, only):
    return tensors if only is None else [tensor[only : only + 1] for tensor in tensors]


def _elu(h, take):
    """ELU in place and in passes: torch's own takes its time over each number."""
    below = torch.clamp_max(h, 0, out=take(("back", 0), h, *h.shape))  # the way back has not begun yet
    return torch.maximum(h, below.exp_().sub_(_ONE), out=h)


_ONE = torch.ones((), dtype=torch.float32, device="cpu")  # a Python number would be made a tensor each time


# of ELU from its result: gradient, alpha, scale, scale of the input, "result", result
_elu_backward = torch.ops.aten.elu_backward.grad_input


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

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("gradient", "_parts")}

    def __setstate__(self, state):
        vars(self).update(state)
        self._tie()  # copying and pickling take the views apart

    def _tie(self):
        """Make the parameters, and what takes in their gradients, views of one vector each."""
        sizes, self.gradient = [p.numel() for p in self.parameters], torch.empty_like(self.vector)
        self._parts = [part.view_as(p) for p, part in zip(self.parameters, self.gradient.split(sizes))]
        for p, value in zip(self.parameters, self.vector.split(sizes)):
            p.data = value.view_as(p)

    def _follow(self):
        """Take the parameters as they are, if somebody has given them other memory, type or device."""
        if self.parameters[0].data_ptr() != self.vector.data_ptr():
            with torch.inference_mode(False):  # parameters are for others, too
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
        torch._foreach_copy_(self._parts, list(gradients))
        self.count.add_(1)
        state = [self.vector], [self.gradient], [self.first], [self.second], [], [self.count]
        (beta1, beta2), eps = self.defaults["betas"], self.defaults["eps"]
        options = {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
        # what torch.optim.Adam(fused=True) calls, whose own way to it takes longer than the kernel
        torch._fused_adam_(*state, lr=self.lr, beta1=beta1, beta2=beta2, eps=eps, **options)
