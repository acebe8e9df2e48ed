"""What a dependence measure is."""

from typing import ClassVar

import torch
from torch import nn

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.penalties.batch import cell_counts

__all__ = ["Measure", "mean_over_strata", "with_gradient"]


class Measure(nn.Module):
    """Base of all measures of the dependence between a latent code and a nuisance.

    A measure sees the columns of z it is to judge and a :class:`~braindecode_censor.penalties.batch.Batch`; it knows
    nothing of modes. To write one, override :meth:`censor`, and with a critic :meth:`critic_loss` too; see
    :data:`braindecode_censor.penalties.measures.MEASURES`.

    Parameters
    ----------
    n_features : int, optional
        Number of columns of z it will see.
    n_subjects : int, optional
        Number of subjects.
    n_classes : int, optional
        Number of classes when the mode conditions on y, else None.
    nuisance : {"discrete", "continuous"}
        Kind of s.
    reduction : {"mean", "sum"}
        "sum" adds where the paper's listings add.
    min_trials : int
        Trials a subject needs (within a stratum) to count.
    """

    #: Kinds of nuisance the measure can judge.
    nuisances = ("discrete", "continuous")
    #: Option -> how a search chooses its value; see :mod:`braindecode_censor.penalties.options`.
    search_space: ClassVar = {}
    #: Whether the measure trains a network and therefore needs all sizes at construction.
    has_critic = False
    #: Whether :meth:`diagnostics` takes the gradient of :meth:`censor` as a keyword, where somebody has it already.
    diagnoses_gradient = False
    #: Whether the critic's training keeps what :meth:`diagnostics` would say, so that nobody has to ask for it; see
    #: :meth:`kept_diagnostics`.
    keeps_diagnostics = False
    #: Whether the host looks at values that the measure computes. Not looking lets a fleet on a GPU record its steps.
    waits = True
    #: Whether :meth:`censor` and :meth:`reveal`, and with a critic :meth:`critic_loss` and :meth:`diagnostics`, take a
    #: stack of codes (..., n, n_features) and return the value of each; both halves of z are then judged by one call.
    takes_stacks = False
    #: Number of critics, one per code of a stack; see :meth:`join`.
    n_codes = 1
    #: Whether gradients are written out: :meth:`censor_gradient`, :meth:`reveal_gradient`, :meth:`critic_gradient`, all
    #: called with autograd off. A training step then does without it, which for tensors this small takes longer than
    #: the computation.
    writes_gradients = False

    def __init__(
        self,
        n_features=None,
        n_subjects=None,
        n_classes=None,
        *,
        nuisance="discrete",
        reduction="mean",
        min_trials=2,
    ):
        super().__init__()
        self.n_features, self.n_subjects, self.n_classes = n_features, n_subjects, n_classes
        self.nuisance = check_choice("nuisance", nuisance, ("discrete", "continuous"))
        self.reduction = check_choice("reduction", reduction, ("mean", "sum"))
        self.min_trials = check_size("min_trials", min_trials, minimum=1)

    @property
    def counts_trials(self):
        """Whether :meth:`diagnostics` counts trials, which takes more of them than a batch holds."""
        return self.has_critic

    def parts(self):
        """Return all that computes: the measure itself, and what it was given by a user.

        Returns
        -------
        parts : list of object
            None for what is not there.
        """
        return [self]

    def extra_repr(self):
        """Return what the module prints inside its parentheses."""
        return f"n_features={self.n_features}, n_subjects={self.n_subjects}, nuisance={self.nuisance!r}"

    def censor(self, z, batch):
        """Return the dependence, to be minimised.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Differentiable in z, never in the critic's parameters.
        """
        raise NotImplementedError

    def reveal(self, z, batch):
        """Return what to minimise to *raise* the dependence; the negative of :meth:`censor` by default.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Differentiable in z, never in the critic's parameters.
        """
        return -self.censor(z, batch)

    def censor_and_reveal(self, z, batch, weight):
        """Return what to minimise to censor the first of two codes and reveal the second, with ``takes_stacks``.

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
        censored = _of_each(self.censor(z, batch), "censor", self)
        if self._keeps(Measure, "reveal"):
            return censored[0] - weight * censored[1]
        return censored[0] + weight * _of_each(self.reveal(z, batch), "reveal", self)[1]

    def _keeps(self, kind, *methods):
        """Whether methods are those of a class, neither written anew nor patched."""
        return all(
            getattr(type(self), name) is getattr(kind, name) and name not in vars(self) for name in methods
        )

    def join(self, others):
        """Take over the critics of other measures like this one, so that each of a stack of codes has its own.

        Parameters
        ----------
        others : sequence of Measure
            With a critic each.

        Returns
        -------
        joined : bool
            False if the measure cannot; then each code keeps its own measure.
        """
        return False

    def critic_loss(self, z, batch):
        """Return the loss of the critic's own training; zero without a critic.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape ()
            Differentiable in the critic's parameters.
        """
        return torch.zeros((), dtype=z.dtype, device=z.device)

    def censor_gradient(self, z, batch):
        """Return :meth:`censor` and its gradient in z; only called where the class says ``writes_gradients``.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, or with ``takes_stacks`` a stack of them.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Without graph.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        raise NotImplementedError

    def reveal_gradient(self, z, batch):
        """Return :meth:`reveal` and its gradient in z; likewise.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        value : Tensor of shape ()
            Without graph.
        gradient : Tensor of shape (n, n_features)
            In z.
        """
        if type(self).reveal is not Measure.reveal:
            raise NotImplementedError(f"{type(self).__name__} writes reveal, so write reveal_gradient too.")
        value, gradient = self.censor_gradient(z, batch)
        return -value, -gradient

    def censor_and_reveal_gradient(self, z, batch, weight):
        """Return :meth:`censor_and_reveal` and its gradient in z; likewise.

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
            Without graph.
        gradient : Tensor of shape (2, n, n_features)
            In the codes.
        """
        values, gradients = self.censor_gradient(z, batch)
        if self._keeps(Measure, "reveal"):
            return values[0] - weight * values[1], torch.stack([gradients[0], -weight * gradients[1]])
        revealed, others = self.reveal_gradient(z, batch)
        return values[0] + weight * revealed[1], torch.stack([gradients[0], weight * others[1]])

    def critic_gradient(self, z, batch):
        """Return :meth:`critic_loss` and its gradients in the parameters; likewise.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached.
        batch : Batch
            Labels.

        Returns
        -------
        loss : Tensor of shape ()
            Without graph.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        if self.has_critic:
            raise NotImplementedError(f"{type(self).__name__} has a critic, so write critic_gradient.")
        return self.critic_loss(z, batch), []

    def both_gradients(self, z, batch, weight=None):
        """Return the penalty and the critic's loss with their gradients, both of the critic as it is; likewise.

        To override where one evaluation of the critic serves both.

        Parameters
        ----------
        z : Tensor of shape (n, n_features), or (2, n, n_features)
            Latent code, or with ``takes_stacks`` two of them.
        batch : Batch
            Labels.
        weight : float, optional
            Of what is revealed, for two codes.

        Returns
        -------
        value : Tensor of shape ()
            Of :meth:`censor` or, for two codes, of :meth:`censor_and_reveal`.
        gradient : Tensor of the shape of z
            Its gradient.
        loss : Tensor of shape (), or (2,)
            Of the critic of each code.
        gradients : list of Tensor
            In the order of ``parameters()``.
        """
        if weight is None:
            found = self.censor_gradient(z, batch)
        else:
            found = self.censor_and_reveal_gradient(z, batch, weight)
        return *found, *self.critic_gradient(z, batch)

    def diagnostics(self, z, batch):
        """Return numbers worth logging, as tensors, so that nothing waits for the device.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code.
        batch : Batch
            Labels.

        Returns
        -------
        numbers : dict of str to Tensor of shape ()
            Named numbers.
        """
        return {}

    def kept_diagnostics(self):
        """Return the :meth:`diagnostics` of the batch on which the critic was trained last, from before that step.

        Only called where the class says ``keeps_diagnostics``.

        Returns
        -------
        numbers : dict of str to Tensor of shape (), or (n_codes,)
            Named numbers.
        """
        raise NotImplementedError

    def noise_shape(self, n_subjects):
        """Return the shape of the uniform random numbers the measure needs, None for none.

        Parameters
        ----------
        n_subjects : int
            Number of subjects.

        Returns
        -------
        shape : tuple of int or None
            Shape of ``batch.noise``.
        """
        return None

    def usable(self, batch):
        """Tell whether any stratum holds what it takes to say something about dependence.

        Parameters
        ----------
        batch : Batch
            Labels.

        Returns
        -------
        usable : Tensor of shape (), bool
            False for a batch on which the measure is zero for lack of trials.
        """
        return self._has_two_subjects(cell_counts(batch, torch.float32)[1]).any()

    def usable_strata(self, cells):
        """Tell which strata have two subjects with enough trials; one subject alone says nothing.

        Parameters
        ----------
        cells : Tensor of shape (n_strata, n_subjects, n)
            Indicator rows, from :func:`~braindecode_censor.penalties.batch.cell_rows`.

        Returns
        -------
        usable : Tensor of shape (n_strata,), bool
            Which strata count.
        """
        return self._has_two_subjects(cells.sum(-1))

    def _has_two_subjects(self, counts):
        return (counts >= self.min_trials).sum(-1) >= 2


def _of_each(values, method, measure):
    """Values of two codes, checked to be two."""
    if values.shape != (2,):
        raise ValueError(
            f"{type(measure).__name__} says takes_stacks, but its {method} returns shape {tuple(values.shape)} for a "
            "stack of two codes, expected (2,): return a value for each code, or set takes_stacks = False."
        )
    return values


def mean_over_strata(value, usable, reduction):
    """Average over the usable strata, or add them up.

    Parameters
    ----------
    value : Tensor of shape (n_strata, ...)
        Value of each stratum, or several; must be finite also where it is not usable.
    usable : Tensor of shape (n_strata,), bool
        Which count.
    reduction : {"mean", "sum"}
        How to combine.

    Returns
    -------
    value : Tensor of shape (...)
        Zero, and differentiable, when none counts.
    """
    total = usable.to(value.dtype) @ value
    return total if reduction == "sum" else total / usable.sum().clamp_min(1)


def with_gradient(value, gradient, z):
    """Give a value the gradient in z that is known already; cheaper than asking autograd to find it.

    Parameters
    ----------
    value : Tensor of shape (...)
        Value of each code.
    gradient : Tensor of shape (..., n, n_features)
        Its gradient in z.
    z : Tensor of shape (..., n, n_features)
        Latent codes.

    Returns
    -------
    value : Tensor of shape (...)
        Differentiable in z.
    """
    return value + (gradient * (z - z.detach())).sum((-2, -1))
