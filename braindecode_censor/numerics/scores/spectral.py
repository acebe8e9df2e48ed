"""The spectral Stein gradient estimator (SSGE)."""

import torch
from torch import Tensor

from braindecode_censor._check import check_fraction, check_size
from braindecode_censor.numerics.groups import group_ranks
from braindecode_censor.numerics.scores.base import ScoreEstimator
from braindecode_censor.numerics.unrecorded import unrecorded

__all__ = ["SSGE"]


class SSGE(ScoreEstimator):
    r"""Spectral cut-off: keep the leading eigenvectors of the Gram matrix.

    With eigenpairs :math:`(\sigma_j,u_j)` of K/M,
    :math:`\hat g(x)=-K_{xX}\sum_{j\le J}u_ju_j^\top h/(M\sigma_j^2)`.

    Parameters
    ----------
    ratio : float, optional
        Keep eigenvalues, largest first, while their sum stays below this fraction of all (at least one). By
        default 0.95 for samples of up to 64 points and 0.99 for larger ones.
    kernel : {"rbf", "imq"} or object
        Diagonal kernel.
    lengthscale : {"median", "tsne"}, float or object
        Length scale of the kernel. "tsne" makes indefinite Gram matrices, which suit this estimator badly.
    n_eigen : int, optional
        Number of eigenvalues to keep, instead of `ratio`.

    Notes
    -----
    All groups of a partition are decomposed by **one** call: adding :math:`2g + 2` to the diagonal of the g-th group
    moves its eigenvalues, which lie in [0, 1], into a separate interval, so no eigenvector can mix two groups. This
    costs digits, so the decomposition runs in float64. Where the first eigenvalue exceeds `ratio` alone,
    implementations that slice with ``[-0:]`` keep *all* eigenvectors and blow up; here one is kept.

    A decomposition checks its error code, so the CPU waits for the GPU once per fit; the other estimators do not
    wait.

    References
    ----------
    Shi, Sun and Zhu (2018), A spectral approach to gradient estimation for implicit distributions.
    """

    def __init__(self, ratio=None, kernel="rbf", lengthscale="median", n_eigen=None):
        super().__init__(kernel, lengthscale)
        if not self.kernel.is_diagonal:
            raise ValueError(f"score='ssge' needs a diagonal kernel ('rbf' or 'imq'), got kernel={kernel!r}.")
        self.ratio = None if ratio is None else check_fraction("ratio", ratio)
        self.n_eigen = None if n_eigen is None else check_size("n_eigen", n_eigen)

    def _solve(self):
        gram, h = self._dense().double(), self._h.double()
        if self._same is None:
            n = gram.shape[-1]
            score, self._spectrum = self._invert(*_eigenpairs(gram, max(n, 1)), h, n > 64)
        else:
            score = self._solve_shifted(gram / self._n, h)
        self._in_sample = score.to(self._h.dtype)

    def _solve_shifted(self, gram, h):
        """Return the scores (n, d) of all groups from one decomposition."""
        group, _ = group_ranks(self._same)
        shifted, vectors = _eigenpairs(gram + torch.diag(2.0 * (1 + group.double())))
        values = (vectors * (gram @ vectors)).sum(-2)  # Rayleigh quotients, without the rounding of the shift
        # The eigenvalues of group g lie in [2g + 1.5, 2g + 3.5]; samples in no group have g = -1.
        group = ((shifted + 0.5) / 2).floor() - 1
        peers = group.unsqueeze(-1) == group.unsqueeze(-2)
        # Where there is no group, values are rounding errors, which must not be inverted.
        values = torch.where(group >= 0, values, 0.0)
        score, _ = self._invert(values, vectors, h, peers.sum(-1) > 64, peers)
        return score

    def _invert(self, values, vectors, h, large, peers=None):
        """Apply minus the inverse, restricted to the selected eigenvectors, to h; return also the spectrum used."""
        selected = self._select(values, large, peers)
        inverse = torch.where(selected, -values, torch.inf).reciprocal().unsqueeze(-1)
        projected = inverse * (vectors.mT @ h)
        return vectors @ projected, (vectors, inverse, projected)

    def _select(self, values, large, peers=None):
        """Return a mask of the eigenpairs to keep; `values` ascend along the last axis, or per group with `peers`."""
        n_least = self.n_eigen or 1
        if peers is None:
            cumulative = values.cumsum(-1)
            below, total = cumulative - values, cumulative[..., -1:]
            selected = torch.zeros_like(values, dtype=torch.bool)
            selected[..., -n_least:] = True
        else:
            order = torch.arange(values.shape[-1], device=values.device)
            smaller, larger = peers & (order < order[:, None]), peers & (order > order[:, None])
            below, total = ((mask * values.unsqueeze(-2)).sum(-1) for mask in (smaller, peers))
            selected, large = larger.sum(-1) < n_least, large.to(values.dtype)
        if self.n_eigen is None:
            # A selected eigenvalue and all above it add up to less than the ratio.
            selected = selected | (below > (1 - (self.ratio or 0.95 + 0.04 * large)) * total)
        return selected & (values > 0)

    def _extend(self, apply, zeta, context):
        vectors, inverse, projected = self._spectrum
        # score(x) = K_xX c, where 1/n comes from the eigenvalues of K/n.
        return apply((-vectors @ (inverse * projected)).to(self._h.dtype) / self._n)


def _eigenpairs(matrix, n=1):
    """Return the ascending eigenvalues, divided by n, and the eigenvectors of symmetric matrices."""
    if not matrix.is_cuda:
        values, vectors = torch.linalg.eigh(matrix)
        return values / n, vectors
    # On a GPU, torch's eigh decomposes matrices of this size one by one. This singular value decomposition is batched
    # under vmap, and equal for a positive definite matrix.
    shift = 2.0 * torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    vectors, values = _decompose(matrix / n + shift)
    return (values - 2.0).flip(-1), vectors.flip(-1)


@torch.library.custom_op("braindecode_censor::decompose", mutates_args=())
def _decompose(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return left singular vectors and singular values; a custom operator, so that it receives plain tensors."""
    return unrecorded(lambda stack: torch.linalg.svd(stack, driver="gesvda")[:2], matrix)


@_decompose.register_fake
def _decompose_fake(matrix):
    return torch.empty_like(matrix), matrix.new_empty(matrix.shape[:-1])


@_decompose.register_vmap
def _decompose_stack(info, in_dims, matrix):
    return _decompose(matrix.movedim(in_dims[0], 0)), (0, 0)
