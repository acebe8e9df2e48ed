"""Maximum mean discrepancy between the code's distributions of different subjects."""

from typing import ClassVar

import torch

from braindecode_censor._check import check_choice
from braindecode_censor.numerics.groups import group_ranks, same_group
from braindecode_censor.numerics.kernels import make_kernel, squared_distances
from braindecode_censor.numerics.lengthscales import make_lengthscale
from braindecode_censor.penalties.batch import Batch, cell_rows, one_hot_rows
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.measures.contrasts import OneVersusAll, make_contrast
from braindecode_censor.penalties.ranges import Choice, Range

__all__ = ["MMD", "PairMMD"]


class MMD(Measure):
    r"""Squared MMD between the code of each subject and that of all subjects, averaged over subjects.

    For weight rows a and b of a stratum let
    :math:`S(a,b)=\sum_{i\ne j}a_ib_jk(z_i,z_j)\big/\sum_{i\ne j}a_ib_j`; then

    .. math:: \widehat{\mathrm{MMD}}{}^2(a,b) = S(a,a)+S(b,b)-2S(a,b).

    Parameters
    ----------
    n_features, n_subjects, n_classes : int, optional
        Sizes; see :class:`~braindecode_censor.penalties.measures.base.Measure`.
    kernel : {"rbf", "imq"} or object
        Kernel k.
    lengthscale : {"median", "tsne"}, float or object
        Length scale, one for all comparisons of a batch, without gradient.
    self_pairs : bool
        Keep the pairs of a trial with itself that arise because a subject is part of the batch, as printed.
    **options
        `nuisance`, `reduction` and `min_trials`; see :class:`~braindecode_censor.penalties.measures.base.Measure`.

    Notes
    -----
    The paper's algorithms for marginal, conditional and complementary MMD censoring, with these differences.

    * The listings add over subjects (and classes); the text averages. Default: the mean over usable subjects,
      then over usable classes (``reduction="sum"`` adds).
    * A subject is part of the batch it is compared with. With the self-pairs of the listing the estimate has
      mean :math:`-2(1-\kappa)/N` under independence, where :math:`\kappa=E\,k(z,z')`; without them, zero.
    * A stratum counts if at least two of its subjects have `min_trials` trials.
    * The estimate is unbiased, hence negative about every other time under independence; it is neither
      clamped nor rooted, which would bias it and remove its gradient.

    All comparisons of a batch are a weighted sum of one Gram matrix, :math:`\sum_{ij}A_{ij}k(z_i,z_j)`: A is two
    small matrix products of the rows, so the cost hardly depends on the number of subjects.

    With a continuous nuisance, the row of trial i is a Gaussian neighbourhood of :math:`s_i` in the values of s
    (median length scale, without the trial itself): the code at similar values of s against the code at all values.
    This is HSIC with the kernel on s normalised by row, and has mean zero under independence.

    References
    ----------
    Gretton et al. (2012), A kernel two-sample test.

    Examples
    --------
    >>> from braindecode_censor.penalties.batch import Batch
    >>> z, s = torch.tensor([[0.0], [0.1], [5.0], [5.1]]), torch.tensor([0, 0, 1, 1])
    >>> bool(MMD(n_subjects=2).censor(z, Batch(s, n_subjects=2)) > 0.2)
    True
    """

    search_space: ClassVar = {"weight": Range(0.01, 10.0, log=True)}
    waits = False

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        kernel="rbf",
        lengthscale="median",
        self_pairs=False,
        **options,
    ):
        super().__init__(n_features, n_subjects, n_classes, **options)
        self.kernel = make_kernel(kernel)
        if not self.kernel.is_diagonal:
            raise ValueError(f"MMD needs a scalar kernel ('rbf' or 'imq'), got kernel={kernel!r}.")
        self.lengthscale = make_lengthscale(lengthscale)
        self.self_pairs = check_choice("self_pairs", self_pairs, (False, True))
        self.contrast = OneVersusAll()

    def noise_shape(self, n_subjects):
        """Return the shape of the contrast's noise.

        Parameters
        ----------
        n_subjects : int
            Number of subjects.

        Returns
        -------
        shape : tuple of int or None
            Shape of ``batch.noise``.
        """
        return self.contrast.noise_shape(n_subjects)

    def censor(self, z, batch):
        """Return the averaged squared MMD.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Unbiased estimate.
        """
        d2 = squared_distances(z)
        with torch.no_grad():
            precision = self.lengthscale.precision(d2)
            weights = self._gram_weights(batch, z.dtype)
        return (weights * self.kernel(d2, precision)).sum()

    def _gram_weights(self, batch, dtype):
        """Return the matrix A (n, n), the weight of every kernel value in the penalty."""
        if batch.continuous:
            return self._neighbourhood_weights(batch, dtype)
        rows, overlap, pairs = self._subjects(batch, dtype)
        # value = sum over (a, b) of pairs[a, b] * (S_aa + S_bb - 2 S_ab) = sum of coefficients * S
        pairs = pairs + pairs.mT
        coefficients = torch.diag_embed(pairs.sum(-1)) - pairs
        mass = torch.diagonal(overlap, dim1=-2, dim2=-1)
        norms = mass[..., :, None] * mass[..., None, :]
        # A row of a single trial has no pairs: its norm is zero up to rounding, and no contrast selects it.
        norms = (norms - (torch.diag_embed(mass) if self.self_pairs else overlap)).clamp_min(1e-12)
        scaled = coefficients / norms
        weights = rows.flatten(0, 1).T @ (scaled @ rows).flatten(0, 1)
        diagonal = torch.diagonal(weights)
        if self.self_pairs:
            across = scaled - torch.diag_embed(torch.diagonal(scaled, dim1=-2, dim2=-1))
            diagonal.copy_((rows * (across @ rows)).sum((0, 1)))
        else:
            diagonal.zero_()
        return weights

    def _subjects(self, batch, dtype):
        """Return rows (n_strata, 1 + n_subjects, n), common trials of two rows, and the weights of pairs of rows."""
        batch = _renumber(batch)
        strata, cells = cell_rows(batch, dtype)
        rows = torch.cat([strata[:, None], cells], dim=1)
        overlap = rows @ rows.mT
        counts = torch.diagonal(overlap, dim1=-2, dim2=-1)[:, 1:]
        usable = (counts >= self.min_trials).to(dtype)
        usable = usable * (usable.sum(-1, keepdim=True) >= 2)
        pairs = self.contrast.select(usable, batch.noise)
        if self.reduction == "mean":
            n_pairs = pairs.sum((-1, -2), keepdim=True)
            pairs = pairs / (n_pairs.clamp_min(1) * (n_pairs > 0).sum().clamp_min(1))
        return rows, overlap, pairs

    def _neighbourhood_weights(self, batch, dtype):
        """Return the matrix A (n, n) for a continuous nuisance: the neighbours of each trial against its stratum."""
        same, near, trial_weights = self._neighbourhoods(batch, dtype)

        def mean(a, b):
            # Weights of the sum over trials j of trial_weights[j] S(a_j, b_j), without pairs of a trial with itself.
            norm = a.sum(-1) * b.sum(-1) - (a * b).sum(-1)
            return a.T @ ((trial_weights / norm.clamp_min(1e-12))[:, None] * b)

        across = mean(same, near)
        weights = mean(same, same) + mean(near, near) - across - across.T
        return weights - torch.diag(torch.diagonal(weights))

    def _neighbourhoods(self, batch, dtype):
        """Return the rows (n, n) of the stratum and of the neighbours of each trial, and the weights of trials (n,)."""
        s = batch.s.reshape(len(batch.s), -1).to(dtype)
        d2 = squared_distances(s)
        strata = torch.ones_like(d2[:1])
        if batch.y is not None:
            strata = one_hot_rows(batch.y, batch.n_classes, dtype)
        same = strata.T @ strata
        exponent = -0.5 * make_lengthscale("median").precision(d2) * d2
        neighbours = same * (1 - torch.eye(len(s), dtype=dtype, device=s.device))
        # Relative to the nearest neighbour, so that the weights of an outlier do not all vanish.
        nearest = torch.where(neighbours > 0, exponent, -torch.inf).amax(-1, keepdim=True)
        nearest = torch.where(torch.isfinite(nearest), nearest, 0.0)
        near = torch.exp(torch.where(neighbours > 0, exponent - nearest, 0.0)) * neighbours
        # A neighbourhood of one trial has no pairs, and one of hardly more loses all digits.
        usable = near.sum(-1) ** 2 > 1.5 * (near**2).sum(-1)
        if self.reduction == "sum":
            return same, near, usable.to(dtype)
        counts = strata @ usable.to(dtype)
        trial_weights = strata.T @ (1 / counts.clamp_min(1)) / (counts > 0).sum().clamp_min(1)
        return same, near, trial_weights * usable

    def usable(self, batch):
        """Return True if any stratum has enough trials to estimate the dependence.

        Parameters
        ----------
        batch : Batch
            Labels.

        Returns
        -------
        usable : Tensor of shape (), bool
            False for a batch on which the measure is zero.
        """
        if batch.continuous:
            return (self._neighbourhoods(batch, torch.float64)[2] > 0).any()
        return super().usable(batch)


def _renumber(batch):
    """Number the subjects of a batch from 0 if there are more subjects than trials.

    MMD does not depend on the numbers, and matrices of all pairs of hundreds of subjects would be expensive.
    """
    n_trials = len(batch.s)
    if batch.n_subjects <= n_trials:
        return batch
    ranks, _ = group_ranks(same_group(batch.s))
    noise = None if batch.noise is None else batch.noise[(slice(n_trials),) * batch.noise.ndim]
    return Batch(ranks, batch.y, n_trials, batch.n_classes, batch.continuous, noise)


class PairMMD(MMD):
    r"""Squared MMD between pairs of subjects, averaged over pairs.

    Parameters
    ----------
    n_features, n_subjects, n_classes : int, optional
        Sizes; see :class:`~braindecode_censor.penalties.measures.base.Measure`.
    pairs : {"all", "bernoulli", "clique"} or object
        Selection of pairs: all, each with probability `fraction`, or all among `size` random subjects.
    fraction : float, optional
        Probability of a pair (the paper's b), 0.5 by default.
    size : int, optional
        Number of subjects in the clique (the paper's d), 4 by default.
    **options
        Options of :class:`MMD`.

    Notes
    -----
    The paper's algorithms for pairwise MMD censoring, with these differences: pairs are unordered, drawn among
    the subjects present, once for all classes and both halves of z; their mean is taken (the text says
    average, the listings add); the complementary listing builds both halves from :math:`z^{(1)}`, which makes the
    penalty zero, a misprint. An empty draw gives zero.
    """

    search_space: ClassVar = {
        "weight": Range(0.01, 10.0, log=True),
        "pairs": Choice(("bernoulli", "clique")),
        "fraction": Choice((0.25, 0.5, 0.75), when=("pairs", ("bernoulli",))),
        "size": Choice((3, 4, 6), when=("pairs", ("clique",))),
    }
    nuisances = ("discrete",)

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        pairs="all",
        fraction=None,
        size=None,
        **options,
    ):
        super().__init__(n_features, n_subjects, n_classes, **options)
        self.contrast = make_contrast(pairs, fraction, size)
