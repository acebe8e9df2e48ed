"""Normalisation of subjects' signals, in which a trial's result does not depend on the trials beside it."""

import copy
import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import (
    PlainAttributes,
    check_choice,
    check_parameters,
    check_positive,
    check_size,
)
from braindecode_censor.trials.affine import (
    affine_map,
    level_of,
    mean_description,
    rescale,
    shrink,
    summarize,
)
from braindecode_censor.trials.amplitude import AmplitudePrior
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.normalizations import (
    NORMALIZATIONS,
    SUBJECTWISE,
    TRIALWISE,
    map_subjects,
    map_trials,
    subject_statistics,
)
from braindecode_censor.trials.stored import read_blocks
from braindecode_censor.trials.subject_labels import read_labels

__all__ = ["StreamingNormalizer", "SubjectNormalizer"]


def _check_estimator(argument, value):
    """Raise for a covariance estimator that pyRiemann does not have; its import takes longer than to load a decoder."""
    if not isinstance(value, str) or value != "lwf":
        from pyriemann.geometry.covariance import cov_est_functions

        check_choice(argument, value, cov_est_functions)


_CONSTRAINTS = {
    "strategy": (check_choice, NORMALIZATIONS),
    "prior": (check_positive, True),
    "estimator": (_check_estimator,),
}


class SubjectNormalizer(PlainAttributes, TransformerMixin, BaseEstimator):
    r"""Normalise the signals of every subject, so that a decoder fits subjects that it was not trained on.

    Parameters
    ----------
    strategy : {"subject", "euclidean", "population", "trial", "trial_channel", "none"}
        Normalisation:

        * ``subject``: every channel gets mean 0 and variance 1 over all trials and times of the subject;
        * ``euclidean``: :math:`x \mapsto R^{-1/2} x` with R the mean of the covariance matrices of the subject's
          trials (He and Wu 2020; as MOABB's ``EuclideanAlignment``). Offsets of channels are not removed;
        * ``population``: every channel is centred and divided by its standard deviation, both the same for all
          subjects: the mean of the training subjects' means and variances;
        * ``trial``: every channel of every trial gets mean 0, and all channels of the trial are divided by one
          number, the root of the mean of their variances, so which channel is stronger can still be seen;
        * ``trial_channel``: every channel of every trial gets mean 0 and variance 1 over time;
        * ``none``: signals do not change.
    prior : float
        Number of trials that the population's statistic counts as when :meth:`adapt` estimates that of a new subject.
    estimator : str
        Covariance estimator of pyRiemann, for ``euclidean``. The default, Ledoit and Wolf's, shrinks, so that
        trials may have fewer samples than channels.

    Attributes
    ----------
    subjects_ : ndarray of shape (n_subjects,)
        Labels of the training subjects.
    statistics_ : ndarray of shape (n_subjects, d, n_chans)
        Their statistics: mean and variance of every channel (d = 2) or the mean covariance (d = n_chans).
    population_ : ndarray of shape (d, n_chans)
        Mean of `statistics_`.
    target_, n_target_ : ndarray of shape (d, n_chans) or None, int
        Mean over the target subject's trials of mean and mean square of every channel, or of the covariance, and
        the number of these trials.
    n_chans_ : int
        Number of channels.

    Notes
    -----
    :meth:`fit_transform` maps each training trial with the statistic of its subject. :meth:`transform` takes its
    trials for those of one new subject and never computes a statistic of them, so the result for a trial does not
    depend on the trials beside it. It uses the population's statistic, or the new subject's after :meth:`adapt` or
    a `fit` with ``X_target_unlabeled`` or ``X_target_labeled`` (MOABB routes them).

    References
    ----------
    He and Wu (2020), Transfer learning for brain-computer interfaces: a Euclidean space data alignment approach.

    Examples
    --------
    >>> import numpy as np
    >>> X, subjects = np.random.default_rng(0).normal(size=(40, 3, 50)), np.repeat([1, 2], 20)
    >>> normalizer = SubjectNormalizer("subject").fit(X, subjects=subjects)
    >>> adapted = normalizer.adapt(10 * X[:20])
    >>> adapted.transform(10 * X[:1]).shape
    (1, 3, 50)
    """

    # MOABB and scikit-learn's Pipeline read from this which steps take subject labels and target data.
    __metadata_request__fit: ClassVar = {
        "subjects": True,
        "X_target_unlabeled": True,
        "X_target_labeled": True,
        "y_target_labeled": True,
    }

    def __init__(self, strategy="subject", prior=5.0, estimator="lwf"):
        self.strategy = strategy
        self.prior = prior
        self.estimator = estimator

    def fit(
        self, X, y=None, subjects=None, X_target_unlabeled=None, X_target_labeled=None, y_target_labeled=None
    ):
        """Estimate the statistics of the training subjects, and of the target subject if there are trials.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of the training subjects.
        y : object
            Unused.
        subjects : array-like of shape (n_trials,) or None
            Subject of every trial; None takes the labels that Epochs or a Braindecode dataset carry.
        X_target_unlabeled, X_target_labeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the target subject, whose trials will be transformed.
        y_target_labeled : object
            Unused.

        Returns
        -------
        self : SubjectNormalizer
            The fitted normaliser.
        """
        signals, _ = read_signals(X)
        self._fit(signals, self._read_labels(X, subjects, signals))
        return self._add_targets(X_target_unlabeled, X_target_labeled)

    def fit_transform(
        self, X, y=None, subjects=None, X_target_unlabeled=None, X_target_labeled=None, y_target_labeled=None
    ):
        """Fit, and normalise each training trial with the statistic of its subject.

        Parameters
        ----------
        X, y, subjects, X_target_unlabeled, X_target_labeled, y_target_labeled : object
            As in :meth:`fit`.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals of the training subjects.
        """
        signals, _ = read_signals(X)
        normalized = self.fit_subjects(signals, self._read_labels(X, subjects, signals))
        self._add_targets(X_target_unlabeled, X_target_labeled)
        return np.asarray(normalized)

    def fit_subjects(self, signals, subjects, train_idx=None):
        """Fit on some subjects, and normalise all trials, with one pass over the signals.

        Parameters
        ----------
        signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
            Checked signals of all subjects.
        subjects : ndarray of shape (n_trials,) or None
            Subject of every trial.
        train_idx : ndarray of int or None
            All trials of the subjects to fit on; None fits on all subjects.

        Returns
        -------
        signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
            Normalised by the statistics of each trial's subject, or by those of the population. Stored signals are
            normalised when they are read.
        """
        statistics = self._fit(signals, subjects, train_idx)
        if self.strategy in TRIALWISE:
            return map_trials(signals, TRIALWISE[self.strategy])
        if self.strategy == "population":
            return map_trials(signals, affine_map(self.population_, self.strategy))
        return map_subjects(signals, subjects, *statistics, self.strategy)

    def _fit(self, signals, subjects, train_idx=None):
        """Set the fitted attributes; return the labels and the statistics of all subjects."""
        check_parameters(self, _CONSTRAINTS)
        if self.strategy in TRIALWISE:
            self._set_statistics(signals.shape[1], np.empty(0), None, None)
            return None
        labels, statistics, spreads = subject_statistics(signals, subjects, self.strategy, self.estimator)
        is_fitted = np.isin(labels, subjects if train_idx is None else subjects[train_idx])
        self._set_statistics(signals.shape[1], labels[is_fitted], statistics[is_fitted], spreads[is_fitted])
        return labels, statistics

    def _read_labels(self, X, subjects, signals):
        check_parameters(self, _CONSTRAINTS)  # First, because an unknown strategy may need no labels.
        return None if self.strategy in TRIALWISE else read_labels(X, subjects, len(signals))

    def _set_statistics(self, n_chans, subjects, statistics, spreads):
        self.n_chans_ = n_chans
        self.subjects_ = subjects
        self.statistics_, self.spreads_ = statistics, spreads
        self.population_ = self.amplitude_ = None
        if statistics is not None:
            levels = level_of(statistics, self.strategy)
            self.amplitude_ = AmplitudePrior.of_subjects(levels, spreads)
            has_signal = np.isfinite(levels)
            gains = np.where(has_signal, self.amplitude_.centre - levels, 0)
            rescaled = rescale(statistics, self.strategy, gains)
            self.population_ = rescaled[has_signal if has_signal.any() else slice(None)].mean(axis=0)
        self.target_, self.n_target_ = None, 0
        self._has_warned = False

    def _add_targets(self, *blocks):
        blocks = [self._read(block) for block in blocks if block is not None]
        for block in blocks:
            self._add_to_target(block)
        return self

    def _add_to_target(self, signals):
        if self.strategy not in SUBJECTWISE:
            return
        mean, levels = mean_description(read_blocks(signals), self.strategy, self.estimator)
        n_trials = len(levels)
        earlier = 0 if self.target_ is None else self.n_target_ * self.target_
        self.n_target_ += n_trials
        self.target_ = (earlier + n_trials * mean) / self.n_target_

    def _read(self, X):
        signals, _ = read_signals(X)
        if signals.shape[1] != self.n_chans_:
            raise ValueError(
                f"X has {signals.shape[1]} channels, but the normalizer was fitted on {self.n_chans_}: pass the "
                "same channels in the same order."
            )
        return signals

    @classmethod
    def from_statistics(cls, strategy, subjects, statistics, n_chans, prior=5.0, estimator="lwf", spreads=()):
        """Return the normaliser that ``fit`` on the subjects of these statistics would give.

        Parameters
        ----------
        strategy : str
            Normalisation.
        subjects : array-like of shape (n_subjects,)
            Labels of the training subjects.
        statistics : ndarray of shape (n_subjects, d, n_chans) or None
            Their statistics, as :meth:`fit` would compute them from their trials; None where
            `strategy` needs none.
        n_chans : int
            Number of channels.
        prior, estimator : float, str
            As in the constructor.
        spreads : array-like of shape (n_subjects,)
            Spread of the trials' log-amplitudes, from the same function.

        Returns
        -------
        normalizer : SubjectNormalizer
            Fitted normaliser.
        """
        normalizer = cls(strategy, prior, estimator)
        check_parameters(normalizer, _CONSTRAINTS)
        normalizer._set_statistics(n_chans, np.asarray(subjects), statistics, np.asarray(spreads))
        return normalizer

    def transform(self, X):
        """Normalise trials of one new subject, each independent of the others.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals, single precision unless `X` is of double precision.
        """
        return np.asarray(self.transform_lazily(X))

    def transform_lazily(self, X):
        """Normalise as :meth:`transform` does, but trials in a file only when they are read.

        Parameters
        ----------
        X : object
            As in :meth:`transform`.

        Returns
        -------
        X : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
            Normalised signals.
        """
        check_is_fitted(self, "n_chans_")
        signals = self._read(X)
        if self.strategy in SUBJECTWISE and self.target_ is None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"SubjectNormalizer(strategy={self.strategy!r}) has no trials of the new subject and uses the "
                "statistics of all subjects; adapt(X) with unlabelled trials of the subject returns one with its own.",
                UserWarning,
                stacklevel=4,  # scikit-learn wraps the method that called this one.
            )
        return map_trials(signals, self.affine or TRIALWISE[self.strategy])

    @property
    def affine(self):
        """The map of channels that :meth:`transform` applies; None where `strategy` is of single trials."""
        if self.strategy in TRIALWISE:
            return None
        if self.target_ is None:
            return affine_map(self.population_, self.strategy)
        statistic = summarize(self.target_, self.strategy)
        level = self.amplitude_.estimate(level_of(statistic, self.strategy), self.n_target_, self.prior)
        population = rescale(self.population_, self.strategy, level - self.amplitude_.centre)
        return affine_map(shrink(statistic, self.n_target_, population, self.prior), self.strategy)

    def adapt(self, X):
        """Return a normaliser for the subject of these unlabelled trials; this one does not change.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject; one is enough.

        Returns
        -------
        normalizer : SubjectNormalizer
            Uses ``(prior * population + n_trials * subject) / (prior + n_trials)`` of means and variances, or of
            covariance matrices. Where `strategy` has no statistic of a subject it is an equal copy.
        """
        check_is_fitted(self, "n_chans_")
        signals = self._read(X)
        adapted = copy.copy(self)  # Sharing the arrays is safe, because none is written to.
        adapted.target_, adapted.n_target_ = None, 0
        adapted._add_to_target(signals)
        return adapted

    def stream(self):
        """Return a causal normaliser, which updates the subject's statistic trial by trial.

        Returns
        -------
        stream : StreamingNormalizer
            Its ``transform`` takes trials in their order. Trial n is normalised with the statistic of trials
            1 .. n, shrunk as in :meth:`adapt`; trials passed to ``adapt`` or ``fit`` before count as earlier ones.
        """
        check_is_fitted(self, "n_chans_")
        return StreamingNormalizer(copy.copy(self))

    def get_state(self):
        """Return all fitted attributes as arrays and JSON values, to be saved without pickle.

        Returns
        -------
        state : dict
            ``settings`` can be written as JSON, ``arrays`` (name to ndarray) as safetensors. Labels of subjects
            are not included.
        """
        check_is_fitted(self, "n_chans_")
        arrays = {"statistics": self.statistics_, "spreads": self.spreads_, "target": self.target_}
        settings = {**self.get_params(), "n_chans": self.n_chans_, "n_target": self.n_target_}
        return {
            "settings": settings,
            "arrays": {name: array for name, array in arrays.items() if np.size(array) and array is not None},
        }

    @classmethod
    def from_state(cls, state):
        """Return the fitted normaliser whose :meth:`get_state` this is.

        Parameters
        ----------
        state : dict
            ``settings`` and ``arrays``.

        Returns
        -------
        normalizer : SubjectNormalizer
            Transforms, adapts and streams as the one that was saved; its subjects are numbered from 0.
        """
        settings, arrays = dict(state["settings"]), state["arrays"]
        n_target, statistics = settings.pop("n_target"), arrays.get("statistics")
        needed = set() if settings["strategy"] in TRIALWISE else {"statistics", "spreads"}
        if arrays.keys() - {"target"} != needed:
            raise ValueError(f"strategy={settings['strategy']!r} has {sorted(needed)}, not {sorted(arrays)}.")
        check_size("n_target", n_target, 0)
        for name, array in arrays.items():
            shapes = {"statistics": statistics.shape, "spreads": statistics.shape[:1]}
            fits = array.shape == shapes.get(name, statistics.shape[1:])
            if array.dtype.kind != "f" or not fits or statistics.shape[-1] != settings["n_chans"]:
                raise ValueError(f"{name} of shape {array.shape} and {array.dtype} do not fit n_chans.")
        subjects = np.arange(0 if statistics is None else len(statistics))
        spreads = arrays.get("spreads", ())
        normalizer = cls.from_statistics(
            subjects=subjects, statistics=statistics, spreads=spreads, **settings
        )
        normalizer.target_, normalizer.n_target_ = arrays.get("target"), n_target
        return normalizer


class StreamingNormalizer:
    """Causal normaliser: trial n is mapped with the statistic of trials 1 .. n, shrunk by the prior.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        Fitted normaliser, which this one changes.
    """

    def __init__(self, normalizer):
        self.normalizer = normalizer

    def transform(self, X):
        """Normalise the next trials.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials in their order.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals.
        """
        signals = self.normalizer._read(X)
        return np.concatenate([self._transform_one(trial[None]) for trial in signals])

    def _transform_one(self, trial):
        self.normalizer._add_to_target(trial)
        return self.normalizer.transform(trial)
