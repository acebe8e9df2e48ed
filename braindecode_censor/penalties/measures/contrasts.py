"""Which pairs of distributions an MMD compares.

A contrast gives weights to pairs of rows. Row 0 of a stratum is the whole stratum, row 1 + m its subject m.
"""

import torch

from braindecode_censor._check import check_choice, check_fraction, check_size

__all__ = ["CONTRASTS", "AllPairs", "BernoulliPairs", "CliquePairs", "OneVersusAll", "make_contrast"]


class OneVersusAll:
    """Every subject against the whole stratum (the paper's MMD)."""

    def noise_shape(self, n_subjects):
        """Return None: nothing is random."""
        return

    def select(self, usable, noise):
        """Return which pairs of rows are compared."""
        n_strata, n_subjects = usable.shape
        versus = torch.nn.functional.pad(usable, (1, 0)).unsqueeze(1)
        rest = usable.new_zeros(n_strata, n_subjects, 1 + n_subjects)
        return torch.cat([versus, rest], dim=1)


class AllPairs(OneVersusAll):
    """All unordered pairs of subjects (pairwise MMD)."""

    def select(self, usable, noise):
        """Return which pairs of rows are compared; see :meth:`OneVersusAll.select`."""
        chosen = self.choose(usable.amax(0), noise)
        both = usable[:, :, None] * usable[:, None, :] * chosen
        return torch.nn.functional.pad(both.triu(1), (1, 0, 1, 0))

    def choose(self, present, noise):
        """Return which pairs of subjects are drawn, the same for all strata and both halves of z."""
        return present.new_ones(len(present), len(present))


class BernoulliPairs(AllPairs):
    """Each unordered pair with a given probability.

    Notes
    -----
    The listing draws ordered pairs, so that a pair can count twice; the text speaks of combinations.
    """

    def __init__(self, fraction=0.5):
        self.fraction = check_fraction("fraction", fraction)

    def noise_shape(self, n_subjects):
        """Return the shape of the noise: one number per pair."""
        return n_subjects, n_subjects

    def choose(self, present, noise):
        """Return which pairs of subjects are drawn."""
        return (noise <= self.fraction).to(present.dtype)


class CliquePairs(AllPairs):
    """All pairs among a few subjects drawn from those present."""

    def __init__(self, size=4):
        self.size = check_size("size", size, minimum=2)

    def noise_shape(self, n_subjects):
        """Return the shape of the noise: one number per subject."""
        return (n_subjects,)

    def choose(self, present, noise):
        """Return which pairs of subjects are drawn."""
        # Those absent come last, so the first `size` of the random order are present where they can be.
        order = (noise + 2 * (1 - present)).argsort().argsort()
        drawn = (order < self.size).to(present.dtype)
        return drawn[:, None] * drawn[None, :]


#: Name -> choice of pairs.
CONTRASTS = {"all": AllPairs, "bernoulli": BernoulliPairs, "clique": CliquePairs}


def make_contrast(pairs, fraction=None, size=None):
    """Return the contrast of that name; an object passes."""
    given = {"fraction": fraction, "size": size}
    options = {name: value for name, value in given.items() if value is not None}
    if hasattr(pairs, "select"):
        if options:
            raise ValueError(f"pairs is an object already, so {sorted(options)} have no effect.")
        return pairs
    kind = CONTRASTS[check_choice("pairs", pairs, CONTRASTS)]
    allowed = {"bernoulli": {"fraction"}, "clique": {"size"}}.get(pairs, set())
    if set(options) - allowed:
        wrong = sorted(set(options) - allowed)[0]
        owner = "bernoulli" if wrong == "fraction" else "clique"
        raise ValueError(f"{wrong}={options[wrong]!r} belongs to pairs={owner!r}, not to pairs={pairs!r}.")
    return kind(**options)
