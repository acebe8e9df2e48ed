"""Members side by side: their parameters as rows of one matrix, and AdamW for all rows at once."""

import torch

__all__ = ["Layout", "adam_coefficients", "adam_step", "join_rows", "put_rows", "take_rows", "under_prefix"]


class Layout:
    """Where each parameter of a module lies in a row of numbers.

    One matrix for all parameters of all members makes a step of the optimiser eight operations, whatever the
    number of parameters, and copying, dropping and saving members one operation.

    Parameters
    ----------
    module : nn.Module
        Any member's module.
    names : set of str or None
        Parameters that take part; None is all of them.
    """

    def __init__(self, module, names=None):
        named = {name: p for name, p in module.named_parameters() if names is None or name in names}
        self.names, self.shapes = list(named), [p.shape for p in named.values()]
        self.sizes = [p.numel() for p in named.values()]

    def pack(self, module):
        """Return the parameters of a module as one row.

        Parameters
        ----------
        module : nn.Module
            A module of this layout.

        Returns
        -------
        row : Tensor of shape (n_parameters,)
            A copy.
        """
        named = dict(module.named_parameters())
        rows = [named[name].detach().flatten() for name in self.names]
        return torch.cat(rows) if rows else torch.empty(0)

    def unpack(self, theta):
        """Return the parameters by name, as views.

        Parameters
        ----------
        theta : Tensor of shape (..., n_parameters)
            One row, or one for every member.

        Returns
        -------
        parameters : dict of str to Tensor
            Each of shape (..., its own shape).
        """
        parts = theta.split(self.sizes, -1)
        return {
            name: part.unflatten(-1, shape) if len(shape) != 1 else part
            for name, shape, part in zip(self.names, self.shapes, parts)
        }


def adam_coefficients(count, lr, betas, weight_decay=0.0):
    """Return the three numbers by which a step of AdamW differs from member to member.

    Parameters
    ----------
    count : int or ndarray of int
        Number of the step, from 1.
    lr : float
        Learning rate.
    betas : tuple of float
        Decay rates of the two moments.
    weight_decay : float
        Decoupled weight decay; 0 makes it Adam.

    Returns
    -------
    keep, size, root : float or ndarray
        Factor of the parameters, size of the step, and square root of the second bias correction.
    """
    size = lr / (1 - betas[0] ** count)
    return 1 - lr * weight_decay, size, (1 - betas[1] ** count) ** 0.5


def adam_step(theta, gradient, first, second, coefficients, betas, eps):
    """Take a step of AdamW in place, as ``torch.optim.AdamW`` does, with each member's own coefficients.

    Parameters
    ----------
    theta, gradient, first, second : Tensor of shape (n_members, n_parameters)
        Parameters, gradient, and running means of the gradient and of its square.
    coefficients : Tensor of shape (3, n_members)
        From :func:`adam_coefficients`.
    betas : tuple of float
        Decay rates of the two moments.
    eps : float
        Added to the denominator.
    """
    keep, size, root = coefficients.unsqueeze(-1)
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    denominator = (second.sqrt() / root).add_(eps)
    theta.mul_(keep).sub_(size * first / denominator)


def join_rows(tensors):
    """Put stacks one below the other.

    Parameters
    ----------
    tensors : list of Tensor
        With members along the first axis.

    Returns
    -------
    joined : Tensor
        The only one itself, where there is one: no copy is made.
    """
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def take_rows(state, rows):
    """Return some members of a stack.

    Parameters
    ----------
    state : dict of str to Tensor
        All with the members along the first axis.
    rows : Tensor of shape (n_rows,) or None
        Which members; None is all of them, and no copy is made.

    Returns
    -------
    part : dict of str to Tensor
        Copies.
    """
    return state if rows is None else {name: tensor[rows] for name, tensor in state.items()}


def put_rows(state, rows, part):
    """Write members back into a stack.

    Parameters
    ----------
    state : dict of str to Tensor
        The stack, changed in place.
    rows : Tensor of shape (n_rows,) or None
        Which members.
    part : dict of str to Tensor
        From :func:`take_rows`.
    """
    for name, tensor in part.items():
        if rows is None:
            state[name] = tensor
        else:
            state[name][rows] = tensor


def under_prefix(state, prefix):
    """Return the tensors whose names begin alike.

    Parameters
    ----------
    state : dict of str to Tensor
        Any tensors.
    prefix : str
        How their names begin.

    Returns
    -------
    part : dict of str to Tensor
        Under the rest of their names.
    """
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
