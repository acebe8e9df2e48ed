"""A discriminator in the manner of boundary equilibrium GANs (BEGAN)."""

import torch

from braindecode_censor._check import check_positive, check_size
from braindecode_censor.critics import LabelledMLP
from braindecode_censor.measures.base import Measure
from braindecode_censor.weights import cell_counts, cell_rows

__all__ = ["BEGAN"]


class BEGAN(Measure):
    r"""Divergence of each subject's code from everybody's, by an autoencoder told the subject.

    With the error :math:`\mathcal L(A;m)=\mathrm{mean}_{z\in A}|z-D_\psi(z,m)|` (mean over columns too),

    .. math::
        \mathcal L_\mathrm{Disc} &= \tfrac1M\sum_m\big[\mathcal L(\{z_i\};m)-k_m\mathcal L(S_m;m)\big] \\
        \mathcal L_\mathrm{Enc} &= \tfrac1M\sum_m\mathcal L(S_m;m) \\
        k_m &\leftarrow \mathrm{clip}\big(k_m+\beta(\gamma\mathcal L(\{z_i\};m)-\mathcal L(S_m;m)),0,1\big).

    Parameters
    ----------
    n_features, n_subjects : int
        Width of z and number of subjects.
    n_classes : int, optional
        Number of classes; the discriminator is then also told y.
    gamma : float, optional
        Diversity: the ratio of the subject's error to everybody's that k steers to; 1.5 by default, 0.5 in the
        printed form. Must exceed one to discriminate at all; see the notes.
    beta : float, optional
        Step of the control k; 0.01 by default, 0.001 in the printed form.
    hidden : int
        Width of the hidden layers; the bottleneck has a quarter of the width of z.
    standardise : bool
        Standardise z by the batch's mean and standard deviation, held constant.
    printed : bool
        The listings as printed: a discriminator that is not told the subject, one k, raw z.
    **options
        `nuisance`, `reduction` and `min_trials`; see :class:`~braindecode_censor.measures.base.Measure`.

    Notes
    -----
    The paper's algorithms for BEGAN censoring, with these differences.

    * **The printed form is degenerate.** On subject-balanced batches the mean over subjects of the errors *is*
      the error of the batch, for any discriminator: the two losses coincide, k falls to zero, and the encoder
      only minimises an autoencoder's error. Telling the discriminator the subject makes the terms differ, and
      gives each subject its own control. ``printed=True`` keeps the listing for comparison.
    * A subject is part of the batch it is compared with, so its error is hardly ever below a fraction of the
      batch's. With :math:`\gamma\le1`, as in image generation, k therefore stays at zero, the discriminator never
      discriminates, and what is left is an autoencoder's error (measured: the same with shuffled subjects).
      Hence 1.5, and a step of 0.01 so that k arrives within a few hundred steps.
    * The error is homogeneous in z, so without standardisation the encoder wins by shrinking z.
    * The error is the mean over columns, so that `beta` means the same for every width.
    * Revealing minimises :math:`\mathcal L(\{z_i\};m)-\mathcal L(S_m;m)`; the listing multiplies the second term by k,
      which the control drives to zero, and then only the first is left.
    * Classes are averaged (``reduction="sum"`` adds). k moves in :meth:`critic_loss`, in training mode.

    References
    ----------
    Berthelot, Schumm and Metz (2017), BEGAN: boundary equilibrium generative adversarial networks.
    """

    nuisances = ("discrete",)
    has_critic = True
    counts_trials = False
    waits = False

    @property
    def writes_gradients(self):
        """Whether the gradients are written out; see :class:`~braindecode_censor.measures.base.Measure`."""
        return not self.printed and getattr(self.critic, "is_plain", False)

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        gamma=None,
        beta=None,
        hidden=128,
        standardise=True,
        printed=False,
        **options,
    ):
        super().__init__(n_features, n_subjects, n_classes, **{"min_trials": 1, **options})
        self.gamma = check_positive("gamma", (0.5 if printed else 1.5) if gamma is None else gamma)
        self.beta = check_positive("beta", (1e-3 if printed else 1e-2) if beta is None else beta)
        self.printed = printed
        self.standardise = standardise and not printed
        hidden = check_size("hidden", hidden)
        labels = [] if printed else [n_subjects]
        labels += [] if n_classes is None or printed else [n_classes]
        bottleneck = max(n_features // 4, 1)
        self.critic = LabelledMLP(n_features, n_features, [hidden, bottleneck, hidden], labels)
        self.register_buffer("k", torch.zeros(1 if printed else n_subjects))

    def _errors(self, z, batch, everyone, frozen):
        """Error, added over columns, of every trial as its own subject (n,), or as each (n, n_subjects)."""
        if self.standardise:
            centre, scale = self._standard(z)
            z = (z - centre) * scale
        if self.printed:
            error = (self.critic(z, frozen=frozen) - z).abs().sum(-1)
            return error[:, None].expand(-1, batch.n_subjects) if everyone else error
        labels = [] if batch.y is None else [batch.y[:, None] if everyone else batch.y]
        output = self.critic(z, None if everyone else batch.s, *labels, frozen=frozen)
        return (output - (z[:, None] if everyone else z)).abs().sum(-1)

    def _trace_errors(self, z, batch, everyone):
        """Errors, as :meth:`_errors` finds them, and what pulls a gradient in them back to the critic's output."""
        scale = None
        if self.standardise:
            centre, scale = self._standard(z)
            z = (z - centre) * scale
        labels = [] if batch.y is None else [batch.y[:, None] if everyone else batch.y]
        output, tape = self.critic.trace(z, None if everyone else batch.s, *labels)
        residual = output.sub_(z[:, None] if everyone else z)
        return residual.abs().sum(-1), residual, (tape, scale)

    def _pull_back_to_z(self, weights, residual, traced):
        """Gradient in z of a weighted sum of errors."""
        tape, scale = traced
        g = residual.sign_() * weights.unsqueeze(-1)
        gradient = self.critic.pull_back(g, tape, to="z") - (g if g.ndim == 2 else g.sum(1))
        return gradient if scale is None else gradient * scale

    @torch.no_grad()
    def _standard(self, z):
        """Mean of each column of z, and the inverse of its standard deviation."""
        centre = z.mean(0)
        spread = (z - centre).square().mean(0).sqrt()  # several times faster than std
        # a dead column has no scale of its own: left out, lest a tiny divisor give it all the gradient
        alive = spread > 1e-4 * spread.mean().clamp_min(1e-6)
        return centre, torch.where(alive, 1 / spread, 0.0)

    def _weights(self, batch, dtype):
        """Weights of the errors (n, n_subjects) in the losses, for all losses are linear in the errors.

        Returns
        -------
        everyone, own : Tensor of shape (n, n_subjects)
            Mean over subjects (and strata) of the error on the stratum, and on the subject.
        control : Tensor of shape (n, n_subjects)
            The step of each subject's k, averaged over its strata.
        """

        def compute():
            strata, cells = cell_rows(batch, dtype)
            totals, counts = cell_counts(batch, dtype)
            usable = (counts >= self.min_trials).to(dtype)
            n_subjects = usable.sum(-1, keepdim=True)
            counted = n_subjects >= 2
            mean = usable * counted / n_subjects.clamp_min(1)
            mean = mean if self.reduction == "sum" else mean / counted.sum().clamp_min(1)
            control = mean if self.printed else usable / usable.sum(0).clamp_min(1)
            # of every cell in the loss and in the control, for errors that are added over columns
            weights = torch.stack([mean, control]) / self.n_features
            everyone = (strata.T / totals.clamp_min(1)) @ weights
            own = (cells * (weights / counts.clamp_min(1)).unsqueeze(-1)).sum(-3).mT
            return everyone[0], own[0], self.gamma * everyone[1] - own[1]

        options = (self.n_features, self.min_trials, self.reduction, self.gamma, self.printed)
        return batch.once((type(self), "errors", dtype, *options), compute)

    def censor(self, z, batch):
        """Return the encoder's loss.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Error of every subject's code under the discriminator told that subject.
        """
        _, own, _ = self._weights(batch, z.dtype)
        return own.sum(-1) @ self._errors(z, batch, False, frozen=True)

    def reveal(self, z, batch):
        """Return the loss of an encoder that joins the discriminator.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Error on everybody less the error on the subject.
        """
        everyone, own, _ = self._weights(batch, z.dtype)
        weights = everyone - (self.k * own if self.printed else own)
        return (weights * self._errors(z, batch, True, frozen=True)).sum()

    def critic_loss(self, z, batch):
        """Return the discriminator's loss and, in training mode, move k.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape ()
            Differentiable in the discriminator's parameters.
        """
        everyone, own, control = self._weights(batch, z.dtype)
        error = self._errors(z, batch, True, frozen=False)
        loss = ((everyone - self.k * own) * error).sum()
        self._move_control(control, error.detach())
        return loss

    def _move_control(self, control, error):
        if self.training:
            step = control * error
            step = step.sum() if self.printed else step.sum(0)
            self.k.copy_((self.k + self.beta * step).clamp(0, 1))

    def censor_gradient(self, z, batch):
        """Return :meth:`censor` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            The encoder's loss.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        weights = self._weights(batch, z.dtype)[1].sum(-1)
        error, *traced = self._trace_errors(z, batch, everyone=False)
        return weights @ error, self._pull_back_to_z(weights, *traced)

    def reveal_gradient(self, z, batch):
        """Return :meth:`reveal` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Error on everybody less the error on the subject.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        everyone, own, _ = self._weights(batch, z.dtype)
        weights = everyone - own
        error, *traced = self._trace_errors(z, batch, everyone=True)
        return (weights * error).sum(), self._pull_back_to_z(weights, *traced)

    def critic_gradient(self, z, batch):
        """Return :meth:`critic_loss`, moving k as it does, and its gradients in the discriminator's parameters.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape ()
            The discriminator's loss.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        everyone, own, control = self._weights(batch, z.dtype)
        weights = everyone - self.k * own
        error, residual, (tape, _) = self._trace_errors(z, batch, everyone=True)
        loss = (weights * error).sum()
        self._move_control(control, error)
        g = residual.sign_() * weights.unsqueeze(-1)
        return loss, self.critic.pull_back(g, tape, to="parameters")

    @torch.no_grad()
    def diagnostics(self, z, batch):
        """Return how far apart the discriminator finds the subjects.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``divergence``, the mean of own error less error on everybody, and ``k``, the mean control.
        """
        everyone, own, _ = self._weights(batch, z.dtype)
        error = self._errors(z, batch, True, frozen=True)
        return {"divergence": ((own - everyone) * error).sum(), "k": self.k.mean()}
