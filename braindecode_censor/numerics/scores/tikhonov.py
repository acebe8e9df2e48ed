"""Tikhonov-regularised score estimation."""

from braindecode_censor._check import check_positive
from braindecode_censor.numerics.scores.base import ScoreEstimator

__all__ = ["Tikhonov"]

LARGEST_DENSE_SYSTEM = 8192


class Tikhonov(ScoreEstimator):
    r"""Tikhonov regularisation: :math:`\hat g=-(\hat L+\lambda)^{-1}\hat\zeta`.

    On the sample :math:`\hat g(X)=-M(K+M\lambda I)^{-1}h`, elsewhere
    :math:`\hat g(x)=\frac1\lambda[K_{xX}c-\hat\zeta(x)]` with :math:`(K+M\lambda I)c=h`.

    Parameters
    ----------
    reg : float
        Regularisation :math:`\lambda` (the paper's :math:`\gamma`).
    kernel : {"rbf", "imq", "curlfree-rbf", "curlfree-imq"} or object
        Matrix-valued kernel. A curl-free one couples the coordinates: the dense system has n·d unknowns, which
        limits it to small problems; the ν-method has no such limit.
    lengthscale : {"median", "tsne"}, float or object
        Length scale of the kernel.

    References
    ----------
    Zhou, Shi and Zhu (2020), Nonparametric score estimators, theorem 3.1.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> Tikhonov(reg=0.01, lengthscale=1.0).fit(x).at_samples().round(decimals=4)
    tensor([[ 1.4669],
            [-1.4669]], dtype=torch.float64)
    """

    def __init__(self, reg=1e-3, kernel="rbf", lengthscale="median"):
        super().__init__(kernel, lengthscale)
        self.reg = check_positive("reg", reg)

    def _solve(self):
        if not self.kernel.is_diagonal and self._x.numel() > LARGEST_DENSE_SYSTEM:
            raise ValueError(
                f"score='tikhonov' with a curl-free kernel solves {self._x.numel()} equations densely, more than "
                f"{LARGEST_DENSE_SYSTEM}: use score='nu', which iterates, or a diagonal kernel."
            )
        self._c = self._regularised_solve(self._n * self.reg, self._h)
        self._in_sample = -self._n * self._c

    def _extend(self, apply, zeta, context):
        return (apply(self._c) - zeta) / self.reg
