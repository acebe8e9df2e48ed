"""Replicas side by side: their parameters as rows of one matrix, and AdamW for all rows at once."""

import torch

__all__ = ["Layout", "adam_coefficients", "adam_step", "join_rows", "put_rows", "take_rows", "under_prefix"]


class Layout:
    """Positions of a module's parameters in one row of numbers.

    One matrix holds all parameters of all replicas. So a step of the optimiser takes eight operations, whatever the
    number of parameters, and copying, removing and saving replicas takes one.
    """

    def __init__(self, module, names=None):
        named = {name: p for name, p in module.named_parameters() if names is None or name in names}
        self.names, self.shapes = list(named), [p.shape for p in named.values()]
        self.sizes = [p.numel() for p in named.values()]

    def pack(self, module):
        """Return the parameters of a module as one row."""
        named = dict(module.named_parameters())
        rows = [named[name].detach().flatten() for name in self.names]
        return torch.cat(rows) if rows else torch.empty(0)

    def unpack(self, theta):
        """Return the parameters by name, as views."""
        columns = zip(self.names, self.shapes, theta.split(self.sizes, -1))
        return {name: p.unflatten(-1, shape) if len(shape) != 1 else p for name, shape, p in columns}


def adam_coefficients(count, lr, betas, weight_decay=0.0):
    """Return the three numbers of an AdamW step that differ between replicas."""
    size = lr / (1 - betas[0] ** count)
    return 1 - lr * weight_decay, size, (1 - betas[1] ** count) ** 0.5


def adam_step(theta, gradient, first, second, coefficients, betas, eps):
    """Take a step of ``torch.optim.AdamW`` in place, with the coefficients of each replica."""
    keep, size, root = coefficients.unsqueeze(-1)
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    denominator = (second.sqrt() / root).add_(eps)
    theta.mul_(keep).sub_(size * first / denominator)


def join_rows(tensors):
    """Concatenate stacks."""
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def take_rows(state, rows):
    """Return some replicas of a stack; `rows=None` are all."""
    return state if rows is None else {name: tensor[rows] for name, tensor in state.items()}


def put_rows(state, rows, values):
    """Write replicas back into a stack."""
    for name, tensor in values.items():
        if rows is None:
            state[name] = tensor
        else:
            state[name][rows] = tensor


def under_prefix(state, prefix):
    """Return the tensors with a prefix, under names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
