"""AutoTransferClassifier: from recordings of a few subjects to a decoder for a new one, by one ``fit``."""

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import (
    PlainAttributes,
    check_choice,
    check_count,
    check_fraction,
    check_parameters,
    check_positive,
    check_size,
    check_word,
    optional,
)
from braindecode_censor.decoder.caps import join_caps
from braindecode_censor.decoder.ensemble import Ensemble, Model, select_models
from braindecode_censor.decoder.expectation import expect, find_shared_trials
from braindecode_censor.decoder.input import check_subjects, describe_input, missing_channels, read_input
from braindecode_censor.decoder.leaderboard import make_leaderboard
from braindecode_censor.decoder.preparation import describe_preparation
from braindecode_censor.decoder.stream import StreamingDecoder, TrialwiseEnsemble
from braindecode_censor.decoder.taught import TaughtStream, teach_subject
from braindecode_censor.decoder.teacher import check_proportions
from braindecode_censor.run.model import find_device, unpack_model
from braindecode_censor.run.training import TARGETS, TrialData
from braindecode_censor.storage.keys import versions
from braindecode_censor.storage.store import Store
from braindecode_censor.trials.dataset import check_labels, read_signals
from braindecode_censor.trials.quality import check_trials, warn_of_one_class
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


class AutoTransferClassifier(PlainAttributes, ClassifierMixin, BaseEstimator):
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

        check_parameters(self, _CONSTRAINTS)
        budget = Budget(self.time_limit, self.max_trainings)
        self._check_target(X_target_unlabeled, X_target_labeled, y_target_labeled)
        candidates, censored = find_candidates(self.candidates)
        X = join_caps(X)
        signals, targets = read_signals(X)
        y, subjects = check_subjects(X, signals, targets, y, subjects)
        self.input_ = describe_input(X, signals, self.sfreq, self.ch_names)
        self.input_.preparation = describe_preparation(X, self.preparation, np.unique(y))
        check_trials(signals, y, subjects, self.input_.ch_names)
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
        return self

    def _check_target(self, unlabeled, labeled, y):
        if (labeled is None) != (y is None) or (unlabeled is not None and labeled is not None):
            raise ValueError(
                "Pass X_target_unlabeled alone, or X_target_labeled together with y_target_labeled."
            )
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
        from braindecode_censor.search.heldout import balanced_accuracy
        from braindecode_censor.search.weights import choose_weights

        heldout, names = result.heldout, result.finalists
        weights = choose_weights(*heldout.for_final_weights(names))
        self.teacher_ = self.subject_ = None
        if self.taught and self.target != "none" and heldout.nested_subjects(names):
            self.teacher_, answers = learn_teaching(heldout, names, weights, trials)
        else:
            answers = {s: heldout.nested_answers(s, names) for s in heldout.nested_subjects(names)}
        self.answers_ = {self.subjects_[s]: answers[s] for s in answers}
        self._scores = np.full(len(self.subjects_), np.nan)
        self._scores[list(answers)] = [balanced_accuracy(*found) for found in answers.values()]
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
            warnings.warn("The search was interrupted: the decoder is the best so far.", stacklevel=3)
        for text in self.heldout_.warnings:
            warnings.warn(f"{text}.", stacklevel=3)
        for name, error in self.errors_.items():
            warnings.warn(f"candidate {name!r} failed and is left out: {error}", stacklevel=3)

    def _encode(self, y, n_trials):
        y = check_labels("y", y, n_trials, "pass one class per trial.")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has labels that fit did not have: {unknown.tolist()}; fit had {self.classes_.tolist()}."
            )
        warn_of_one_class(y)
        return np.searchsorted(self.classes_, y)

    def _encode_known(self, y, n_trials):
        """Return encoded labels, -1 where they are -1, NaN or None; None if no label is known."""
        labels = np.asarray(y, dtype=object).ravel()
        is_known = np.array(
            [k is not None and k == k and (k != -1 or -1 in self.classes_) for k in labels], bool
        )
        if len(labels) != n_trials or is_known.all():
            return self._encode(y, n_trials)
        if not is_known.any():
            return None
        y_encoded = np.full(n_trials, -1)
        y_encoded[is_known] = self._encode(np.array(labels[is_known].tolist()), is_known.sum())
        return y_encoded

    def predict_proba(self, X):
        """Return the probability of every class; those of a trial do not depend on other trials.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject. Channels of Epochs are ordered by name.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self, "ensemble_")
        if self.target != "none" and not self.adapted_ and not getattr(self, "_warned_not_adapted", False):
            self._warned_not_adapted = True
            warnings.warn(
                f"target={self.target!r}, but the decoder is not adapted; predictions use the statistics of the "
                "training subjects. Call adapt(X) first, or fit with target='none'. In MOABB, pass "
                "a cs_mode with target data.",
                stacklevel=2,
            )
        signals = read_input(X, self.input_)
        probabilities = self._ensemble_proba(signals)
        return probabilities if self.subject_ is None else self.subject_.predict_proba(signals, probabilities)

    def _ensemble_proba(self, signals):
        if len(signals) > 1:
            return self.ensemble_.predict_proba(signals)
        trialwise = getattr(self, "_trialwise", None)
        if trialwise is None or trialwise.ensemble is not self.ensemble_:
            trialwise = self._trialwise = TrialwiseEnsemble(self.ensemble_, streams=False)
        return trialwise.predict_proba(signals)

    def predict(self, X, sure=None, undecided=-1):
        """Return the label of every trial.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject.
        sure : float or None
            Smallest probability with which a trial is decided; None decides all trials.
        undecided : object
            Label of other trials.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels as given to ``fit``.
        """
        probabilities = self.predict_proba(X)
        labels = self.classes_[probabilities.argmax(axis=1)]
        if sure is None:
            return labels
        if labels.dtype.kind != np.asarray(undecided).dtype.kind:
            labels = labels.astype(object)
        return np.where(probabilities.max(axis=1) >= check_fraction("sure", sure), labels, undecided)

    def adapt(self, X, y=None, proportions="as-trained"):
        """Return a copy of the decoder adapted to one subject.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of the target subject. Channels of Epochs that are missing are interpolated by spherical splines.
        y : array-like of shape (n_trials,) or None
            Labels, optional; -1, NaN or None for those that are unknown.
        proportions : {"as-trained", "unknown"} or dict
            Class proportions of X: those of the training subjects, unknown ones, or the share of each class. Where
            "as-trained" is far from what the trials show, a warning is given and "unknown" is used.

        Returns
        -------
        adapted : AutoTransferClassifier
            Fitted; this decoder is unchanged.
        """
        signals, adapted = read_input(X, self._general_input()), copy.copy(self)
        y_encoded = None if y is None else self._encode_known(y, len(signals))
        adapted._adapt(signals, y_encoded, check_proportions(proportions, self.classes_))
        if missing := missing_channels(X, self.input_):
            limit = f"The scores were not measured for a cap without {', '.join(missing)}"
            adapted.heldout_ = replace(self.heldout_, warnings=[*self.heldout_.warnings, limit])
        return adapted

    def _adapt(self, signals, y_encoded, proportions):
        self.ensemble_, self.adapted_ = self.general_.adapt(signals, y_encoded), True
        self.block_, self.forecast_, self.subject_ = self.ensemble_.predict_proba(signals), "unknown", None
        if self.teacher_ is not None:
            self.subject_ = teach_subject(self.teacher_, signals, self.block_, y_encoded, proportions)
            self.block_ = self.subject_.predict_proba(signals, self.block_)
            self.forecast_ = self.teacher_.forecaster.forecast(self.subject_.statistics)

    def stream(self, proportions="as-trained"):
        """Return a copy of the decoder that adapts to one subject trial by trial, causally.

        Parameters
        ----------
        proportions : {"as-trained", "unknown"} or dict
            As for :meth:`adapt`, without a warning.

        Returns
        -------
        stream : StreamingDecoder
            With ``predict_proba`` and ``predict``.
        """
        input_format, proportions = self._general_input(), check_proportions(proportions, self.classes_)
        taught = None if self.teacher_ is None else TaughtStream(self.teacher_, proportions)
        ensemble = TrialwiseEnsemble(self.general_, streams=True)
        return StreamingDecoder(ensemble, input_format, self.classes_, taught)

    def _general_input(self):
        check_is_fitted(self, "ensemble_")
        if self.general_ is None:
            raise ValueError(
                "This decoder was saved for one subject: load the general one to adapt it to another."
            )
        return self.input_

    @property
    def model_card(self):
        """The model card in Markdown: data, expected scores, candidates, limits."""
        from braindecode_censor.decoder.card import write_card

        check_is_fitted(self, "ensemble_")
        return write_card(self)

    def report(self, path):
        """Write a page for those who use the decoder: expected scores, thresholds, calibration, limits.

        Parameters
        ----------
        path : str or path-like
            File to write, such as "page.html". It needs no other file.
        """
        from braindecode_censor.decoder.report import write_report

        check_is_fitted(self, "ensemble_")
        write_report(self, Path(path))

    def save(self, folder, overwrite=False):
        """Write the decoder to a folder of safetensors and JSON, without pickle.

        Parameters
        ----------
        folder : str or path-like
            Created.
        overwrite : bool
            Whether to replace an older decoder. Other files are never deleted.
        """
        from braindecode_censor.decoder.folder import write_decoder

        write_decoder(self, folder, self.model_card, overwrite)

    @classmethod
    def load(cls, folder, device="auto"):
        """Load a decoder that :meth:`save` wrote; nothing in the folder is executed.

        Parameters
        ----------
        folder : str or path-like
            The folder; a changed one is refused.
        device : str
            Device of the networks.

        Returns
        -------
        clf : AutoTransferClassifier
            Ready to predict.
        """
        from braindecode_censor.decoder.folder import read_decoder

        return read_decoder(cls, folder, find_device(device))

    def to_torch(self, part=False):
        """Return the networks of the ensemble, normalisation included, as one exported program.

        Parameters
        ----------
        part : bool
            Whether to export the networks if classical models, which cannot be exported, have most of the weight.

        Returns
        -------
        program : torch.export.ExportedProgram
            Takes signals of shape (n_trials, n_chans, n_times) and returns the networks' average probabilities.
        """
        from braindecode_censor.decoder.export import export_network

        check_is_fitted(self, "ensemble_")
        return export_network(self.ensemble_.networks(part), self.input_)

    def to_onnx(self, path, part=False):
        """Write the networks of the ensemble, normalisation included, as one ONNX file.

        Parameters
        ----------
        path : str or path-like
            File to write.
        part : bool
            As in :meth:`to_torch`.
        """
        from braindecode_censor.decoder.export import write_onnx

        check_is_fitted(self, "ensemble_")
        write_onnx(self.ensemble_.networks(part), self.input_, path)
