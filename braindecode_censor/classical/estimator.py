"""Classical decoder: features relative to the centre of each subject, then logistic regression."""

import copy
import threading
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import (
    PlainAttributes,
    check_choice,
    check_parameters,
    check_positive,
    check_size,
    optional,
)
from braindecode_censor.classical import geometry
from braindecode_censor.classical.features import FEATURES
from braindecode_censor.storage.files import read_file, write_atomically
from braindecode_censor.storage.schema import Count, Label, Schema, Size
from braindecode_censor.storage.seal import digest
from braindecode_censor.storage.tensors import read_tensors, write_tensors
from braindecode_censor.trials.affine import level_of, mean_description, summarize
from braindecode_censor.trials.amplitude import AmplitudePrior
from braindecode_censor.trials.balance import balanced_weights
from braindecode_censor.trials.dataset import check_labels, read_array, read_signals
from braindecode_censor.trials.normalizations import subject_statistics
from braindecode_censor.trials.quality import check_trials
from braindecode_censor.trials.stored import LARGEST_COPY, read_blocks
from braindecode_censor.trials.subject_labels import read_labels

__all__ = ["TangentSpaceClassifier"]

_FORMAT = "braindecode-censor TangentSpaceClassifier 2"
_CACHE_BYTES = 400e6
_SHORTEST = 16  # samples of a segment, and at least two per channel, for the sake of covariances


class _Params(Schema):
    features: str
    bands: Annotated[list[tuple[float, float]], Field(max_length=100)] | None
    windows: Size
    segments: Size
    n_filters: Size
    recentre: bool
    prior: float
    C: float


class _Header(Schema):
    params: _Params
    classes: list[Label]
    shape: tuple[Size, Size]
    n_target: Count


class _Cache:
    """Features of a subject's trials, computed once for all trainings that use or decode this subject."""

    def __init__(self):
        self.values = OrderedDict()
        self.lock = threading.Lock()  # A Dask worker trains in several threads.

    def get(self, key, compute):
        with self.lock:
            if key in self.values:
                self.values.move_to_end(key)
                return self.values[key]
        value = compute()
        with self.lock:
            self.values[key] = value
            while sum(map(_size, self.values.values())) > _CACHE_BYTES and len(self.values) > 1:
                self.values.popitem(last=False)
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
    is_large = values > 1e-10 * values[-1]
    return vectors.T @ (axes[:, is_large] / np.sqrt(values[is_large]))


def _cut(trials, n_segments):
    """Cut every trial into consecutive segments of equal length; return them and how many a trial has."""
    n_trials, n_chans, n_times = trials.shape
    n_segments = max(1, min(n_segments, n_times // max(_SHORTEST, 2 * n_chans)))
    length = n_times // n_segments
    cut = trials[..., : n_segments * length].reshape(n_trials, n_chans, n_segments, length)
    return cut.transpose(0, 2, 1, 3).reshape(n_trials * n_segments, n_chans, length), n_segments


def _thin_out(signals, y_encoded):
    """Return every trial, or every n-th where all of them would fill the memory: filters need not see all."""
    step = -(-8 * signals.shape[0] * signals.shape[1] * signals.shape[2] // LARGEST_COPY)
    return np.asarray(signals[::step], dtype=float), y_encoded[::step]


def _check_bands(argument, bands):
    """Raise unless `bands` are pairs of frequencies."""
    array = read_array(argument, bands)
    limits = (
        array if array.ndim == 2 and array.shape[1] == 2 and array.dtype.kind in "iuf" else np.empty((0, 2))
    )
    if (
        not len(limits)
        or not ((limits[:, 0] > 0) & (limits[:, 0] < limits[:, 1]) & (limits[:, 1] < 0.5)).all()
    ):
        raise ValueError(
            f"{argument}={bands!r} must be pairs of fractions of the sampling rate, 0 < low < high < 0.5."
        )


_CONSTRAINTS = {
    "features": (check_choice, FEATURES),
    "bands": (optional(_check_bands),),
    "windows": (check_size,),
    "segments": (check_size,),
    "n_filters": (check_size,),
    "recentre": (check_choice, (False, True)),
    "prior": (check_positive, True),
    "C": (check_positive,),
}


class TangentSpaceClassifier(PlainAttributes, ClassifierMixin, BaseEstimator):
    """Recentred features and logistic regression, which transfer well to new subjects without a network.

    Notes
    -----
    ``predict`` recentres trials by the mean of the training subjects' centres. After :meth:`adapt` it recentres them
    by the centre of the target subject.
    """

    __metadata_request__fit: ClassVar = {"subjects": True}
    uses_labels = False

    def __init__(
        self,
        features="covariance",
        bands=None,
        windows=8,
        segments=1,
        n_filters=4,
        recentre=True,
        prior=5.0,
        C=0.01,
    ):
        self.features = features
        self.bands = bands
        self.windows = windows
        self.segments = segments
        self.n_filters = n_filters
        self.recentre = recentre
        self.prior = prior
        self.C = C

    def fit(self, X, y, subjects=None):
        """Learn centres, scales and the regression."""
        self._check_parameters()
        signals, targets = read_signals(X)
        y = check_labels("y", targets if y is None else y, len(signals), "pass one class per trial.")
        subjects = read_labels(X, subjects, len(signals))
        check_trials(signals, y, subjects)
        self.classes_, y_encoded = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_.tolist()}: a classifier needs at least two.")
        self.shape_ = signals.shape[1:]
        features = self._make_features()
        unique_subjects, statistics, spreads = subject_statistics(signals, subjects, "subject")
        levels = level_of(statistics, "subject")
        prior = AmplitudePrior.of_subjects(levels, spreads)
        log_gains = np.where(np.isfinite(levels), levels - prior.centre, 0)
        self.arrays_, self.n_target_ = {"amplitude": np.array(prior)}, 0
        if features.supervised:
            trial_gains = log_gains[np.searchsorted(unique_subjects, subjects)]
            some_signals, some_y = _thin_out(signals, y_encoded)
            some_signals = self._scale(some_signals, _thin_out(trial_gains[:, None, None], y_encoded)[0])
            segments, n_segments = _cut(some_signals, self.segments)
            self.arrays_ |= features.learn(segments, some_y.repeat(n_segments))
        subject_idx = [np.flatnonzero(subjects == subject) for subject in unique_subjects]
        by_subject = [
            self._describe_subject(self._scale(signals[idx], log_gain))
            for idx, log_gain in zip(subject_idx, log_gains)
        ]
        centres = [self._rescale(own, -log_gain) for (_, own, _), log_gain in zip(by_subject, log_gains)]
        for k, block in enumerate(zip(*centres)):
            self.arrays_[f"population{k}"] = geometry.mean(np.stack(block))
        if self.recentre:
            rows = [vectors for _, _, vectors in by_subject]
        else:
            rows = [self._differences(blocks, self._centre()) for blocks, _, _ in by_subject]
        trials = [vectors.reshape(len(idx), -1, vectors.shape[1]) for vectors, idx in zip(rows, subject_idx)]
        trials = np.concatenate(trials)[np.argsort(np.concatenate(subject_idx))]
        y_encoded, subjects = y_encoded.repeat(trials.shape[1]), subjects.repeat(trials.shape[1])
        weights = balanced_weights(y_encoded, subjects) * len(y_encoded)
        self._regress(trials.reshape(len(y_encoded), -1), y_encoded, weights)
        self._streams = False
        return self

    def _check_parameters(self):
        check_parameters(self, _CONSTRAINTS)

    def _make_features(self):
        return FEATURES[self.features](bands=self.bands, windows=self.windows, n_filters=self.n_filters)

    def _describe_subject(self, X):
        """Return the features of one subject's trials, their centres, and the differences from these.

        Features that need no labels are the same in every training, and computed once.
        """

        def compute():
            blocks, _ = self._blocks(X)
            centres = [geometry.mean(block) for block in blocks]
            return blocks, centres, self._differences(blocks, centres)

        if FEATURES[self.features].supervised:
            return compute()
        options = self.features, self.bands, self.windows, self.segments, self.n_filters
        form = repr((X.shape, X.dtype.str, options)).encode()
        return _CACHE.get(digest(np.ascontiguousarray(X), form), compute)

    def _blocks(self, X):
        """Return the features of all segments, and how many of them a trial has."""
        X, n_segments = _cut(np.asarray(X, dtype=float), self.segments)
        return self._make_features().blocks(X, self.arrays_), n_segments

    def _differences(self, blocks, centres):
        return np.concatenate([geometry.difference(b, c) for b, c in zip(blocks, centres)], axis=1)

    def _centre(self):
        """Return the centre of the subject's trials so far, shrunk towards the population's at the same amplitude."""
        n_blocks = sum(key.startswith("population") for key in self.arrays_)
        centres = [self.arrays_[f"population{k}"] for k in range(n_blocks)]
        if not self.n_target_ or not self.recentre:
            return centres
        fraction = self.n_target_ / (self.n_target_ + self.prior)
        subject = [self.arrays_[f"subject{k}"] for k in range(n_blocks)]
        centres = self._rescale(centres, self._log_gain())
        return [geometry.between(*pair, fraction) for pair in zip(centres, subject)]

    def _log_gain(self):
        """Return the logarithm of the subject's amplitude, relative to the population's."""
        if not self.n_target_:
            return 0.0
        prior = AmplitudePrior(*self.arrays_["amplitude"])
        level = level_of(summarize(self.arrays_["moments"], "subject"), "subject")
        return prior.estimate(level, self.n_target_, self.prior) - prior.centre

    def _scale(self, X, log_gain):
        """Return signals at the population's amplitude, where features cannot be rescaled afterwards."""
        is_scaled = self.recentre and FEATURES[self.features].supervised
        return X * np.exp(-log_gain) if is_scaled else X

    def _rescale(self, centres, log_gain):
        """Return centres after a gain."""
        if not self.recentre or FEATURES[self.features].supervised:
            return centres
        return self._make_features().rescale(centres, log_gain)

    def _regress(self, vectors, y_encoded, weights):
        mean, scale = vectors.mean(axis=0), vectors.std(axis=0)
        scale[scale <= 1e-9 * (1 + np.abs(mean))] = np.inf  # A constant feature gets no weight.
        standard = (vectors - mean) / scale
        basis = _row_space(standard)
        model = LogisticRegression(C=self.C, max_iter=300, tol=1e-3)
        model.fit(standard @ basis, y_encoded, sample_weight=weights)
        coef, intercept = model.coef_ @ basis.T, model.intercept_
        if len(coef) == 1:  # scikit-learn gives two classes one row.
            coef, intercept = np.vstack([-coef, coef]) / 2, np.r_[-intercept, intercept] / 2
        self.arrays_["coef"] = coef / scale
        self.arrays_["intercept"] = intercept - self.arrays_["coef"] @ mean

    def predict_proba(self, X):
        """Return the probability of every class."""
        signals = self._read(X)
        _, n_segments = _cut(signals[:1], self.segments)
        if self._streams:
            vectors = np.concatenate([self._next(trial[None]) for trial in signals])
        else:
            blocks, _ = self._blocks(self._scale(np.asarray(signals), self._log_gain()))
            vectors = self._differences(blocks, self._centre())
        # Scores are linear in the vectors, so those of a trial's mean vector are the average over its segments.
        vectors = vectors.reshape(len(signals), n_segments, -1).mean(axis=1)
        return softmax(vectors @ self.arrays_["coef"].T + self.arrays_["intercept"], axis=1)

    def predict(self, X):
        """Return the class of every trial."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _read(self, X):
        check_is_fitted(self, "arrays_")
        signals, _ = read_signals(X)
        if signals.shape[1:] != tuple(self.shape_):
            raise ValueError(
                f"X has {signals.shape[1:]} channels and samples per trial, fit had {tuple(self.shape_)}."
            )
        check_trials(signals)
        return signals

    def adapt(self, X, y=None):
        """Return a copy of the decoder adapted to one subject."""
        if y is not None:
            warnings.warn("TangentSpaceClassifier.adapt uses the centre of X and ignores y.", stacklevel=2)
        signals = self._read(X)
        adapted = self._copy()
        adapted.n_target_ = 0  # These trials replace those of an earlier call.
        if self.recentre:
            adapted._count(signals)
            scaled = adapted._scale(np.asarray(signals), adapted._log_gain())
            adapted._move(self._describe_subject(scaled)[1], len(signals))
        return adapted

    def stream(self):
        """Return a copy of the decoder that adapts to one subject trial by trial."""
        check_is_fitted(self, "arrays_")
        stream = self._copy()
        stream._streams = True
        return stream

    def _next(self, trial):
        """Move the centre by one trial, and return the differences of its segments from it."""
        before = self._log_gain()
        if self.recentre:
            self._count(trial)
        log_gain = self._log_gain()
        blocks, _ = self._blocks(self._scale(trial, log_gain))
        if self.recentre:
            self._regain(before - log_gain)
            self._move([block[0] if len(block) == 1 else geometry.mean(block) for block in blocks], 1)
        return self._differences(blocks, self._centre())

    def _count(self, X):
        """Add trials to the mean of the subject's moments."""
        mean, levels = mean_description(read_blocks(X), "subject")
        self.n_target_ += len(levels)
        before = self.arrays_.get("moments", mean) if self.n_target_ > len(levels) else mean
        self.arrays_["moments"] = before + len(levels) / self.n_target_ * (mean - before)

    def _move(self, centres, n_trials):
        """Add the centre of trials that were counted to the subject's."""
        for k, centre in enumerate(centres):
            before = self.arrays_[f"subject{k}"] if self.n_target_ > n_trials else centre
            self.arrays_[f"subject{k}"] = geometry.between(before, centre, n_trials / self.n_target_)

    def _regain(self, log_gain):
        """Rescale the centres of earlier trials, whose signals were divided by an older estimate of the amplitude."""
        names = [name for name in self.arrays_ if name.startswith("subject")]
        if names and FEATURES[self.features].supervised:
            centres = self._make_features().rescale([self.arrays_[name] for name in names], log_gain)
            self.arrays_ |= dict(zip(names, centres))

    def _copy(self):
        copied = copy.copy(self)
        copied.arrays_, copied._streams = dict(self.arrays_), False
        return copied

    def to_bytes(self):
        """Return the fitted estimator as bytes in the safetensors format; equal estimators give equal bytes."""
        check_is_fitted(self, "arrays_")
        bands = None if self.bands is None else np.asarray(self.bands, dtype=float).tolist()
        params = {**self.get_params(), "bands": bands}
        header = {"params": params, "classes": self.classes_.tolist(), "shape": list(self.shape_)}
        header["n_target"] = self.n_target_
        return write_tensors(self.arrays_, header, _FORMAT)

    @classmethod
    def from_bytes(cls, content, name="content"):
        """Return the estimator whose :meth:`to_bytes` these are; `name` is what errors call them."""
        header, tensors = read_tensors(content, _FORMAT, name, _Header)
        clf = cls(**header.params.model_dump())
        clf._check_parameters()
        clf.classes_, clf.shape_ = np.asarray(header.classes), header.shape
        clf.n_target_, clf._streams = header.n_target, False
        clf.arrays_ = arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
        n_classes = {arrays[key].shape[:1] for key in ("coef", "intercept") if key in arrays}
        shapes = {"amplitude": (3,)} | ({"moments": (2, clf.shape_[0])} if clf.n_target_ else {})
        fits = all(key in arrays and arrays[key].shape == shape for key, shape in shapes.items())
        if (
            n_classes != {clf.classes_.shape}
            or not fits
            or any(array.dtype != np.float64 for array in arrays.values())
        ):
            raise ValueError(f"{name} is damaged: its arrays do not fit its classes.")
        return clf

    def save(self, path):
        """Write the fitted estimator to one safetensors file."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path):
        """Read an estimator that :meth:`save` wrote."""
        return cls.from_bytes(read_file(path), path)
