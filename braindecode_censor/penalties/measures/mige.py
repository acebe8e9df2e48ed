"""Gradient of the mutual information from estimated scores (MIGE)."""

from typing import ClassVar

import torch
from torch.func import vmap

from braindecode_censor._check import check_choice
from braindecode_censor.numerics.groups import equal_groups, group_sizes, mix_groups, same_group
from braindecode_censor.numerics.scores import SSGE, ScoreEstimator, make_score
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.ranges import Choice, Range

__all__ = ["MIGE"]


class MIGE(Measure):
    r"""A surrogate whose gradient in z is the estimated gradient of :math:`I(z;s)`.

    From :math:`I(z;s)=H(z)-H(z|s)` and :math:`\nabla H(z)=-E[\nabla_z\log q(z)\,\partial z]`,

    .. math:: L = \sum_m \frac{w_m}{n_m}\sum_{i\in S_m}\hat s_m(z_i)\cdot z_i
              - \frac1N\sum_i\hat s(z_i)\cdot z_i,\qquad \sum_m w_m=1,

    with scores :math:`\hat s` (all trials) and :math:`\hat s_m` (trials of subject m) held constant.

    Parameters
    ----------
    n_features, n_subjects, n_classes : int, optional
        Sizes; see :class:`~braindecode_censor.penalties.measures.base.Measure`. This measure needs none.
    score : {"ssge", "mige", "stein", "tikhonov", "nu"} or object
        Score estimator. "mige" is SSGE with the MIGE paper's threshold of 0.99.
    subject_weights : {"frequency", "uniform"}
        :math:`w_m=n_m/N`, which belongs to the mixture the batch is, or the listing's 1/M. They agree on
        subject-balanced batches.
    calibrate : bool
        Compare the score of each subject with that of an equal number of trials from all subjects of the batch,
        instead of the whole batch. Estimated scores of few trials are shrunk more than those of many. Most of the
        difference is therefore a force that shrinks z, with wrong labels as well; between samples of one size it
        cancels. The remaining gradient depends on the labels and is 5 to 10 times smaller, so start with ten times
        the penalty weight.
    score_options : dict, optional
        Options of the estimator.
    nuisance : {"discrete", "continuous"}
        Type of s: labels or real values.
    reduction : {"mean", "sum"}
        "sum" adds over classes.
    min_trials : int
        Trials a subject needs (within a stratum) to count. The default is the smallest possible value, so that
        small datasets can be censored, but scores of fewer than 8 to 16 trials are mostly a force that shrinks z:
        check the diagnostic ``scale_force``, use batches with more trials of fewer subjects, or calibrate.
        Calibrated "ssge" and "mige" need three trials, because their score of two is zero.
    **score_keywords
        Further options of the estimator (`reg`, `kernel`, `lengthscale`, `ratio`, ...).

    Notes
    -----
    The paper's algorithms for MIGE censoring, with these differences.

    * ``Est_∇H`` lacks the minus sign that the equations above it have; taken literally, descent would *raise*
      the mutual information.
    * The conditional listing divides by :math:`|S_c|` on top of the mean; here classes are averaged.
    * Subjects below `min_trials` are skipped and the weights of the others renormalised: weights that do not
      sum to one leave a spurious multiple of :math:`\nabla H(z)`. Their trials still count in the marginal term,
      unless it is calibrated.
    * **The value is not the mutual information**; only the gradient is meaningful.

    With a continuous nuisance the inner score is that of the pair (z, s), as in the MIGE paper:
    :math:`\nabla I=E[(\nabla_z\log q(z,s)-\nabla_z\log q(z))\,\partial z]`. s is scaled to the total variance of z,
    which does not change the mutual information and gives both the same influence on the kernel.

    References
    ----------
    Wen et al. (2020), Mutual information gradient estimation for representation learning.
    """

    search_space: ClassVar = {
        "weight": Range(0.001, 1.0, log=True),
        "score": Choice(("ssge", "nu", "tikhonov", "stein")),
        "reg": Range(1e-4, 1e-2, log=True, when=("score", ("nu", "tikhonov", "stein"))),
        "lengthscale": Choice(("median", "tsne"), when=("score", ("nu", "tikhonov", "stein"))),
    }

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        score="mige",
        subject_weights="frequency",
        calibrate=False,
        score_options=None,
        nuisance="discrete",
        reduction="mean",
        min_trials=2,
        **score_keywords,
    ):
        super().__init__(
            n_features,
            n_subjects,
            n_classes,
            nuisance=nuisance,
            reduction=reduction,
            min_trials=min_trials,
        )
        check_choice("calibrate", calibrate, (False, True))
        if not isinstance(score_options, (dict, type(None))):
            raise ValueError(f"score_options={score_options!r} must be a dictionary.")
        self.score = make_score(score, **(score_options or {}), **score_keywords)
        if calibrate and isinstance(self.score, SSGE):
            self.min_trials = max(3, self.min_trials)  # The score of two trials is zero.
        self.subject_weights = check_choice("subject_weights", subject_weights, ("frequency", "uniform"))
        if calibrate and nuisance == "continuous":
            raise ValueError("calibrate=True compares subjects: it needs nuisance='discrete'.")
        self.calibrate = calibrate
        self.waits = getattr(self.score, "waits", True)

    def noise_shape(self, n_subjects):
        """Return the shape of the random order of subjects that calibration uses.

        Parameters
        ----------
        n_subjects : int
            Number of subjects.

        Returns
        -------
        shape : tuple of int or None
            Shape of ``batch.noise``.
        """
        return (n_subjects,) if self.calibrate else None

    def censor(self, z, batch):
        """Return the surrogate.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Its gradient in z is the estimated gradient of the mutual information.
        """
        return (self.gradient(z, batch) * z).sum()

    @torch.no_grad()
    def gradient(self, z, batch):
        """Return the estimated gradient of the mutual information in every code.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        gradient : Tensor of shape (n, n_features)
            Without a graph.
        """
        z = z.detach()
        # The score of a subject is compared with that of its reference.
        reference = stratum = same_group(batch.y)
        if batch.continuous:
            outer = inner = self._stratum_weights(batch, z.dtype)
            conditional = self._scores(_with_nuisance(z, batch.s), stratum)[:, : z.shape[1]]
        else:
            cell = same_group(batch.y, batch.s)
            outer, inner = self._cell_weights(stratum, cell, z.dtype)
            conditional = self._scores(z, cell)
            if self.calibrate:
                order = batch.s if batch.noise is None else batch.noise[batch.s]
                reference = same_group(batch.y, mix_groups(batch.s, order, batch.y))
                _, outer = self._cell_weights(stratum, reference, z.dtype)
        return inner[:, None] * conditional - outer[:, None] * self._scores(z, reference)

    def _scores(self, z, same):
        """Return the scores of the codes (n, n_features), each within its group; None is one group of all."""
        groups = None if same is None else equal_groups(same)
        if groups is None or not isinstance(self.score, ScoreEstimator):
            return self.score.fit(z, same).at_samples()
        # A stack of small samples is faster than one large sample with masked pairs.
        stack = vmap(lambda sample: self.score.fit(sample, None).at_samples())(z[groups])
        return torch.empty_like(z).index_copy(0, groups.flatten(), stack.flatten(0, 1))

    def _cell_weights(self, stratum, cell, dtype):
        """Return the weight (n,) of every trial in the marginal and in the conditional term."""
        size = group_sizes(cell)
        usable = (size >= self.min_trials).to(dtype)
        per_subject = usable / size.clamp_min(1)
        if stratum is None:
            total = len(size)
            n_subjects, n_usable = per_subject.sum(), usable.sum()
        else:
            in_stratum = stratum.to(dtype)
            total = in_stratum.sum(-1)
            n_subjects, n_usable = in_stratum @ per_subject, in_stratum @ usable
        counts = (n_subjects > 1.5).to(dtype)  # The weights of a usable subject add up to one.
        outer = (counts / total).expand(len(size))
        if self.reduction == "mean":
            n_strata = outer.sum().round().clamp_min(1)
            counts, outer = counts / n_strata, outer / n_strata
        if self.subject_weights == "uniform":
            return outer, counts * per_subject / n_subjects.clamp_min(1)
        return outer, counts * usable / n_usable.clamp_min(1)

    def _stratum_weights(self, batch, dtype):
        """Return the weight (n,) of every trial for a continuous nuisance: its fraction of a usable stratum."""
        n = len(batch.s)
        if batch.y is None:
            return torch.full((n,), 1 / n, dtype=dtype, device=batch.s.device)
        size = group_sizes(same_group(batch.y)).to(dtype)
        counts = (size > 2).to(dtype)
        n_strata = (counts / size).sum().round().clamp_min(1)
        return counts / size / (1 if self.reduction == "sum" else n_strata)

    def usable(self, batch):
        """Return True if any stratum has two subjects with enough trials.

        Parameters
        ----------
        batch : Batch
            Labels.

        Returns
        -------
        usable : Tensor of shape (), bool
            False for a batch without gradient.
        """
        if batch.continuous:
            return (self._stratum_weights(batch, torch.float32) > 0).any()
        outer, _ = self._cell_weights(same_group(batch.y), same_group(batch.y, batch.s), torch.float32)
        return (outer > 0).any()

    def diagnostics(self, z, batch):
        r"""Return the force that scales z, which is zero for exact scores.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``scale_force``: the sum of :math:`g_i\cdot(z_i-\bar z)`.
        """
        z = z.detach()
        return {"scale_force": (self.gradient(z, batch) * (z - z.mean(0))).sum()}


def _with_nuisance(z, s):
    """Return z with further columns: s, scaled to the total variance of z."""
    s = s.reshape(len(s), -1).to(z.dtype)
    s = s - s.mean(0)
    scale = z.var(0, correction=0).sum().sqrt() / s.var(0, correction=0).sum().sqrt().clamp_min(1e-12)
    return torch.cat([z, s * scale], dim=-1)
