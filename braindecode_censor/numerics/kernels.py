r"""Matrix-valued kernels for score estimation, and squared distances.

A radial profile :math:`\psi(s)`, :math:`s=\|x-y\|^2`, gives two kernels with values in
:math:`\mathbb R^{d\times d}` (Zhou, Shi and Zhu, 2020):

* diagonal, :math:`\mathcal K(x,y) = \psi\, I`, with
  :math:`\mathrm{div}_y \mathcal K = -2\psi' r`, :math:`r=x-y`;
* curl-free, :math:`\mathcal K(x,y) = -\nabla^2_r\psi = -2\psi' I - 4\psi'' r r^\top`, with
  :math:`\mathrm{div}_y \mathcal K = 4[(d+2)\psi'' + 2 s \psi''']\, r`.

The precision :math:`p = 1/\sigma^2` may be a number, one per row or one per pair. Products with :math:`r_{ij}` are
two matrix products; only the dense curl-free matrix, which Tikhonov solves with, has an entry per pair and pair
of coordinates.
"""

import torch

from braindecode_censor._check import check_choice

__all__ = ["KERNELS", "CurlFreeKernel", "DiagonalKernel", "imq", "make_kernel", "rbf", "squared_distances"]


def squared_distances(x, y=None):
    """Return the squared Euclidean distances of all pairs of rows (..., n, m)."""
    # The expansion |x|^2 + |y|^2 - 2xy cancels badly when the cloud lies far from the origin.
    centre = x.mean(-2, keepdim=True).detach()
    a = x - centre
    b = a if y is None else y - centre
    norms = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2)
    d2 = (norms - 2 * a @ b.mT).clamp_min(0)
    if y is None:
        d2.diagonal(dim1=-2, dim2=-1).zero_()
    return d2


def rbf(d2, p, order=3):
    r"""Return the Gaussian profile :math:`\psi = e^{-ps/2}` and its derivatives in s up to `order`."""
    rate = -0.5 * p
    derivatives = [torch.exp(rate * d2)]
    for _ in range(order):
        derivatives.append(rate * derivatives[-1])
    return derivatives


def imq(d2, p, order=3):
    r"""Return the inverse multiquadric :math:`\psi = (1+ps)^{-1/2}` and its derivatives in s up to `order`."""
    u = 1 + p * d2
    derivatives = [u.rsqrt()]
    for k in range(order):
        derivatives.append(-(k + 0.5) * p / u * derivatives[-1])
    return derivatives


def _times_differences(weights, x, y):
    """Return the sum over j of weights[i, j] * (x[i] - y[j])."""
    return weights.sum(-1, keepdim=True) * x - weights @ y


class DiagonalKernel:
    r"""The kernel :math:`\psi(\|x-y\|^2)\, I`, the same for each coordinate.

    Parameters
    ----------
    profile : callable
        :func:`rbf` or :func:`imq`.
    """

    is_diagonal = True

    def __init__(self, profile):
        self.profile = profile

    def __call__(self, d2, precision):
        """Return the scalar Gram matrix."""
        return self.profile(d2, precision, order=0)[0]

    def operator(self, x, y, d2, precision, mask):
        """Return what a score estimator needs: a product, a divergence and a matrix.

        Parameters
        ----------
        x : Tensor of shape (n, d)
            Points where the field is evaluated.
        y : Tensor of shape (m, d)
            The sample.
        d2 : Tensor of shape (n, m)
            Squared distances of `x` and `y`.
        precision : Tensor
            Precision, broadcastable to `d2`.
        mask : Tensor of shape (n, m)
            Weights of the pairs: 1 where a pair belongs to the same sample, else 0.

        Returns
        -------
        apply : callable
            Maps c (m, d) to the sum over j of K(x_i, y_j) c_j, of shape (n, d).
        divergence : Tensor of shape (n, d)
            The sum over j of the divergence of K(x_i, y_j) in y_j.
        dense : callable
            Returns the matrix of `apply`: (n, m) here, since it acts on each coordinate alike.
        """
        psi, first = self.profile(d2, precision, order=1)
        psi = psi * mask
        divergence = -2 * _times_differences(first * mask, x, y)
        return (lambda c: psi @ c), divergence, (lambda: psi)


class CurlFreeKernel:
    r"""The kernel :math:`\sigma^2(-2\psi' I - 4\psi'' rr^\top)`: its fields are gradients.

    Notes
    -----
    The kernel as published has :math:`\mathcal K(x,x)=I/\sigma^2`. The ν-method needs a largest eigenvalue of
    at most one and explodes on a latent code of small scale; with the factor every estimate is equivariant
    under scaling of the data. ``normalised=False`` gives the published form.
    """

    is_diagonal = False

    def __init__(self, profile, normalised=True):
        self.profile = profile
        self.normalised = normalised

    def operator(self, x, y, d2, precision, mask):
        """Return product, divergence and matrix as :meth:`DiagonalKernel.operator` does; the matrix is (n·d, m·d)."""
        dim = x.shape[-1]
        _, first, second, third = self.profile(d2, precision)
        factor = mask / precision if self.normalised else mask
        isotropic = -2 * first * factor
        directed = -4 * second * factor
        divergence = _times_differences(4 * ((dim + 2) * second + 2 * d2 * third) * factor, x, y)

        def apply(c):
            along = x @ c.T - (y * c).sum(-1)[None, :]  # r_ij . c_j
            return isotropic @ c + _times_differences(directed * along, x, y)

        def dense():
            r = x[:, None] - y[None]
            eye = torch.eye(dim, dtype=x.dtype, device=x.device)
            blocks = isotropic[..., None, None] * eye
            blocks = blocks + directed[..., None, None] * r[..., :, None] * r[..., None, :]
            return blocks.transpose(1, 2).reshape(len(x) * dim, len(y) * dim)

        return apply, divergence, dense


#: Name -> kernel.
KERNELS = {
    "rbf": DiagonalKernel(rbf),
    "imq": DiagonalKernel(imq),
    "curlfree-rbf": CurlFreeKernel(rbf),
    "curlfree-imq": CurlFreeKernel(imq),
}


def make_kernel(kernel):
    """Return the kernel of that name; an object with a method ``operator`` is returned as it is."""
    if hasattr(kernel, "operator"):
        return kernel
    return KERNELS[check_choice("kernel", kernel, KERNELS)]
