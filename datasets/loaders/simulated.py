"""Simulated subjects of known best accuracy: the embedded default dataset and the project's ground truth."""

import numpy as np
from scipy.special import logsumexp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from braindecode_censor.datasets import simulated_emg, simulated_erp, simulated_mixed
from braindecode_censor.datasets._base import _TrialDataset
from braindecode_censor.datasets._head import EEG_NAMES
from braindecode_censor.datasets._raw import make_info, raw_from_epochs
from braindecode_censor.datasets.simulated_design import make_design

_KINDS = {"erp": simulated_erp, "emg": simulated_emg, "mixed": simulated_mixed}
_PARADIGMS = {"erp": "p300", "emg": "emg", "mixed": "epochs"}
_CLASSES = {"emg": "gesture", "mixed": "picture"}
_POPULATION = 1_000_000  # subject numbers from here on represent the population


class SimulatedSubjects(_TrialDataset):
    """Subjects drawn from a generative model with known Bayes-optimal accuracy.

    Parameters
    ----------
    n_subjects : int
        Number of subjects. Subject k is the same however many there are.
    n_trials : int
        Trials per subject, all sessions together.
    kind : {"erp", "emg", "mixed"}
        Event-related potentials (Target against NonTarget, EEG), muscle power (gestures, EMG), or responses with four
        topographies of subjects who differ only by gain and mixing of their channels, which alignment can undo (EEG).
    preset : {"easy", "medium", "hard"}
        Sets ``snr`` and ``shift``; each can be replaced. ``kind="mixed"`` also has "alike": subjects do not differ,
        so that there is nothing to gain.
    shift : float
        Strength of all subject effects: 0 makes all subjects alike, 1 is a realistic spread.
    snr : float
        Strength of the class differences.
    seed : int
        Same seed, same bytes.
    n_sessions : int
        Recording sessions per subject.
    drift : float
        Strength of the same effects between sessions of a subject.
    label_shift : float
        Correlation between subject and label: standard deviation of the logarithm of a subject's class
        weights.
    imbalance : float
        How many times more frequent the first class is than the last (NonTarget than Target).
    n_chans, n_classes : int
        Electrodes and, except for ``kind="erp"``, classes.
    sfreq, duration : float
        Sampling rate in Hz and length of a trial in seconds.
    effects : dict
        Standard deviation at ``shift=1`` of single effects, to replace the defaults: rotation, latency, gain,
        noise, for ERP also orientation, power, offset, for EMG also activation. ``{"latency": 0}`` turns one
        off. For "mixed" they are gain and mixing.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    The code, under which MOABB caches data and results, names the kind and a digest of all parameters, so two
    different simulations never share a cache entry.

    Examples
    --------
    >>> data = SimulatedSubjects(n_subjects=3, n_trials=20, seed=1)
    >>> X, y, subjects = data.arrays()
    >>> X.shape, sorted(set(subjects.tolist()))
    ((60, 16, 128), [1, 2, 3])
    """

    def __init__(
        self,
        n_subjects=10,
        n_trials=100,
        *,
        kind="erp",
        preset="medium",
        shift=None,
        snr=None,
        seed=0,
        n_sessions=1,
        drift=0.0,
        label_shift=0.0,
        imbalance=1.0,
        n_chans=None,
        n_classes=None,
        sfreq=None,
        duration=None,
        effects=None,
        **selection,
    ):
        options = dict(n_subjects=n_subjects, n_trials=n_trials, n_sessions=n_sessions, seed=seed)
        options |= dict(n_chans=n_chans, n_classes=n_classes, sfreq=sfreq, duration=duration, snr=snr)
        options |= dict(shift=shift, drift=drift, label_shift=label_shift, imbalance=imbalance)
        self.design = design = make_design(kind, preset, effects, **options)
        self.preset = preset
        numbers = range(1, design.n_classes + 1)
        names = ["NonTarget", "Target"] if kind == "erp" else [f"{_CLASSES[kind]}{k:02d}" for k in numbers]
        super().__init__(
            range(1, n_subjects + 1),
            names,
            f"SimulatedSubjects-{kind}-{design.digest}",
            [0, (design.n_times - 1) / design.sfreq],
            _PARADIGMS[kind],
            "emg" if kind == "emg" else "eeg",
            n_sessions,
            **selection,
        )

    @property
    def _summary(self):
        n_trials = self.design.n_subjects * self.design.n_trials
        row = {"modality": "eeg, emg", "trials": n_trials, "channels": self.design.n_chans}
        return row | {"licence": "BSD-3-Clause", "access": "embedded", "on_disk": True}

    def is_local(self):
        """Return True: the data are simulated on request."""
        return True

    def _subject_files(self, subject, path=None, force_update=False):
        return []

    def parameters(self, subject, session=0):
        """Return the effects of one subject in their own units (degrees, seconds, microvolts, log factors).

        Parameters
        ----------
        subject : int
            Subject number, from 1.
        session : int
            Session number, from 0, which has no drift.

        Returns
        -------
        dict of str to array
            Zero everywhere for the average subject, so for every subject when ``shift`` and ``drift`` are 0.
        """
        design, module = self.design, _KINDS[self.design.kind]
        of_subject = module.draw_effects(design, self._rng(subject, 1))
        of_session = module.draw_effects(design, self._rng(subject, 2, session))
        shift, drift = design.shift, design.drift if session else 0.0
        draws = {name: shift * of_subject[name] + drift * of_session[name] for name in of_subject}
        return {name: design.effects[name] * draw for name, draw in draws.items()}

    def model(self, subject, session=0):
        """Return the distribution of one subject's trials, with ``sample`` and ``log_likelihood``.

        Parameters
        ----------
        subject, session : int
            As in :meth:`parameters`.

        Returns
        -------
        ErpSubject, EmgSubject or MixedSubject
            Means and covariances in microvolts.
        """
        return _KINDS[self.design.kind].make_subject(self.design, self.parameters(subject, session))

    def _rng(self, *key):
        return np.random.default_rng([self.design.seed, *key])

    def _labels(self, subject):
        """Return one subject's class numbers in random order, one array per session."""
        design = self.design
        rng = self._rng(subject, 3)
        odds = -np.log(design.imbalance) * np.arange(design.n_classes) / (design.n_classes - 1)
        odds = odds + design.label_shift * rng.standard_normal(design.n_classes)
        frequencies = np.exp(odds - logsumexp(odds))
        sessions = []
        for trials in np.array_split(np.arange(design.n_trials), design.n_sessions):
            counts = np.diff(np.round(len(trials) * np.r_[0, np.cumsum(frequencies)])).astype(int)
            for rare in np.flatnonzero(counts < 2):  # every class occurs, however strong the shift
                counts[counts.argmax()] -= 2 - counts[rare]
                counts[rare] = 2
            y = np.repeat(np.arange(design.n_classes), counts)
            sessions.append(rng.permutation(y))
        return sessions

    def trials(self, subject):
        """Return one subject's trials, session by session.

        Parameters
        ----------
        subject : int
            Subject number, from 1.

        Returns
        -------
        list of tuple
            One ``(X, y)`` per session: X of shape (n_trials, n_chans, n_times) in microvolts, y class
            numbers.
        """
        labels = self._labels(subject)
        return [(self.model(subject, k).sample(y, self._rng(subject, 4, k)), y) for k, y in enumerate(labels)]

    def oracle_accuracy(self, subject_known=True, subjects=None, n_draws=100, n_strangers=200):
        """Return the balanced accuracy of the Bayes-optimal decoder, averaged over subjects.

        Parameters
        ----------
        subject_known : bool
            True: the decoder has the subject's parameters; no decoder can do better. False: it has only the
            parameters of ``n_strangers`` other subjects of the same population. The better of two such decoders
            (other subjects weighted by the likelihood of the trial; a linear model of all of them) is a lower
            bound of the best accuracy on a new subject.
        subjects : list of int or None
            Which subjects; None means all.
        n_draws : int
            Fresh trials per class and subject where the accuracy is estimated.
        n_strangers : int
            Number of other subjects that represent the population.

        Returns
        -------
        float
            Accuracy between chance and 1. With ``subject_known=True`` in closed form, except for EMG; else estimated.
        """
        models = [self.model(s) for s in (self.subject_list if subjects is None else subjects)]
        if subject_known:
            return float(np.mean([model.bayes_accuracy() for model in models]))
        strangers = [self.model(_POPULATION + k) for k in range(n_strangers)]
        y = np.repeat(np.arange(self.design.n_classes), n_draws)
        linear = self._linear_decoder(strangers)
        correct = []
        for k, model in enumerate(models):
            X = model.sample(y, self._rng(k, 5))
            evidence = logsumexp([other.log_likelihood(X) for other in strangers], axis=0)
            predictions = evidence.argmax(axis=1), linear.predict(linear_features(X, self.design.kind))
            correct.append([np.mean(y_pred == y) for y_pred in predictions])
        return float(np.mean(correct, axis=0).max())

    def _linear_decoder(self, models, n_draws=30):
        """Return a linear decoder of many subjects, ``n_draws`` trials per class of each."""
        y = np.repeat(np.arange(self.design.n_classes), n_draws)
        F = [linear_features(m.sample(y, self._rng(k, 6)), self.design.kind) for k, m in enumerate(models)]
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        return lda.fit(np.concatenate(F), np.tile(y, len(models)))

    def _get_single_subject_data(self, subject):
        design = self.design
        numbers = range(1, design.n_chans + 1)
        ch_names = EEG_NAMES if self.modality == "eeg" else [f"EMG{k:02d}" for k in numbers]
        info = make_info(ch_names[: design.n_chans], design.sfreq, [self.modality] * design.n_chans)
        names = np.array(self.class_names)
        runs = [raw_from_epochs(1e-6 * X, names[y], info) for X, y in self.trials(subject)]
        return {str(k): {"0": raw} for k, raw in enumerate(runs)}


def linear_features(X, kind):
    """Return features of trials for a linear model, of shape (n_trials, n_features)."""
    X = np.asarray(X, float)
    if kind == "emg":
        power = np.log(X[..., X.shape[-1] // 3 :].var(axis=-1))
        return power - power.mean(axis=1, keepdims=True)
    X = (X - X.mean(axis=-1, keepdims=True)) / X.std(axis=-1, keepdims=True)
    n_whole = X.shape[-1] // 8 * 8
    return X[..., :n_whole].reshape(*X.shape[:2], -1, 8).mean(axis=-1).reshape(len(X), -1)
