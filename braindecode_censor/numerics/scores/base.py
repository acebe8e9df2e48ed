"""Base class of the kernel score estimators."""

import torch

from braindecode_censor.numerics.kernels import make_kernel, squared_distances
from braindecode_censor.numerics.lengthscales import make_lengthscale

__all__ = ["ScoreEstimator"]


class ScoreEstimator:
    r"""Estimate :math:`\nabla_x \log q(x)` from a sample.

    With :math:`\hat\zeta(x)=\frac1M\sum_j \mathrm{div}_{x_j}\mathcal K(x,x_j)` and
    :math:`\hat L g(x)=\frac1M\sum_j \mathcal K(x,x_j)\,g(x_j)`, Stein's identity says :math:`L g=-\zeta`, so every
    estimator is :math:`\hat g=-f(\hat L)\hat\zeta` with a filter :math:`f(\sigma)\approx1/\sigma`.

    Parameters
    ----------
    kernel : {"rbf", "imq", "curlfree-rbf", "curlfree-imq"} or object
        Matrix-valued kernel.
    lengthscale : {"median", "tsne"}, float or object
        Length scale of the kernel.

    Notes
    -----
    ``fit(x, same)`` fits *all groups of a partition at once*: the Gram matrix with the pairs of different
    groups set to zero is block diagonal up to the order of the rows, so one problem of size n contains the
    problems of all groups.

    A subclass writes ``_solve`` and ``_extend``, in operations that ``torch.func.vmap`` can batch.
    """

    #: True if the CPU waits for values of a GPU during a fit.
    waits = False

    def __init__(self, kernel="rbf", lengthscale="median"):
        self.kernel = make_kernel(kernel)
        self.lengthscale = make_lengthscale(lengthscale)

    def __getstate__(self):
        # Fitted attributes are closures over the tensors of a batch, so copies and pickles are not fitted.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @torch.no_grad()
    def fit(self, x, same=None):
        """Fit to a sample, or to every group of a partitioned sample.

        Parameters
        ----------
        x : Tensor of shape (n, d)
            The sample.
        same : Tensor of shape (n, n), bool, optional
            Pairs that belong to the same group; a sample in no group (empty row) gets the score zero.

        Returns
        -------
        self : ScoreEstimator
            The fitted estimator.
        """
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim != 2:
            raise ValueError("x must be a tensor of floating point and of shape (n, d).")
        x = x.detach()
        self._same = same
        mask = x.new_ones(len(x), len(x)) if same is None else same.to(x.dtype)
        self._n = mask.sum(-1, keepdim=True).clamp_min(1)
        # Scores do not change under translation, and products lose fewer digits near the origin. Every group is
        # centred separately, since groups may lie far apart.
        self._centre = mask @ x / self._n
        self._x = x - self._centre
        self._d2 = squared_distances(self._x)
        precision = self.lengthscale.precision(self._d2, same)
        self._apply, divergence, self._dense = self.kernel.operator(
            self._x, self._x, self._d2, precision, mask
        )
        self._h = divergence / self._n
        self._solve()
        return self

    def _solve(self):
        """Set ``_in_sample`` (n, d) from ``_apply``, ``_dense``, ``_h`` and ``_n``."""
        raise NotImplementedError

    def _extend(self, apply, zeta, context):
        """Return the scores (n_queries, d) from the queries' operator; `context` is (query, d2, precision)."""
        raise NotImplementedError

    def at_samples(self):
        """Return the scores at the sample itself.

        Returns
        -------
        scores : Tensor of shape (n, d)
            Estimated scores, without gradient.
        """
        self._check_fitted()
        return self._in_sample

    def _check_fitted(self):
        if not hasattr(self, "_n"):
            raise ValueError("this score is not fitted: call fit(x) first.")

    @torch.no_grad()
    def __call__(self, query):
        """Return the scores at other points.

        Parameters
        ----------
        query : Tensor of shape (n_queries, d)
            Points.

        Returns
        -------
        scores : Tensor of shape (n_queries, d)
            Estimated scores, without gradient.
        """
        self._check_fitted()
        if self._same is not None:
            raise ValueError("a score fitted with same= holds one score per group: use at_samples().")
        query = query.detach() - self._centre[:1]
        d2 = squared_distances(query, self._x)
        precision = self.lengthscale.cross_precision(self._d2, d2)
        apply, divergence, _ = self.kernel.operator(query, self._x, d2, precision, torch.ones_like(d2))
        return self._extend(apply, divergence / len(self._x), (query, d2, precision))

    def _regularised_solve(self, ridge, rhs):
        """Solve (K + diag(ridge)) c = rhs for ridge (n, 1) and rhs (n, d)."""
        matrix = self._dense()
        size = len(matrix)
        repeat = size // len(rhs)  # d for a kernel that couples coordinates, else 1
        # A sample in no group has a zero row: a unit on the diagonal keeps the system regular.
        isolated = (torch.diagonal(matrix) == 0).to(matrix.dtype)
        matrix = matrix + torch.diag(ridge.expand(-1, repeat).reshape(-1) + isolated)
        # LU, not Cholesky: the pointwise length scales make kernels that are not positive definite.
        # solve_ex skips the error code, for which the CPU would wait.
        solution, _ = torch.linalg.solve_ex(matrix, rhs if repeat == 1 else rhs.reshape(size, -1))
        return solution.reshape(rhs.shape)
