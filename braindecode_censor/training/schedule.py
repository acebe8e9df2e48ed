"""Number of steps of a training, and the learning rate of every step.

Everything here is a function of numbers, which fleets share with the estimator.
"""

import math

__all__ = ["count_epochs", "count_steps", "learning_rate"]

# Defaults of torch's OneCycleLR: pct_start, div_factor and final_div_factor. OneCycleLR itself does not fit, because
# a fleet needs the rate as a function of the step.
_PCT_START, _DIV_FACTOR, _FINAL_DIV_FACTOR = 0.3, 25.0, 1e4


def count_steps(max_steps, max_epochs, steps_per_epoch):
    """Return the number of steps of a training, which ends at the first limit."""
    limits = [max_steps, None if max_epochs is None else max_epochs * steps_per_epoch]
    return min(limit for limit in limits if limit is not None)


def count_epochs(n_steps, steps_per_epoch):
    """Return the number of epochs of a training, of which the last one may be incomplete."""
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
    top = _PCT_START * n_steps - 1
    if step <= top:
        return _cosine(lr / _DIV_FACTOR, lr, step / top if top > 0 else 1.0)
    return _cosine(lr, lr / _DIV_FACTOR / _FINAL_DIV_FACTOR, (step - top) / (n_steps - 1 - top))


def _cosine(start, end, fraction):
    return end + (start - end) * (1 + math.cos(math.pi * fraction)) / 2
