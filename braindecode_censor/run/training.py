"""One training: some subjects are fitted, others are decoded afterwards, and a result is left behind."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pydantic import JsonValue
from sklearn.base import BaseEstimator

from braindecode_censor.run.model import is_storable, unpack_model
from braindecode_censor.storage.keys import as_plain, subject_digests, versions
from braindecode_censor.storage.schema import Label, Schema
from braindecode_censor.storage.seal import digest
from braindecode_censor.storage.tensors import read_tensors, write_tensors
from braindecode_censor.trials.splits import validation_subject
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["TARGETS", "Training", "TrainingResult", "TrialData"]

#: Target data: what a decoder may know of the subjects that it decodes.
TARGETS = ("none", "unlabeled", "labeled")
_FORMAT = "braindecode-censor training 1"
# The first changes nothing, the others are resolved to the subject who validates.
_NOT_IN_KEY = {"verbose", "valid_subject", "all_subjects"}


class _Header(Schema):
    subjects: list[Label]
    record: dict[str, JsonValue]
    error: str | None


@dataclass
class TrialData:
    """The trials of all subjects."""

    X: np.ndarray  # (n_trials, n_chans, n_times), or signals in a file
    y: np.ndarray  # (n_trials,), classes 0 .. n_classes - 1
    subjects: np.ndarray  # (n_trials,), labels

    @cached_property
    def n_classes(self):
        """The number of classes."""
        return int(self.y.max()) + 1

    @cached_property
    def digests(self):
        """Subject -> checksum of the subject's trials."""
        return subject_digests(self.X, self.y, self.subjects)

    def rows(self, subjects):
        """Return the positions of the trials of some subjects."""
        return np.flatnonzero(np.isin(self.subjects, np.asarray(subjects)))

    def take(self, rows):
        """Return the signals at some positions; those in a file stay there."""
        return self.X.subset(rows) if isinstance(self.X, StoredSignals) else self.X[rows]


@dataclass(frozen=True, eq=False)
class Training:
    """Specification of one training: an estimator, its training subjects, and those it decodes afterwards."""

    name: str  # of the candidate or configuration, as tables call it
    estimator: BaseEstimator  # not fitted
    train: tuple  # subjects it may see
    test: tuple  # subjects it decodes afterwards
    target: str = "none"  # what it may know of those it decodes
    callbacks: tuple = ()  # (name, skorch callback) that may end it early; not part of the key

    def key(self, data):
        """Return the name of the result in a store; None for an estimator that no file can hold without code."""
        if not is_storable(self.estimator):
            return None
        params = self.estimator.get_params(deep=False)
        order = data.subjects[data.rows(self.train)]
        valid = params.get("valid_subject")
        if isinstance(valid, str) and valid == "rotate":
            valid = validation_subject(order, params["all_subjects"])
        parts = (
            type(self.estimator).__name__,
            sorted((name, value) for name, value in params.items() if name not in _NOT_IN_KEY),
            as_plain(valid),
            versions(),
            [as_plain(subject) for subject in order.tolist()],
            {as_plain(subject): data.digests[as_plain(subject)] for subject in (*self.train, *self.test)},
            [as_plain(subject) for subject in self.test],
            self.target,
        )
        return digest(repr(parts).encode())


@dataclass
class TrainingResult:
    """Result of a training: the model, held-out probabilities and a record."""

    training: Training
    model: bytes | object = b""  # a user's own estimator travels as it is
    probabilities: dict = field(default_factory=dict)  # subject -> (n_trials, n_classes)
    record: dict = field(default_factory=dict)  # seconds, history, validation score, versions
    error: str | None = None

    @property
    def seconds(self):
        """The duration of the training."""
        return self.record.get("seconds", 0.0)

    @property
    def diverged(self):
        """True if the loss was not finite, which another run would repeat."""
        return self.error is not None and self.error.startswith("DivergedError")

    @property
    def out_of_time(self):
        """True for a network that was still training at the deadline."""
        return self.error is not None and self.error.startswith("OutOfTimeError")

    def estimator(self, device="cpu", **params):
        """Return the fitted estimator."""
        return unpack_model(self.model, device, **params)

    def to_bytes(self):
        """Return all of it but the training."""
        arrays = {str(k): values for k, values in enumerate(self.probabilities.values())}
        arrays["model"] = np.frombuffer(self.model, dtype=np.uint8)
        header = {"subjects": [as_plain(subject) for subject in self.probabilities]}
        return write_tensors(arrays, header | {"record": self.record, "error": self.error}, _FORMAT)

    @classmethod
    def from_bytes(cls, training, content):
        """Return the result of a training that :meth:`to_bytes` wrote."""
        name = "a training" if training is None else f"the result of {training.name!r}"
        header, tensors = read_tensors(content, _FORMAT, name, _Header, finite=False)
        if tensors.keys() != {"model", *map(str, range(len(header.subjects)))}:
            raise ValueError(f"{name} is damaged: it holds {sorted(tensors)}.")
        probabilities = {subject: tensors[str(k)].numpy() for k, subject in enumerate(header.subjects)}
        model = tensors["model"].numpy().tobytes()
        return cls(training, model, probabilities, header.record, header.error)
