"""The censoring penalty: a measure folded over a mode."""

import warnings

import torch
from torch import nn

from braindecode_censor._check import check_positive, declares, is_own, is_traced
from braindecode_censor.penalties.batch import Batch
from braindecode_censor.penalties.gradients import critic_gradient_by_autograd, gradient_by_autograd
from braindecode_censor.penalties.modes import MODES

__all__ = ["DegenerateBatchWarning", "Penalty", "at_least_single"]


LARGEST_COUNTED = 4096


class DegenerateBatchWarning(UserWarning):
    """A batch held too few trials per subject to say anything about dependence."""


class Penalty(nn.Module):
    r"""A penalty on the dependence of a latent code z on the subject s.

    Minimise ``task_loss + weight * penalty(z, s, y)`` over the encoder and, where there is a critic, minimise
    ``penalty.critic_loss(z.detach(), s, y)`` over ``penalty.critic_parameters()``, on the same batches in turn. Build
    one with :func:`make_penalty`.

    Parameters
    ----------
    measures : sequence of Measure
        One per term of the mode; in complementary mode one is enough if it takes stacks.
    mode : {"marginal", "conditional", "complementary"}
        Notion of independence.
    n_subjects : int, optional
        Number of subjects; counted in each batch when omitted.
    n_classes : int, optional
        Number of classes, for the conditional mode; counted in each batch when omitted.
    nuisance : {"discrete", "continuous"}
        Kind of s.
    reveal : float
        Weight of the revealing half in complementary mode, beside that of the censored one.
    """

    def __init__(self, measures, mode, n_subjects=None, n_classes=None, nuisance="discrete", reveal=1.0):
        super().__init__()
        if MODES[mode].halves and len(measures) == 1:
            _check_takes_halves(measures[0])
        self.measures = nn.ModuleList(measures)
        self.mode = mode
        self.n_subjects, self.n_classes = n_subjects, n_classes
        self.nuisance = nuisance
        self.reveal = check_positive("reveal", reveal, or_zero=True)
        self._has_warned = False
        # Looking at values waits for the device, so on a GPU only the first batch is looked at.
        self._has_looked = False

    def extra_repr(self):
        """Return what the module prints inside its parentheses."""
        return f"mode={self.mode!r}, reveal={self.reveal!r}"

    @property
    def has_critic(self):
        """Whether a network is trained against the encoder."""
        return any(measure.has_critic for measure in self.measures)

    def forward(self, z, s, y=None, noise=None):
        """Return the penalty; its gradient in z is the censoring gradient.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels 0 .. n_subjects - 1, or real values; or what :meth:`make_batch` made of them.
        y : Tensor of shape (n,), optional
            Task labels 0 .. n_classes - 1; only the conditional mode looks at them.
        noise : Tensor, optional
            Uniform random numbers for the choice of pairs, from :meth:`draw_noise`; drawn from torch's global
            generator when omitted.

        Returns
        -------
        value : Tensor of shape ()
            The penalty. A batch that cannot say anything about dependence gives zero, with a gradient of
            zero, and a warning the first time (on a GPU only the first batch is looked at, because looking
            waits for the device).
        """
        batch = self._with_noise(self.make_batch(z, s, y, noise), z)
        value = self._evaluate(z, batch)
        self._look(value, z, batch)
        return value

    def gradient(self, z, s, y=None, noise=None):
        """Return the penalty and its gradient in z: what :meth:`forward` and autograd say, in less time.

        Where a measure has written out its gradient, autograd is not asked. For eager mode: not for ``torch.func`` and
        ``torch.compile``.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels, or real values; or what :meth:`make_batch` made of them.
        y : Tensor of shape (n,), optional
            Task labels.
        noise : Tensor, optional
            See :meth:`forward`.

        Returns
        -------
        value : Tensor of shape ()
            The penalty, without graph.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        if len(z) < 2 or not self.writes_gradients():
            return gradient_by_autograd(self, z, s, y, noise=noise)
        batch = self._with_noise(self.make_batch(z, s, y, noise), z)
        with torch.no_grad(), _full_precision(z):
            value, gradient = self.written_gradient(self.split(at_least_single(z)), batch)
        return value, gradient.to(z.dtype)

    def split(self, z):
        """Return z as the mode sees it.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.

        Returns
        -------
        codes : Tensor of shape (n, n_features), or (2, n, n_features / 2)
            The code itself, or its halves.
        """
        mode = MODES[self.mode]
        if not mode.halves:
            return z
        _, second = mode.terms(z.shape[1])
        return torch.stack(z.split(second.columns.start, 1))

    def written_gradient(self, codes, batch):
        """Return what :meth:`gradient` does, where :meth:`writes_gradients` is known to hold and autograd is off.

        Parameters
        ----------
        codes : Tensor
            From :meth:`split`, of two trials or more, in single or double precision.
        batch : Batch
            From :meth:`make_batch` for this code, with the noise if there is any.

        Returns
        -------
        value : Tensor of shape ()
            The penalty.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        first, *others = self.measures
        if codes.ndim == 2:
            value, gradient = first.censor_gradient(codes, batch)
        elif not others:
            value, gradient = first.censor_and_reveal_gradient(codes, batch, self.reveal)
        else:
            value, censored = first.censor_gradient(codes[0], batch)
            other, revealed = others[0].reveal_gradient(codes[1], batch)
            value, gradient = value + self.reveal * other, torch.stack([censored, self.reveal * revealed])
        return value, self._finish(value, gradient, batch)

    def written_gradients(self, codes, batch):
        """Return the penalty and the critics' loss with their gradients, both of the critics as they are.

        For penalties with a critic, where :meth:`writes_gradients` is known to hold and autograd is off.

        Parameters
        ----------
        codes : Tensor
            From :meth:`split`, of two trials or more, in single or double precision.
        batch : Batch
            From :meth:`make_batch` for this code.

        Returns
        -------
        value : Tensor of shape ()
            The penalty.
        gradient : Tensor of shape (n, n_features)
            In z.
        loss : Tensor of shape ()
            Sum of the critics' losses.
        gradients : list of Tensor
            In each of :meth:`critic_parameters`.
        """
        if len(self.measures) > 1:
            return *self.written_gradient(codes, batch), *self.written_critic_gradient(codes, batch)
        weight = self.reveal if codes.ndim == 3 else None
        value, gradient, losses, gradients = self.measures[0].both_gradients(codes, batch, weight)
        loss = losses.sum() if losses.ndim else losses
        return value, self._finish(value, gradient, batch), loss, gradients

    def _finish(self, value, gradient, batch):
        """Put halves together, and look at the value if it is time to."""
        if gradient.ndim == 3:
            gradient = torch.cat(gradient.unbind(), 1)
        if not self._has_looked or not (self._has_warned or gradient.is_cuda or value.item()):
            self._look(value, gradient, batch)
        return gradient

    def critic_loss(self, z, s, y=None):
        """Return the loss of the critics' own training; zero without a critic.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels, or real values; or what :meth:`make_batch` made of them.
        y : Tensor of shape (n,), optional
            Task labels.

        Returns
        -------
        loss : Tensor of shape ()
            Sum of the critics' losses, so that each is trained on its own.
        """
        batch = self.make_batch(z, s, y)
        if self._judges_halves_at_once() and len(z) > 1:
            return self.measures[0].critic_loss(self.split(at_least_single(z)), batch).sum()
        return self._fold(lambda measure, direction: measure.critic_loss, z, batch)

    def critic_gradient(self, z, s, y=None):
        """Return the critics' loss and its gradients; what :meth:`critic_loss` and autograd say, in less time.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels, or real values; or what :meth:`make_batch` made of them.
        y : Tensor of shape (n,), optional
            Task labels.

        Returns
        -------
        loss : Tensor of shape ()
            Sum of the critics' losses, without graph.
        gradients : list of Tensor
            In each of :meth:`critic_parameters`.
        """
        if len(z) < 2 or not self.writes_gradients():
            return critic_gradient_by_autograd(self, self.critic_parameters(), z, s, y)
        batch = self.make_batch(z, s, y)
        with torch.no_grad(), _full_precision(z):
            return self.written_critic_gradient(self.split(at_least_single(z)), batch)

    def written_critic_gradient(self, codes, batch):
        """Return what :meth:`critic_gradient` does, where :meth:`writes_gradients` holds and autograd is off.

        Parameters
        ----------
        codes : Tensor
            From :meth:`split`, of two trials or more, in single or double precision.
        batch : Batch
            From :meth:`make_batch` for this code.

        Returns
        -------
        loss : Tensor of shape ()
            Sum of the critics' losses.
        gradients : list of Tensor
            In each of :meth:`critic_parameters`.
        """
        first, *others = self.measures
        if not others:
            losses, gradients = first.critic_gradient(codes, batch)
            return losses.sum() if losses.ndim else losses, gradients
        found = [measure.critic_gradient(code, batch) for measure, code in zip(self.measures, codes)]
        return sum(loss for loss, _ in found), [g for _, gradients in found for g in gradients]

    def writes_gradients(self):
        """Tell whether gradients can be had without autograd.

        Returns
        -------
        writes : bool
            True if every measure's own class promises it, and nobody has changed a method, a hook or a parameter.
        """
        kind = type(self)
        own = all(
            getattr(kind, name) is getattr(Penalty, name)
            for name in ("forward", "critic_loss", "critic_parameters")
        )
        hooks = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
        promised = all(
            "writes_gradients" in vars(type(measure))
            and measure.writes_gradients
            and not {"censor", "reveal", "censor_and_reveal", "critic_loss"} & vars(measure).keys()
            for measure in self.measures
        )
        if not own or hooks or not promised:
            return False
        parameters = [
            p for measure in self.measures for p in measure.parameters()
        ]  # twice what two of them share
        return list(map(id, parameters)) == list(map(id, self.critic_parameters()))

    def is_own(self):
        """Tell whether everything it computes is this package's, which never asks autograd where gradients are written.

        Returns
        -------
        own : bool
            False with a measure, score, kernel or length scale of a user's own.
        """
        return is_own(self) and all(is_own(*measure.parts()) for measure in self.measures)

    def critic_parameters(self):
        """Return the parameters to train on :meth:`critic_loss`.

        Returns
        -------
        parameters : list of Parameter
            Empty without a critic.
        """
        return list(self.parameters())

    @property
    def counts_trials(self):
        """Whether the diagnostics count trials, which takes many of them."""
        return any(measure.counts_trials for measure in self.measures)

    def diagnostics(self, z, s, y=None, gradient=None):
        """Return numbers worth logging, without waiting for the device.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels, or real values; or what :meth:`make_batch` made of them.
        y : Tensor of shape (n,), optional
            Task labels.
        gradient : Tensor of shape (n, n_features), optional
            Of the penalty, at the same z, if it is known.

        Returns
        -------
        numbers : dict of str to Tensor of shape ()
            The measure's numbers; those of the revealing half carry the suffix ``_reveal``.
        """
        with _full_precision(z):
            return self._diagnose(at_least_single(z), self.make_batch(z, s, y), gradient)

    def _diagnose(self, z, batch, gradient):
        if self._judges_halves_at_once() and self.has_critic:
            return _name_halves(self.measures[0].diagnostics(self.split(z), batch))
        numbers = {}
        for measure, term in self._terms(z):
            suffix, weight = ("_reveal", -self.reveal) if term.direction == "reveal" else ("", 1)
            known = {}
            if gradient is not None and weight and declares(measure, "diagnoses_gradient", "diagnostics"):
                known["gradient"] = gradient[:, term.columns] / weight
            found = measure.diagnostics(z[:, term.columns], batch, **known)
            numbers |= {name + suffix: value for name, value in found.items()}
        return numbers

    def keeps_diagnostics(self):
        """Tell whether :meth:`kept_diagnostics` can be asked.

        Returns
        -------
        keeps : bool
            True if there is one measure, whose own class promises it.
        """
        names = {"diagnostics", "critic_loss"}
        own = all(getattr(type(self), name) is getattr(Penalty, name) for name in names)
        if not own or names & vars(self).keys() or len(self.measures) > 1:
            return False
        return declares(self.measures[0], "keeps_diagnostics", "diagnostics")

    def kept_diagnostics(self):
        """Return the :meth:`diagnostics` of the batch on which the critics were trained last, from before that step.

        Returns
        -------
        numbers : dict of str to Tensor of shape ()
            Under the same names.
        """
        found = self.measures[0].kept_diagnostics()
        if self._judges_halves_at_once():
            return _name_halves(found)
        return {name: value.view(()) for name, value in found.items()}

    def draw_noise(self, generator=None):
        """Draw the random numbers for one call, so that a penalty need not touch the global generator.

        Parameters
        ----------
        generator : torch.Generator, optional
            Source of randomness.

        Returns
        -------
        noise : Tensor or None
            None where nothing is random.
        """
        if self.n_subjects is None:
            raise ValueError("n_subjects=None: the noise has one number per subject, so pass n_subjects.")
        shape = self.measures[0].noise_shape(self.n_subjects)
        if shape is None:
            return None
        device = None if generator is None else generator.device
        return torch.rand(shape, generator=generator, device=device)

    def _terms(self, z):
        """Each term of the mode with who measures it."""
        terms = MODES[self.mode].terms(z.shape[1])
        return [(self.measures[i % len(self.measures)], term) for i, term in enumerate(terms)]

    def _parts(self, z):
        """Each measure with its direction and its columns of z."""
        return [(measure, term.direction, z[:, term.columns]) for measure, term in self._terms(z)]

    def _judges_halves_at_once(self):
        return MODES[self.mode].halves and len(self.measures) == 1

    def _evaluate(self, z, batch):
        """Add up what is censored and, times its weight, what is revealed."""
        if self._judges_halves_at_once() and len(z) > 1:
            return self.measures[0].censor_and_reveal(self.split(at_least_single(z)), batch, self.reveal)
        return self._fold(lambda measure, direction: getattr(measure, direction), z, batch, self.reveal)

    def _fold(self, method, z, batch, reveal=1.0):
        """Add up a method of the measures over the mode's terms, those that reveal with a weight."""
        z = at_least_single(z)
        if len(z) < 2:
            return 0 * z.sum()  # differentiable
        value = 0
        for measure, direction, part in self._parts(z):
            weight = reveal if direction == "reveal" else 1
            found = method(measure, direction)(part, batch)
            value = value + (found if weight == 1 else weight * found)
        return value if value.requires_grad else value + 0 * z.sum()  # differentiable, also where no term is

    def make_batch(self, z, s, y=None, noise=None):
        """Check the labels of a batch and make of them what the measures are told.

        Pass the result instead of `s` to other methods, and what follows from the labels is found out only once.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance, or Batch
            Subject labels, or real values; a batch only takes the noise.
        y : Tensor of shape (n,), optional
            Task labels.
        noise : Tensor, optional
            Random numbers, from :meth:`draw_noise`.

        Returns
        -------
        batch : Batch
            The labels.
        """
        noise = None if noise is None else noise.to(z.device)
        if isinstance(s, Batch):
            self._check_shapes(z, s.s, s.y)
            return s if noise is None else s._replace(noise=noise)
        continuous = self.nuisance == "continuous"
        conditional = MODES[self.mode].conditions_on_y
        if conditional and y is None:
            raise ValueError(f"mode={self.mode!r} needs task labels: pass y.")
        y = y if conditional else None
        self._check_shapes(z, s, y)
        n_subjects = None if continuous else self._size(s, self.n_subjects, "s", "n_subjects")
        looks = continuous and not is_traced(s) and not (s.is_cuda and self._has_looked)
        if looks and not torch.isfinite(s).all():
            raise ValueError("s holds NaN or infinite values: drop these trials or fill the values in.")
        n_classes = self._size(y, self.n_classes, "y", "n_classes") if conditional else None
        facts = None if torch.compiler.is_compiling() else {}  # a compiler finds common work by itself
        return Batch(s, y, n_subjects, n_classes, continuous, noise, facts)

    def _check_shapes(self, z, s, y):
        if z.ndim != 2:
            raise ValueError(f"z has shape {tuple(z.shape)}, expected (n, n_features): use z.flatten(1).")
        expected = self.measures[0].n_features
        expected = None if expected is None else expected * (2 if MODES[self.mode].halves else 1)
        if expected is not None and z.shape[1] != expected:
            raise ValueError(
                f"z has {z.shape[1]} features, but the penalty was made with "
                f"n_features={expected}: make it with n_features={z.shape[1]}."
            )
        for name, label in (("s", s), ("y", y)):
            if label is not None and len(label) != len(z):
                raise ValueError(f"{name} has {len(label)} entries and z has {len(z)}: pass one per trial.")

    def _size(self, labels, declared, name, argument):
        """Check labels, and count them if their number was not declared."""
        if labels.ndim != 1:
            raise ValueError(f"{name} has shape {tuple(labels.shape)}, expected (n,): one label per trial.")
        if labels.is_floating_point() or labels.is_complex():
            remedy = " or make the penalty with nuisance='continuous'" if name == "s" else ""
            raise ValueError(
                f"{name} has dtype {labels.dtype}, expected integer labels: pass {name}.long(){remedy}."
            )
        hidden = is_traced(labels) or (labels.is_cuda and self._has_looked and declared is not None)
        if hidden and declared is None:
            raise ValueError(f"{argument}=None cannot be counted under vmap or compile: pass {argument}.")
        if hidden or not len(labels):
            return declared or 1
        low, high = (int(v) for v in labels.aminmax())
        if declared is None and high >= LARGEST_COUNTED:
            raise ValueError(
                f"{name} holds label {high}: these look like ids, not labels from 0; encode them "
                f"(sklearn.preprocessing.LabelEncoder) or pass {argument}."
            )
        if low < 0 or (declared is not None and high >= declared):
            top = "" if declared is None else f" {declared - 1}"
            raise ValueError(
                f"{name} holds label {low if low < 0 else high}, expected labels from 0 to{top or ' n - 1'}: "
                f"encode them (sklearn.preprocessing.LabelEncoder) or raise {argument}."
            )
        return high + 1 if declared is None else declared

    def _with_noise(self, batch, z):
        """Draw what is random, if the caller has not."""
        if batch.noise is not None or batch.continuous:
            return batch
        shape = self.measures[0].noise_shape(batch.n_subjects)
        return batch if shape is None else batch._replace(noise=torch.rand(shape, device=z.device))

    def _look(self, value, z, batch):
        """Warn once of a batch that says nothing."""
        degenerate = self._is_degenerate(value, z, batch)
        self._has_looked = self._has_looked or not is_traced(z, batch.s, batch.y)
        if degenerate:
            self._has_warned = True
            where = " in every class" if batch.y is not None else ""
            lack = f"fewer than two subjects with at least {self.measures[0].min_trials} trials{where}"
            lack = f"too little variation of s{where}" if batch.continuous else lack
            warnings.warn(
                f"A batch of {len(z)} trials held {lack}: its penalty is zero. Use larger or "
                "subject-balanced batches. This warning is given once.",
                DegenerateBatchWarning,
                stacklevel=5,  # forward is called by two functions of torch
            )

    def _is_degenerate(self, value, z, batch):
        """Whether a batch, if it may be looked at, holds too few trials for anything but zero."""
        if self._has_warned or is_traced(value, z, batch.s, batch.y) or (z.is_cuda and self._has_looked):
            return False
        return value.item() == 0 and (len(z) < 2 or not self.measures[0].usable(batch))


def _name_halves(numbers):
    """Numbers of both halves by their names, those of the half that reveals with a suffix."""
    suffixes = "", "_reveal"
    return {name + suffixes[i]: value[i] for i in (0, 1) for name, value in numbers.items()}


def _check_takes_halves(measure):
    if not measure.takes_stacks or (measure.has_critic and measure.n_codes != 2):
        raise ValueError(
            f"measures holds one {type(measure).__name__}, but mode='complementary' has two terms: pass two measures, "
            "or one that takes stacks and has a critic for each."
        )


def _full_precision(z):
    """Leave autocast, under which products that are told where to write are not cast and all others are."""
    return torch.autocast(z.device.type, enabled=False)


def at_least_single(z):
    """Return z in single or double precision: half is too coarse for kernels and critics.

    Parameters
    ----------
    z : Tensor
        Latent code.

    Returns
    -------
    z : Tensor
        The same, or a copy in single precision.
    """
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
