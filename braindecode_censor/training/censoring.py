"""One censoring step: the penalty pushes the latent code, and the critic learns from it."""

import copy
import math

import torch
from torch import nn

from braindecode_censor.penalties.critics import VectorAdam
from braindecode_censor.penalties.factory import make_penalty
from braindecode_censor.penalties.gradients import critic_gradient_by_autograd, gradient_by_autograd
from braindecode_censor.penalties.penalty import Penalty, at_least_single

__all__ = ["CensoringStep", "EpochMonitor", "build_penalty"]

# Trials per epoch on which the critic's accuracy is taken: enough to read it, too few to cost time.
_MONITORED = 128


def build_penalty(penalty, z, random_state, **options):
    """Make a penalty without touching torch's global generator.

    Parameters
    ----------
    penalty : str or nn.Module
        Method, or a finished penalty, which is copied.
    z : Tensor
        A latent code, for its device and type.
    random_state : int
        Seed of the critic's weights.
    **options
        What :func:`~braindecode_censor.make_penalty` takes; unused for a finished penalty.

    Returns
    -------
    penalty : nn.Module
        In training mode, on the device of `z` and of its type.
    """
    if isinstance(penalty, nn.Module):
        return copy.deepcopy(penalty).to(z).train()
    with torch.random.fork_rng(devices=[z.device] if z.is_cuda else []):
        torch.manual_seed(random_state)
        return make_penalty(penalty, **options).to(z).train()


class CensoringStep:
    r"""Return the gradient of the penalty in z, and train the critic on z.

    One evaluation of the critic says both what the penalty is and how the critic is to change, as in the paper's
    listings for BEGAN and as with a gradient reversal layer. So, with one step per batch, the penalty comes from a
    critic that has not learnt from this batch yet, and a bound that it gives on the mutual information is not biased
    by that.

    Parameters
    ----------
    penalty : nn.Module
        Made by :func:`~braindecode_censor.make_penalty`.
    critic_lr : float
        Learning rate of the critic's Adam.
    critic_steps : int
        Critic steps per call; the penalty is that before the last one.
    random_state : int
        Seed of random pairs.

    Attributes
    ----------
    noise : Tensor or None
        The random draws of the last call.
    labels : tuple
        The labels of the last call as the penalty takes them.
    """

    def __init__(self, penalty, critic_lr=1e-3, critic_steps=1, random_state=0):
        self.penalty = penalty
        kind = type(penalty)  # a penalty of a user's own may not know batches
        self._takes_batches = isinstance(penalty, Penalty) and (
            kind.forward is Penalty.forward and kind.critic_loss is Penalty.critic_loss
        )
        self._writes_gradients = self._takes_batches and penalty.writes_gradients()
        self._mode = _without_autograd(penalty) if self._takes_batches else torch.no_grad
        self.critic_steps = critic_steps
        self.generator = torch.Generator().manual_seed(random_state)
        self.noise, self.labels, self._batch = None, None, (None, None)
        parameters = penalty.critic_parameters()
        self.optimizer = VectorAdam(parameters, critic_lr) if parameters else None

    def __call__(self, z, s, y, needs_gradient=True):
        """Take the step.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s, y : Tensor of shape (n,)
            Subject labels and task labels.
        needs_gradient : bool
            Whether the gradient is wanted, or only the numbers.

        Returns
        -------
        gradient : Tensor of shape (n, n_features) or None
            Of the penalty, in z.
        numbers : tuple of two Tensor of shape ()
            The penalty and the critic's loss.
        """
        dtype, z = z.dtype, at_least_single(z)  # half precision is too coarse here
        self.labels = (self._batch_of(z, s, y),) if self._takes_batches else (s, y)
        if torch.is_autocast_enabled(z.device.type):
            with torch.autocast(z.device.type, enabled=False):
                gradient, numbers = self._take(z, needs_gradient)
        else:
            gradient, numbers = self._take(z, needs_gradient)
        return gradient if gradient is None or gradient.dtype == dtype else gradient.to(dtype), numbers

    def _take(self, z, needs_gradient):
        self.noise = self.penalty.draw_noise(self.generator)
        with self._mode() if len(z) > 1 else torch.no_grad():  # what asks autograd turns it on
            codes = self.penalty.split(z) if self._writes_gradients else None
            if self.optimizer is None or len(z) < 2:
                value, gradient = self._penalise(z, codes, needs_gradient)
                critic_loss = z.new_full((), math.nan)
            else:
                for _ in range(self.critic_steps - 1):
                    self.optimizer.step(self._ask_critic(z, codes)[1])
                value, gradient, critic_loss, gradients = self._ask_both(z, codes, needs_gradient)
                self.optimizer.step(gradients)
        # copies, because what was made in inference mode nobody may write into, and because nobody knows what else a
        # penalty of a user's own does with what it returns
        numbers = value.clone(), critic_loss.clone()
        return gradient if gradient is None else gradient.clone(), numbers

    def _batch_of(self, z, s, y):
        """The labels as the penalty takes them, so that what follows from them is found out once.

        Balanced batches have the same labels again and again. To look whether they do would wait for a GPU.
        """
        if s.is_cuda:
            return self.penalty.make_batch(z, s, y)
        known, shape = self._batch
        if z.shape != shape or not (_equal(known.s, s) and _equal(known.y, y)):
            # copies, lest somebody write new labels into the old tensors
            known = self.penalty.make_batch(z, s.clone(), None if y is None else y.clone())
            self._batch = known, z.shape
        return known

    def _penalise(self, z, codes, needs_gradient):
        """The penalty, and its gradient in z."""
        labels = self.labels
        if not needs_gradient:
            return self.penalty(z, *labels, noise=self.noise), None
        if self._writes_gradients and len(z) > 1:
            batch = labels[0] if self.noise is None else self.penalty.make_batch(z, *labels, noise=self.noise)
            return self.penalty.written_gradient(codes, batch)
        return gradient_by_autograd(self.penalty, z, *labels, noise=self.noise)

    def _ask_both(self, z, codes, needs_gradient):
        """The penalty, its gradient in z, the critics' loss, and its gradients."""
        if codes is not None and needs_gradient and self.noise is None:
            return self.penalty.written_gradients(codes, *self.labels)
        return *self._penalise(z, codes, needs_gradient), *self._ask_critic(z, codes)

    def _ask_critic(self, z, codes):
        """The critics' loss, and its gradients."""
        if self._writes_gradients:
            return self.penalty.written_critic_gradient(codes, *self.labels)
        return critic_gradient_by_autograd(self.penalty, self.optimizer.parameters, z, *self.labels)


def _without_autograd(penalty):
    """Inference mode, in which torch takes less time over each call, for what is known never to ask autograd."""
    return torch.inference_mode if penalty.writes_gradients() and penalty.is_own() else torch.no_grad


def _equal(known, labels):
    """Whether labels are the same as those known; of those that the penalty did not ask for, None is known."""
    if known is None or labels is None:
        return known is None
    return known.device == labels.device and torch.equal(known, labels)


class EpochMonitor:
    """The numbers of an epoch's batches, read from the device once at its end."""

    def __init__(self):
        self.numbers, self.seen, self.n_seen = [], [], 0
        self.labels = self.gradient = None  # of the first batch

    def add(self, numbers, z, s, y, gradient=None, labels=None):
        """Take in a batch.

        Parameters
        ----------
        numbers : tuple of two Tensor of shape ()
            The penalty and the critic's loss.
        z : Tensor of shape (n, n_features)
            Latent code.
        s, y : Tensor of shape (n,)
            Subject labels and task labels.
        gradient : Tensor of shape (n, n_features), optional
            Of the penalty, in z.
        labels : tuple, optional
            `s` and `y` as the penalty takes them.
        """
        self.numbers.append(numbers)
        if not self.seen:
            self.gradient, self.labels = gradient, labels or (s, y)
        if self.n_seen < _MONITORED:
            self.seen.append((z, s, y))
            self.n_seen += len(z)

    def report(self, penalty):
        """Return the epoch's numbers.

        Parameters
        ----------
        penalty : nn.Module
            The penalty, for its diagnostics.

        Returns
        -------
        numbers : dict of str to float
            ``penalty``, with a critic ``critic_loss``, and the diagnostics; beside an ``accuracy`` of the
            critic also ``chance``, the share of the most frequent subject among the same trials.
        """
        if not self.numbers:
            return {}
        mean, critic_loss = (torch.stack(values).mean().item() for values in zip(*self.numbers))
        numbers = {"penalty": mean}
        if not math.isnan(critic_loss):
            numbers["critic_loss"] = critic_loss
        if isinstance(penalty, Penalty) and penalty.keeps_diagnostics():
            kept = {name: value.item() for name, value in penalty.kept_diagnostics().items()}
            if not any(map(math.isnan, kept.values())):  # else the critic has not learnt from any batch yet
                return numbers | kept
        # To count trials takes many; what depends on the size of a sample is to be seen at a batch's.
        many = getattr(penalty, "counts_trials", getattr(penalty, "has_critic", True))
        # Of any but our own penalties nobody knows what their gradient is the gradient of, and what labels they take.
        own = isinstance(penalty, Penalty) and type(penalty).diagnostics is Penalty.diagnostics
        z, s, y = (torch.cat(parts) for parts in zip(*(self.seen if many else self.seen[:1])))
        labels = self.labels if own and not many else (s, y)
        asks = own and any(measure.diagnoses_gradient for measure in penalty.measures)
        knows = not many and asks and penalty.writes_gradients()
        with _without_autograd(penalty)() if own else torch.no_grad():
            found = penalty.diagnostics(z, *labels, **({"gradient": self.gradient} if knows else {}))
        numbers |= {name.removeprefix("subject_"): value.item() for name, value in found.items()}
        if "accuracy" in numbers:
            numbers["chance"] = (torch.bincount(s).max() / len(s)).item()
        return numbers
