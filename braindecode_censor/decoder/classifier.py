"""From recordings of a few people to a decoder for the next, by one ``fit``."""

import copy
import warnings
from numbers import Integral
from typing import ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.decoder.card import write_card
from braindecode_censor.decoder.ensemble import Ensemble, Model, share_out_models
from braindecode_censor.decoder.export import export_network, write_onnx
from braindecode_censor.decoder.folder import read_decoder, write_decoder
from braindecode_censor.decoder.input import check_people, describe_input, read_input
from braindecode_censor.decoder.leaderboard import make_leaderboard
from braindecode_censor.decoder.stream import StreamingDecoder
from braindecode_censor.run.pair_data import TARGETS, PairData
from braindecode_censor.run.pair_runner import PairRunner
from braindecode_censor.run.pair_store import PairStore
from braindecode_censor.run.pair_trainings import unpack_model
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.expectation import expect, shared_trials
from braindecode_censor.search.family import BASELINE, find_candidates
from braindecode_censor.search.folds import make_pairs
from braindecode_censor.search.pair_search import PairSearch
from braindecode_censor.search.progress import SearchProgress
from braindecode_censor.search.weights import choose_weights
from braindecode_censor.storage.keys import versions
from braindecode_censor.trials.dataset import check_labels, read_signals
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["AutoTransferClassifier"]


class AutoTransferClassifier(ClassifierMixin, BaseEstimator):
    """Find the decoder that works best for people it has not seen, and say what to expect of the next one.

    Candidates (networks that differ in normalisation, augmentation, size and censoring, and classical pipelines) are
    trained without two people at a time and judged by these two. The best are averaged, with weights chosen by
    held-out likelihood, and the average is the decoder.

    Parameters
    ----------
    target : {"unlabeled", "none", "labeled"}
        What will be known of the person to decode: unlabelled trials (for :meth:`adapt`), nothing, or a few labelled
        ones. Candidates are judged accordingly.
    time_limit : float, str or None
        Seconds, or a text such as "10m"; None trains everything.
    device : str
        "cpu", "cuda", or "auto", which is a GPU if there is one.
    random_state : int
        Seed of everything random.
    candidates : list or None
        Names, dictionaries or estimators, see :func:`~braindecode_censor.search.family.find_candidates`; None is the
        whole family, with censoring on top of its best network if there are four people or more.
    n_jobs : int
        Trainings at a time, in processes of this machine; -1 is one per core. On a GPU it holds for classical
        candidates, and networks are trained many at once.
    max_trainings : int or None
        Train at most so many models instead of so long: equal data and seeds then give equal decoders.
    folder : str, path-like or None
        Where finished trainings are kept; the same ``fit`` after a crash goes on from there.
    client : dask.distributed.Client or None
        A Dask cluster to train on.
    partners : int
        How many others each person is paired with; a model is trained without each pair. More partners mean more
        trainings and a larger average.
    sfreq : float or None
        Sampling rate of arrays in samples per second; Epochs know theirs. None takes 128 for the lengths of filters.
    ch_names : list of str or None
        Channel names of arrays; Epochs know theirs.
    verbose : int
        1 shows a progress bar on a terminal, 0 nothing.

    Attributes
    ----------
    leaderboard_ : pandas.DataFrame
        Candidates and combinations with mean and lower quartile of their held-out balanced accuracies, weight,
        seconds and trainings, see :func:`~braindecode_censor.decoder.leaderboard.make_leaderboard`.
    heldout_ : HeldoutScores
        Nested score of the whole method for every person, an interval for the next one, and warnings. ``strict``
        tells whether nobody's score had a part in what was trained; with a time limit it usually had.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    subjects_ : ndarray of shape (n_people,)
        People.
    ensemble_ : Ensemble
        The models.
    adapted_ : bool
        Whether the decoder is one person's.

    Examples
    --------
    >>> clf = AutoTransferClassifier(time_limit="10m").fit(X, y, subjects=subjects)  # doctest: +SKIP
    >>> print(clf.leaderboard_, clf.heldout_)  # doctest: +SKIP
    >>> clf.adapt(X_new).predict(X_new)  # doctest: +SKIP
    """

    # MOABB asks scikit-learn who wants the subject labels and the new person's trials; this is the answer.
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
        """Search, combine, and adapt to a person if trials of that person are given.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of at least three people.
        y : array-like of shape (n_trials,) or None
            Classes; None takes those of Epochs or of a dataset.
        subjects : array-like of shape (n_trials,) or None
            Whose trial each one is; None takes what Epochs or a Braindecode dataset know.
        X_target_unlabeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the person who will be decoded. The search does not see them; ``fit`` ends with :meth:`adapt`.
        X_target_labeled, y_target_labeled : array-like or None
            The same with classes. MOABB hands over one or the other, according to its ``CrossSubjectMode``.

        Returns
        -------
        self : AutoTransferClassifier
            Fitted.
        """
        budget = Budget(self.time_limit, self.max_trainings)
        self._check_target(X_target_unlabeled, X_target_labeled, y_target_labeled)
        candidates, censored = find_candidates(self.candidates)
        signals, targets = read_signals(X)
        y, subjects = check_people(X, signals, targets, y, subjects)
        self.input_ = describe_input(X, signals, self.sfreq, self.ch_names)
        data = self._share_out(signals, y, subjects)
        runner = PairRunner(data, PairStore(self.folder, data), self.n_jobs, self.client)
        with SearchProgress(self.verbose, budget) as progress:
            result = PairSearch(data, candidates, censored, budget, runner, progress.report).run()
        self._combine(result, data)
        new = next((X for X in (X_target_unlabeled, X_target_labeled) if X is not None), None)
        new = None if new is None else read_input(new, self.input_)
        # In the user's order; censored candidates, which the search adds, come last.
        order = [*(candidate.name for candidate in candidates), *result.finalists]
        self._expect(result, order, shared_trials(signals, subjects, new))
        if new is not None:
            codes = None if y_target_labeled is None else self._encode(y_target_labeled, len(new))
            self.ensemble_, self.adapted_ = self.general_.adapt(new, codes), True
        return self

    def _check_target(self, unlabeled, labeled, y):
        check_choice("target", self.target, TARGETS)
        check_size("random_state", self.random_state, 0)
        check_size("partners", self.partners, 2)
        if not isinstance(self.n_jobs, (Integral, type(None))) or self.n_jobs == 0:
            raise ValueError(f"n_jobs={self.n_jobs!r} must be an integer, -1 for one training per core.")
        if (labeled is None) != (y is None) or (unlabeled is not None and labeled is not None):
            raise ValueError(
                "Give fit X_target_unlabeled alone, or X_target_labeled together with y_target_labeled."
            )
        if self.target == "none" and (unlabeled is not None or labeled is not None):
            raise ValueError(
                "target='none' says that nothing is known of the new person, but fit was given trials of one: pass "
                "target='unlabeled' or 'labeled', or leave the trials out."
            )

    def _share_out(self, signals, y, subjects):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.subjects_, people = np.unique(subjects, return_inverse=True)
        self.n_trials_, self.versions_ = len(y), versions()
        pairs = make_pairs(len(self.subjects_), self.partners, self.random_state)
        if not isinstance(signals, StoredSignals):
            signals = np.ascontiguousarray(signals, dtype=np.float32)
        sfreq, device = self.input_.sfreq, find_device(self.device)
        return PairData(signals, codes, people, pairs, self.target, sfreq, device, self.random_state)

    def _combine(self, result, data):
        """Choose weights by what all pairs say, and keep the models."""
        shares = choose_weights(*result.heldout.of_population(result.finalists))
        weights = dict(zip(result.finalists, shares.tolist()))
        self.leaderboard_ = make_leaderboard(result, weights)
        self.specs_ = {name: candidate.spec for name, candidate in result.candidates.items()}
        self.errors_ = dict(result.errors)
        models = []
        for name, position, weight in share_out_models(
            weights, result.heldout.shared_pairs(result.finalists)
        ):
            kind = result.candidates[name].kind
            estimator = unpack_model(kind, result.models[name, position], data.device)
            models.append(Model(name, kind, position, weight, estimator))
        self.general_ = self.ensemble_ = Ensemble(models, len(self.classes_))
        self.adapted_ = False

    def _expect(self, result, order, shared):
        # The plain decoder must have been trained as the others: one that was dropped early is no measure.
        plain = next(name for name in [BASELINE, *order] if name in result.finalists)
        baseline = (plain, result.heldout.scores(plain)) if len(result.finalists) > 1 else None
        scores = result.heldout.nested_scores(result.finalists)
        people = self.subjects_.tolist()
        n_trials = round(self.n_trials_ / len(people))
        self.heldout_ = expect(
            people, scores, baseline, n_trials=n_trials, strict=result.strict, shared=shared
        )
        if result.interrupted:
            warnings.warn("The search was interrupted: the decoder is the best found so far.", stacklevel=3)
        for text in self.heldout_.warnings:
            warnings.warn(f"{text}.", stacklevel=3)
        for name, error in self.errors_.items():
            warnings.warn(f"candidate {name!r} failed and is left out: {error}", stacklevel=3)

    def _encode(self, y, n_trials):
        y = check_labels("y", y, n_trials, "pass one class per trial.")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has classes that fit did not have: {unknown.tolist()}; known: {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, y)

    def predict_proba(self, X):
        """Return the probability of every class; a trial's do not depend on the trials beside it.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one person. Channels of Epochs are found by name.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self, "ensemble_")
        if self.target != "none" and not self.adapted_ and not getattr(self, "_told", False):
            self._told = True
            warnings.warn(
                f"target={self.target!r}, but the decoder has no trials of the new person and uses the population's "
                "statistics: call adapt first, or fit with target='none'.",
                stacklevel=2,
            )
        return self.ensemble_.predict_proba(read_input(X, self.input_))

    def predict(self, X):
        """Return the class of every trial.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one person.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels as given to ``fit``.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def adapt(self, X, y=None):
        """Return a decoder for the person whose trials these are; this one stays as it is.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one person.
        y : array-like of shape (n_trials,) or None
            Their classes, if they are known. Networks learn from them; classical candidates use the trials alone.

        Returns
        -------
        person : AutoTransferClassifier
            Fitted, with everything this one has.
        """
        signals, general = read_input(X, self._general_input()), self.general_
        codes = None if y is None else self._encode(y, len(signals))
        person = copy.copy(self)
        person.ensemble_, person.adapted_ = general.adapt(signals, codes), True
        return person

    def stream(self):
        """Return a decoder that learns the person as trials arrive; this one stays as it is.

        Returns
        -------
        stream : StreamingDecoder
            With ``predict_proba`` and ``predict``.
        """
        format = self._general_input()
        return StreamingDecoder(self.general_.stream(), format, self.classes_)

    def _general_input(self):
        check_is_fitted(self, "ensemble_")
        if self.general_ is None:
            raise ValueError(
                "This decoder was saved for one person: load the general one to adapt it to another."
            )
        return self.input_

    @property
    def model_card(self):
        """Markdown: data, people, what to expect, the candidates, limits."""
        check_is_fitted(self, "ensemble_")
        return write_card(self)

    def save(self, folder):
        """Write the decoder to a folder of safetensors and JSON, without pickle.

        Parameters
        ----------
        folder : str or path-like
            Made anew; a decoder that is there is replaced.
        """
        write_decoder(self, folder, self.model_card)

    @classmethod
    def load(cls, folder, device="auto"):
        """Read a decoder that :meth:`save` wrote; no code in the folder is executed, for there is none.

        Parameters
        ----------
        folder : str or path-like
            The folder. One that was changed is refused.
        device : str
            Where networks are to run.

        Returns
        -------
        clf : AutoTransferClassifier
            Ready to predict.
        """
        return read_decoder(cls, folder, find_device(device))

    def to_torch(self):
        """Return the networks of the ensemble, normalisation included, as one exported program.

        Returns
        -------
        program : torch.export.ExportedProgram
            Takes signals of shape (n_trials, n_chans, n_times) and returns the networks' average probabilities.
        """
        check_is_fitted(self, "ensemble_")
        return export_network(self.ensemble_.networks(), self.input_)

    def to_onnx(self, path):
        """Write the networks of the ensemble, normalisation included, as one ONNX file.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        check_is_fitted(self, "ensemble_")
        write_onnx(self.ensemble_.networks(), self.input_, path)


def find_device(device):
    """Return where to compute."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = None
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is unknown; use 'auto', 'cpu' or 'cuda'.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: torch finds no GPU on this machine; use device='auto'.")
    return device
