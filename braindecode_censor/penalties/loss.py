"""The censored objective for plain torch loops."""

from torch import nn

from braindecode_censor._check import check_finite_number

__all__ = ["CensoredLoss"]


class CensoredLoss(nn.Module):
    r"""Task loss plus censoring, :math:`\mathcal L_\mathrm{task}+\lambda\,\mathcal L_\mathrm{censor}`.

    Parameters
    ----------
    task_loss : callable
        Maps the classifier's output and y to a scalar, such as ``nn.CrossEntropyLoss()``.
    penalty : Penalty
        From :func:`~braindecode_censor.make_penalty`.
    weight : float
        The paper's :math:`\lambda`.

    Notes
    -----
    The critic's parameters belong to the penalty: give ``model.parameters()`` to the encoder's optimiser and
    ``criterion.critic_parameters()`` to the critic's, and let both take a step on every batch. Methods without a
    critic have no such parameters: make the second optimiser only if ``criterion.penalty.has_critic``.

    Examples
    --------
    >>> import torch
    >>> from braindecode_censor import make_penalty
    >>> penalty = make_penalty("adv", n_features=4, n_subjects=3)
    >>> criterion = CensoredLoss(nn.CrossEntropyLoss(), penalty, weight=0.1)
    >>> z, y, s = torch.randn(6, 4, requires_grad=True), torch.arange(6) % 2, torch.arange(6) % 3
    >>> criterion(z[:, :2], y, z, s).backward()
    """

    def __init__(self, task_loss, penalty, weight=1.0):
        super().__init__()
        if not callable(task_loss) or isinstance(task_loss, type):
            raise ValueError(
                f"task_loss={task_loss!r} must be a function or a module, as nn.CrossEntropyLoss()."
            )
        if not isinstance(penalty, nn.Module) or not hasattr(penalty, "critic_loss"):
            raise ValueError(f"penalty={penalty!r} must be a penalty: pass make_penalty({penalty!r}, ...).")
        self.task_loss = task_loss
        self.penalty = penalty
        self.weight = check_finite_number("weight", weight)

    def forward(self, output, y, z, s):
        """Return the objective of the encoder and the classifier.

        Parameters
        ----------
        output : Tensor
            Output of the classifier.
        y : Tensor of shape (n,)
            Task labels.
        z : Tensor of shape (n, n_features)
            Latent code.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance
            Subject labels, or real values.

        Returns
        -------
        loss : Tensor of shape ()
            Task loss plus weighted penalty.
        """
        loss = self.task_loss(output, y)
        # A weight of zero is plain training, also where the penalty is not finite.
        return loss if self.weight == 0 else loss + self.weight * self.penalty(z, s, y)

    def critic_loss(self, z, s, y=None):
        """Return the critic's loss on a detached code.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code; detached here.
        s : Tensor of shape (n,), or (n, p) for a continuous nuisance
            Subject labels, or real values.
        y : Tensor of shape (n,), optional
            Task labels; only the conditional mode uses them.

        Returns
        -------
        loss : Tensor of shape ()
            Differentiable; zero without a critic.
        """
        return self.penalty.critic_loss(z.detach(), s, y)

    def critic_parameters(self):
        """Return the parameters to be trained on :meth:`critic_loss`.

        Returns
        -------
        parameters : list of Parameter
            Empty without a critic.
        """
        return self.penalty.critic_parameters()
