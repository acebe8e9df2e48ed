"""Contrasts: the pairs of distributions that an MMD compares.

A contrast weights pairs of rows. Row 0 of a stratum is the whole stratum, row 1 + m its subject m.
"""

import torch

from braindecode_censor._check import check_choice, check_fraction, check_size

__all__ = ["CONTRASTS", "AllPairs", "BernoulliPairs", "CliquePairs", "OneVersusAll", "make_contrast"]


class OneVersusAll:
    """Every subject against the whole stratum (the paper's MMD)."""

    def noise_shape(self, n_subjects):
        """Return None, since nothing is random."""
        return

    def select(self, usable, noise):
        """Return the weights (n_strata, 1 + n_subjects, 1 + n_subjects) of pairs of rows."""
        n_strata, n_subjects = usable.shape
        versus = torch.nn.functional.pad(usable, (1, 0)).unsqueeze(1)
        zeros = usable.new_zeros(n_strata, n_subjects, 1 + n_subjects)
        return torch.cat([versus, zeros], dim=1)


class AllPairs(OneVersusAll):
    """All unordered pairs of subjects (pairwise MMD)."""

    def select(self, usable, noise):
        """Return the weights of pairs of rows; see :meth:`OneVersusAll.select`."""
        selected = self.select_pairs(usable.amax(0), noise)
        both = usable[:, :, None] * usable[:, None, :] * selected
        return torch.nn.functional.pad(both.triu(1), (1, 0, 1, 0))

    def select_pairs(self, present, noise):
        """Return the drawn pairs (n_subjects, n_subjects), the same for all strata and both halves of z."""
        return present.new_ones(len(present), len(present))


class BernoulliPairs(AllPairs):
    """Each unordered pair with probability `fraction`.

    Notes
    -----
    The listing draws ordered pairs, so that a pair can count twice; the text speaks of combinations.
    """

    def __init__(self, fraction=0.5):
        self.fraction = check_fraction("fraction", fraction)

    def noise_shape(self, n_subjects):
        """Return the shape of the noise: one number per pair."""
        return n_subjects, n_subjects

    def select_pairs(self, present, noise):
        """Return the drawn pairs (n_subjects, n_subjects)."""
        return (noise <= self.fraction).to(present.dtype)


class CliquePairs(AllPairs):
    """All pairs among `size` subjects drawn from those of the batch."""

    def __init__(self, size=4):
        self.size = check_size("size", size, minimum=2)

    def noise_shape(self, n_subjects):
        """Return the shape of the noise: one number per subject."""
        return (n_subjects,)

    def select_pairs(self, present, noise):
        """Return the drawn pairs (n_subjects, n_subjects)."""
        # Absent subjects come last in the random order, so they are drawn only if too few are present.
        order = (noise + 2 * (1 - present)).argsort().argsort()
        drawn = (order < self.size).to(present.dtype)
        return drawn[:, None] * drawn[None, :]


#: Name -> class.
CONTRASTS = {"all": AllPairs, "bernoulli": BernoulliPairs, "clique": CliquePairs}


def make_contrast(pairs, fraction=None, size=None):
    """Return the contrast of that name; an object with a method ``select`` is returned as it is."""
    options = {"fraction": fraction, "size": size}
    options = {name: value for name, value in options.items() if value is not None}
    if hasattr(pairs, "select"):
        if options:
            raise ValueError(f"pairs is an object already, so {sorted(options)} have no effect.")
        return pairs
    check_choice("pairs", pairs, CONTRASTS)
    for name, value in options.items():
        owner = {"fraction": "bernoulli", "size": "clique"}[name]
        if pairs != owner:
            raise ValueError(f"{name}={value!r} belongs to pairs={owner!r}, not to pairs={pairs!r}.")
    return CONTRASTS[pairs](**options)
