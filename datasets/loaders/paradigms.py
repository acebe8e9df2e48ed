"""Paradigms that return the signals as recorded, with balanced accuracy and the validation score.

MOABB's band-pass excludes EMG channels (and fails if there are no others), and it has no paradigm for error
potentials or for faces and houses. No paradigm normalises, because pipelines differ in their needs: what helps a
network (each channel of each trial by itself) removes the amplitudes that a classical pipeline uses.
"""

import warnings
from copy import copy
from functools import partial

import mne
from moabb.datasets.preprocessing import NamedFunctionTransformer
from moabb.datasets.utils import dataset_search
from moabb.paradigms import P300
from moabb.paradigms.base import BaseParadigm
from sklearn.metrics import balanced_accuracy_score, make_scorer

from braindecode_censor.datasets._check import require


def valid_score(estimator, X, y):
    """Return the score of the validation subject that ``fit`` stored, or NaN if there is none.

    MOABB stores it beside the test score as ``score_valid``; the data are ignored.

    Parameters
    ----------
    estimator : object
        A fitted estimator, or a Pipeline or search around one.
    X, y : object
        Ignored.

    Returns
    -------
    float
        ``valid_score_`` of the innermost estimator.
    """
    while not hasattr(estimator, "valid_score_"):
        inner = getattr(estimator, "best_estimator_", None)
        steps = getattr(estimator, "steps", None)
        if inner is None and not steps:
            return float("nan")
        estimator = inner if inner is not None else steps[-1][1]
    return float(estimator.valid_score_)


class PaperScores(dict):
    """Scorers by name, as MOABB takes them, that also pass where MOABB accepts accuracy only.

    MOABB decodes single trials in ``CrossSubjectMode.TRAIN_TRIALWISE`` and computes accuracy or ROC-AUC itself; it
    compares the scorer with "accuracy" and refuses others. The comparison is therefore true, with a warning.
    """

    __hash__ = None

    def __eq__(self, other):
        if other != "accuracy":
            return super().__eq__(other)
        warnings.warn(
            "MOABB scores single trials (TRAIN_TRIALWISE) by accuracy, so the column score is accuracy here, not "
            "balanced accuracy, and there is no score_valid. Pass scorer='accuracy' or 'roc_auc' to the paradigm to "
            "choose.",
            UserWarning,
            stacklevel=2,
        )
        return True

    def __ne__(self, other):
        return not self == other


def paper_scorer():
    """Return MOABB's dict scorer: balanced accuracy (column ``score``) and ``score_valid``.

    Returns
    -------
    PaperScores
        Two scorers.
    """
    return PaperScores(balanced_accuracy=make_scorer(balanced_accuracy_score), valid=valid_score)


def with_paper_scores(paradigm):
    """Return a paradigm that scores as the paper does.

    Parameters
    ----------
    paradigm : moabb.paradigms.base.BaseParadigm
        Any paradigm; it is not changed.

    Returns
    -------
    moabb.paradigms.base.BaseParadigm
        The same one if it does already, else a copy with :func:`paper_scorer`.
    """
    if _scores_as_the_paper(paradigm):
        return paradigm
    paradigm = copy(paradigm)
    paradigm.scorer = paper_scorer()
    require(
        _scores_as_the_paper(paradigm),
        f"paradigm={type(paradigm).__name__}: its scoring does not follow its scorer, so it cannot return balanced "
        "accuracy and the validation score; let scoring return paper_scorer().",
    )
    return paradigm


def _scores_as_the_paper(paradigm):
    scoring = paradigm.scoring
    return isinstance(scoring, dict) and next(iter(scoring)) == "balanced_accuracy" and "valid" in scoring


def _filter(raw, fmin, fmax):
    """Band-pass all physiological channels; ``picks="data"`` would exclude EMG."""
    picks = mne.pick_types(raw.info, eeg=True, emg=True, ecog=True, seeg=True)
    return raw.filter(fmin, fmax, method="iir", picks=picks, verbose=False)


def _band_pass(fmin, fmax):
    name = f"Band Pass Filter with EMG ({fmin}-{fmax} Hz)"
    return NamedFunctionTransformer(partial(_filter, fmin=fmin, fmax=fmax), display_name=name)


class _PaperSteps:
    """Steps common to our paradigms, mixed into a MOABB paradigm."""

    def prepare_process(self, dataset):
        """Raise for a window that reaches beyond the recorded one, for which MOABB would return no trials."""
        length = dataset.interval[1] - dataset.interval[0]
        require(
            self.tmin >= 0 and (self.tmax is None or self.tmax <= length + 1e-9),
            f"tmin={self.tmin}, tmax={self.tmax} reach beyond the {length:.4g} s that {dataset.code} holds; "
            f"choose 0 <= tmin < tmax <= {length:.4g}.",
        )

    def _get_raw_pipelines(self):
        return [None if band == [None, None] else _band_pass(*band) for band in map(list, self.filters)]

    @property
    def scoring(self):
        """The ``scorer`` argument, by default balanced accuracy and the validation score."""
        return paper_scorer() if self.scorer is None else self.scorer


class ERP(_PaperSteps, P300):
    """MOABB's P300 (Target against NonTarget) without filters, with the paper's scores.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None, the paper's choice, leaves the signal as recorded.
    **options : dict
        All other options of :class:`moabb.paradigms.P300`.
    """

    def __init__(self, fmin=None, fmax=None, **options):
        super().__init__(fmin=fmin, fmax=fmax, **options)


class EpochsParadigm(_PaperSteps, BaseParadigm):
    """Trials with class labels, for any classes and channels.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz, over EEG, ECoG and EMG channels alike; None, the paper's choice, filters nothing.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own; None means all of it.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        ``events``, ``channels``, ``baseline``, ``scorer`` and the other options of MOABB's base paradigm.
    """

    accepts = None  # value of dataset.paradigm; None accepts all

    def __init__(self, fmin=None, fmax=None, *, tmin=0.0, tmax=None, resample=None, **options):
        super().__init__(filters=[[fmin, fmax]], tmin=tmin, tmax=tmax, resample=resample, **options)

    def is_valid(self, dataset):
        """Return whether the paradigm accepts the dataset and the dataset has the selected events.

        Parameters
        ----------
        dataset : moabb.datasets.base.BaseDataset
            The dataset.

        Returns
        -------
        bool
            Whether it fits.
        """
        is_accepted = self.accepts is None or dataset.paradigm == self.accepts
        return is_accepted and set(self.events or []) <= set(dataset.event_id)

    def used_events(self, dataset):
        """Return the selected events, all of the dataset's by default.

        Parameters
        ----------
        dataset : moabb.datasets.base.BaseDataset
            The dataset.

        Returns
        -------
        dict of str to int
            Codes by name.
        """
        return {name: dataset.event_id[name] for name in self.events or dataset.event_id}

    @property
    def datasets(self):
        """All datasets in MOABB's lists that fit, ours included after :func:`braindecode_censor.register`."""
        return [dataset for dataset in dataset_search() if self.is_valid(dataset)]


class ErrorPotentials(EpochsParadigm):
    """Correct against erroneous feedback.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None filters nothing.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        As in :class:`EpochsParadigm`.
    """

    accepts = "errp"


class FacesHouses(EpochsParadigm):
    """Pictures of faces against pictures of houses, ECoG.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None filters nothing.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        As in :class:`EpochsParadigm`.
    """

    accepts = "ecog"


class EMGGestures(EpochsParadigm):
    """Hand gestures from surface EMG.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None filters nothing.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        As in :class:`EpochsParadigm`.
    """

    accepts = "emg"
