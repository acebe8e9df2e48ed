"""The ν-method, an accelerated iteration."""

from math import floor, sqrt

import torch

from braindecode_censor._check import check_positive, check_size
from braindecode_censor.numerics.scores.base import ScoreEstimator

__all__ = ["NuMethod"]


class NuMethod(ScoreEstimator):
    r"""The ν-method: T steps of an accelerated Landweber iteration instead of a solve.

    With :math:`g_0=0`, :math:`g_1=-\omega_1\hat\zeta` and for t = 2..T

    .. math:: g_t = g_{t-1} + u_t(g_{t-1}-g_{t-2}) - \omega_t(\hat\zeta+\hat L g_{t-1}).

    Parameters
    ----------
    reg : float
        Regularisation :math:`\lambda`; the number of steps is :math:`T=\lfloor\lambda^{-1/2}\rfloor+1`.
    kernel : {"rbf", "imq", "curlfree-rbf", "curlfree-imq"} or object
        Matrix-valued kernel; the largest eigenvalue of its Gram matrix over n must not exceed one.
    lengthscale : {"median", "tsne"}, float or object
        Length scale of the kernel.
    nu : float
        The method's ν.
    n_steps : int, optional
        Number of steps, instead of `reg`.

    Notes
    -----
    Function values are iterated directly, because the published form :math:`a_t\hat\zeta+Kc_t` subtracts two
    numbers that grow with :math:`T^2`. Only scores at other points need the coefficients :math:`a_t, c_t`.

    References
    ----------
    Engl, Hanke and Neubauer (1996), Regularization of inverse problems.
    Zhou, Shi and Zhu (2020), Nonparametric score estimators, example C.4.
    """

    def __init__(self, reg=1e-3, kernel="rbf", lengthscale="median", nu=1.0, n_steps=None):
        super().__init__(kernel, lengthscale)
        self.reg = check_positive("reg", reg)
        self.nu = check_positive("nu", nu)
        self.n_steps = floor(1 / sqrt(self.reg)) + 1 if n_steps is None else check_size("n_steps", n_steps)

    def _coefficients(self, t):
        """Return the momentum u_t and the step size ω_t."""
        nu = self.nu
        momentum = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1)
        momentum /= (t + 2 * nu - 1) * (2 * t + 4 * nu - 1) * (2 * t + 2 * nu - 3)
        step = 4 * (2 * t + 2 * nu - 1) * (t + nu - 1)
        step /= (t + 2 * nu - 1) * (2 * t + 4 * nu - 1)
        return momentum, step

    def _solve(self):
        *_, self._in_sample = self._iterates()

    def _iterates(self):
        """Yield g_1 to g_T, in few operations, since a training step can take a hundred of these steps."""
        before, g = torch.zeros_like(self._h), -self._first_step() * self._h
        yield g
        for t in range(2, self.n_steps + 1):
            u, w = self._coefficients(t)
            residual = torch.addcdiv(self._h, self._apply(g), self._n)
            before, g = g, torch.add(g, g - before, alpha=u).sub(residual, alpha=w)
            yield g

    def _first_step(self):
        """Return the step size ω_1."""
        return (4 * self.nu + 2) / (4 * self.nu + 1)

    def _extend(self, apply, zeta, context):
        a_before, a = 0.0, -self._first_step()
        c_before = c = torch.zeros_like(self._h)
        for t, g in zip(range(2, self.n_steps + 1), self._iterates()):
            u, w = self._coefficients(t)
            c_before, c = c, c + u * (c - c_before) - w / self._n * g
            a_before, a = a, a + u * (a - a_before) - w
        return a * zeta + apply(c)
