"""A discriminator in the manner of boundary equilibrium GANs (BEGAN)."""

from typing import ClassVar

import torch

from braindecode_censor._check import check_choice, check_positive, check_size, is_traced
from braindecode_censor.penalties.batch import cell_rows, one_hot_rows
from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.ranges import Range

__all__ = ["BEGAN"]


class BEGAN(Measure):
    r"""Divergence of each subject's code from that of all subjects, by an autoencoder that receives the subject.

    With the error :math:`\mathcal L(A;m)=\mathrm{mean}_{z\in A}|z-D_\psi(z,m)|` (mean over columns too),

    .. math::
        \mathcal L_\mathrm{Disc} &= \tfrac1M\sum_m\big[\mathcal L(\{z_i\};m)-k_m\mathcal L(S_m;m)\big] \\
        \mathcal L_\mathrm{Enc} &= \tfrac1M\sum_m\mathcal L(S_m;m) \\
        k_m &\leftarrow \mathrm{clip}\big(k_m+\beta(\gamma\mathcal L(\{z_i\};m)-\mathcal L(S_m;m)),
            0,\min(1,1/\gamma)\big).

    Parameters
    ----------
    n_features, n_subjects : int
        Width of z and number of subjects.
    n_classes : int, optional
        Number of classes; the discriminator then also receives y.
    min_trials : int
        Trials a subject needs (within a stratum) to count.
    gamma : float, optional
        Diversity: the ratio of the subject's error to the batch's error that k steers to; 1.5 by default, 0.5 in
        the printed form. It must exceed one to discriminate at all; see the notes.
    beta : float, optional
        Step of the control k; 0.01 by default, 0.001 in the printed form.
    hidden : int
        Width of the hidden layers; the bottleneck has a quarter of the width of z.
    standardise : bool
        Standardise z by the batch's mean and standard deviation, held constant.
    printed : bool
        The listings as printed: a discriminator that does not receive the subject, one k, raw z.
    **options
        `nuisance` ("discrete" only) and `reduction`; see
        :class:`~braindecode_censor.penalties.measures.base.Measure`.

    Notes
    -----
    The paper's algorithms for BEGAN censoring, with these differences.

    * **The printed form is degenerate.** On subject-balanced batches the mean over subjects of the errors *is*
      the error of the batch, for any discriminator: the two losses coincide, k falls to zero, and the encoder
      only minimises an autoencoder's error. With the subject as an input of the discriminator the terms differ,
      and each subject has its own control. ``printed=True`` keeps the listing for comparison.
    * A subject is part of the batch it is compared with, so its error is hardly ever below a fraction of the
      batch's. With :math:`\gamma\le1`, as in image generation, k therefore stays at zero, the discriminator never
      discriminates, and only an autoencoder's error remains. Hence 1.5, and a step of 0.01 so that k converges
      within a few hundred steps.
    * Where the subject's error is :math:`\gamma` times the batch's error, as intended, the discriminator's loss is
      :math:`1-k\gamma` times the batch's error. For k above :math:`1/\gamma` this is negative, and the discriminator
      increases all errors without bound. Hence the bound on k, which is the usual one for :math:`\gamma\le1`.
    * The error is homogeneous in z, so without standardisation the encoder can shrink z to reduce it.
    * The error is the mean over columns, so that `beta` does not depend on the width.
    * Revealing minimises :math:`\mathcal L(\{z_i\};m)-\mathcal L(S_m;m)`; the listing multiplies the second term by k,
      which the control drives to zero, so that only the first remains.
    * Classes are averaged (``reduction="sum"`` adds). :meth:`critic_loss` updates k in training mode.

    References
    ----------
    Berthelot, Schumm and Metz (2017), BEGAN: boundary equilibrium generative adversarial networks.
    """

    nuisances = ("discrete",)
    search_space: ClassVar = {"weight": Range(0.001, 1.0, log=True)}
    has_critic = True
    waits = False

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        min_trials=1,
        gamma=None,
        beta=None,
        hidden=128,
        standardise=True,
        printed=False,
        **options,
    ):
        super().__init__(n_features, n_subjects, n_classes, min_trials=min_trials, **options)
        check_choice("printed", printed, (False, True))
        self.gamma = check_positive("gamma", (0.5 if printed else 1.5) if gamma is None else gamma)
        self.beta = check_positive("beta", (1e-3 if printed else 1e-2) if beta is None else beta)
        self.printed = printed
        check_choice("standardise", standardise, (False, True))
        self.standardise = standardise and not printed
        hidden = check_size("hidden", hidden)
        labels = [] if printed else [n_subjects]
        labels += [] if n_classes is None or printed else [n_classes]
        bottleneck = max(n_features // 4, 1)
        self.critic = LabelledMLP(n_features, n_features, [hidden, bottleneck, hidden], labels, slope=0.1)
        self._largest_k = min(1.0, 1 / self.gamma)
        self.register_buffer("k", torch.zeros(1 if printed else n_subjects))

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
            Error of every subject's code under the discriminator that receives this subject.
        """
        _, subject_weights, _ = self._weights(batch, z.dtype)
        return (subject_weights.sum(-1) * self._errors(z, batch, batch.s, frozen=True)).sum()

    def reveal(self, z, batch):
        """Return the loss of an encoder that cooperates with the discriminator.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Error on all trials minus the error on the subject.
        """
        batch_weights, subject_weights, _ = self._weights(batch, z.dtype)
        weights = batch_weights - (self.k * subject_weights if self.printed else subject_weights)
        present, pick = self._present(batch, z.dtype)
        return (pick(weights) * self._errors(z, batch, present, frozen=True)).sum()

    def critic_loss(self, z, batch):
        """Return the discriminator's loss and, in training mode, update k.

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
        batch_weights, subject_weights, control = self._weights(batch, z.dtype)
        present, pick = self._present(batch, z.dtype)
        errors = self._errors(z, batch, present)
        loss = (pick(batch_weights - self.k * subject_weights) * errors).sum()
        if self.training:
            step = pick(control) * errors.detach()
            step = step.sum().unsqueeze(0) if self.printed else step.sum(0)
            step = step if present is None else step @ present
            self.k.copy_((self.k + self.beta * step).clamp(0, self._largest_k))
        return loss

    @torch.no_grad()
    def diagnostics(self, z, batch):
        """Return the divergence of the subjects under the discriminator.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``divergence``, the mean error on a subject minus that on all trials, and ``k``, the mean control.
        """
        batch_weights, subject_weights, _ = self._weights(batch, z.dtype)
        present, pick = self._present(batch, z.dtype)
        divergence = (
            pick(subject_weights - batch_weights) * self._errors(z, batch, present, frozen=True)
        ).sum()
        return {"divergence": divergence, "k": self.k.mean()}

    def _errors(self, z, batch, subject, frozen=False):
        """Return the mean error over columns (n,) of every trial under labels `subject` (n,).

        Shape (n, n_subjects) for None, which evaluates all subjects, and (n, k) for one-hot rows of k subjects.
        """
        z = _standardise(z) if self.standardise else z
        if self.printed:  # The discriminator does not receive the subject.
            errors = (self.critic(z, frozen=frozen) - z).abs().mean(-1)
            return errors[:, None].expand(-1, batch.n_subjects) if subject is None else errors
        labels = (subject,) if batch.y is None else (subject, batch.y)
        target = z.unsqueeze(1) if subject is None or subject.ndim == 2 else z
        return (self.critic(z, *labels, frozen=frozen) - target).abs().mean(-1)

    def _present(self, batch, dtype):
        """Return one-hot rows of the subjects of the batch, and a function that selects their columns of weights.

        Absent subjects have no weight in any loss, and there may be hundreds. Rows are None if all are evaluated.
        """
        n_trials, n_subjects = batch.s.shape[-1], batch.n_subjects
        if self.printed or n_subjects <= n_trials:
            return None, lambda weights: weights
        counts = one_hot_rows(batch.s, n_subjects, dtype).sum(-1)
        n_rows = n_trials
        if counts.device.type == "cpu" and not is_traced(counts):  # A graph needs a constant size.
            n_rows = max(1, int((counts > 0).sum()))
        subject_idx = counts.topk(n_rows).indices
        rows = (subject_idx.unsqueeze(-1) == torch.arange(n_subjects, device=counts.device)).to(dtype)
        return rows, lambda weights: weights @ rows.T

    def _weights(self, batch, dtype):
        """Return the weights (n, n_subjects) of the errors in the batch term, the subject term and the control."""
        strata, cells = cell_rows(batch, dtype)
        counts = cells.sum(-1)
        usable = (counts >= self.min_trials).to(dtype)
        n_subjects = usable.sum(-1, keepdim=True)
        counted = n_subjects >= 2
        mean = usable * counted / n_subjects.clamp_min(1)
        mean = mean if self.reduction == "sum" else mean / counted.sum().clamp_min(1)
        by_subject = mean if self.printed else usable / usable.sum(0).clamp_min(1)
        in_stratum = strata.T / strata.sum(-1).clamp_min(1)  # fraction of every trial in its stratum
        in_cell = cells / counts.clamp_min(1).unsqueeze(-1)  # and among the trials of its subject there

        def weigh_cells(weights):
            return (in_cell * weights.unsqueeze(-1)).sum(0).T

        control = self.gamma * in_stratum @ by_subject - weigh_cells(by_subject)
        return in_stratum @ mean, weigh_cells(mean), control


def _standardise(z):
    """Standardise the columns by the mean and the standard deviation of the batch, both held constant."""
    centred = z - z.detach().mean(0)
    spread = centred.detach().std(0, correction=0)
    # A constant column becomes zero, because a tiny divisor would give it most of the gradient.
    varies = spread > 1e-4 * spread.mean().clamp_min(1e-6)
    return centred * torch.where(varies, 1 / spread, 0.0)
