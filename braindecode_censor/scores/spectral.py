"""The spectral Stein gradient estimator (SSGE)."""

import torch

from braindecode_censor._check import check_fraction, check_size
from braindecode_censor.scores.base import ScoreEstimator
from braindecode_censor.weights import group_ranks

__all__ = ["SSGE"]


class SSGE(ScoreEstimator):
    r"""Spectral cut-off: keep the leading eigenvectors of the Gram matrix.

    With eigenpairs :math:`(\sigma_j,u_j)` of K/M,
    :math:`\hat g(x)=-K_{xX}\sum_{j\le J}u_ju_j^\top h/(M\sigma_j^2)`.

    Parameters
    ----------
    ratio : float, optional
        Keep eigenvalues, largest first, while their sum stays below this share of all (at least one). By
        default 0.95 for samples of up to 64 points and 0.99 for larger ones.
    kernel : {"rbf", "imq"} or object
        Diagonal kernel.
    lengthscale : {"median", "tsne"}, float or object
        Length scale of the kernel. "tsne" makes indefinite Gram matrices, which suit this estimator badly.
    n_eigen : int, optional
        Keep so many eigenvalues, instead of `ratio`.

    Notes
    -----
    All groups are decomposed by **one** call: adding :math:`2g + 2` to the diagonal of the g-th group moves its
    eigenvalues, which lie in [0, 1], into an interval of its own, so no eigenvector can mix two groups. That
    costs digits, hence float64 inside whatever the input. Where the first eigenvalue exceeds `ratio` alone,
    implementations that slice with ``[-0:]`` keep *all* eigenvectors and blow up; here one is kept.

    A decomposition checks its error code, so this estimator waits for the device once per fit; the others do not.

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
        gram = self._dense().double() / self._n.double()
        if self._same is None:
            group = torch.zeros(gram.shape[-1], dtype=torch.long, device=gram.device)
        else:
            group, _ = group_ranks(self._same)
        shifted, vectors = _eigenpairs(gram + torch.diag(2.0 * (1 + group.double())))
        values = (vectors * (gram @ vectors)).sum(-2)  # Rayleigh quotients: free of the shift's rounding
        # eigenvalues of one group all lie in [2g + 1.5, 2g + 3.5]; samples in no group have g = -1
        kept = self._kept(values, None if self._same is None else ((shifted + 0.5) / 2).floor() - 1)
        inverse = torch.where(kept, 1 / values.clamp_min(1e-300), 0.0).unsqueeze(-1)
        projected = inverse * (vectors.mT @ self._h.double())
        self._in_sample = (-vectors @ projected).to(self._h.dtype)
        self._spectrum = vectors, inverse * projected

    def _kept(self, values, group):
        """Tell which eigenpairs are kept; they come sorted by group, then ascending by value."""
        order = torch.arange(values.shape[-1], device=values.device)
        larger = order >= order[:, None]  # itself and those above
        peers = torch.ones_like(larger) if group is None else group.unsqueeze(-1) == group.unsqueeze(-2)
        larger = peers & larger
        rank = larger.sum(-1) - 1
        if self.n_eigen is not None:
            kept = rank < self.n_eigen
        else:
            # sums, and not what is left of the whole: a group's share must not feel the others' rounding
            above, total = (
                (mask.to(values.dtype) @ values.unsqueeze(-1)).squeeze(-1) for mask in (larger, peers)
            )
            ratio = self.ratio or torch.where(peers.sum(-1) > 64, 0.99, 0.95).to(values.dtype)
            kept = (above < ratio * total.clamp_min(1e-300)) | (rank == 0)
        kept = kept & (values > 0)
        return kept if group is None else kept & (group >= 0)

    def _extend(self, apply, zeta, context):
        vectors, coefficients = self._spectrum
        # score(x) = K_xX c; 1/n because the values are those of K/n
        return apply((-vectors @ coefficients).to(self._h.dtype) / self._n)


def _eigenpairs(matrix):
    """Eigenvalues, ascending, and eigenvectors of a symmetric positive definite matrix."""
    if not matrix.is_cuda:
        return torch.linalg.eigh(matrix)
    # torch's eigh takes matrices of this size one by one on a GPU. This decomposition is batched under vmap, and for
    # a positive definite matrix it is the same.
    vectors, values, _ = torch.linalg.svd(matrix, driver="gesvda")
    return values.flip(-1), vectors.flip(-1)
