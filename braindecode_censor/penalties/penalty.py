"""The censoring penalty: a measure applied to every term of a mode."""

import warnings

import torch
from torch import nn

from braindecode_censor._check import check_positive, is_traced
from braindecode_censor.penalties.batch import Batch
from braindecode_censor.penalties.modes import MODES

__all__ = ["DegenerateBatchWarning", "Penalty"]


LARGEST_COUNTED = 4096


class DegenerateBatchWarning(UserWarning):
    """A batch has too few trials per subject to estimate the dependence."""


class Penalty(nn.Module):
    r"""A penalty on the dependence of a latent code z on the subject s.

    Minimise ``task_loss + weight * penalty(z, s, y)`` over the encoder and, where there is a critic, minimise
    ``penalty.critic_loss(z.detach(), s, y)`` over ``penalty.critic_parameters()``, on the same batches in turn. Build
    one with :func:`make_penalty`.

    Parameters
    ----------
    measures : sequence of Measure
        One per term of the mode.
    mode : {"marginal", "conditional", "complementary"}
        Notion of independence.
    n_subjects : int, optional
        Number of subjects; counted in each batch when omitted.
    n_classes : int, optional
        Number of classes, for the conditional mode; counted in each batch when omitted.
    nuisance : {"discrete", "continuous"}
        Type of s: labels or real values.
    reveal : float
        Weight of the revealing half in complementary mode, relative to the censored half.
    """

    def __init__(self, measures, mode, n_subjects=None, n_classes=None, nuisance="discrete", reveal=1.0):
        super().__init__()
        self.measures = nn.ModuleList(measures)
        self.mode = mode
        self.n_subjects = n_subjects
        self.n_classes = n_classes
        self.nuisance = nuisance
        self.reveal = check_positive("reveal", reveal, or_zero=True)
        if len(measures) != (2 if MODES[mode].halves else 1):
            raise ValueError(f"measures holds {len(measures)}: pass one measure per term of mode={mode!r}.")
        self._has_warned = False
        # Reading values waits for the GPU, so only the first batch is checked there.
        self._has_checked = False

    def extra_repr(self):
        """Return the options that ``repr`` prints."""
        return f"mode={self.mode!r}, reveal={self.reveal!r}"

    @property
    def has_critic(self):
        """True if a network is trained against the encoder."""
        return any(measure.has_critic for measure in self.measures)

    @property
    def waits(self):
        """True if the CPU waits for values that a measure computes."""
        return any(measure.waits for measure in self.measures)

    def forward(self, z, s, y=None, noise=None):
        """Return the penalty; its gradient in z is the censoring gradient.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance
            Subject labels 0 .. n_subjects - 1, or real values.
        y : Tensor of shape (n,), optional
            Task labels 0 .. n_classes - 1; only the conditional mode uses them.
        noise : Tensor, optional
            Uniform random numbers to select pairs or to order subjects, from :meth:`draw_noise`; drawn from torch's
            global generator when omitted.

        Returns
        -------
        value : Tensor of shape ()
            The penalty. A batch with too few trials per subject gives zero, with a gradient of zero, and a
            warning the first time (on a GPU only the first batch is checked, since reading values waits).
        """
        batch = self._make_batch(z, s, y)
        # A new tuple, because torch.compile before 2.10 cannot trace `_replace`.
        noise = self._random_numbers(batch, z, noise)
        batch = Batch(batch.s, batch.y, batch.n_subjects, batch.n_classes, batch.continuous, noise)
        value = z[:0].sum()  # a differentiable zero, for batches without terms
        with _full_precision(z):
            for measure, term, columns in self._terms(z):
                if term.direction == "censor":
                    value = value + measure.censor(columns, batch)
                else:
                    value = value + self.reveal * measure.reveal(columns, batch)
        self._warn_once(value, batch)
        return value

    def critic_loss(self, z, s, y=None):
        """Return the loss of the critics; it can always be backpropagated, and is zero without a critic.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance
            Subject labels, or real values.
        y : Tensor of shape (n,), optional
            Task labels.

        Returns
        -------
        loss : Tensor of shape ()
            Sum of the critics' losses: each critic is trained on its own loss only.
        """
        batch = self._make_batch(z, s, y)
        loss = z[:0].sum()
        with _full_precision(z):
            for measure, _, columns in self._terms(z):
                loss = loss + measure.critic_loss(columns, batch)
        # A loop that calls backward() must not fail without a critic, nor at a batch of one trial.
        constant = torch.is_grad_enabled() and not is_traced(loss) and not loss.requires_grad
        return loss.requires_grad_() if constant else loss

    def critic_parameters(self):
        """Return the parameters to be trained on :meth:`critic_loss`.

        Returns
        -------
        parameters : list of Parameter
            Empty without a critic.
        """
        return list(self.parameters())

    def diagnostics(self, z, s, y=None):
        """Return numbers for a log, without waiting for the GPU.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance
            Subject labels, or real values.
        y : Tensor of shape (n,), optional
            Task labels.

        Returns
        -------
        numbers : dict of str to Tensor of shape ()
            The measure's numbers; those of the revealing half carry the suffix ``_reveal``.
        """
        batch = self._make_batch(z, s, y)
        numbers = {}
        with _full_precision(z):
            for measure, term, columns in self._terms(z):
                suffix = "_reveal" if term.direction == "reveal" else ""
                numbers |= {
                    name + suffix: value for name, value in measure.diagnostics(columns, batch).items()
                }
        return numbers

    def draw_noise(self, generator=None):
        """Draw the random numbers for one call without the global generator.

        Parameters
        ----------
        generator : torch.Generator, optional
            Source of randomness.

        Returns
        -------
        noise : Tensor or None
            None if nothing is random.
        """
        if self.nuisance == "continuous":
            return None
        if self.n_subjects is None:
            raise ValueError("n_subjects=None: the noise has one number per subject, so pass n_subjects.")
        shape = self.measures[0].noise_shape(self.n_subjects)
        if shape is None:
            return None
        device = None if generator is None else generator.device
        return torch.rand(shape, generator=generator, device=device)

    def _terms(self, z):
        """Return (measure, term, columns of z) for each term of the mode; an empty list for less than two trials."""
        if z.dtype in (torch.float16, torch.bfloat16):  # too coarse for kernels and critics
            z = z.float()
        terms = MODES[self.mode].terms(z.shape[1]) if len(z) > 1 else ()
        return [(measure, term, z[:, term.columns]) for measure, term in zip(self.measures, terms)]

    def _make_batch(self, z, s, y):
        """Check the labels and return the batch that the measures receive."""
        conditional, continuous = MODES[self.mode].conditions_on_y, self.nuisance == "continuous"
        if conditional and y is None:
            raise ValueError(f"mode={self.mode!r} needs task labels: pass y.")
        y = y if conditional else None
        self._check_shapes(z, s, y)
        n_subjects = None if continuous else self._size(s, self.n_subjects, "s", "n_subjects")
        if continuous and self._can_read(s) and not torch.isfinite(s).all():
            raise ValueError("s holds NaN or infinite values: drop these trials or fill the values in.")
        n_classes = self._size(y, self.n_classes, "y", "n_classes") if conditional else None
        return Batch(s, y, n_subjects, n_classes, continuous)

    def _random_numbers(self, batch, z, noise):
        """Return the noise of a call, drawn if it is needed and `noise` is None."""
        if noise is not None:
            return noise.to(z.device)
        shape = None if batch.continuous else self.measures[0].noise_shape(batch.n_subjects)
        return None if shape is None else torch.rand(shape, device=z.device)

    def _check_shapes(self, z, s, y):
        for name, tensor in (("z", z), ("s", s), ("y", y)):
            if tensor is None and name == "y":
                continue
            if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_complex():
                raise ValueError(
                    f"{name} must be a dense real tensor, not {type(tensor).__name__}: use torch.as_tensor."
                )
        if not z.is_floating_point():
            raise ValueError(f"z has dtype {z.dtype}, expected floating point: pass z.float().")
        if z.ndim != 2:
            raise ValueError(f"z has shape {tuple(z.shape)}, expected (n, n_features): use z.flatten(1).")
        width = self.measures[0].n_features
        if width is not None and z.shape[1] != width * len(self.measures):
            raise ValueError(
                f"z has {z.shape[1]} features, but the penalty was made with "
                f"n_features={width * len(self.measures)}: make it with n_features={z.shape[1]}."
            )
        for name, label in (("s", s), ("y", y)):
            n_labels = len(z) if label is None else (len(label) if label.ndim else 0)
            if n_labels != len(z):
                raise ValueError(f"{name} has {n_labels} entries and z has {len(z)}: pass one per trial.")

    def _size(self, labels, declared, name, argument):
        """Check integer labels and return their number, counted if it was not declared."""
        if labels.ndim != 1:
            raise ValueError(f"{name} has shape {tuple(labels.shape)}, expected (n,): one label per trial.")
        if labels.is_floating_point() or labels.is_complex():
            remedy = " or make the penalty with nuisance='continuous'" if name == "s" else ""
            raise ValueError(
                f"{name} has dtype {labels.dtype}, expected integer labels: pass {name}.long(){remedy}."
            )
        if declared is None and is_traced(labels):
            raise ValueError(f"{argument}=None cannot be counted under vmap or compile: pass {argument}.")
        if not len(labels) or (declared is not None and not self._can_read(labels)):
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

    def _can_read(self, tensor):
        """Return False in a traced graph and, on a GPU, after the first batch."""
        return not is_traced(tensor) and not (tensor.is_cuda and self._has_checked)

    def _warn_once(self, value, batch):
        """Warn of the first batch that has too few trials per subject."""
        if self._has_warned or is_traced(value, batch.s, batch.y) or not self._can_read(value):
            return
        self._has_checked = True
        if value.item() != 0 or (len(batch.s) > 1 and self.measures[0].usable(batch)):
            return
        self._has_warned = True
        where = " in every class" if batch.y is not None else ""
        lack = f"fewer than two subjects with at least {self.measures[0].min_trials} trials{where}"
        lack = f"too little variation of s{where}" if batch.continuous else lack
        warnings.warn(
            f"A batch of {len(batch.s)} trials has {lack}: its penalty is zero. Use larger or "
            "subject-balanced batches, or fewer subjects in each. This warning is given once.",
            DegenerateBatchWarning,
            stacklevel=5,  # Two functions of torch lie between the caller and forward.
        )


def _full_precision(z):
    """Return a context without autocast, since half precision is too coarse for kernels and critics."""
    return torch.autocast(z.device.type, enabled=False)
