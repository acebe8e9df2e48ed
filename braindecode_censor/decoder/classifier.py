"""AutoTransferClassifier: from recordings of a few subjects to a decoder for a new one, by one ``fit``."""

import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from braindecode_censor._check import (
    PlainAttributes,
    check_choice,
    check_count,
    check_parameters,
    check_positive,
    check_size,
    check_word,
    optional,
)
from braindecode_censor.decoder.caps import channel_covariance, join_caps
from braindecode_censor.decoder.ensemble import Ensemble, Model, select_models
from braindecode_censor.decoder.expectation import expect, find_shared_trials
from braindecode_censor.decoder.fitted import FittedDecoder
from braindecode_censor.decoder.input import check_subjects, describe_input, read_input
from braindecode_censor.decoder.preparation import describe_preparation
from braindecode_censor.run.model import find_device, unpack_model
from braindecode_censor.run.training import TARGETS, TrialData
from braindecode_censor.storage.keys import versions
from braindecode_censor.training.adapt import check_target
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.quality import check_trials
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["AutoTransferClassifier"]

_CONSTRAINTS = {
    "target": (check_choice, TARGETS),
    "taught": (check_choice, (True, False)),
    "device": (check_word,),
    "random_state": (check_size, 0),
    "n_jobs": (optional(check_count),),
    "partners": (check_size, 2),
    "sfreq": (optional(check_positive),),
    "verbose": (check_choice, range(10)),
}


class AutoTransferClassifier(FittedDecoder, PlainAttributes, ClassifierMixin, BaseEstimator):
    """Find the decoder that works best on held-out subjects, and estimate its score on a new one.

    Candidates (networks that differ in normalisation, augmentation, size and censoring, and classical pipelines) are
    trained without two subjects at a time and scored on these two. Their weighted average is the decoder; the weights
    maximise the likelihood of held-out trials.

    Parameters
    ----------
    target : {"unlabeled", "none", "labeled"}
        Target data, available of the subject to decode: unlabelled trials (for :meth:`adapt`), none, or a few
        labelled ones. Candidates are scored accordingly.
    time_limit : float, str or None
        Seconds, or a text such as "10m"; None trains everything.
    device : str
        "cpu", "cuda", or "auto", which is a GPU if there is one.
    random_state : int
        Seed of everything random.
    candidates : list or None
        Names, dictionaries or estimators, see :func:`~braindecode_censor.search.family.find_candidates`; None is the
        default candidates, with censoring on top of the best network if there are four subjects or more.
    n_jobs : int
        Trainings at a time, in processes of this machine; -1 is one per core. On a GPU it holds for classical
        candidates, and networks are trained many at once.
    max_trainings : int or None
        Maximum number of trainings, instead of a time limit: equal data and seeds then give equal decoders.
    folder : str, path-like or None
        Folder for finished trainings; the same ``fit`` after a crash continues from them.
    client : dask.distributed.Client or None
        A Dask cluster to train on.
    partners : int
        Number of subjects with whom each subject is held out, in pairs. More partners mean more trainings.
    sfreq : float or None
        Sampling rate of arrays in samples per second; Epochs know theirs. None takes 128 for the lengths of filters.
    ch_names : list of str or None
        Channel names of arrays; Epochs know theirs.
    taught : bool
        Learn from a new subject's trials what the ensemble does not know: the offset for the expected class
        proportions, and regressions on views of the trials. The weights of both are learned on held-out subjects.
        Without target data it makes no difference.
    preparation : dict or None
        How the signals were prepared, as far as Epochs do not tell, for live decoding: the entries of
        :class:`~braindecode_censor.decoder.preparation.Preparation`, such as ``{"sos": sos, "phase": "causal"}``.
    verbose : int
        1 shows a progress bar on a terminal, 0 nothing.

    Attributes
    ----------
    leaderboard_ : pandas.DataFrame
        Candidates and combinations with mean and lower quartile of their held-out balanced accuracies, weight,
        seconds and trainings, see :func:`~braindecode_censor.decoder.leaderboard.make_leaderboard`.
    heldout_ : HeldoutScores
        Nested score of the whole method for every subject, an interval for a new one, and warnings. ``nested`` is
        False if scores of all subjects decided which candidates were trained further, as a time limit may cause.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    subjects_ : ndarray of shape (n_subjects,)
        Subjects.
    ensemble_ : Ensemble
        The models.
    stream_prior_ : float
        Factor by which a stream trusts the training subjects' statistics longer: more than 1 where a class comes
        several times in a row and streams of held-out subjects gain by it.
    adapted_ : bool
        True for a decoder of one subject.
    block_ : ndarray of shape (n_trials, n_classes)
        After :meth:`adapt`, the probabilities of the trials it was given.
    forecast_ : Forecast or str
        After :meth:`adapt`, the expected balanced accuracy for this subject, "unknown" where scores of held-out
        subjects could not be predicted; then ``heldout_`` says what to expect.

    Examples
    --------
    >>> clf = AutoTransferClassifier(time_limit="10m").fit(X, y, subjects=subjects)  # doctest: +SKIP
    >>> print(clf.leaderboard_, clf.heldout_)  # doctest: +SKIP
    >>> clf.adapt(X_new).predict(X_new)  # doctest: +SKIP
    """

    # scikit-learn's metadata routing, by which MOABB passes subject labels and target data.
    __metadata_request__fit: ClassVar = {
        "subjects": True,
        "X_target_unlabeled": True,
        "X_target_labeled": True,
        "y_target_labeled": True,
    }

    def __init__(
        self,
        target="unlabeled",
        time_limit=600,
        device="auto",
        random_state=0,
        candidates=None,
        n_jobs=1,
        max_trainings=None,
        folder=None,
        client=None,
        partners=4,
        sfreq=None,
        ch_names=None,
        taught=True,
        preparation=None,
        verbose=1,
    ):
        self.target = target
        self.time_limit = time_limit
        self.device = device
        self.random_state = random_state
        self.candidates = candidates
        self.n_jobs = n_jobs
        self.max_trainings = max_trainings
        self.folder = folder
        self.client = client
        self.partners = partners
        self.sfreq = sfreq
        self.ch_names = ch_names
        self.taught = taught
        self.preparation = preparation
        self.verbose = verbose

    def fit(
        self,
        X,
        y=None,
        subjects=None,
        X_target_unlabeled=None,
        X_target_labeled=None,
        y_target_labeled=None,
    ):
        """Search, combine, and adapt to a subject if target data are given.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of at least three subjects. A list of Epochs, whose caps may differ, is one block with the channels
            that all have.
        y : array-like of shape (n_trials,) or None
            Classes; None takes those of Epochs or of a dataset.
        subjects : array-like of shape (n_trials,) or None
            Subject of each trial; None takes those of Epochs or of a Braindecode dataset.
        X_target_unlabeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the subject to decode. The search does not use them; ``fit`` ends with :meth:`adapt`.
        X_target_labeled, y_target_labeled : array-like or None
            The same with labels. MOABB passes one or the other, according to its ``CrossSubjectMode``.

        Returns
        -------
        self : AutoTransferClassifier
            Fitted.
        """
        # Here and below, because a decoder that is loaded needs no search.
        from braindecode_censor.search.budget import Budget, SearchProgress
        from braindecode_censor.search.family import find_candidates
        from braindecode_censor.search.queue import Search
        from braindecode_censor.storage.store import Store

        check_parameters(self, _CONSTRAINTS)
        budget = Budget(self.time_limit, self.max_trainings)
        self._check_target(X_target_unlabeled, X_target_labeled, y_target_labeled)
        candidates, censored = find_candidates(self.candidates)
        X = join_caps(X)
        signals, targets = read_signals(X)
        y, subjects = check_subjects(X, signals, targets, y, subjects)
        self.input_ = describe_input(X, signals, self.sfreq, self.ch_names)
        if self.input_.sfreq is None and any(c.kind == "network" for c in candidates):
            text = (
                "sfreq is not given: 128 samples per second are assumed for the lengths of networks' filters."
            )
            warnings.warn(f"{text} Pass sfreq=, or Epochs, which have it.", stacklevel=2)
        self.input_.preparation = describe_preparation(X, self.preparation, np.unique(y))
        check_trials(signals, y, subjects, self.input_.ch_names)
        if self.input_.ch_names is not None:
            self.input_.covariance = channel_covariance(signals, subjects)
        trials = self._fold(signals, y, subjects)
        store = None if self.folder is None else Store(self.folder)
        with SearchProgress(self.verbose, budget) as progress:
            resources = {"store": store, "n_jobs": self.n_jobs, "client": self.client}
            result = Search(trials, candidates, censored, budget, **resources, report=progress.report).run()
        self._combine(result, trials)
        new = next((X for X in (X_target_unlabeled, X_target_labeled) if X is not None), None)
        new = None if new is None else read_input(new, self.input_)
        self._expect(result, find_shared_trials(signals, subjects, new))
        if new is not None:
            y_encoded = None if y_target_labeled is None else self._encode(y_target_labeled, len(new))
            self._adapt(new, y_encoded, "as-trained")
            self._limit_scores(X_target_labeled if X_target_unlabeled is None else X_target_unlabeled)
        return self

    def _check_target(self, unlabeled, labeled, y):
        check_target(unlabeled, labeled, y)
        if self.target == "none" and (unlabeled is not None or labeled is not None):
            raise ValueError(
                "target='none' excludes target data, but fit was given some: pass target='unlabeled' or 'labeled', or "
                "leave them out."
            )

    def _fold(self, signals, y, subjects):
        from braindecode_censor.search.folds import FoldedTrials, make_folds

        self.classes_, y_encoded = np.unique(y, return_inverse=True)
        self.subjects_, subject_idx = np.unique(subjects, return_inverse=True)
        self.n_trials_, self.versions_ = len(y), versions()
        if not isinstance(signals, StoredSignals):
            signals = np.ascontiguousarray(signals, dtype=np.float32)
        data = TrialData(signals, y_encoded, subject_idx)
        folds = make_folds(len(self.subjects_), self.partners, self.random_state)
        device = find_device(self.device)
        return FoldedTrials(data, folds, self.target, self.input_.sfreq, device, self.random_state)

    def _combine(self, result, trials):
        """Choose weights by the predictions of all folds, collect the models, and learn how to teach."""
        from braindecode_censor.decoder.heldout_teaching import learn_teaching
        from braindecode_censor.decoder.leaderboard import make_leaderboard
        from braindecode_censor.decoder.order import choose_stream_prior
        from braindecode_censor.search.heldout import balanced_accuracy
        from braindecode_censor.search.weights import choose_weights

        heldout, names = result.heldout, result.finalists
        weights = choose_weights(*heldout.for_final_weights(names))
        self.teacher_ = self.subject_ = None
        answers = {s: heldout.nested_answers(s, names) for s in heldout.nested_subjects(names)}
        # Teaching takes minutes for many subjects: nobody who has pressed Ctrl-C waits for it.
        if self.taught and self.target != "none" and answers and not result.interrupted:
            try:
                self.teacher_, answers = learn_teaching(heldout, names, weights, trials)
            except KeyboardInterrupt:
                result.interrupted = True
        self.answers_ = {self.subjects_[s]: answers[s] for s in answers}
        self._scores = np.full(len(self.subjects_), np.nan)
        self._scores[list(answers)] = [balanced_accuracy(*answer) for answer in answers.values()]
        weights = dict(zip(names, weights.tolist()))
        self.leaderboard_ = make_leaderboard(result, weights, None if self.teacher_ is None else self._scores)
        self.specs_ = {name: candidate.spec for name, candidate in result.candidates.items()}
        self.errors_ = dict(result.errors)
        folds = {name: sorted(result.heldout.probabilities[name]) for name in result.finalists}
        models = [
            Model(name, fold, weight, unpack_model(result.models[name, fold], trials.device))
            for name, fold, weight in select_models(weights, folds)
        ]
        self.general_ = self.ensemble_ = Ensemble(models, len(self.classes_))
        has_streams = self.target != "none" and not result.interrupted
        self.stream_prior_ = choose_stream_prior(self.general_, trials) if has_streams else 1.0
        self.adapted_ = False

    def _expect(self, result, shared):
        from braindecode_censor.search.family import BASELINE

        has_baseline = BASELINE in result.finalists and len(result.finalists) > 1
        baseline = (BASELINE, result.heldout.scores(BASELINE)) if has_baseline else None
        subjects = self.subjects_.tolist()
        n_trials = round(self.n_trials_ / len(subjects))
        self.heldout_ = expect(
            subjects, self._scores, baseline, n_trials=n_trials, nested=result.nested, shared=shared
        )
        if result.interrupted:
            text = "The fit was interrupted: the decoder is the best so far, and is not taught (see taught=)."
            warnings.warn(text, stacklevel=3)
        for text in self.heldout_.warnings:
            warnings.warn(f"{text}.", stacklevel=3)
        for name, error in self.errors_.items():
            warnings.warn(f"candidate {name!r} failed and is left out: {error}", stacklevel=3)
