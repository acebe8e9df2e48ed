r"""Training trials as they would look if nothing were known of their person.

People who are trained on are normalised by their own statistics, the next person by those of the population as long as
nothing is known of that person. A network that has met both kinds of signals is at home with both.

With :math:`x_s = W_s (x - m_s)` normalised by the person's own statistics and :math:`W (x - m)` by the population's,

.. math:: W (x - m) = W W_s^{+} x_s + W (m_s - m),

so one small matrix per person turns the one into the other, whenever a batch needs it.
"""

import numpy as np
import torch

from braindecode_censor.trials.affine import affine_map
from braindecode_censor.trials.random_numbers import mix, uniform

__all__ = ["Strangers", "estrange", "stranger_maps"]

_PLACE = -1  # of the random numbers of a step; augmentations have those from 0
_SMALLEST = 1e-9  # of the largest singular value; what is smaller was set to zero by the normalisation


def stranger_maps(normalizer):
    """Return what turns every training person's normalised trials into those of a stranger.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        Fitted, with a normalisation by the person's own statistics.

    Returns
    -------
    maps : ndarray of shape (n_people, n_chans, 1 + n_chans)
        What to add to every channel, and the matrix that mixes the channels, for the people of ``subjects_``.
    """
    population = affine_map(normalizer.population_, normalizer.how)
    maps = []
    for statistic in normalizer.people_:
        own = affine_map(statistic, normalizer.how)
        back = np.linalg.pinv(own.weight, rcond=_SMALLEST, hermitian=True)
        added = population.weight @ (own.offset - population.offset)
        maps.append(np.column_stack([added, population.weight @ back]))
    return np.stack(maps)


def estrange(x, maps, people, seeds, steps):
    """Show a third of the trials as a stranger's, a third halfway, and leave a third as it is.

    Parameters
    ----------
    x : Tensor of shape (n_members, n_trials, n_chans, n_times)
        Batches of the members of a fleet, every trial normalised by its person's own statistics.
    maps : Tensor of shape (n_members, n_people, n_chans, 1 + n_chans)
        Each member's, from :func:`stranger_maps`.
    people : Tensor of int of shape (n_members, n_trials)
        Whose trial each one is: a place in `maps`.
    seeds, steps : Tensor of shape (n_members,), int64
        Each member's seed and the number of its step from 0, which decide what happens to a trial.

    Returns
    -------
    x : Tensor of shape (n_members, n_trials, n_chans, n_times)
        New signals.
    """
    mine = maps[torch.arange(len(maps), device=maps.device)[:, None], people]
    stranger = mine[..., 1:] @ x + mine[..., :1]
    share = torch.floor(3 * uniform(mix(seeds, steps, _PLACE), (x.shape[1], 1, 1))) / 2
    return torch.lerp(x, stranger, share.to(x.dtype))


class Strangers:
    """The same for the batches of one training.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        As in :func:`stranger_maps`.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is. Those of people whom the normaliser was not fitted on are never trained on.
    seed : int
        Seed.
    """

    def __init__(self, normalizer, subjects, seed):
        self.maps = torch.as_tensor(stranger_maps(normalizer)).unsqueeze(0)
        people = np.searchsorted(normalizer.subjects_, subjects).clip(max=len(normalizer.subjects_) - 1)
        self.people = torch.as_tensor(people)
        self.seed = seed

    def apply(self, x, positions, step):
        """Change the batch of a step.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Signals on any device.
        positions : Tensor of int of shape (n_trials,)
            Which trials these are.
        step : int
            Number of the step from 0.

        Returns
        -------
        x : Tensor of shape (n_trials, n_chans, n_times)
            New signals.
        """
        people = self.people[positions.to(self.people.device)].to(x.device).unsqueeze(0)
        seeds, steps = (torch.tensor([number], device=x.device) for number in (self.seed, step))
        return estrange(x.unsqueeze(0), self.maps.to(x), people, seeds, steps).squeeze(0)
