"""One training of the fleet: an estimator, what it may see, and the random numbers that are its own."""

import warnings
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils.data import Subset

from braindecode_censor.fleet.stack import adam_coefficients
from braindecode_censor.penalties.penalty import DegenerateBatchWarning
from braindecode_censor.training.censoring import warm_up
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.rules import DivergedError, has_waited
from braindecode_censor.training.schedule import count_steps, learning_rate
from braindecode_censor.trials.dataset import Trials

__all__ = ["Member", "graph_key"]

# Arguments that act on one member only; all others decide about the graph.
_OWN = {"weight", "lr", "schedule", "warmup", "critic_lr", "random_state", "max_epochs", "max_steps"}
_OWN |= {"patience", "valid_subject", "all_subjects", "prior", "verbose"}
# Arguments that decide what the encoder computes, beside those of the module and of the signals.
_ENCODER = {"fast", "layer", "normalize", "augment", "batch_norm_momentum", "device", "cropped"}


class Member:
    """An estimator made ready to train, exactly as its ``fit`` would be, and its progress."""

    alone = None

    def __init__(self, key, clf, seen, people, y):
        subjects, shape = people.subjects, people.signals.shape[1:]
        self.key, self.clf, self.seen = key, clf, seen
        self.history, self.seconds, self.error = [], 0.0, None
        self.count = 0  # of optimiser steps
        self._ahead = None  # batches of the next epoch, if they are drawn already
        self.best_epoch, self.best_loss, self.best_score = None, np.inf, np.nan
        clf.classes_inferred_, codes = np.unique(y[seen], return_inverse=True)
        with clf._seeded():
            clf._split(codes, subjects[seen])
            clf.signal_args_ = {"n_chans": shape[0], "n_times": shape[1], "n_outputs": len(clf.classes_)}
            clf.normalizer_ = people.normalizer(clf, seen[clf.split_[0]])
            clf.initialize()
            # What is left of the stream of numbers orders the trials and drops out.
            self.generator = torch.Generator().set_state(torch.get_rng_state())
        train, valid = clf.split_
        self.y, self.s = (np.zeros(len(y), dtype=np.int64) for _ in range(2))
        self.y[seen] = codes
        trained_on, self.s[seen[train]] = np.unique(subjects[seen][train], return_inverse=True)
        self._places = seen[train]
        positions = Trials(torch.as_tensor(seen), torch.as_tensor(codes))
        # The estimator's own loaders over positions instead of signals: the very batches it would draw.
        self._train = clf.get_iterator(Subset(positions, train.tolist()), training=True, drop_index=False)
        self._valid = ()
        if len(valid):
            self._valid = clf.get_iterator(Subset(positions, valid.tolist()), drop_index=False)
        with torch.random.fork_rng(devices=[]):  # looking must not use up the numbers of the first epoch
            self.valid = [x.numpy() for x, _ in self._valid]
        self.censor = self._make_censor(trained_on)
        self.n_steps = count_steps(clf.max_steps, clf.max_epochs, clf._steps_per_epoch())
        self.signature, self.encoder_signature = self._sign()

    def _make_censor(self, people):
        """Build penalty and critic as the callback would when it sees the first batch."""
        if self.clf.penalty is None:
            return None
        callback = dict(self.clf.callbacks_)["censor"]
        callback._check_parameters(self.clf)
        callback.labels_, callback.n_classes_ = people, self.clf.signal_args_["n_outputs"]
        weight = next(self.clf.module_.parameters())
        censor = callback._build(weight.new_empty(1, _code_width(self.clf)))
        least, batches = censor.penalty.measures[0].min_trials, self.clf.batches_
        if batches is not None and batches.shape[2] < least:  # a traced penalty cannot look, and is zero
            where = " and class" if batches.n_classes > 1 else ""
            warnings.warn(
                f"Batches hold {batches.shape[2]} trials of a subject{where}, and the penalty needs {least}: it is "
                "zero. Use a larger batch_size or fewer subjects_per_batch.",
                DegenerateBatchWarning,
                stacklevel=2,
            )
        return censor

    @property
    def epoch(self):
        """Epochs behind it."""
        return len(self.history)

    def _sign(self):
        """All that must be equal for members to share a graph, and all of it that concerns the encoder."""
        params = _shared_params(self.clf)
        encoder = {k: v for k, v in params.items() if k.startswith(("module", "optimizer")) or k in _ENCODER}
        sizes = {name: tuple(p.shape) for name, p in self.clf.module_.named_parameters()}
        shape = tuple(self.clf.signal_args_.values())
        encoder = repr((sorted(encoder.items(), key=str), list(sizes.items()), shape))
        penalty = None
        if self.censor is not None:
            sizes |= {f"critic.{name}": tuple(p.shape) for name, p in self.censor.penalty.named_parameters()}
            penalty = self.censor.penalty, self.censor.penalty.n_subjects, self.censor.critic_steps
        dtype = next(self.clf.module_.parameters()).dtype
        kind = type(self.clf).__name__
        signature = repr((kind, sorted(params.items(), key=str), sizes, dtype, penalty))
        return signature, repr((kind, encoder, dtype))

    @contextmanager
    def _own_numbers(self):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            yield
            self.generator.set_state(torch.get_rng_state())

    def _needs_loaders(self, drops_out):
        """Whether what the loaders draw from torch's generator matters to anybody."""
        return drops_out or self.clf.batches_ is None

    def draw_batches(self, drops_out=True):
        """Return the batches of the next epoch."""
        left = self.n_steps - self.count  # the last epoch may be cut short
        if not self._needs_loaders(drops_out):
            drawn, self._ahead = self._ahead or self._draw(), None
            return drawn[:left]
        with self._own_numbers():
            return [positions.numpy() for positions, _ in self._train][:left]

    def draw_ahead(self):
        """Draw the batches of the epoch after this one, where a sampler with numbers of its own does it."""
        if not self._needs_loaders(drops_out=False):
            self._ahead = self._draw()

    def _draw(self):
        return [self._places[batch] for batch in self.clf.batches_.arrays()]

    def draw_validation(self, drops_out=True):
        """Draw the numbers that the validation loader draws, and forget them."""
        if self._needs_loaders(drops_out):
            with self._own_numbers():
                for _ in self._valid:
                    pass

    def draw_noise(self):
        """Return the random numbers of the penalty for one batch."""
        noise = None if self.censor is None else self.censor.penalty.draw_noise(self.censor.generator)
        return None if noise is None else noise.numpy()

    def advance(self, n_steps):
        """Count the steps of an epoch and return what they need of this member."""
        counts = self.count + np.arange(1, n_steps + 1)
        self.count += n_steps
        clf, options = self.clf, self.clf.optimizer_.defaults
        rates = [learning_rate(clf.schedule, clf.lr, step - 1, self.n_steps, self.epoch) for step in counts]
        lr = np.array(rates)
        found = [*adam_coefficients(counts, lr, options["betas"], options["weight_decay"])]
        found.append(warm_up(clf.weight, self.epoch, clf.warmup))
        if self.censor is not None and self.censor.optimizer is not None:
            first = (counts - 1) * clf.critic_steps
            betas = self.censor.optimizer.defaults["betas"]
            for k in range(clf.critic_steps):
                found += adam_coefficients(first + k + 1, clf.critic_lr, betas)
        return counts, np.stack(np.broadcast_arrays(*found, counts)[:-1], axis=1)

    def end_epoch(self, numbers, logits):
        """Write the epoch into the history."""
        row = {"epoch": self.epoch + 1, **numbers}
        self.history.append(row)
        if not self.valid:
            return True
        row["valid_loss"], row["valid_balanced_accuracy"] = self._judge(logits)
        if row["valid_loss"] < self.best_loss:
            self.best_epoch, self.best_loss = self.epoch, row["valid_loss"]
            self.best_score = row["valid_balanced_accuracy"]
            return True
        return False

    def _judge(self, logits):
        y = torch.as_tensor(self.y[np.concatenate(self.valid)])
        weight = self.clf.criterion_.weight
        weight = None if weight is None else weight.cpu().to(logits.dtype)
        sizes = [len(batch) for batch in self.valid]
        losses = [
            torch.nn.functional.cross_entropy(part, target, weight=weight).item()
            for part, target in zip(logits.split(sizes), y.split(sizes))
        ]
        correct = np.bincount(y, weights=(logits.argmax(1) == y).numpy(), minlength=logits.shape[1])
        total = np.bincount(y, minlength=logits.shape[1])
        return np.average(losses, weights=sizes), float((correct[total > 0] / total[total > 0]).mean())

    def restore(self, host, generator, noise_generator):
        """Go on from where the member was saved."""
        vars(self).update(host)
        self.generator.set_state(generator)
        if noise_generator is not None:
            self.censor.generator.set_state(noise_generator)
        if self.clf.batches_ is not None:  # the sampler has a generator of its own: draw what was drawn
            for _ in range(self.epoch):
                for _ in self.clf.batches_:
                    pass

    def is_finished(self):
        """Tell whether it has taken all its steps or waited long enough for a better one."""
        waited = bool(self.valid) and has_waited(self.epoch, self.best_epoch, self.clf.patience)
        return waited or self.count >= self.n_steps

    def finish(self, state, resident):
        """Make the estimator a fitted one, or say why not."""
        clf = self.clf
        for row in self.history:
            clf.history.new_epoch()
            for name, value in row.items():
                clf.history.record(name, value)
        clf.best_epoch_, clf.valid_score_ = self.best_epoch, self.best_score
        clf.step_, clf.n_steps_, clf.complete_ = self.count, self.n_steps, True
        try:
            if state is None:
                raise DivergedError(self.history[-1].get("train_loss"))
            clf.module_.load_state_dict(state)
            if clf.keep != "best":
                clf._judge(resident.trials_of(self))
        except DivergedError as error:
            self.error = str(error)


def graph_key(clf):
    """Return what an estimator's arguments say about its graph."""
    return repr(sorted(_shared_params(clf).items(), key=str))


def _shared_params(clf):
    return {k: v for k, v in clf.get_params(deep=False).items() if k not in _OWN}


def _code_width(clf):
    """Width of the latent code: the size of the input of its layer."""
    module, training = clf.module_, clf.module_.training
    sizes = (clf.signal_args_[name] for name in ("n_chans", "n_times"))
    try:
        x = next(module.parameters()).new_zeros(2, *sizes)
        return code_of(module.eval(), clf.layer, x).shape[1]
    finally:
        module.train(training)
