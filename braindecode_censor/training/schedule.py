"""How long a training lasts, and the learning rate of every step.

Everything here is a function of numbers alone, so that a fleet of trainings follows the same rules as one estimator.
"""

import math

__all__ = ["count_epochs", "count_steps", "learning_rate"]

# As torch.optim.lr_scheduler.OneCycleLR has them: the share of steps in which the learning rate rises, and how many
# times smaller than the peak it is at the beginning, and than the beginning at the end.
_RISE, _BEGIN, _END = 0.3, 25.0, 1e4


def count_steps(max_steps, max_epochs, steps_per_epoch):
    """Count the steps of a training, which ends by whichever limit comes first."""
    limits = [max_steps, None if max_epochs is None else max_epochs * steps_per_epoch]
    return min(limit for limit in limits if limit is not None)


def count_epochs(n_steps, steps_per_epoch):
    """Count the epochs of a training, the last of which may be cut short."""
    return math.ceil(n_steps / max(1, steps_per_epoch))


def learning_rate(schedule, lr, step, n_steps, epoch):
    r"""Compute the learning rate of a step.

    Parameters
    ----------
    schedule : {"one_cycle", "inverse_sqrt", "constant"}
        "one_cycle" rises to `lr` in the first 30 % of the steps and falls to almost nothing, both along a cosine, as
        torch's ``OneCycleLR`` does without cycling the momentum. "inverse_sqrt" is the paper's
        :math:`\alpha/\sqrt{t}` in epoch t.
    lr : float
        The highest learning rate.
    step, n_steps : int
        Number of the step from 0, and of all steps.
    epoch : int
        Number of the epoch, from 0.

    Returns
    -------
    lr : float
        Learning rate.
    """
    if schedule == "constant":
        return lr
    if schedule == "inverse_sqrt":
        return lr / math.sqrt(epoch + 1)
    top = _RISE * n_steps - 1
    if step <= top:
        return _cosine(lr / _BEGIN, lr, step / top if top > 0 else 1.0)
    return _cosine(lr, lr / _BEGIN / _END, (step - top) / (n_steps - 1 - top))


def _cosine(start, end, share):
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
