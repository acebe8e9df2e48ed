"""A discriminator in the manner of boundary equilibrium GANs (BEGAN)."""

from typing import ClassVar

import torch

from braindecode_censor._check import check_positive, check_size, is_traced
from braindecode_censor.penalties.batch import cell_rows, one_hot_rows
from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.ranges import Range

__all__ = ["BEGAN"]


class BEGAN(Measure):
    r"""Divergence of each subject's code from everybody's, by an autoencoder told the subject.

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
        Number of classes; the discriminator is then also told y.
    nuisance : {"discrete"}
        Kind of s.
    reduction : {"mean", "sum"}
        "sum" adds over classes.
    min_trials : int
        Trials a subject needs (within a stratum) to count.
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
    * Where the subject's error is at its goal, :math:`\gamma` times everybody's, the discriminator's loss is
      :math:`1-k\gamma` times everybody's error. With k beyond :math:`1/\gamma` that is negative, so the discriminator
      gains by making all errors larger, and nothing stops it. Trainings of 1000 steps showed it on recordings: the
      errors grew to the end, and accuracy fell. Hence the bound on k, the usual one for :math:`\gamma\le1`.
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
    search_space: ClassVar = {"weight": Range(0.001, 1.0, log=True)}
    has_critic = True
    waits = False

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        nuisance="discrete",
        reduction="mean",
        min_trials=1,
        gamma=None,
        beta=None,
        hidden=128,
        standardise=True,
        printed=False,
    ):
        super().__init__(
            n_features,
            n_subjects,
            n_classes,
            nuisance=nuisance,
            reduction=reduction,
            min_trials=min_trials,
        )
        self.gamma = check_positive("gamma", (0.5 if printed else 1.5) if gamma is None else gamma)
        self.beta = check_positive("beta", (1e-3 if printed else 1e-2) if beta is None else beta)
        self.printed = printed
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
            Error of every subject's code under the discriminator told that subject.
        """
        _, own, _ = self._weights(batch, z.dtype)
        return (own.sum(-1) * self._errors(z, batch, batch.s, frozen=True)).sum()

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
        present, pick = self._present(batch, z.dtype)
        return (pick(weights) * self._errors(z, batch, present, frozen=True)).sum()

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
        present, pick = self._present(batch, z.dtype)
        errors = self._errors(z, batch, present)
        loss = (pick(everyone - self.k * own) * errors).sum()
        if self.training:
            step = pick(control) * errors.detach()
            step = step.sum().unsqueeze(0) if self.printed else step.sum(0)
            step = step if present is None else step @ present
            self.k.copy_((self.k + self.beta * step).clamp(0, self._largest_k))
        return loss

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
        present, pick = self._present(batch, z.dtype)
        divergence = (pick(own - everyone) * self._errors(z, batch, present, frozen=True)).sum()
        return {"divergence": divergence, "k": self.k.mean()}

    def _errors(self, z, batch, subject, frozen=False):
        """Mean error over columns of every trial as a subject (n,), or as every subject (n, n_subjects) for None.

        One-hot rows of some subjects, from :meth:`_present`, stand for these.
        """
        z = _standardise(z) if self.standardise else z
        if self.printed:  # the discriminator is not told the subject
            errors = (self.critic(z, frozen=frozen) - z).abs().mean(-1)
            return errors[:, None].expand(-1, batch.n_subjects) if subject is None else errors
        labels = (subject,) if batch.y is None else (subject, batch.y)
        target = z.unsqueeze(1) if subject is None or subject.ndim == 2 else z
        return (self.critic(z, *labels, frozen=frozen) - target).abs().mean(-1)

    def _present(self, batch, dtype):
        """One-hot rows of the subjects of a batch of fewer trials than there are subjects, and how to pick theirs.

        The others have no weight in any loss, and there may be hundreds of them.
        """
        n_trials, n_subjects = batch.s.shape[-1], batch.n_subjects
        if self.printed or n_subjects <= n_trials:
            return None, lambda weights: weights
        counts = one_hot_rows(batch.s, n_subjects, dtype).sum(-1)
        most = n_trials
        if counts.device.type == "cpu" and not is_traced(counts):  # a graph needs a size that never changes
            most = max(1, int((counts > 0).sum()))
        chosen = counts.topk(most).indices
        rows = (chosen.unsqueeze(-1) == torch.arange(n_subjects, device=counts.device)).to(dtype)
        return rows, lambda weights: weights @ rows.T

    def _weights(self, batch, dtype):
        """Weights of the errors (n, n_subjects) in the losses, for all losses are linear in the errors."""
        strata, cells = cell_rows(batch, dtype)
        counts = cells.sum(-1)
        usable = (counts >= self.min_trials).to(dtype)
        n_subjects = usable.sum(-1, keepdim=True)
        counted = n_subjects >= 2
        mean = usable * counted / n_subjects.clamp_min(1)
        mean = mean if self.reduction == "sum" else mean / counted.sum().clamp_min(1)
        by_subject = mean if self.printed else usable / usable.sum(0).clamp_min(1)
        share = strata.T / strata.sum(-1).clamp_min(1)  # of every trial in its stratum
        own_share = cells / counts.clamp_min(1).unsqueeze(-1)  # and among its subject's trials there

        def own(weights):
            return (own_share * weights.unsqueeze(-1)).sum(0).T

        return share @ mean, own(mean), self.gamma * share @ by_subject - own(by_subject)


def _standardise(z):
    """Standardise the columns by the batch's mean and standard deviation, both held constant."""
    centred = z - z.detach().mean(0)
    spread = centred.detach().std(0, correction=0)
    # a dead column has no scale of its own: left out, lest a tiny divisor give it all the gradient
    alive = spread > 1e-4 * spread.mean().clamp_min(1e-6)
    return centred * torch.where(alive, 1 / spread, 0.0)
