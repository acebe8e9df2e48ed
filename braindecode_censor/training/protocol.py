"""The training protocol, in terms of skorch: what is split, normalised, drawn, augmented, scheduled and kept."""

import math
from contextlib import contextmanager
from itertools import islice

import mne
import numpy as np
import torch
from skorch.utils import to_device, to_tensor
from torch.utils.data import Subset

from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.parts import _PartsClassifier
from braindecode_censor.training.preparation import (
    check_training_part,
    choose_validation,
    encode,
    normalize_trials,
    read_subjects,
    split_people,
)
from braindecode_censor.training.rules import DivergedError
from braindecode_censor.training.schedule import count_epochs, count_steps, learning_rate
from braindecode_censor.training.task_loss import FoldCrossEntropy, class_weight
from braindecode_censor.trials.augment import make_transforms
from braindecode_censor.trials.dataset import (
    StoredTrials,
    Trials,
    check_labels,
    check_sense,
    home,
    read_signals,
)
from braindecode_censor.trials.normalize import SubjectNormalizer
from braindecode_censor.trials.sampler import SubjectBatches
from braindecode_censor.trials.stored import BLOCK, StoredSignals, read_blocks

__all__ = []

# Moments of single trials cost as those of their batches in three to six epochs, and 17 kB a trial.
_EPOCHS_THAT_PAY = 8
_LARGEST_TABLE = 2**30


class _ProtocolClassifier(_PartsClassifier):
    """Braindecode's classifier with the protocol's data path; the constructor is its subclass's business."""

    trials_ = None  # the data, while training
    augment_batch_ = None  # what changes the signals of a step, while training
    adapted_ = False  # whether it decodes one person's trials
    head_ = None  # what labelled trials of that person add to the last layer

    def _prepare(self, X, y, subjects, continues=False):
        """Check and encode what fit was given, and decide on everything that depends on it."""
        self.adapted_, self.head_ = False, None
        signals, targets = read_signals(X)
        if continues:
            self._check_shape(signals)
        n_trials = len(signals)
        y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
        needed = self.penalty is not None or self.valid_subject is not None
        subjects = read_subjects(X, subjects, n_trials, needed)
        if continues:
            remedy = "partial_fit goes on with these, fit begins anew with others."
            codes = encode(y, self.classes_inferred_, remedy)
        else:
            self.classes_inferred_, codes = np.unique(y, return_inverse=True)
            check_sense(signals, self.classes_inferred_)
        self._split(codes, subjects, continues)
        if not continues:
            sfreq = {"sfreq": X.info["sfreq"]} if isinstance(X, mne.BaseEpochs) else {}
            n_chans, n_times = signals.shape[1:]
            sizes = {"n_chans": n_chans, "n_times": n_times, "n_outputs": len(self.classes_)}
            self.signal_args_ = {**sizes, **sfreq}
        if (
            self.initialized_ and self.criterion is FoldCrossEntropy
        ):  # it was made with the weights of other trials
            self.criterion_ = to_device(self.initialize_criterion().criterion_, self.device)
        self.normalizer_ = SubjectNormalizer(self.normalize, self.prior)
        signals = normalize_trials(self.normalizer_, signals, subjects, self.split_[0])
        augmentation = self._make_augmentation(continues)
        # its method, because skorch takes a module for a part of the network
        self.augment_batch_ = None if augmentation is None else augmentation.apply
        return self._make_trials(signals, codes, subjects), codes

    def _split(self, codes, subjects, continues=False):
        """Decide who validates, what a batch holds, and what a class weighs."""
        chosen = choose_validation(self.valid_subject, subjects, self.all_subjects)
        train, valid = split_people(subjects, chosen)
        check_training_part(codes, subjects, train, chosen, self.classes_inferred_, self.penalty is not None)
        self.valid_subject_ = chosen if len(chosen) > 1 else chosen[0] if chosen else None
        self.split_ = train, valid
        self.batches_ = self._make_batches(subjects[train], codes[train], continues)
        share = None if self.batches_ is None else self.batches_.share()
        self.class_weight_ = self.train_weight_ = None
        if self.class_weighted:
            n_classes = len(self.classes_inferred_)
            self.class_weight_ = class_weight(codes[train], n_classes=n_classes)
            self.train_weight_ = class_weight(codes[train], share, n_classes)

    def _make_batches(self, subjects, codes, continues):
        if self.sampling == "shuffle":
            return None
        y = codes if self.censoring == "conditional" else None
        return SubjectBatches(subjects, y, self.batch_size, self.subjects_per_batch, self._seed(continues))

    def _make_augmentation(self, continues=False):
        sfreq = self.signal_args_.get("sfreq", getattr(self, "module__sfreq", None))
        return make_transforms(self.augment, sfreq, self._seed(continues))

    def _make_trials(self, signals, codes=None, subjects=None):
        """Put normalised signals where they are trained on; those in a file stay there, unless a GPU has room."""
        if isinstance(signals, StoredSignals) and home(signals.nbytes, self.device).type == "cpu":
            y = None if codes is None else torch.as_tensor(codes)
            return StoredTrials(signals, y, subjects, pinned=torch.device(self.device).type == "cuda")
        x = self._to_tensor(signals)
        return Trials(x, None if codes is None else torch.as_tensor(codes, device=x.device), subjects)

    def _to_tensor(self, signals):
        if isinstance(signals, StoredSignals):  # block by block, so that the processor's memory holds no copy
            x = torch.empty(signals.shape, device=home(signals.nbytes, self.device))
            for part, block in zip(x.split(BLOCK), read_blocks(signals)):
                part.copy_(torch.as_tensor(block))
            return x
        signals = torch.as_tensor(signals, dtype=torch.float32)
        return signals.to(home(signals.nbytes, self.device))

    def _seed(self, continues=False):
        """The seed; of a training that goes on another one after every epoch, lest it draw the same again."""
        if self.random_state is None:
            return int(torch.randint(2**31, ()))
        if not continues or not len(self.history):
            return self.random_state
        entropy = [self.random_state % 2**32, len(self.history)]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    def _train(self, X, y, fit_params):
        try:
            super().partial_fit(X, y, **fit_params)
            self._judge(X)
        finally:
            self.trials_ = self.augment_batch_ = None  # an estimator must not carry its training data around
        return self

    def _judge(self, trials):
        """Score the weights that were kept, or say that the training has failed."""
        if self.keep == "best":
            best = dict(self.callbacks_)["best"]
            self.best_epoch_, self.valid_score_ = best.epoch_, best.score_
            return
        loss = self.history[-1].get("train_loss", 0.0)
        weights = self.module_.state_dict().values()
        if not math.isfinite(loss) or not all(torch.isfinite(tensor).all() for tensor in weights):
            raise DivergedError(loss, "Training ended with a loss or weights that are not finite")
        self.best_epoch_, self.valid_score_ = None, math.nan
        valid = self.split_[1]
        if len(valid):
            found = self.predict_proba(Subset(trials, valid.tolist())).argmax(axis=1)
            y = trials.y[valid].cpu().numpy()
            self.valid_score_ = float(np.mean([(found[y == k] == k).mean() for k in np.unique(y)]))

    @contextmanager
    def _seeded(self, continues=False):
        """Seed torch for the time of a fit and leave its generators as they were."""
        if self.random_state is None:
            yield
            return
        on_cuda = torch.device(self.device).type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if on_cuda else []):
            torch.manual_seed(self._seed(continues))
            yield

    # What follows replaces methods of skorch and Braindecode.

    def get_dataset(self, X, y=None):
        """Return the trials of any input as a dataset."""
        if isinstance(X.dataset if isinstance(X, Subset) else X, Trials):
            return X
        signals, _ = read_signals(X)
        self._check_shape(signals)
        return self._make_trials(self.normalizer_.change(signals))

    def _check_shape(self, signals):
        expected = tuple(self.signal_args_[name] for name in ("n_chans", "n_times"))
        if signals.shape[1:] != expected:
            raise ValueError(f"X has {signals.shape[1:]} channels and samples per trial, fit had {expected}.")

    def get_split_datasets(self, X, y=None, **fit_params):
        """Return the trials to train on and those of the people who validate."""
        train, valid = self.split_
        self.trials_ = X  # until training ends
        self._compute_moments(train)
        return Subset(X, train.tolist()), Subset(X, valid.tolist()) if len(valid) else None

    def _compute_moments(self, train):
        """Take out of the training steps what depends on the data alone, if the network offers it."""
        lag_moments = getattr(whole_module(self.module_), "lag_moments", None)
        n_epochs = count_epochs(self.n_steps_, self._steps_per_epoch())
        if lag_moments is None or n_epochs < _EPOCHS_THAT_PAY or self.augment_batch_ is not None:
            return
        one = lag_moments(self.trials_[[0]][0])
        if one.nbytes * len(train) <= _LARGEST_TABLE:
            self.trials_.compute_moments(lag_moments, train)

    def _steps_per_epoch(self):
        if self.batches_ is not None:
            return len(self.batches_)
        options = self.get_params_for("iterator_train")
        n_trials, size = len(self.split_[0]), options.get("batch_size", self.batch_size)
        size = min(size, n_trials)  # as our loader does
        return n_trials // size if options.get("drop_last") else math.ceil(n_trials / size)

    def fit_loop(self, X, y=None, epochs=None, **fit_params):
        """Train until the last step."""
        steps_per_epoch = self._steps_per_epoch()
        self.step_, self.complete_ = 0, False
        self.n_steps_ = count_steps(self.max_steps, self.max_epochs, steps_per_epoch)
        super().fit_loop(X, y, count_epochs(self.n_steps_, steps_per_epoch), **fit_params)
        self.complete_ = True
        return self

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Train or validate for an epoch, of which the last may be cut short."""
        if training:
            iterator = islice(iterator, self.n_steps_ - self.step_)
        super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
        if training:
            self.history.record("event_lr", self.optimizer_.param_groups[0]["lr"])

    def train_step(self, batch, **fit_params):
        """Take one step: set the learning rate, change the signals, and follow the gradient."""
        self._set_learning_rate()
        if self.augment_batch_ is not None:
            batch = self.augment_batch_(batch[0].to(self.device), self.step_), batch[1]
        step = super().train_step(batch, **fit_params)
        self.step_ += 1
        return step

    def _set_learning_rate(self):
        if self.schedule == "constant":  # a scheduler among the user's callbacks may have its own plans
            return
        epoch = len(self.history) - 1
        for group in self.optimizer_.param_groups:
            top = group.setdefault("initial_lr", group["lr"])
            group["lr"] = learning_rate(self.schedule, top, self.step_, self.n_steps_, epoch)

    def infer(self, x, **fit_params):
        """Run the network on a batch."""
        moments = self.trials_.moments_of(x) if self.trials_ is not None and self.module_.training else None
        if moments is not None:
            fit_params["moments"] = moments.to(self.device)
        y_pred = super().infer(x, **fit_params)
        if self.head_ is None:
            return y_pred
        z = code_of(whole_module(self.module_), self.layer, to_tensor(x, device=self.device))
        return y_pred + z @ self.head_["coef"].T + self.head_["intercept"]

    @property
    def _was_fitted(self):
        """Whether there is a training to go on with."""
        return self.initialized_ and hasattr(self, "signal_args_")
