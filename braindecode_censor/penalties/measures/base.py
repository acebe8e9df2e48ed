"""Base class of the dependence measures."""

from typing import ClassVar

import torch
from torch import nn

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.penalties.batch import cell_rows

__all__ = ["Measure", "mean_over_strata"]


class Measure(nn.Module):
    """Base of all measures of the dependence between a latent code and a nuisance.

    A measure receives columns of z and a :class:`~braindecode_censor.penalties.batch.Batch`; it does not depend on
    the mode. To write one, override :meth:`censor`, and with a critic :meth:`critic_loss` too; see
    :data:`braindecode_censor.penalties.measures.MEASURES`. Autograd finds all gradients.

    Parameters
    ----------
    n_features : int, optional
        Number of columns of z that it receives.
    n_subjects : int, optional
        Number of subjects.
    n_classes : int, optional
        Number of classes when the mode conditions on y, else None.
    nuisance : {"discrete", "continuous"}
        Type of s: labels or real values.
    reduction : {"mean", "sum"}
        "sum" adds where the paper's listings add.
    min_trials : int
        Trials a subject needs (within a stratum) to count.
    """

    #: Types of nuisance that the measure supports.
    nuisances = ("discrete", "continuous")
    #: Option -> range or choices of a search; see :mod:`braindecode_censor.penalties.options`.
    search_space: ClassVar = {}
    #: True if the measure trains a network and therefore needs all sizes at construction.
    has_critic = False
    #: True if the CPU waits for a value that the measure computes. If not, a fleet captures its steps on a GPU.
    waits = True

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
        self.n_features = n_features
        self.n_subjects = n_subjects
        self.n_classes = n_classes
        self.nuisance = check_choice("nuisance", nuisance, ("discrete", "continuous"))
        self.reduction = check_choice("reduction", reduction, ("mean", "sum"))
        self.min_trials = check_size("min_trials", min_trials, minimum=1)

    def extra_repr(self):
        """Return the sizes that ``repr`` prints."""
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

    def critic_loss(self, z, batch):
        """Return the loss of the critic; zero without a critic.

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

    def diagnostics(self, z, batch):
        """Return numbers for a log, as tensors, so that the CPU does not wait for a GPU.

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

    def noise_shape(self, n_subjects):
        """Return the shape of the uniform random numbers that the measure needs, None for none.

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
        """Return True if any stratum has enough trials to estimate the dependence.

        Parameters
        ----------
        batch : Batch
            Labels.

        Returns
        -------
        usable : Tensor of shape (), bool
            False for a batch on which the measure is zero for lack of trials.
        """
        return self.usable_strata(cell_rows(batch, torch.float32)[1]).any()

    def usable_strata(self, cells):
        """Return the strata that have at least two subjects with enough trials.

        Parameters
        ----------
        cells : Tensor of shape (n_strata, n_subjects, n)
            Indicator rows, from :func:`~braindecode_censor.penalties.batch.cell_rows`.

        Returns
        -------
        usable : Tensor of shape (n_strata,), bool
            True for the strata that count.
        """
        return (cells.sum(-1) >= self.min_trials).sum(-1) >= 2


def mean_over_strata(value, usable, reduction):
    """Average over the usable strata, or add them up."""
    total = usable.to(value.dtype) @ value
    return total if reduction == "sum" else total / usable.sum().clamp_min(1)
