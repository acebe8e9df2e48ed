"""Augmentations of training batches that a fleet can apply to all its replicas at once.

Each is a ``Transform`` of :mod:`braindecode.augmentation`. Its random numbers are a function of a replica's seed and
step (see :mod:`~braindecode_censor.trials.random_numbers`), so that a replica gets the batches that it would get
alone.
"""

import torch
from braindecode.augmentation import Transform

from braindecode_censor._check import check_fraction, check_positive
from braindecode_censor.trials.random_numbers import mix, noise, normal, uniform

__all__ = ["ChannelGains", "ChannelsDropout", "CircularTimeShift", "CountedTransform", "GaussianNoise"]


class CountedTransform(Transform):
    """Base of transforms whose random numbers are a function of seed and step; subclasses define :meth:`change`."""

    def __init__(self, probability=1.0, random_state=None):
        super().__init__(probability=probability, random_state=random_state)

    def forward(self, X, y=None):
        """Transform a batch, as every ``Transform`` does."""
        X = torch.as_tensor(X).float()
        stream = torch.tensor([self.rng.randint(2**31 - 1)], device=X.device)
        batch = X.reshape(1, -1, *X.shape[-2:])
        changed = self.change_some(batch, stream).reshape_as(X)
        return changed if y is None else (changed, y)

    def change_some(self, X, stream):
        """Transform the batches of all replicas, each trial with the transform's probability."""
        changed = self.change(X, stream)
        if self.probability == 1:
            return changed
        is_changed = uniform(mix(stream, 1), (X.shape[1], 1, 1)) < self.probability
        return torch.where(is_changed, changed, X)

    def change(self, X, stream):
        """Transform all trials, (n_replicas, n_trials, n_chans, n_times)."""
        raise NotImplementedError


class CircularTimeShift(CountedTransform):
    """Shift every trial in time by a few samples, cyclically."""

    def __init__(self, probability=1.0, max_shift=0.05, random_state=None):
        super().__init__(probability, random_state)
        self.max_shift = check_fraction("max_shift", max_shift)

    def change(self, X, stream):
        """Shift all trials."""
        n_times = X.shape[-1]
        largest = max(1, round(self.max_shift * n_times))
        shift = (uniform(stream, (X.shape[1], 1, 1)) * (2 * largest + 1)).long() - largest
        source = (torch.arange(n_times, device=X.device) - shift) % n_times
        return X.gather(-1, source.expand_as(X))


class ChannelGains(CountedTransform):
    """Multiply every channel of every trial by a random gain, because electrodes and skins differ."""

    def __init__(self, probability=1.0, std=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.std = check_positive("std", std, or_zero=True)

    def change(self, X, stream):
        """Multiply all channels."""
        return X * (self.std * normal(stream, (*X.shape[1:3], 1))).exp().to(X.dtype)


class ChannelsDropout(CountedTransform):
    """Set channels to zero: Braindecode's ``ChannelsDropout`` with counted random numbers."""

    def __init__(self, probability=1.0, p_drop=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.p_drop = check_fraction("p_drop", p_drop)

    def change(self, X, stream):
        """Drop channels."""
        return X * (uniform(stream, (*X.shape[1:3], 1)) >= self.p_drop)


class GaussianNoise(CountedTransform):
    """Add white noise: Braindecode's ``GaussianNoise`` with counted random numbers."""

    def __init__(self, probability=1.0, std=0.1, random_state=None):
        super().__init__(probability, random_state)
        self.std = check_positive("std", std, or_zero=True)

    def change(self, X, stream):
        """Add noise."""
        return X.add(noise(stream, X.shape[1:3], X.shape[-1]).to(X.dtype), alpha=self.std)
