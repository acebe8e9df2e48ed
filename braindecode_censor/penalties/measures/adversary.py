"""An adversary that predicts the subject from the code."""

from typing import ClassVar

import torch
from torch.nn import functional as F

from braindecode_censor._check import check_size
from braindecode_censor.penalties.batch import cell_rows, one_hot_rows
from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures.base import Measure, mean_over_strata
from braindecode_censor.penalties.ranges import Range

__all__ = ["Adversary"]


class Adversary(Measure):
    r"""Lower bound on the mutual information by a classifier :math:`\alpha_\psi(s|z)`.

    .. math:: I(z;s) \ge \hat H(s) - \frac1N\sum_i -\log\alpha_\psi(s_i|z_i).

    Parameters
    ----------
    n_features, n_subjects : int
        Width of z and number of subjects.
    n_classes : int, optional
        Number of classes; the adversary then also receives y.
    min_trials : int
        Trials a subject needs (within a stratum) to count; one suffices for a sum over trials.
    hidden : int
        Width of the hidden layers.
    n_layers : int
        Number of hidden layers.
    n_values : int
        Number of components of a continuous nuisance.
    **options
        `nuisance` and `reduction`; see :class:`~braindecode_censor.penalties.measures.base.Measure`.

    Notes
    -----
    The paper's algorithms for adversarial censoring, with these differences.

    * The listings return the sum of cross-entropies and call it a mutual information penalty; adding that
      would *help* the adversary. The penalty to add is :math:`\hat H(s)-\mathrm{CE}`; the entropy of the
      batch's labels is a constant that turns the value into nats of mutual information.
    * Means over trials (``reduction="sum"`` adds, in conditional mode over classes). The conditional equation
      "+λ CE" has the wrong sign; classes are averaged.
    * In complementary mode each half has its own adversary, trained on its own cross-entropy; the listing
      passes y to both, although the marginal quantity does not involve y.

    With a continuous nuisance the adversary predicts s, and the value is
    :math:`\frac12\log(\mathrm{Var}\,s/\mathrm{MSE})`, added over the components of s: the mutual
    information for a Gaussian s with independent components. For other distributions it orders codes but is no bound.

    References
    ----------
    Özdenizci et al. (2020), Learning invariant representations from EEG via adversarial inference.
    """

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
        hidden=128,
        n_layers=3,
        n_values=1,
        **options,
    ):
        super().__init__(n_features, n_subjects, n_classes, min_trials=min_trials, **options)
        hidden = [check_size("hidden", hidden)] * check_size("n_layers", n_layers)
        labels = () if n_classes is None else (n_classes,)
        n_outputs = n_subjects if self.nuisance == "discrete" else check_size("n_values", n_values)
        self.critic = LabelledMLP(n_features, n_outputs, hidden, labels)

    def censor(self, z, batch):
        """Return the bound on the mutual information, in nats.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            The bound.
        """
        if batch.continuous:
            error, spread, usable = self._squared_errors(z, batch, frozen=True)
            gain = 0.5 * (spread.log() - error.clamp_min(1e-12).log()).sum(-1)
            return mean_over_strata(gain, usable, self.reduction)
        strata, cells = cell_rows(batch, z.dtype)
        entropies = _entropies(cells.sum(-1))
        usable = self.usable_strata(cells)
        gain = entropies - _mean_by_stratum(self._cross_entropies(z, batch, frozen=True), strata)
        if self.reduction == "sum" and batch.y is None:
            gain = gain * len(z)  # The marginal listing adds over trials.
        return mean_over_strata(gain, usable, self.reduction)

    def critic_loss(self, z, batch):
        """Return the adversary's cross-entropy, averaged over classes as in the penalty.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape ()
            Differentiable in the adversary's parameters.
        """
        if batch.continuous:
            error, spread, usable = self._squared_errors(z, batch)
            return mean_over_strata((error / spread).mean(-1), usable, "mean")
        strata, _ = cell_rows(batch, z.dtype)
        losses = _mean_by_stratum(self._cross_entropies(z, batch), strata)
        return mean_over_strata(losses, strata.sum(-1) > 0, "mean")

    def _predict(self, z, batch, frozen):
        """Return the outputs (n, n_outputs) of the adversary."""
        return self.critic(z, *(() if batch.y is None else (batch.y,)), frozen=frozen)

    def _cross_entropies(self, z, batch, frozen=False):
        """Return the cross-entropy (n,) of every trial."""
        return F.cross_entropy(self._predict(z, batch, frozen), batch.s.long(), reduction="none")

    def _squared_errors(self, z, batch, frozen=False):
        """Return error and variance of s (n_strata, p), and a mask of the strata that count; p components of s."""
        s, strata, spread, usable = self._standardised(batch, z.dtype)
        error = _mean_by_stratum((self._predict(z, batch, frozen) - s) ** 2, strata)
        # Strata that do not count get a finite value and a zero gradient.
        error, spread = (torch.where(usable[:, None], value, 1.0) for value in (error, spread))
        return error, spread, usable

    def _standardised(self, batch, dtype):
        """Return standardised s (n, p), rows (n_strata, n), variances (n_strata, p) and a mask of the usable strata."""
        s = batch.s.reshape(len(batch.s), -1).to(dtype)
        n_values = self.critic.n_outputs
        if s.shape[1] != n_values:
            raise ValueError(
                f"s has {s.shape[1]} components per trial, but the adversary n_values={n_values}: make them equal."
            )
        centred = s - s.mean(0)
        deviation = centred.std(0, correction=0)
        varies = deviation > 1e-5 * s.abs().amax(0)  # else a constant leaves rounding errors
        s = torch.where(varies, centred / torch.where(varies, deviation, 1.0), 0.0)
        strata = torch.ones_like(s[:, :1]).T
        if batch.y is not None:
            strata = one_hot_rows(batch.y, batch.n_classes, dtype)
        means = strata.T @ _mean_by_stratum(s, strata)
        spread = _mean_by_stratum((s - means) ** 2, strata)
        return s, strata, spread, (strata.sum(-1) > 2) & (spread > 1e-5).all(-1)

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
            return self._standardised(batch, torch.float64)[3].any()
        return super().usable(batch)

    @torch.no_grad()
    def diagnostics(self, z, batch):
        """Return the accuracy of the adversary.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``subject_accuracy``, the fraction of trials whose subject it predicts.
        """
        if batch.continuous:
            return {}
        predicted = self._predict(z, batch, frozen=True).argmax(-1)
        return {"subject_accuracy": (predicted == batch.s).to(z.dtype).mean()}


def _mean_by_stratum(values, strata):
    """Return means (n_strata, ...) over the trials (n, ...) of every stratum; zero for a stratum without trials."""
    counts = strata.sum(-1, keepdim=True).clamp_min(1)
    return (strata / counts) @ values


def _entropies(counts):
    """Return the entropy of s in every stratum from numbers of trials (n_strata, n_subjects)."""
    totals = counts.sum(-1).clamp_min(1)
    return totals.log() - torch.xlogy(counts, counts).sum(-1) / totals
