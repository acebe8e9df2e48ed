"""Augmentations of training batches that a fleet can apply to all its members at once.

Each is a ``Transform`` of :mod:`braindecode.augmentation`. Its random numbers are a function of a member's seed and
step (see :mod:`~braindecode_censor.trials.random_numbers`), so that a training among others sees the batches that it
would see alone.
"""

import torch
from braindecode.augmentation import Transform

from braindecode_censor._check import check_fraction, check_positive
from braindecode_censor.trials.random_numbers import mix, noise, normal, uniform

__all__ = ["ChannelGains", "ChannelsDropout", "CircularTimeShift", "CountedTransform", "GaussianNoise"]


class CountedTransform(Transform):
    """A transform whose random numbers are counted; subclasses say in :meth:`change` what it does.

    Parameters
    ----------
    probability : float
        Share of the trials that are changed.
    random_state : int or None
        Seed, where it is used alone, for instance in an ``AugmentedDataLoader``.
    """

    def __init__(self, probability=1.0, random_state=None):
        super().__init__(probability=probability, random_state=random_state)

    def forward(self, X, y=None):
        """Change a batch, as every ``Transform`` does.

        Parameters
        ----------
        X : Tensor of shape (n_trials, n_chans, n_times) or (n_chans, n_times)
            Signals.
        y : Tensor or None
            Targets, which stay as they are.

        Returns
        -------
        X, y : Tensor
            The changed signals, and the targets if there are any.
        """
        X = torch.as_tensor(X).float()
        stream = torch.tensor([self.rng.randint(2**31 - 1)], device=X.device)
        batch = X.reshape(1, -1, *X.shape[-2:])
        changed = self.change_some(batch, stream).reshape_as(X)
        return changed if y is None else (changed, y)

    def change_some(self, X, stream):
        """Change the batches of all members, each trial with the transform's probability.

        Parameters
        ----------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            Signals.
        stream : Tensor of shape (n_members,), int64
            Number of each member's random stream.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        changed = self.change(X, stream)
        if self.probability == 1:
            return changed
        chosen = uniform(mix(stream, 1), (X.shape[1], 1, 1)) < self.probability
        return torch.where(chosen, changed, X)

    def change(self, X, stream):
        """Change all trials.

        Parameters
        ----------
        X, stream : Tensor
            As in :meth:`change_some`.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        raise NotImplementedError


class CircularTimeShift(CountedTransform):
    """Shift every trial in time by a few samples; what leaves at one end enters at the other.

    Parameters
    ----------
    probability : float
        Share of the trials that are shifted.
    max_shift : float
        Largest shift either way, as a fraction of the trial; at least one sample.
    random_state : int or None
        Seed, where it is used alone.
    """

    def __init__(self, probability=1.0, max_shift=0.05, random_state=None):
        super().__init__(probability, random_state)
        self.max_shift = check_fraction("max_shift", max_shift)

    def change(self, X, stream):
        """Shift all trials.

        Parameters
        ----------
        X, stream : Tensor
            As in :meth:`CountedTransform.change_some`.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        n_times = X.shape[-1]
        largest = max(1, round(self.max_shift * n_times))
        shift = (uniform(stream, (X.shape[1], 1, 1)) * (2 * largest + 1)).long() - largest
        source = (torch.arange(n_times, device=X.device) - shift) % n_times
        return X.gather(-1, source.expand_as(X))


class ChannelGains(CountedTransform):
    """Multiply every channel of every trial by a random gain, as electrodes and skins differ.

    Parameters
    ----------
    probability : float
        Share of the trials that are changed.
    std : float
        Standard deviation of the gain's natural logarithm; 0.1 is about 10 %.
    random_state : int or None
        Seed, where it is used alone.
    """

    def __init__(self, probability=1.0, std=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.std = check_positive("std", std, or_zero=True)

    def change(self, X, stream):
        """Multiply all channels.

        Parameters
        ----------
        X, stream : Tensor
            As in :meth:`CountedTransform.change_some`.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        return X * (self.std * normal(stream, (*X.shape[1:3], 1))).exp().to(X.dtype)


class ChannelsDropout(CountedTransform):
    """Set channels to zero: Braindecode's ``ChannelsDropout`` with counted random numbers.

    Parameters
    ----------
    probability : float
        Share of the trials that are changed.
    p_drop : float
        Probability of every channel of such a trial to be dropped.
    random_state : int or None
        Seed, where it is used alone.
    """

    def __init__(self, probability=1.0, p_drop=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.p_drop = check_fraction("p_drop", p_drop)

    def change(self, X, stream):
        """Drop channels.

        Parameters
        ----------
        X, stream : Tensor
            As in :meth:`CountedTransform.change_some`.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        return X * (uniform(stream, (*X.shape[1:3], 1)) >= self.p_drop)


class GaussianNoise(CountedTransform):
    """Add white noise: Braindecode's ``GaussianNoise`` with counted random numbers.

    Parameters
    ----------
    probability : float
        Share of the trials that are changed.
    std : float
        Standard deviation of the noise. Normalised signals have a standard deviation of about 1.
    random_state : int or None
        Seed, where it is used alone.
    """

    def __init__(self, probability=1.0, std=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.std = check_positive("std", std, or_zero=True)

    def change(self, X, stream):
        """Add noise.

        Parameters
        ----------
        X, stream : Tensor
            As in :meth:`CountedTransform.change_some`.

        Returns
        -------
        X : Tensor of shape (n_members, n_trials, n_chans, n_times)
            New signals.
        """
        return X.add(noise(stream, X.shape[1:3], X.shape[-1]).to(X.dtype), alpha=self.std)
