"""An adversary that reads the subject from the code."""

from typing import ClassVar

import torch
from torch.nn import functional as F

from braindecode_censor._check import check_size, is_traced
from braindecode_censor.penalties.batch import cell_counts, label_rows, one_hot_rows
from braindecode_censor.penalties.critics import LabelledMLP, is_labelled_mlp
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
        Number of classes; the adversary is then also shown y.
    hidden : int
        Width of the hidden layers.
    n_layers : int
        Number of hidden layers.
    n_values : int
        Number of components of a continuous nuisance.
    **options
        `nuisance`, `reduction` and `min_trials`; see :class:`~braindecode_censor.penalties.measures.base.Measure`.

    Notes
    -----
    The paper's algorithms for adversarial censoring, with these differences.

    * The listings return the sum of cross-entropies and call it a mutual information penalty; adding that
      would *help* the adversary. The penalty to add is :math:`\hat H(s)-\mathrm{CE}`; the entropy of the
      batch's labels is a constant that turns the value into nats of mutual information.
    * Means over trials (``reduction="sum"`` adds, in conditional mode over classes). The conditional equation
      "+λ CE" has the wrong sign; classes are averaged.
    * In complementary mode each half has its own adversary, trained on its own cross-entropy; the listing
      passes y to both, which the marginal quantity does not know.

    With a continuous nuisance the adversary predicts s, and the value is
    :math:`\frac12\log(\mathrm{Var}\,s/\mathrm{MSE})`, added over the components of s: the information that a Gaussian
    s with independent components would give away. For other distributions it orders codes but is no bound.

    References
    ----------
    Özdenizci et al. (2020), Learning invariant representations from EEG via adversarial inference.
    """

    search_space: ClassVar = {"weight": Range(0.001, 1.0, log=True)}
    has_critic = True
    waits = False
    takes_stacks = True

    @property
    def writes_gradients(self):
        """Whether the gradients are written out; see :class:`~braindecode_censor.penalties.measures.base.Measure`."""
        return self.nuisance == "discrete" and getattr(self.critic, "is_plain", False)

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        hidden=128,
        n_layers=3,
        n_values=1,
        **options,
    ):
        # one trial per subject is enough: it only adds to a sum over trials
        super().__init__(n_features, n_subjects, n_classes, **{"min_trials": 1, **options})
        self.takes_stacks = type(self).takes_stacks and self.nuisance == "discrete"
        hidden = [check_size("hidden", hidden)] * check_size("n_layers", n_layers)
        labels = () if n_classes is None else (n_classes,)
        n_outputs = n_subjects if self.nuisance == "discrete" else check_size("n_values", n_values)
        self.critic = LabelledMLP(n_features, n_outputs, hidden, labels)

    def parts(self):
        """Return all that computes; see :meth:`~braindecode_censor.penalties.measures.base.Measure.parts`.

        Returns
        -------
        parts : list of object
            The measure and its adversary.
        """
        return [self, self.critic]

    def join(self, others):
        """Take over the adversaries of other measures, so that each of a stack of codes has its own.

        Parameters
        ----------
        others : sequence of Adversary
            Of the same sizes.

        Returns
        -------
        joined : bool
            False for networks of a user's own.
        """
        if not is_labelled_mlp(self.critic):
            return False
        self.critic.join([other.critic for other in others])
        self.n_codes += len(others)
        return True

    def censor(self, z, batch):
        """Return the bound on the mutual information, in nats.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each adversary.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            The bound.
        """
        if batch.continuous:
            error, spread, usable = self._squared_errors(z, batch, frozen=True)
            gain = 0.5 * (spread.log() - error.clamp_min(1e-12).log()).sum(-1)
            return mean_over_strata(gain, usable, self.reduction)
        entropy, rates = self._gain(batch, z.dtype)
        return entropy - _weighted_sum(self._cross_entropies(z, batch, frozen=True), rates, batch.y)

    def critic_loss(self, z, batch):
        """Return the adversary's cross-entropy, averaged over classes as in the penalty.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, detached, or one for each adversary.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape (...)
            Differentiable in the adversary's parameters.
        """
        if batch.continuous:
            error, spread, usable = self._squared_errors(z, batch)
            return mean_over_strata((error / spread).mean(-1), usable, "mean")
        rates = self._critic_rates(batch, z.dtype)
        return _weighted_sum(self._cross_entropies(z, batch), rates, batch.y)

    def censor_gradient(self, z, batch):
        """Return :meth:`censor` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each adversary.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            The bound.
        gradient : Tensor of shape (..., n, n_features)
            In z.
        """
        entropy, rates = self._gain(batch, z.dtype)
        losses, into_scores, tape = self._trace_losses(z, batch, "gain", rates)
        return entropy - losses.sum((-2, -1)), self.critic.pull_back(into_scores, tape, to="z").view(
            z.shape
        ).neg_()

    def critic_gradient(self, z, batch):
        """Return :meth:`critic_loss` and its gradients in the adversary's parameters.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, detached, or one for each adversary.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape (...)
            Averaged cross-entropy.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        rates = self._critic_rates(batch, z.dtype)
        losses, into_scores, tape = self._trace_losses(z, batch, "critic", rates)
        return losses.sum((-2, -1)), self.critic.pull_back(into_scores, tape, to="parameters")

    def both_gradients(self, z, batch, weight=None):
        """Return the penalty and the adversary's loss with their gradients, by one pass through the adversary.

        Row by row both are the cross-entropy; they differ in the weights of the rows.

        Parameters
        ----------
        z : Tensor of shape (n, n_features), or (2, n, n_features)
            Latent code, or one for each adversary.
        batch : Batch
            Labels.
        weight : float, optional
            Of what is revealed, for two codes.

        Returns
        -------
        value : Tensor of shape ()
            The penalty.
        gradient : Tensor of the shape of z
            Its gradient.
        loss : Tensor of shape (), or (2,)
            Of each adversary.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        written = "censor_gradient", "reveal_gradient", "censor_and_reveal_gradient", "critic_gradient"
        if not self._keeps(Adversary, *written):
            return super().both_gradients(z, batch, weight)

        def compute():
            """Entropy, and the weight of each row's loss in the penalty beside that in the adversary's loss."""
            entropy, rates = self._gain(batch, z.dtype)
            ratio = rates / self._critic_rates(batch, z.dtype)  # of a stratum without trials nobody asks
            ratio = ratio.expand(len(batch.s)) if batch.y is None else ratio[batch.y]
            if weight is None:
                return entropy, -ratio.unsqueeze(-1)
            return (1 - weight) * entropy, torch.stack([-ratio, weight * ratio]).unsqueeze(-1)

        key = (type(self), "both", z.dtype, z.shape, self.min_trials, self.reduction)
        entropy, factors = batch.once(key, compute, version=weight)
        losses, into_scores, tape = self._trace_losses(z, batch, "critic", self._critic_rates(batch, z.dtype))
        into_z, gradients = self.critic.pull_back(into_scores, tape, to="both")
        value = entropy + (factors * losses).sum()
        return value, into_z.view(z.shape).mul_(factors), losses.sum((-2, -1)), gradients

    def _trace_losses(self, z, batch, purpose, rates):
        """Weighted cross-entropies (..., n, 1), their sum's gradient in the scores, and the critic's tape."""

        def compute():
            rate = rates if batch.y is None else rates[batch.y].unsqueeze(1)
            return rate, -rate * label_rows(batch, z.dtype)[1].T

        key = (type(self), purpose, "trials", z.dtype, self.min_trials, self.reduction)
        rate, weights = batch.once(key, compute)
        scores, tape = self.critic.trace(z if z.ndim == 3 else z[None], *self._labels(batch, z.dtype))
        log_p = scores.log_softmax(-1)
        losses = (weights * log_p).sum(-1, keepdim=True).view(*z.shape[:-1], 1)
        return losses, log_p.exp_().mul_(rate).add_(weights), tape

    def _labels(self, batch, dtype):
        """What the adversary is told beside z: the class, if there is one."""
        if batch.y is None:
            return ()
        takes_rows = is_labelled_mlp(self.critic) and not batch.continuous
        return (label_rows(batch, dtype)[0] if takes_rows else batch.y,)

    def _critic_rates(self, batch, dtype):
        """Weight of each stratum's trials (n_strata,) in the adversary's own loss."""

        def compute():
            counts, _ = cell_counts(batch, dtype)
            present = counts > 0
            return present / (counts.clamp_min(1) * present.sum().clamp_min(1))

        return batch.once((type(self), "critic", dtype), compute)

    def _predict(self, z, batch, frozen):
        return self.critic(z, *self._labels(batch, z.dtype), frozen=frozen)

    def _cross_entropies(self, z, batch, frozen=False):
        """Cross-entropy of every trial, shape (..., n)."""
        scores = self._predict(z, batch, frozen)
        s = batch.s.expand(scores.shape[:-1])
        return F.cross_entropy(scores.flatten(0, -2), s.flatten(), reduction="none").view(s.shape)

    def _gain(self, batch, dtype):
        """Entropy of the labels (), and the weight of each stratum's trials (n_strata,), in the penalty."""

        def compute():
            totals, counts = cell_counts(batch, dtype)
            totals = totals.clamp_min(1)
            weights = self._has_two_subjects(counts).to(dtype)
            if self.reduction == "mean":
                weights = weights / weights.sum().clamp_min(1)
            elif batch.y is None:
                weights = weights * totals  # the marginal listing adds over trials
            entropies = totals.log() - torch.xlogy(counts, counts).sum(-1) / totals
            return weights @ entropies, weights / totals

        return batch.once((type(self), "gain", dtype, self.min_trials, self.reduction), compute)

    def _squared_errors(self, z, batch, frozen=False):
        """Mean squared error and variance of s per stratum, each (n_strata, p), and which strata count."""
        s = batch.s.reshape(len(batch.s), -1).to(z.dtype)
        n_values = self.critic.n_outputs
        if s.shape[1] != n_values:
            raise ValueError(
                f"s has {s.shape[1]} components per trial, but the adversary n_values={n_values}."
            )
        centred = s - s.mean(0)
        deviation = centred.std(0, correction=0)
        varies = deviation > 1e-5 * s.abs().amax(0)  # else what is left of a constant is rounding
        s = torch.where(varies, centred / torch.where(varies, deviation, torch.ones_like(deviation)), 0.0)
        if batch.y is None:
            strata = torch.ones_like(s[:, 0])[None]
        else:
            strata = one_hot_rows(batch.y, batch.n_classes, z.dtype)
        counts = strata.sum(-1)
        share = strata / counts.clamp_min(1)[:, None]
        spread = share @ (s - strata.T @ (share @ s)) ** 2
        usable = (counts > 2) & (spread > 1e-5).all(-1)
        error = share @ (self._predict(z, batch, frozen) - s) ** 2
        neutral = torch.ones_like(
            error
        )  # a finite value, and a zero gradient, where a stratum does not count
        return (
            torch.where(usable[:, None], error, neutral),
            torch.where(usable[:, None], spread, neutral),
            usable,
        )

    def usable(self, batch):
        """Tell whether any stratum can be judged.

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
            probe = torch.zeros(len(batch.s), self.n_features, device=batch.s.device)
            probe = probe.to(self.critic.weight_0.dtype)
            return self._squared_errors(probe, batch, frozen=True)[2].any()
        return super().usable(batch)

    @torch.no_grad()
    def diagnostics(self, z, batch):
        """Return how well the adversary reads the subject.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each adversary.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``subject_accuracy``, the share of trials whose subject it names.
        """
        if batch.continuous:
            return {}
        if self.writes_gradients and not is_traced(z):  # faster
            codes = z if z.ndim == 3 else z[None]
            scores = self.critic.trace(codes, *self._labels(batch, z.dtype))[0].view(*z.shape[:-1], -1)
        else:
            scores = self._predict(z, batch, frozen=True)
        return {"subject_accuracy": (scores.argmax(-1) == batch.s).to(z.dtype).mean(-1)}


def _weighted_sum(loss, rates, y):
    """Add up the losses of trials (..., n), each times the rate of its stratum (n_strata,)."""
    return loss.sum(-1) * rates[0] if y is None else loss @ rates[y]
