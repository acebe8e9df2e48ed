"""Classical decoders of trials: features seen from each person's own centre, then logistic regression."""

import copy
import hashlib
import threading
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import check_choice, check_positive, check_size
from braindecode_censor.classical import geometry
from braindecode_censor.classical.features import FEATURES
from braindecode_censor.storage.tensors import read_tensors, write_tensors
from braindecode_censor.trials.balance import balanced_weights
from braindecode_censor.trials.dataset import check_labels, read_signals
from braindecode_censor.trials.stored import LARGEST_COPY
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["TangentSpaceClassifier"]

_FORMAT = "braindecode-censor TangentSpaceClassifier 1"
_CACHE_BYTES = 400e6
_SHORTEST = 16  # samples of a piece, and twice as there are channels, for the sake of covariances


class _Cache:
    """Features of a person's trials, computed once for all trainings that see or test this person."""

    def __init__(self):
        self.kept = OrderedDict()
        self.lock = threading.Lock()  # a Dask worker trains in several threads

    def get(self, key, compute):
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        value = compute()
        with self.lock:
            self.kept[key] = value
            while sum(map(_size, self.kept.values())) > _CACHE_BYTES and len(self.kept) > 1:
                self.kept.popitem(last=False)
        return value


def _size(value):
    return value.nbytes if isinstance(value, np.ndarray) else sum(map(_size, value))


_CACHE = _Cache()


def _row_space(vectors):
    """Return a basis in which a ridge-penalised regression has the same solution, at most one axis per trial."""
    n_trials, n_features = vectors.shape
    if n_features <= n_trials:
        return np.eye(n_features)
    values, axes = np.linalg.eigh(vectors @ vectors.T)
    kept = values > 1e-10 * values[-1]
    return vectors.T @ (axes[:, kept] / np.sqrt(values[kept]))


def _cut(trials, pieces):
    """Cut every trial into pieces of equal length, one after the other."""
    n_trials, n_chans, n_times = trials.shape
    pieces = max(1, min(pieces, n_times // max(_SHORTEST, 2 * n_chans)))
    length = n_times // pieces
    parts = trials[..., : pieces * length].reshape(n_trials, n_chans, pieces, length)
    return parts.transpose(0, 2, 1, 3).reshape(n_trials * pieces, n_chans, length), pieces


def _some_of(signals, codes):
    """Every trial, or every n-th where all of them would fill the memory: spatial filters need not see all."""
    every = -(-8 * signals.shape[0] * signals.shape[1] * signals.shape[2] // LARGEST_COPY)
    return np.asarray(signals[::every], dtype=float), codes[::every]


class TangentSpaceClassifier(ClassifierMixin, BaseEstimator):
    """Recentred features and logistic regression: what transfers best without a network.

    Notes
    -----
    ``predict`` takes trials for those of one new person and sees them from the population's centre, the mean of the
    training people's centres, until :meth:`adapt` has told where this person's is.
    """

    __metadata_request__fit: ClassVar = {"subjects": True}
    uses_labels = False

    def __init__(
        self,
        features="covariance",
        bands=None,
        windows=8,
        pieces=1,
        n_filters=4,
        recentre=True,
        prior=5.0,
        C=0.01,
    ):
        self.features = features
        self.bands = bands
        self.windows = windows
        self.pieces = pieces
        self.n_filters = n_filters
        self.recentre = recentre
        self.prior = prior
        self.C = C

    def fit(self, X, y, subjects=None):
        """Learn centres, scales and the regression."""
        self._check_parameters()
        signals, targets = read_signals(X)
        y = check_labels("y", targets if y is None else y, len(signals), "pass one class per trial.")
        subjects = find_labels(X) if subjects is None else subjects
        subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_.tolist()}: a classifier needs at least two.")
        self.shape_ = signals.shape[1:]
        kind = self._kind()
        self.arrays_ = {}
        if kind.supervised:
            some, their_codes = _some_of(signals, codes)
            some, pieces = _cut(some, self.pieces)
            self.arrays_ = kind.learn(some, their_codes.repeat(pieces))
        people = [np.flatnonzero(subjects == person) for person in np.unique(subjects)]
        parts = [self._person(signals[mine]) for mine in people]
        for k, centres in enumerate(zip(*(centres for _, centres, _ in parts))):
            self.arrays_[f"population{k}"] = geometry.mean(np.stack(centres))
        if self.recentre:
            rows = [vectors for _, _, vectors in parts]
        else:
            rows = [self._differences(blocks, self._population()) for blocks, _, _ in parts]
        trials = [vectors.reshape(len(mine), -1, vectors.shape[1]) for vectors, mine in zip(rows, people)]
        trials = np.concatenate(trials)[np.argsort(np.concatenate(people))]
        codes, subjects = codes.repeat(trials.shape[1]), subjects.repeat(trials.shape[1])
        weights = balanced_weights(codes, subjects) * len(codes)
        self._regress(trials.reshape(len(codes), -1), codes, weights)
        self._stream = None
        return self

    def _check_parameters(self):
        check_choice("features", self.features, FEATURES)
        check_size("pieces", self.pieces)
        check_positive("prior", self.prior, or_zero=True)
        check_positive("C", self.C)
        for band in self.bands or ():
            if len(band) != 2 or not 0 < band[0] < band[1] < 0.5:
                raise ValueError(
                    f"bands has {tuple(band)}: limits are fractions of the sampling rate, 0 < low < high < 0.5."
                )

    def _kind(self):
        return FEATURES[self.features](bands=self.bands, windows=self.windows, n_filters=self.n_filters)

    def _person(self, X):
        """Features of one person's trials, their centres, and the trials as seen from there.

        What needs no labels is the same in every training, and computed once.
        """
        kind = self._kind()

        def compute():
            blocks, _ = self._blocks(X)
            centres = [geometry.mean(block) for block in blocks]
            return blocks, centres, self._differences(blocks, centres)

        if kind.supervised:
            return compute()
        digest = hashlib.sha1(np.ascontiguousarray(X))
        settings = (
            X.shape,
            X.dtype.str,
            self.features,
            self.bands,
            self.windows,
            self.pieces,
            self.n_filters,
        )
        digest.update(repr(settings).encode())
        return _CACHE.get(digest.hexdigest(), compute)

    def _blocks(self, X):
        """Return the features of all pieces, and how many of them a trial has."""
        X, pieces = _cut(np.asarray(X, dtype=float), self.pieces)
        return self._kind().blocks(X, self.arrays_), pieces

    def _differences(self, blocks, centres):
        return np.concatenate([geometry.difference(b, c) for b, c in zip(blocks, centres)], axis=1)

    def _named(self, name):
        count = sum(key.startswith("population") for key in self.arrays_)
        return [self.arrays_[f"{name}{k}"] for k in range(count)]

    def _population(self):
        return self._named("population")

    def _centre(self):
        return self._named("subject") if "subject0" in self.arrays_ else self._population()

    def _regress(self, vectors, codes, weights):
        mean, scale = vectors.mean(axis=0), vectors.std(axis=0)
        scale[scale <= 1e-9 * (1 + np.abs(mean))] = np.inf  # what never varies says nothing
        standard = (vectors - mean) / scale
        basis = _row_space(standard)
        model = LogisticRegression(C=self.C, max_iter=300, tol=1e-3)
        model.fit(standard @ basis, codes, sample_weight=weights)
        coef, intercept = model.coef_ @ basis.T, model.intercept_
        if len(coef) == 1:  # two classes: one row stands for both
            coef, intercept = np.vstack([-coef, coef]) / 2, np.r_[-intercept, intercept] / 2
        self.arrays_["coef"] = coef / scale
        self.arrays_["intercept"] = intercept - self.arrays_["coef"] @ mean

    def predict_proba(self, X):
        """Return the probability of every class."""
        signals = self._read(X)
        blocks, pieces = self._blocks(signals)
        if self._stream is None:
            vectors = self._differences(blocks, self._centre())
        else:
            starts = range(0, len(blocks[0]), pieces)
            vectors = np.concatenate([self._next([b[k : k + pieces] for b in blocks]) for k in starts])
        # Scores are linear in the vectors, so those of a trial's mean vector are the average over its pieces.
        vectors = vectors.reshape(len(signals), pieces, -1).mean(axis=1)
        scores = vectors @ self.arrays_["coef"].T + self.arrays_["intercept"]
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X):
        """Return the class of every trial."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def _read(self, X):
        check_is_fitted(self, "arrays_")
        signals, _ = read_signals(X)
        if signals.shape[1:] != tuple(self.shape_):
            raise ValueError(
                f"X has {signals.shape[1:]} channels and samples per trial, fit had {tuple(self.shape_)}."
            )
        return signals

    def adapt(self, X, y=None):
        """Return a decoder for the person whose trials these are; this one stays as it is."""
        if y is not None:
            warnings.warn(
                "TangentSpaceClassifier.adapt does not use y, only where the trials lie.", stacklevel=2
            )
        signals = self._read(X)
        person = self._copy()
        if self.recentre:
            share = len(signals) / (len(signals) + self.prior)
            for k, (population, own) in enumerate(zip(self._population(), self._person(signals)[1])):
                person.arrays_[f"subject{k}"] = geometry.between(population, own, share)
        person.n_target_ = len(signals)
        return person

    def stream(self):
        """Return a decoder that learns the person's centre trial by trial."""
        check_is_fitted(self, "arrays_")
        person = self._copy()
        person._stream = {"centres": self._centre(), "weight": self.prior + getattr(self, "n_target_", 0)}
        return person

    def _next(self, trial):
        """Move the centre by one trial and see the trial from there."""
        stream = self._stream
        if self.recentre:
            stream["weight"] += 1
            means = [block[0] if len(block) == 1 else geometry.mean(block) for block in trial]
            pairs = zip(stream["centres"], means)
            stream["centres"] = [geometry.between(c, mean, 1 / stream["weight"]) for c, mean in pairs]
        return self._differences(trial, stream["centres"])

    def _copy(self):
        person = copy.copy(self)
        person.arrays_, person._stream = dict(self.arrays_), None
        return person

    def to_bytes(self):
        """Return the fitted estimator as bytes in the safetensors format; equal estimators give equal bytes."""
        check_is_fitted(self, "arrays_")
        header = {"params": self.get_params(), "classes": self.classes_.tolist(), "shape": list(self.shape_)}
        header["n_target"] = getattr(self, "n_target_", 0)
        return write_tensors(self.arrays_, header, _FORMAT)

    @classmethod
    def from_bytes(cls, content):
        """Return the estimator whose :meth:`to_bytes` these are."""
        return cls._read_bytes(content, "content")

    def save(self, path):
        """Write the fitted estimator to one safetensors file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path):
        """Read an estimator that :meth:`save` wrote."""
        return cls._read_bytes(Path(path).read_bytes(), path)

    @classmethod
    def _read_bytes(cls, content, name):
        header, tensors = read_tensors(content, _FORMAT, name)
        try:
            clf = cls(**header["params"])
            clf.classes_, clf.shape_ = np.asarray(header["classes"]), tuple(header["shape"])
            clf.n_target_ = header["n_target"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{name} is damaged: {error}.") from None
        clf.arrays_, clf._stream = {key: tensor.numpy() for key, tensor in tensors.items()}, None
        return clf
