"""One training of a fleet: an estimator, its trials, and its own random numbers."""

import warnings
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.metrics import recall_score
from torch.utils.data import Subset

from braindecode_censor.fleet.stack import adam_coefficients
from braindecode_censor.penalties.penalty import DegenerateBatchWarning
from braindecode_censor.training.censoring import warm_up
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.rules import DivergedError, has_waited
from braindecode_censor.training.schedule import count_steps, learning_rate
from braindecode_censor.trials.dataset import Trials

__all__ = ["Replica"]

# Arguments that act on one replica only; all others decide about the graph.
_REPLICA_ARGUMENTS = {"weight", "penalty__warmup", "penalty__critic_lr", "lr", "schedule", "max_epochs"}
_REPLICA_ARGUMENTS |= {"max_steps", "patience", "valid_subject", "all_subjects"}
_REPLICA_ARGUMENTS |= {"random_state", "prior", "verbose"}
# Beginnings of the arguments that decide about the encoder.
_ENCODER_ARGUMENTS = ("module", "optimizer", "fast", "layer", "normalize", "augment", "batch_norm_momentum")
_ENCODER_ARGUMENTS += ("device", "cropped")


class Replica:
    """An estimator, prepared as by its ``fit``, and its progress.

    After training `clf` is fitted, or `error` says why it is not; `seconds` is its fraction of the time.
    """

    def __init__(self, key, clf, train_idx, statistics, y):
        subjects, shape = statistics.subjects, statistics.signals.shape[1:]
        self.key, self.clf, self.train_idx = key, clf, train_idx
        self.history, self.seconds, self.error = [], 0.0, None
        self.count = 0  # optimiser steps
        self._next_batches = None  # of the next epoch, if they are drawn already
        self.best_epoch, self.best_loss, self.best_score = None, np.inf, np.nan
        clf.classes_inferred_, y_encoded = np.unique(y[train_idx], return_inverse=True)
        with clf._seeded():
            clf._split(y_encoded, subjects[train_idx])
            clf.signal_args_ = {"n_chans": shape[0], "n_times": shape[1], "n_outputs": len(clf.classes_)}
            clf.normalizer_ = statistics.normalizer(clf, train_idx[clf.split_[0]])
            clf.initialize()
            # The remaining random numbers order the trials.
            self.generator = torch.Generator().set_state(torch.get_rng_state())
        train, valid = clf.split_
        self.y, self.s = (np.zeros(len(y), dtype=np.int64) for _ in range(2))
        self.y[train_idx] = y_encoded
        labels, self.s[train_idx[train]] = np.unique(subjects[train_idx][train], return_inverse=True)
        self._positions = train_idx[train]
        # The estimator's own loaders, over positions instead of signals, draw the same batches.
        trials = Trials(torch.as_tensor(train_idx), torch.as_tensor(y_encoded))
        self._train = clf.get_iterator(Subset(trials, train.tolist()), training=True, drop_index=False)
        self._valid = ()
        if len(valid):
            self._valid = clf.get_iterator(Subset(trials, valid.tolist()), drop_index=False)
        with torch.random.fork_rng(devices=[]):  # keeps the random numbers of the first epoch
            self.valid = [positions.numpy() for positions, _ in self._valid]
        self.censor = self._make_censor(labels)
        self.n_steps = count_steps(clf.max_steps, clf.max_epochs, clf._steps_per_epoch())
        self.signature, self.encoder_signature = self._sign()

    def _make_censor(self, labels):
        """Build penalty and critic as the callback does for the first batch."""
        self.warmup = 0
        if self.clf.penalty is None:
            return None
        callback = dict(self.clf.callbacks_)["censor"]
        callback._check_parameters(self.clf)
        callback.labels_, callback.n_classes_ = labels, self.clf.signal_args_["n_outputs"]
        self.warmup = callback.warmup
        module, sizes = self.clf.module_, [self.clf.signal_args_[name] for name in ("n_chans", "n_times")]
        x = next(module.parameters()).new_zeros(2, *sizes)
        training = module.training
        z = code_of(module.eval(), self.clf.layer, x)
        module.train(training)
        censor = callback._build(z[:1])
        min_trials, batches = censor.penalty.measures[0].min_trials, self.clf.batches_
        if batches is not None and batches.shape[2] < min_trials:  # Under vmap a penalty is zero silently.
            cell = "subject and class" if batches.shape[1] > 1 else "subject"
            warnings.warn(
                f"Batches hold {batches.shape[2]} trials of a {cell}, and the penalty needs {min_trials}: it is "
                "zero. Use a larger batch_size or fewer subjects_per_batch.",
                DegenerateBatchWarning,
                stacklevel=2,
            )
        return censor

    @property
    def epoch(self):
        """Number of finished epochs."""
        return len(self.history)

    def _sign(self):
        """Return texts that are equal for replicas with equal graphs, and for replicas with equal encoders."""
        clf = self.clf
        params = {k: v for k, v in clf.get_params(deep=False).items() if k not in _REPLICA_ARGUMENTS}
        params = sorted(params.items(), key=str)
        encoder = [(k, v) for k, v in params if k.startswith(_ENCODER_ARGUMENTS)]
        sizes = [(name, tuple(p.shape)) for name, p in clf.module_.named_parameters()]
        shared = type(clf).__name__, sizes, tuple(clf.signal_args_.values())
        shared += (next(clf.module_.parameters()).dtype,)
        penalty = None
        if self.censor is not None:
            penalty = self.censor.penalty
            critic = [(name, tuple(p.shape)) for name, p in penalty.named_parameters()]
            penalty = penalty, penalty.n_subjects, critic, self.censor.critic_steps
        return repr((shared, params, penalty)), repr((shared, encoder))

    @contextmanager
    def _own_random_numbers(self):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            yield
            self.generator.set_state(torch.get_rng_state())

    def draw_batches(self):
        """Return the batches of the next epoch as positions; the last epoch may be cut short."""
        batches, self._next_batches = self._next_batches or self._draw(), None
        return batches[: self.n_steps - self.count]

    def draw_ahead(self):
        """Draw the next batches if the sampler has its own generator, else what the validation loader draws first."""
        if self.clf.batches_ is not None:
            self._next_batches = self._draw()
            return
        with self._own_random_numbers():
            for _ in self._valid:
                pass

    def _draw(self):
        if self.clf.batches_ is not None:
            return [self._positions[batch] for batch in self.clf.batches_.arrays()]
        with self._own_random_numbers():
            return [positions.numpy() for positions, _ in self._train]

    def draw_noise(self):
        """Return the random numbers of the penalty for one batch."""
        noise = None if self.censor is None else self.censor.penalty.draw_noise(self.censor.generator)
        return None if noise is None else noise.numpy()

    def advance(self, n_steps):
        """Count the steps of an epoch; return their numbers and coefficients, one row per step."""
        counts = self.count + np.arange(1, n_steps + 1)
        self.count += n_steps
        clf, options = self.clf, self.clf.optimizer_.defaults
        rates = [learning_rate(clf.schedule, clf.lr, step - 1, self.n_steps, self.epoch) for step in counts]
        columns = [*adam_coefficients(counts, np.array(rates), options["betas"], options["weight_decay"])]
        columns.append(warm_up(clf.weight, self.epoch, self.warmup))
        if self.censor is not None and self.censor.optimizer is not None:
            options, n_critic_steps = self.censor.optimizer.defaults, self.censor.critic_steps
            for k in range(n_critic_steps):
                critic_counts = (counts - 1) * n_critic_steps + k + 1
                columns += adam_coefficients(critic_counts, options["lr"], options["betas"])
        return counts, np.stack(np.broadcast_arrays(*columns, counts)[:-1], axis=1)

    def end_epoch(self, numbers, logits):
        """Write the epoch into the history; return whether its weights are the best so far."""
        row = {"epoch": self.epoch + 1, **numbers}
        self.history.append(row)
        if not self.valid:
            return True
        row["valid_loss"], row["valid_balanced_accuracy"] = self._score(logits)
        if row["valid_loss"] < self.best_loss:
            self.best_epoch, self.best_loss = self.epoch, row["valid_loss"]
            self.best_score = row["valid_balanced_accuracy"]
            return True
        return False

    def _score(self, logits):
        """Return loss and balanced accuracy of the validation trials."""
        y = torch.as_tensor(self.y[np.concatenate(self.valid)])
        weight = self.clf.criterion_.weight
        weight = None if weight is None else weight.cpu().to(logits.dtype)
        sizes = [len(batch) for batch in self.valid]
        losses = [
            torch.nn.functional.cross_entropy(scores, labels, weight=weight).item()
            for scores, labels in zip(logits.split(sizes), y.split(sizes))
        ]
        score = recall_score(y.numpy(), logits.argmax(1).numpy(), labels=y.unique().numpy(), average="macro")
        return np.average(losses, weights=sizes), float(score)

    def restore(self, progress, generator, noise_generator):
        """Continue from a checkpoint."""
        vars(self).update(progress)
        self.generator.set_state(generator)
        if noise_generator is not None:
            self.censor.generator.set_state(noise_generator)
        if self.clf.batches_ is not None:  # The sampler has its own generator, which repeats its draws.
            for _ in range(self.epoch):
                self._draw()

    def is_finished(self):
        """Return whether it has taken all steps, or `patience` epochs without improvement."""
        waited = bool(self.valid) and has_waited(self.epoch, self.best_epoch, self.clf.patience)
        return waited or self.count >= self.n_steps

    def finish(self, state, trials):
        """Complete the estimator with its final weights, or set `error`."""
        clf = self.clf
        for row in self.history:
            clf.history.new_epoch()
            for name, value in row.items():
                clf.history.record(name, value)
        clf.best_epoch_, clf.valid_score_ = self.best_epoch, self.best_score
        clf.step_, clf.n_steps_, clf.complete_ = self.count, self.n_steps, True
        try:
            if clf.keep == "best" and self.best_epoch is None:
                raise DivergedError(self.history[-1].get("train_loss"))
            clf.module_.load_state_dict(state)
            if clf.keep != "best":
                clf._score_final_weights(trials.trials_of(self))
        except DivergedError as error:
            self.error = str(error)
