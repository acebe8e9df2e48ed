"""Normalise signals so that people become comparable, without looking at the trials beside the one decoded."""

import copy
import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import check_choice, check_positive
from braindecode_censor.trials.affine import (
    affine_map,
    check_estimator,
    mean_description,
    shrink,
    summarize,
)
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.people import (
    NORMALIZATIONS,
    PERSONAL,
    TRIALWISE,
    change_alike,
    change_alone,
    change_by_person,
    normalize_people,
    people_statistics,
    subject_labels,
)
from braindecode_censor.trials.stored import read_blocks
from braindecode_censor.trials.stream import StreamingNormalizer

__all__ = ["SubjectNormalizer", "normalize_people", "people_statistics"]

_TARGET_DATA = {"X_target_unlabeled": True, "X_target_labeled": True, "y_target_labeled": True}


class SubjectNormalizer(TransformerMixin, BaseEstimator):
    r"""Normalise every person's signals, so that a decoder of some people fits the next one.

    Parameters
    ----------
    strategy : {"trial_channel", "trial", "population", "subject", "euclidean", "none"}
        What is made equal:

        * ``trial-channel``: every channel of every trial gets mean 0 and variance 1 over time;
        * ``trial``: every channel of every trial gets mean 0, and all channels of the trial are divided by one
          number, the root of the mean of their variances, so which channel is stronger can still be seen;
        * ``population``: every channel is centred and divided by its standard deviation, both the same for
          everybody: the mean of the training people's means and variances, in which all people count alike;
        * ``person``: the same with the person's own mean and variance, over all trials and times;
        * ``euclidean``: :math:`x \mapsto R^{-1/2} x` with R the mean of the covariance matrices of the person's
          trials (He and Wu 2020; as MOABB's ``EuclideanAlignment``). Offsets of channels are not removed;
        * ``none``: nothing.
    prior : float
        How many trials the population's statistic is worth when a new person's is estimated, see :meth:`adapt`.
    estimator : str
        Covariance estimator of pyRiemann, for ``euclidean``. The default, Ledoit and Wolf's, shrinks, so that
        fewer samples than channels do no harm.

    Attributes
    ----------
    subjects_ : ndarray of shape (n_people,)
        Labels of the training people.
    people_ : ndarray of shape (n_people, d, n_chans)
        Their statistics: mean and variance of every channel (d = 2) or the mean covariance (d = n_chans).
    population_ : ndarray of shape (d, n_chans)
        Mean of `people_`.
    target_, n_target_ : ndarray of shape (d, n_chans) or None, int
        What the new person's trials say on average (mean and mean square of every channel, or the covariance),
        and how many these trials are.
    n_chans_ : int
        Channels.

    Notes
    -----
    :meth:`fit_transform` maps each training trial with its own person's statistic. :meth:`transform` takes its
    trials for those of one new person and never computes a statistic of them, so the answer for a trial does not
    depend on the trials beside it. It uses the population's statistic, or the new person's where `fit` was
    given ``X_target_unlabeled`` or ``X_target_labeled`` (MOABB routes them) or :meth:`adapt` was called.

    References
    ----------
    He and Wu (2020), Transfer learning for brain-computer interfaces: a Euclidean space data alignment approach.

    Examples
    --------
    >>> import numpy as np
    >>> X, subjects = np.random.default_rng(0).normal(size=(40, 3, 50)), np.repeat([1, 2], 20)
    >>> normalizer = SubjectNormalizer("subject").fit(X, subjects=subjects)
    >>> person = normalizer.adapt(10 * X[:20])
    >>> person.transform(10 * X[:1]).shape
    (1, 3, 50)
    """

    # MOABB and scikit-learn's Pipeline ask who wants the subject labels and the new person's trials.
    __metadata_request__fit: ClassVar = {"subjects": True, **_TARGET_DATA}

    def __init__(self, strategy="euclidean", prior=5.0, estimator="lwf"):
        self.strategy = strategy
        self.prior = prior
        self.estimator = estimator

    def fit(
        self,
        X,
        y=None,
        subjects=None,
        X_target_unlabeled=None,
        X_target_labeled=None,
        y_target_labeled=None,
    ):
        """Learn every training person's statistic, the population's, and the new person's if there are trials.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of the training people.
        y : object
            Ignored.
        subjects : array-like of shape (n_trials,) or None
            Whose trial each one is; None takes the labels that Epochs or a Braindecode dataset carry.
        X_target_unlabeled, X_target_labeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the person whose trials will be transformed.
        y_target_labeled : object
            Ignored.

        Returns
        -------
        self : SubjectNormalizer
            The fitted normaliser.
        """
        signals, _ = read_signals(X)
        return self._fit(X, signals, subjects, (X_target_unlabeled, X_target_labeled))

    def fit_transform(
        self,
        X,
        y=None,
        subjects=None,
        X_target_unlabeled=None,
        X_target_labeled=None,
        y_target_labeled=None,
    ):
        """Fit, and normalise each training trial with its own person's statistic.

        Parameters
        ----------
        X, y, subjects, X_target_unlabeled, X_target_labeled, y_target_labeled : object
            As in :meth:`fit`.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals of the training people.
        """
        signals, _ = read_signals(X)
        self._fit(X, signals, subjects, (X_target_unlabeled, X_target_labeled))
        if self.strategy in TRIALWISE:
            return np.asarray(change_alone(signals, self.strategy))
        if self.strategy == "population":
            return np.asarray(change_alike(signals, affine_map(self.population_, self.strategy)))
        labels = subject_labels(X, subjects, len(signals))
        return np.asarray(change_by_person(signals, labels, self.subjects_, self.people_, self.strategy))

    def fit_people(self, signals, subjects, train):
        """Fit on some people's trials, and normalise everybody's, with one look at the signals.

        Parameters
        ----------
        signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
            Checked signals of everybody.
        subjects : ndarray of shape (n_trials,)
            Whose trial each one is.
        train : ndarray of int
            Trials to fit on: all of some people.

        Returns
        -------
        signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
            Everybody's normalised by the person's own statistics, or by those of the people fitted on. Signals that
            are stored are normalised whenever they are read.
        """
        self._check_parameters()
        if self.strategy in TRIALWISE:
            self._set_people(signals.shape[1], np.empty(0), None)
            return change_alone(signals, self.strategy)
        people, statistics = people_statistics(signals, subjects, self.strategy, self.estimator)
        fitted = np.isin(people, subjects[train])
        self._set_people(signals.shape[1], people[fitted], statistics[fitted])
        if self.strategy == "population":
            return change_alike(signals, affine_map(self.population_, self.strategy))
        return change_by_person(signals, subjects, people, statistics, self.strategy)

    def _fit(self, X, signals, subjects, target_data):
        self._check_parameters()
        if self.strategy in TRIALWISE:
            self._set_people(signals.shape[1], np.empty(0), None)
        else:
            labels = subject_labels(X, subjects, len(signals))
            people, statistics = people_statistics(signals, labels, self.strategy, self.estimator)
            self._set_people(signals.shape[1], people, statistics)
        blocks = [self._read(block) for block in target_data if block is not None]
        for block in blocks:
            self._add_to_target(block)
        return self

    def _check_parameters(self):
        check_choice("strategy", self.strategy, NORMALIZATIONS)
        check_positive("prior", self.prior, or_zero=True)
        check_estimator(self.estimator)

    def _set_people(self, n_chans, subjects, statistics):
        self.n_chans_ = n_chans
        self.subjects_ = subjects
        self.people_ = statistics
        self.population_ = None if statistics is None else statistics.mean(axis=0)
        self.target_, self.n_target_ = None, 0
        self._warned = False

    def _add_to_target(self, signals):
        if self.strategy not in PERSONAL:
            return
        mean, n_trials = mean_description(read_blocks(signals), self.strategy, self.estimator)
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
    def from_people(cls, strategy, subjects, statistics, n_chans, prior=5.0, estimator="lwf"):
        """Make a fitted normaliser from statistics that are known, as ``fit`` on these people would.

        Parameters
        ----------
        strategy : str
            Normalisation.
        subjects : array-like of shape (n_people,)
            Labels of the training people.
        statistics : ndarray of shape (n_people, d, n_chans) or None
            Their statistics by :func:`people_statistics`; None where `strategy` needs none.
        n_chans : int
            Channels.
        prior, estimator : float, str
            As in the constructor.

        Returns
        -------
        normalizer : SubjectNormalizer
            Fitted.
        """
        normalizer = cls(strategy, prior, estimator)
        normalizer._check_parameters()
        normalizer._set_people(n_chans, np.asarray(subjects), statistics)
        return normalizer

    def transform(self, X):
        """Normalise trials of one new person, each without a look at the others.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals, single precision unless `X` is of double precision.
        """
        return np.asarray(self.change(X))

    def change(self, X):
        """Normalise as :meth:`transform` does; trials in a file stay there, and are normalised when they are read.

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
        if self.strategy in TRIALWISE:
            return change_alone(signals, self.strategy)
        if self.strategy in PERSONAL and self.target_ is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"SubjectNormalizer(strategy={self.strategy!r}) has no trials of the new subject and uses "
                "the statistics of all subjects; adapt(X) with unlabelled trials of the subject returns one that knows them.",
                UserWarning,
                stacklevel=4,  # scikit-learn wraps the method that called this one
            )
        return change_alike(signals, self.affine)

    @property
    def affine(self):
        """The map of channels that :meth:`transform` applies; None where `strategy` is trial by trial."""
        if self.strategy in TRIALWISE:
            return None
        if self.target_ is None:
            return affine_map(self.population_, self.strategy)
        person = summarize(self.target_, self.strategy)
        return affine_map(shrink(person, self.n_target_, self.population_, self.prior), self.strategy)

    def adapt(self, X):
        """Return a normaliser for the person whose unlabelled trials these are; this one stays as it is.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one person; one is enough.

        Returns
        -------
        normalizer : SubjectNormalizer
            Uses ``(prior * population + n_trials * person) / (prior + n_trials)`` of means and variances, or of
            covariance matrices. Where `strategy` has no statistic of a person it is an equal copy.
        """
        check_is_fitted(self, "n_chans_")
        signals = self._read(X)
        adapted = copy.copy(self)  # arrays are shared, which is safe because none is written to
        adapted.target_, adapted.n_target_ = None, 0
        adapted._add_to_target(signals)
        return adapted

    def stream(self):
        """Return a causal normaliser, which learns the person's statistic trial by trial.

        Returns
        -------
        stream : StreamingNormalizer
            Its ``transform`` takes trials in their order. Trial n is normalised with the statistic of trials
            1 .. n, shrunk as in :meth:`adapt`; trials given to ``adapt`` or ``fit`` before count as earlier ones.
        """
        check_is_fitted(self, "n_chans_")
        return StreamingNormalizer(copy.copy(self))

    def get_state(self):
        """Return everything that was learnt as plain arrays and plain values, to be saved without pickle.

        Returns
        -------
        state : dict
            ``settings`` can be written as JSON, ``arrays`` (name to ndarray) as safetensors. Labels of people
            are no part of it.
        """
        check_is_fitted(self, "n_chans_")
        arrays = {"people": self.people_, "target": self.target_}
        settings = {"strategy": self.strategy, "prior": self.prior, "estimator": self.estimator}
        settings |= {"n_chans": self.n_chans_, "n_target": self.n_target_}
        return {
            "settings": settings,
            "arrays": {name: array for name, array in arrays.items() if array is not None},
        }

    @classmethod
    def from_state(cls, state):
        """Make a fitted normaliser again from what :meth:`get_state` returned.

        Parameters
        ----------
        state : dict
            ``settings`` and ``arrays``.

        Returns
        -------
        normalizer : SubjectNormalizer
            Transforms, adapts and streams as the one that was saved; its people are numbered from 0.
        """
        settings, arrays = dict(state["settings"]), state["arrays"]
        n_target = settings.pop("n_target")
        people = arrays.get("people")
        normalizer = cls.from_people(
            subjects=np.arange(0 if people is None else len(people)), statistics=people, **settings
        )
        normalizer.target_, normalizer.n_target_ = arrays.get("target"), n_target
        return normalizer
