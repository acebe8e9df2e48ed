"""Members side by side: their parameters as rows of one matrix, and AdamW for all rows at once."""

import torch

__all__ = ["Layout", "adam_coefficients", "adam_step", "join_rows", "put_rows", "take_rows", "under_prefix"]


class Layout:
    """Where each parameter of a module lies in a row of numbers.

    One matrix for all parameters of all members makes a step of the optimiser eight operations, whatever the
    number of parameters, and copying, dropping and saving members one operation.
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
        parts = theta.split(self.sizes, -1)
        return {
            name: part.unflatten(-1, shape) if len(shape) != 1 else part
            for name, shape, part in zip(self.names, self.shapes, parts)
        }


def adam_coefficients(count, lr, betas, weight_decay=0.0):
    """Return the three numbers by which a step of AdamW differs from member to member."""
    size = lr / (1 - betas[0] ** count)
    return 1 - lr * weight_decay, size, (1 - betas[1] ** count) ** 0.5


def adam_step(theta, gradient, first, second, coefficients, betas, eps):
    """Take a step of AdamW in place, as ``torch.optim.AdamW`` does, with each member's own coefficients."""
    keep, size, root = coefficients.unsqueeze(-1)
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    denominator = (second.sqrt() / root).add_(eps)
    theta.mul_(keep).sub_(size * first / denominator)


def join_rows(tensors):
    """Put stacks one below the other."""
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def take_rows(state, rows):
    """Return some members of a stack."""
    return state if rows is None else {name: tensor[rows] for name, tensor in state.items()}


def put_rows(state, rows, part):
    """Write members back into a stack."""
    for name, tensor in part.items():
        if rows is None:
            state[name] = tensor
        else:
            state[name][rows] = tensor


def under_prefix(state, prefix):
    """Return the tensors whose names begin alike."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
