"""A discriminator in the manner of boundary equilibrium GANs (BEGAN)."""

from typing import ClassVar

import torch

from braindecode_censor._check import check_positive, check_size, is_traced
from braindecode_censor.penalties.batch import cell_counts, cell_rows, label_rows
from braindecode_censor.penalties.critics import LabelledMLP, is_labelled_mlp
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.ranges import Range

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
        `nuisance`, `reduction` and `min_trials`; see :class:`~braindecode_censor.penalties.measures.base.Measure`.

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
    search_space: ClassVar = {"weight": Range(0.001, 1.0, log=True)}
    has_critic = True
    counts_trials = False
    waits = False
    takes_stacks = True

    @property
    def keeps_diagnostics(self):
        """Whether the divergence is kept; see :class:`~braindecode_censor.penalties.measures.base.Measure`."""
        names = "diagnostics", "critic_loss", "critic_gradient", "both_gradients", "_move_control"
        return self.training and self._keeps(BEGAN, *names)

    @property
    def writes_gradients(self):
        """Whether the gradients are written out; see :class:`~braindecode_censor.penalties.measures.base.Measure`."""
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
        self.takes_stacks = type(self).takes_stacks and not printed
        self.standardise = standardise and not printed
        hidden = check_size("hidden", hidden)
        labels = [] if printed else [n_subjects]
        labels += [] if n_classes is None or printed else [n_classes]
        bottleneck = max(n_features // 4, 1)
        self.critic = LabelledMLP(n_features, n_features, [hidden, bottleneck, hidden], labels)
        self.register_buffer("k", torch.zeros(1, 1 if printed else n_subjects))
        self.register_buffer("divergence", torch.full((1,), torch.nan), persistent=False)

    def parts(self):
        """Return all that computes; see :meth:`~braindecode_censor.penalties.measures.base.Measure.parts`.

        Returns
        -------
        parts : list of object
            The measure and its discriminator.
        """
        return [self, self.critic]

    def join(self, others):
        """Take over the discriminators of other measures, so that each of a stack of codes has its own.

        Parameters
        ----------
        others : sequence of BEGAN
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
        for name in ("k", "divergence"):
            setattr(self, name, torch.cat([getattr(measure, name) for measure in (self, *others)]))
        return True

    def _standardised(self, z):
        """The codes as a stack (n_codes, n, n_features), standardised, and the scale of each column."""
        codes = z if z.ndim == 3 else z[None]
        if not self.standardise:
            return codes, torch.ones_like(codes[:, :1, :1])
        constant = codes.detach()
        centred = codes - constant.mean(-2, keepdim=True)
        n = codes.shape[-2]
        spread = torch.linalg.vector_norm(centred.detach(), dim=-2, keepdim=True) * n**-0.5  # faster than std
        # a dead column has no scale of its own: left out, lest a tiny divisor give it all the gradient
        least = spread.mean(-1, keepdim=True).clamp_min_(1e-6).mul_(1e-4)
        scale = torch.where(spread > least, 1 / spread, 0.0)
        return centred * scale, scale

    def _errors(self, codes, batch, everyone, frozen, only=None):
        """Error, added over columns, of every trial as its own subject (n_codes, n), or as each (.., n_subjects)."""
        if self.printed:
            error = (self._judge(codes, (), frozen) - codes).abs().sum(-1)
            return error.unsqueeze(-1).expand(-1, -1, batch.n_subjects) if everyone else error
        output = self._judge(codes, self._labels(batch, everyone), frozen, only)
        return (output - (codes.unsqueeze(2) if everyone else codes)).abs().sum(-1)

    def _judge(self, codes, labels, frozen, only=None):
        if is_labelled_mlp(self.critic):
            return self.critic(codes, *labels, frozen=frozen, only=only)
        return self.critic(codes[0], *labels, frozen=frozen)[None]  # a network of a user's own knows one code

    def _trace_errors(self, codes, batch, everyone, only=None):
        """Errors, as :meth:`_errors` finds them, the residuals, and the critic's tape."""
        output, tape = self.critic.trace(codes, *self._labels(batch, everyone), only=only)
        residual = output.sub_(codes.unsqueeze(2) if everyone else codes)
        into = self.critic.scratch.take("errors", residual, *residual.shape)
        return torch.abs(residual, out=into).sum(-1), residual, tape

    def _labels(self, batch, everyone):
        """What the discriminator is told: every subject or the trial's own, and the class if there is one."""
        if not is_labelled_mlp(self.critic):
            subject = None if everyone else batch.s
            return (subject,) if batch.y is None else (subject, batch.y[:, None] if everyone else batch.y)
        classes, subjects = label_rows(batch, self.k.dtype)
        subjects = None if everyone else subjects
        return (subjects,) if classes is None else (subjects, classes)

    def _pull_back(self, weights, codes, batch, everyone, only=None):
        """Weighted sum of errors (n_codes,), and its gradient in the codes."""
        error, residual, tape = self._trace_errors(codes, batch, everyone, only)
        g = residual.sign_().mul_(weights.unsqueeze(-1))
        gradient = self.critic.pull_back(g, tape, to="z").sub_(g.sum(2) if everyone else g)
        return (weights * error).flatten(1).sum(1), gradient

    def _weights(self, batch, dtype):
        """Weights of the errors (n, n_subjects) in the losses, for all losses are linear in the errors.

        Returns
        -------
        everyone, own : Tensor of shape (n, n_subjects)
            Mean over subjects (and strata) of the error on the stratum, and on the subject.
        control : Tensor of shape (n, n_subjects)
            The step of each subject's k, averaged over its strata.
        divergence : Tensor of shape (n, n_subjects)
            Own less everyone.
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
            return everyone[0], own[0], self.gamma * everyone[1] - own[1], own[0] - everyone[0]

        options = (self.n_features, self.min_trials, self.reduction, self.gamma, self.printed)
        return batch.once((type(self), "errors", dtype, *options), compute)

    def censor(self, z, batch):
        """Return the encoder's loss.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            Error of every subject's code under the discriminator told that subject.
        """
        codes, _ = self._standardised(z)
        return self._censor(codes, batch).view(z.shape[:-2])

    def _censor(self, codes, batch, only=None):
        _, own, *_ = self._weights(batch, codes.dtype)
        return self._errors(codes, batch, False, frozen=True, only=only) @ own.sum(-1)

    def reveal(self, z, batch):
        """Return the loss of an encoder that joins the discriminator.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            Error on everybody less the error on the subject.
        """
        codes, _ = self._standardised(z)
        return self._reveal(codes, batch).view(z.shape[:-2])

    def _reveal(self, codes, batch, only=None):
        everyone, own, *_ = self._weights(batch, codes.dtype)
        weights = everyone - (self.k.unsqueeze(1) * own if self.printed else own)
        return (weights * self._errors(codes, batch, True, frozen=True, only=only)).sum((-2, -1))

    def censor_and_reveal(self, z, batch, weight):
        """Return the loss of an encoder that fools the first discriminator and joins the second.

        Parameters
        ----------
        z : Tensor of shape (2, n, n_features)
            Latent codes.
        batch : Batch
            Labels.
        weight : float
            Of what is revealed.

        Returns
        -------
        value : Tensor of shape ()
            :meth:`censor` of the first and, times the weight, :meth:`reveal` of the second.
        """
        if not self._keeps(BEGAN, "censor", "reveal"):
            return super().censor_and_reveal(z, batch, weight)
        codes, _ = self._standardised(z)
        return (self._censor(codes[:1], batch, only=0) + weight * self._reveal(codes[1:], batch, only=1))[0]

    def critic_loss(self, z, batch):
        """Return the discriminator's loss and, in training mode, move k.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, detached, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape (...)
            Differentiable in the discriminator's parameters.
        """
        codes, _ = self._standardised(z)
        error = self._errors(codes, batch, True, frozen=False)
        loss = (self._critic_weights(batch, z.dtype) * error).sum((-2, -1))
        self._move_control(batch, error.detach())
        return loss.view(z.shape[:-2])

    def _critic_weights(self, batch, dtype):
        """Weights of the errors in the discriminator's loss, (n_codes, n, n_subjects)."""
        everyone, own, *_ = self._weights(batch, dtype)
        return torch.addcmul(everyone, self.k.unsqueeze(1), own, value=-1)

    def _move_control(self, batch, error):
        """Move k, and keep how far apart the subjects are."""
        if self.training:
            step = self._weights(batch, error.dtype)[2] * error
            step = step.sum((-2, -1)).unsqueeze(-1) if self.printed else step.sum(-2)
            self.k.copy_(torch.add(self.k, step, alpha=self.beta).clamp(0, 1))
            self.divergence.copy_(self._divergence(batch, error))

    def _divergence(self, batch, error):
        """Mean of own error less error on everybody, (n_codes,)."""
        return (self._weights(batch, error.dtype)[3] * error).sum((-2, -1))

    def censor_gradient(self, z, batch):
        """Return :meth:`censor` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            The encoder's loss.
        gradient : Tensor of shape (..., n, n_features)
            In z.
        """
        codes, scale = self._standardised(z)
        _, own, *_ = self._weights(batch, z.dtype)
        value, gradient = self._pull_back(own.sum(-1), codes, batch, False)
        return value.view(z.shape[:-2]), (gradient * scale).view(z.shape)

    def reveal_gradient(self, z, batch):
        """Return :meth:`reveal` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape (...)
            Error on everybody less the error on the subject.
        gradient : Tensor of shape (..., n, n_features)
            In z.
        """
        codes, scale = self._standardised(z)
        everyone, own, *_ = self._weights(batch, z.dtype)
        value, gradient = self._pull_back(everyone - own, codes, batch, True)
        return value.view(z.shape[:-2]), (gradient * scale).view(z.shape)

    def censor_and_reveal_gradient(self, z, batch, weight):
        """Return :meth:`censor_and_reveal` and its gradient in z.

        Parameters
        ----------
        z : Tensor of shape (2, n, n_features)
            Latent codes.
        batch : Batch
            Labels.
        weight : float
            Of what is revealed.

        Returns
        -------
        value : Tensor of shape ()
            The encoder's loss.
        gradient : Tensor of shape (2, n, n_features)
            In the codes.
        """
        if not self._keeps(BEGAN, "censor_gradient", "reveal_gradient"):
            return super().censor_and_reveal_gradient(z, batch, weight)
        codes, scale = self._standardised(z)
        everyone, own, *_ = self._weights(batch, z.dtype)
        censored, fool = self._pull_back(own.sum(-1), codes[:1], batch, False, only=0)
        revealed, join = self._pull_back(weight * (everyone - own), codes[1:], batch, True, only=1)
        return (censored + revealed)[0], torch.cat([fool, join]).mul_(scale)

    def critic_gradient(self, z, batch):
        """Return :meth:`critic_loss`, moving k as it does, and its gradients in the discriminator's parameters.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, detached, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape (...)
            The discriminator's loss.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        codes, _ = self._standardised(z)
        weights = self._critic_weights(batch, z.dtype)
        error, residual, tape = self._trace_errors(codes, batch, True)
        gradients = self.critic.pull_back(residual.sign_().mul_(weights.unsqueeze(-1)), tape, to="parameters")
        self._move_control(batch, error)
        return (weights * error).sum((-2, -1)).view(z.shape[:-2]), gradients

    def both_gradients(self, z, batch, weight=None):
        r"""Return the penalty and the discriminator's loss with their gradients, by one look at everybody as everybody.

        In the discriminator's loss errors have weights :math:`a-k\,o`, where :math:`o` is zero but for a trial as its
        own subject; in the loss of an encoder that censors :math:`o`, that reveals :math:`a-o=(a-k\,o)-(1-k)\,o`. So
        beside the discriminator's gradient an encoder needs only that of trials as their own subjects.

        Parameters
        ----------
        z : Tensor of shape (n, n_features), or (2, n, n_features)
            Latent code, or one for each discriminator.
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
            Of each discriminator.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        written = "censor_gradient", "reveal_gradient", "censor_and_reveal_gradient", "critic_gradient"
        if not self._keeps(BEGAN, *written):
            return super().both_gradients(z, batch, weight)
        codes, scale = self._standardised(z)
        own, k_own, penalty_weights, places, s = self._both_weights(batch, z.dtype, weight)
        if weight is not None:
            own = torch.addcmul(own, k_own, self.k.index_select(1, s).unsqueeze(-1))
        weights = self._critic_weights(batch, z.dtype)
        error, residual, tape = self._trace_errors(codes, batch, True)
        sign = residual.sign_()
        direct = sign.flatten(1, 2).index_select(1, places).mul_(own)
        rows, everybody, gradients = self.critic.pull_back_rows(sign, tape, weights)
        hidden = rows.flatten(1, 2).index_select(1, places).mul_(own)
        if weight is not None:
            hidden[1].add_(everybody[1], alpha=weight)
            direct[1].add_(sign[1].sum(1), alpha=weight)
        push = torch.bmm(hidden, self.critic.weight_0).sub_(direct)
        self._move_control(batch, error)
        loss = (weights * error).sum((-2, -1)).view(z.shape[:-2])
        return (penalty_weights * error).sum(), push.mul_(scale).view(z.shape), loss, gradients

    def _both_weights(self, batch, dtype, reveal):
        """What :meth:`both_gradients` needs to know of the labels.

        Returns
        -------
        own, k_own : Tensor of shape (n_codes, n, 1)
            In the encoder's loss, once the discriminator's is taken from it: weight of a trial's error as its own
            subject, and what times k is added to it.
        weights : Tensor of shape (n_codes, n, n_subjects)
            Of all errors in the encoder's loss.
        places : Tensor of shape (n,)
            Where among all trials as all subjects a trial as its own subject stands.
        s : Tensor of shape (n,), int64
            Subjects.
        """

        def compute():
            everyone, own, *_ = self._weights(batch, dtype)
            s = batch.s.long()
            places = torch.arange(len(s), device=s.device) * batch.n_subjects + s
            share = own.sum(-1, keepdim=True)
            if reveal is None:
                return share, None, own, places, s
            k_own = torch.stack([torch.zeros_like(share), reveal * share])
            weights = torch.stack([own, reveal * (everyone - own)])
            return torch.stack([share, -reveal * share]), k_own, weights, places, s

        options = (self.n_features, self.min_trials, self.reduction)
        return batch.once((type(self), "both", dtype, *options), compute, version=reveal)

    @torch.no_grad()
    def diagnostics(self, z, batch):
        """Return how far apart the discriminator finds the subjects.

        Parameters
        ----------
        z : Tensor of shape (..., n, n_features)
            Latent code, or one for each discriminator.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict
            ``divergence``, the mean of own error less error on everybody, and ``k``, the mean control.
        """
        codes, _ = self._standardised(z)
        if self.writes_gradients and not is_traced(z):
            error = self._trace_errors(codes, batch, True)[0]
        else:
            error = self._errors(codes, batch, True, frozen=True)
        found = {"divergence": self._divergence(batch, error), "k": self.k.mean(-1)}
        return {name: value.view(z.shape[:-2]) for name, value in found.items()}

    def kept_diagnostics(self):
        """Return the :meth:`diagnostics` of the batch on which the discriminator was trained last.

        Returns
        -------
        numbers : dict of str to Tensor of shape (n_codes,)
            ``divergence``, as it was before that step, and ``k``.
        """
        return {"divergence": self.divergence, "k": self.k.mean(-1)}
