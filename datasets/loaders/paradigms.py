"""Paradigms with the paper's preprocessing: z-scored trials, balanced accuracy and the validation score.

MOABB's own paradigms do not z-score, its band-pass leaves EMG channels out (and fails when there is nothing
else), and there is none for error potentials or for faces and houses.
"""

from copy import copy
from functools import partial

import mne
import numpy as np
from moabb.datasets.preprocessing import FixedPipeline, NamedFunctionTransformer
from moabb.datasets.utils import dataset_search
from moabb.paradigms import P300
from moabb.paradigms.base import BaseParadigm
from sklearn.metrics import balanced_accuracy_score, make_scorer


def valid_score(estimator, X, y):
    """Return what ``fit`` measured on its validation subject, or NaN if it measured nothing.

    MOABB stores it beside the test score as ``score_valid``; the data handed in are not looked at.

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


def paper_scorer():
    """Return MOABB's dict scorer: balanced accuracy (column ``score``) and ``score_valid``.

    Returns
    -------
    dict of str to callable
        Two scorers.
    """
    return {"balanced_accuracy": make_scorer(balanced_accuracy_score), "valid": valid_score}


def with_paper_scores(paradigm):
    """Return a paradigm that scores as the paper does.

    Parameters
    ----------
    paradigm : moabb.paradigms.base.BaseParadigm
        Any; it is not changed.

    Returns
    -------
    moabb.paradigms.base.BaseParadigm
        The same one if it does already, else a copy with :func:`paper_scorer`.
    """
    if _scores_as_the_paper(paradigm):
        return paradigm
    paradigm = copy(paradigm)
    paradigm.scorer = paper_scorer()
    if not _scores_as_the_paper(paradigm):
        raise ValueError(
            f"paradigm={type(paradigm).__name__}: its scoring does not follow its scorer, so balanced accuracy and the "
            "validation score cannot be asked for; let scoring return paper_scorer()."
        )
    return paradigm


def _scores_as_the_paper(paradigm):
    scoring = paradigm.scoring
    return isinstance(scoring, dict) and next(iter(scoring)) == "balanced_accuracy" and "valid" in scoring


def zscore(X):
    """Give each channel of each trial zero mean and unit variance; a flat channel becomes zero.

    Parameters
    ----------
    X : array of shape (n_trials, n_channels, n_times)
        Trials.

    Returns
    -------
    array of shape (n_trials, n_channels, n_times)
        Scaled in place where possible: a full-size array is not worth holding twice.
    """
    X -= X.mean(axis=-1, keepdims=True)
    scale = X.std(axis=-1, keepdims=True)
    X /= np.where(scale > 0, scale, 1)
    return X


def _filter(raw, fmin, fmax):
    """Band-pass all physiological channels, EMG included, which ``picks="data"`` is not."""
    picks = mne.pick_types(raw.info, eeg=True, emg=True, ecog=True, seeg=True)
    return raw.filter(fmin, fmax, method="iir", picks=picks, verbose=False)


class _PaperSteps:
    """The steps all our paradigms share; mixed into a MOABB paradigm, which must set ``self.zscore``."""

    def prepare_process(self, dataset):
        """Refuse a window that reaches beyond the recorded one, which MOABB would answer with no trials."""
        length = dataset.interval[1] - dataset.interval[0]
        if self.tmin < 0 or (self.tmax is not None and self.tmax > length + 1e-9):
            raise ValueError(
                f"tmin={self.tmin}, tmax={self.tmax} reach beyond the {length:.4g} s that {dataset.code} "
                "holds; "
                f"choose 0 <= tmin < tmax <= {length:.4g}."
            )

    def _get_raw_pipelines(self):
        steps = []
        for fmin, fmax in self.filters:
            if fmin is None and fmax is None:
                steps.append(None)
            else:
                name = f"Band Pass Filter with EMG ({fmin}-{fmax} Hz)"
                steps.append(
                    NamedFunctionTransformer(partial(_filter, fmin=fmin, fmax=fmax), display_name=name)
                )
        return steps

    def _get_array_pipeline(self, return_epochs, return_raws, dataset, processing_pipeline):
        pipeline = super()._get_array_pipeline(return_epochs, return_raws, dataset, processing_pipeline)
        if self.zscore and not return_epochs and not return_raws:
            # after the scaling to microvolts, before what the user wants done last
            steps = list(pipeline.steps)
            steps.insert(
                2, ("zscore", NamedFunctionTransformer(zscore, display_name="Z-score of each trial"))
            )
            pipeline = FixedPipeline(steps)
        return pipeline

    @property
    def scoring(self):
        """The scorer given, or balanced accuracy with the validation score beside it."""
        return paper_scorer() if self.scorer is None else self.scorer


class ERP(_PaperSteps, P300):
    """MOABB's P300 (Target against NonTarget) with the paper's preprocessing and scores.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None, the paper's choice, leaves the signal as recorded.
    zscore : bool
        Whether to z-score each channel of each trial.
    **options : dict
        All other options of :class:`moabb.paradigms.P300`.
    """

    def __init__(self, fmin=None, fmax=None, *, zscore=True, **options):
        self.zscore = zscore
        super().__init__(fmin=fmin, fmax=fmax, **options)


class EpochsParadigm(_PaperSteps, BaseParadigm):
    """Any recording of trials with class labels, whatever the classes and the channels are.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz, over EEG, ECoG and EMG channels alike; None, the paper's choice, filters nothing.
    zscore : bool
        Whether to z-score each channel of each trial, as the paper does.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own; None means all of it.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        ``events``, ``channels``, ``baseline``, ``scorer`` and the other options of MOABB's base paradigm.
    """

    accepts = None  # value of dataset.paradigm; None accepts all

    def __init__(self, fmin=None, fmax=None, *, zscore=True, tmin=0.0, tmax=None, resample=None, **options):
        self.zscore = zscore
        super().__init__(filters=[[fmin, fmax]], tmin=tmin, tmax=tmax, resample=resample, **options)

    def is_valid(self, dataset):
        """Return whether the dataset is of this kind and has the events asked for.

        Parameters
        ----------
        dataset : moabb.datasets.base.BaseDataset
            The dataset.

        Returns
        -------
        bool
            Whether it fits.
        """
        kind = self.accepts is None or dataset.paradigm == self.accepts
        return kind and set(self.events or []) <= set(dataset.event_id)

    def used_events(self, dataset):
        """Return the events asked for, all of the dataset's by default.

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
        """All datasets known to MOABB that fit, ours included after :func:`braindecode_censor.register`."""
        return [dataset for dataset in dataset_search() if self.is_valid(dataset)]


class ErrorPotentials(EpochsParadigm):
    """Correct against erroneous feedback.

    Parameters
    ----------
    fmin, fmax : float or None
        Band-pass in Hz; None filters nothing.
    zscore : bool
        Whether to z-score each channel of each trial.
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
    zscore : bool
        Whether to z-score each channel of each trial.
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
    zscore : bool
        Whether to z-score each channel of each trial.
    tmin, tmax : float or None
        Window in seconds, relative to the dataset's own.
    resample : float or None
        New sampling rate in Hz.
    **options : dict
        As in :class:`EpochsParadigm`.
    """

    accepts = "emg"
