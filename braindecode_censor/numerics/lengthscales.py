r"""Length scales of kernels, always without gradient.

A length scale maps squared distances to a precision :math:`p=1/\sigma^2` that broadcasts to them. `same`
restricts every computation to pairs of one group, so that the scales of all groups come from one call.
"""

from numbers import Real

import torch

from braindecode_censor._check import check_choice, check_fraction, check_positive, check_size
from braindecode_censor.numerics.groups import group_heads, group_sizes

__all__ = ["LENGTHSCALES", "FixedScale", "MedianScale", "TSNEScale", "make_lengthscale"]

SMALLEST_SCALE = 1e-6


class FixedScale:
    r"""A fixed length scale :math:`\sigma`."""

    def __init__(self, sigma):
        self.sigma = check_positive("lengthscale", sigma)

    def __repr__(self):
        return f"FixedScale({self.sigma!r})"

    def precision(self, d2, same=None):
        """Return the precision within a sample, a scalar."""
        return torch.full((), self.sigma**-2, dtype=d2.dtype, device=d2.device)

    def cross_precision(self, d2, d2_query):
        """Return the precision between queries and a sample."""
        return self.precision(d2)


class MedianScale:
    r"""The median heuristic: :math:`\sigma` is the median distance over distinct pairs.

    Notes
    -----
    Implementations that take the median over all :math:`n^2` entries include the n zeros of the diagonal,
    which shrinks the scale of small samples (to 0.92 of this one at n = 4). The scale is floored at 1e-6, so
    a collapsed code gives finite numbers.
    """

    def __init__(self, factor=1.0):
        self.factor = check_positive("factor", factor)

    def __repr__(self):
        return f"MedianScale(factor={self.factor!r})"

    @torch.no_grad()
    def precision(self, d2, same=None):
        """Return the precision within a sample, one per group."""
        median = _median_distance(d2) if same is None else _median_distance_by_group(d2, same).unsqueeze(-1)
        return (self.factor * median).clamp_min(SMALLEST_SCALE) ** -2

    def cross_precision(self, d2, d2_query):
        """Return the precision between queries and a sample, which is that of the sample."""
        return self.precision(d2)


def _median_distance(d2):
    """Return the median distance (..., 1, 1) of samples with squared distances (..., n, n)."""
    n = d2.shape[-1]
    if n < 2:
        return torch.ones_like(d2)
    i, j = torch.triu_indices(n, n, offset=1, device=d2.device)
    pairs, n_pairs = d2[..., i, j], n * (n - 1) // 2
    if d2.is_cuda:  # Selection has no deterministic kernel there, and sorting is fast.
        middle = pairs.sort(-1).values[..., (n_pairs - 1) // 2 : n_pairs // 2 + 1]
    else:  # The last one or two of the lower half: selecting is several times faster than sorting.
        lower = pairs.topk(n_pairs // 2 + 1, largest=False, sorted=False).values
        middle = lower.topk(2 - n_pairs % 2).values
    return middle.sqrt().mean(-1)[..., None, None]


def _median_distance_by_group(d2, same):
    """Return the median distance (..., n) within the group of each sample; 1 for a group of one."""
    n = d2.shape[-1]
    if n < 2:
        return torch.ones_like(d2[..., 0])
    head = group_heads(same)
    i, j = torch.triu_indices(n, n, offset=1, device=d2.device)
    # One sort serves all groups: the integer part of the key is the group, its fraction the distance. Pairs of
    # different groups come last.
    group = torch.where(same[i, j], head[i], n)
    distances = d2[..., i, j]
    largest = distances.amax(-1, keepdim=True).double().clamp_min(1e-300)
    key = group + distances / (largest * (1 + 1e-6))
    distances = distances.gather(-1, key.argsort(-1))

    size = group_sizes(same)
    n_pairs = size * (size - 1) // 2
    # Number of pairs in the groups that precede each group in the sorted order.
    pairs_at_head = n_pairs * (head == torch.arange(n, device=d2.device))
    before = (pairs_at_head.cumsum(-1) - pairs_at_head)[head]
    middle = before + torch.stack([n_pairs - 1, n_pairs]) // 2
    median = distances[..., middle.clamp(0, len(i) - 1)].sqrt().mean(-2)
    return torch.where(n_pairs > 0, median, 1.0)


class TSNEScale:
    r"""A length scale for every point, by the fixed-perplexity rule of t-SNE.

    For each point i the inverse scale :math:`\beta_i` makes the entropy of
    :math:`p_{j|i}\propto e^{-\beta_i d_{ij}}, j\neq i`, equal the logarithm of the perplexity. The kernel
    between two points uses the average, :math:`K_{ij}=e^{-d_{ij}(\beta_i+\beta_j)/2}`.

    Notes
    -----
    The paper's appendix calls the kernel valid; it is not positive semi-definite in general (two clusters of
    standard deviation 0.1 and 3 have eigenvalues down to -0.015), so estimators must not rely on it. The
    tolerance of 1e-5 that the paper quotes is on the entropy in scikit-learn; here the search converges: Newton's
    method for the logarithm of :math:`\beta_i`, and a bisection where a step would leave the current interval.
    Where no scale reaches the perplexity (all neighbours equally far, more duplicates than the perplexity),
    :math:`\beta_i` is one over twice the mean squared distance.
    """

    def __init__(self, perplexity=0.95, n_steps=16):
        self.perplexity = check_fraction("perplexity", perplexity)
        self.n_steps = check_size("n_steps", n_steps)

    def __repr__(self):
        return f"TSNEScale(perplexity={self.perplexity!r})"

    @torch.no_grad()
    def precision(self, d2, same=None):
        r"""Return :math:`\beta_i+\beta_j`."""
        beta = self.inverse_scales(d2, same)
        return beta.unsqueeze(-1) + beta.unsqueeze(-2)

    @torch.no_grad()
    def cross_precision(self, d2, d2_query):
        """Return the precision between queries and a sample; a query's scale comes from its own distances."""
        beta_query = self._search(d2_query, torch.ones_like(d2_query, dtype=torch.bool))
        return beta_query[:, None] + self.inverse_scales(d2)[None, :]

    def inverse_scales(self, d2, same=None):
        r"""Return :math:`\beta_i` of every point."""
        neighbours = ~torch.eye(d2.shape[-1], dtype=torch.bool, device=d2.device)
        return self._search(d2, neighbours if same is None else neighbours & same)

    def _search(self, d2, neighbours):
        """Search log(beta * typical distance) for all rows of d2 (..., m, n) at once; return beta (..., m)."""
        n_neighbours = neighbours.sum(-1)
        count = n_neighbours.clamp_min(1).to(d2.dtype)
        # The minimum comes last: with three points or fewer the bounds cross, and the upper one must hold.
        wanted = (self.perplexity * count).clamp_min(2).minimum(count - 0.01).log()
        infinite = torch.full_like(d2, torch.inf)
        nearest = torch.where(neighbours, d2, infinite).amin(-1, keepdim=True)
        # The entropy does not change when the smallest distance is subtracted, and the exponent stays finite.
        gap = torch.where(neighbours, d2 - nearest, torch.zeros_like(d2))
        typical = (gap.sum(-1) / count).clamp_min(1e-30)

        gap = gap / typical.unsqueeze(-1)
        present = neighbours.to(d2.dtype)

        def entropy(exponent):
            """Return the entropy, and minus its derivative in the exponent."""
            energy = gap * exponent.exp().unsqueeze(-1)
            p = torch.exp(-energy) * present
            total = p.sum(-1).clamp_min(1e-30)
            weighted = p * energy
            mean = weighted.sum(-1) / total
            return total.log() + mean, (weighted * energy).sum(-1) / total - mean.square()

        low, high = torch.full_like(typical, -25.0), torch.full_like(typical, 25.0)
        attainable = entropy(high)[0] <= wanted
        exponent = torch.zeros_like(typical)
        for _ in range(self.n_steps):
            value, slope = entropy(exponent)
            too_wide = value > wanted
            low, high = torch.where(too_wide, exponent, low), torch.where(too_wide, high, exponent)
            step = exponent + (value - wanted) / slope.clamp_min(1e-30)
            # The margin allows for rounding, which at the root decides on which side of it a step ends.
            inside = (step > low - 1e-3) & (step < high + 1e-3)
            exponent = torch.where(inside, step, (low + high) / 2)
        beta = exponent.exp() / typical
        mean = (torch.where(neighbours, d2, torch.zeros_like(d2)).sum(-1) / count).clamp_min(
            SMALLEST_SCALE**2
        )
        return torch.where(attainable, beta, 0.5 / mean)


#: Name -> length scale.
LENGTHSCALES = {"median": MedianScale, "tsne": TSNEScale}


def make_lengthscale(lengthscale):
    """Return the length scale of that name or number; an object with a method ``precision`` is returned as it is."""
    if hasattr(lengthscale, "precision"):
        return lengthscale
    if isinstance(lengthscale, Real):
        return FixedScale(lengthscale)
    return LENGTHSCALES[check_choice("lengthscale", lengthscale, LENGTHSCALES)]()
