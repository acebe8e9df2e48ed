"""Simulated subjects with a known answer: the embedded default dataset and the project's ground truth."""

import numpy as np
from scipy.special import logsumexp

from braindecode_censor.datasets import simulated_emg, simulated_erp, simulated_mixed
from braindecode_censor.datasets._base import Recording
from braindecode_censor.datasets._head import EEG_NAMES
from braindecode_censor.datasets._raw import make_info, raw_from_epochs
from braindecode_censor.datasets.linear_reference import features, fit
from braindecode_censor.datasets.simulated_design import make_design

_KINDS = {"erp": simulated_erp, "emg": simulated_emg, "mixed": simulated_mixed}
_PARADIGMS = {"erp": "p300", "emg": "emg", "mixed": "epochs"}
_POPULATION = 1_000_000  # subject numbers from here on are strangers, used to average over the population


class SimulatedSubjects(Recording):
    """Subjects drawn from a generative model whose Bayes-optimal accuracy is known.

    Parameters
    ----------
    n_subjects : int
        Number of subjects. Subject k is the same however many there are.
    n_trials : int
        Trials per subject, all sessions together.
    kind : {"erp", "emg", "mixed"}
        Event-related potentials (Target against NonTarget, EEG), muscle power (gestures, EMG), or responses with four
        topographies of people who differ by gain and mixing of their channels alone, which alignment can undo (EEG).
    preset : {"easy", "medium", "hard"}
        Sets ``snr`` and ``shift``; each can be given on its own. ``kind="mixed"`` also has "alike": nothing differs
        between people, so that there is nothing to gain.
    shift : float
        Strength of all subject effects: 0 makes all subjects alike, 1 is a realistic spread.
    snr : float
        Strength of what tells the classes apart.
    seed : int
        Same seed, same bytes.
    n_sessions : int
        Recording sessions per subject.
    drift : float
        Strength of the same effects between sessions of one subject.
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
        given = dict(n_subjects=n_subjects, n_trials=n_trials, shift=shift, snr=snr, seed=seed, drift=drift)
        given |= dict(n_sessions=n_sessions, label_shift=label_shift, imbalance=imbalance, duration=duration)
        given |= dict(n_chans=n_chans, n_classes=n_classes, sfreq=sfreq)
        self.design = design = make_design(kind, preset, effects, **given)
        self.preset = preset
        if kind == "erp":
            self.class_names = ["NonTarget", "Target"]
        else:
            word = "gesture" if kind == "emg" else "picture"
            self.class_names = [f"{word}{k:02d}" for k in range(1, design.n_classes + 1)]
        super().__init__(
            subjects=list(range(1, n_subjects + 1)),
            sessions_per_subject=n_sessions,
            events={name: code for code, name in enumerate(self.class_names, 1)},
            code=f"SimulatedSubjects-{kind}-{design.digest}",
            interval=[0, (design.n_times - 1) / design.sfreq],
            paradigm=_PARADIGMS[kind],
            return_all_modalities={"eeg": kind != "emg", "emg": kind == "emg"},
            **selection,
        )

    def is_local(self):
        """Return True: the data are made when asked for."""
        return True

    def _subject_files(self, subject, path, force_update):
        return []  # made when asked for

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
        person = module.draw_effects(design, self._rng(subject, 1))
        day = module.draw_effects(design, self._rng(subject, 2, session))
        drift = design.drift if session else 0.0
        scale = design.effects
        return {name: scale[name] * (design.shift * person[name] + drift * day[name]) for name in person}

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
        share = np.exp(odds - logsumexp(odds))
        sessions = []
        for part in np.array_split(np.arange(design.n_trials), design.n_sessions):
            counts = np.diff(np.round(len(part) * np.r_[0, np.cumsum(share)])).astype(int)
            for rare in np.flatnonzero(counts < 2):  # every class stays present, however strong the shift
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

    def arrays(self, subjects=None, dtype=np.float32):
        """Return all trials as plain arrays, with no MOABB paradigm in between.

        Parameters
        ----------
        subjects : list of int or None
            Which subjects; None means all.
        dtype : dtype
            Type of X.

        Returns
        -------
        X : array of shape (n_trials, n_chans, n_times)
            Trials in microvolts, neither filtered nor scaled.
        y : array of int of shape (n_trials,)
            Class numbers, in the order of ``class_names``.
        subjects : array of int of shape (n_trials,)
            Subject numbers, from 1.
        """
        subjects = self.subject_list if subjects is None else subjects
        parts = [(X.astype(dtype), y, s) for s in subjects for X, y in self.trials(s)]
        X, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        return X, y, np.concatenate([np.full(len(part[1]), part[2]) for part in parts])

    def oracle_accuracy(self, calibrated=True, subjects=None, n_draws=100, n_strangers=200):
        """Return the balanced accuracy of the Bayes-optimal decoder, averaged over subjects.

        Parameters
        ----------
        calibrated : bool
            True: the decoder knows the subject's parameters; no decoder whatever can do better. False: it
            knows only ``n_strangers`` other subjects of the same population. The better of two such decoders,
            strangers weighed by how well they explain the trial and a linear model of all of them, is what
            can be reached on somebody never seen, so a lower bound of the best.
        subjects : list of int or None
            Which subjects; None means all.
        n_draws : int
            Fresh trials per class and subject where the answer is estimated.
        n_strangers : int
            How many other subjects stand for the population.

        Returns
        -------
        float
            Accuracy between chance and 1. With ``calibrated=True`` in closed form, except for EMG; else estimated.
        """
        models = [self.model(s) for s in (self.subject_list if subjects is None else subjects)]
        if calibrated:
            return float(np.mean([model.bayes_accuracy() for model in models]))
        strangers = [self.model(_POPULATION + k) for k in range(n_strangers)]
        y = np.repeat(np.arange(self.design.n_classes), n_draws)
        linear = self._linear_decoder(strangers)
        correct = []
        for k, model in enumerate(models):
            X = model.sample(y, self._rng(k, 5))
            evidence = logsumexp([other.log_likelihood(X) for other in strangers], axis=0)
            guesses = evidence.argmax(axis=1), linear.predict(features(X, self.design.kind))
            correct.append([np.mean(guess == y) for guess in guesses])
        return float(np.mean(correct, axis=0).max())

    def _linear_decoder(self, models, n_draws=30):
        """Return a linear decoder of many subjects, ``n_draws`` trials per class of each."""
        y = np.repeat(np.arange(self.design.n_classes), n_draws)
        F = [features(m.sample(y, self._rng(k, 6)), self.design.kind) for k, m in enumerate(models)]
        return fit(np.concatenate(F), np.tile(y, len(models)))

    def _get_single_subject_data(self, subject):
        design = self.design
        if design.kind != "emg":
            info = make_info(EEG_NAMES[: design.n_chans], design.sfreq, ["eeg"] * design.n_chans)
        else:
            names = [f"EMG{k:02d}" for k in range(1, design.n_chans + 1)]
            info = make_info(names, design.sfreq, ["emg"] * design.n_chans)
        names = np.array(self.class_names)
        runs = [raw_from_epochs(1e-6 * X, names[y], info) for X, y in self.trials(subject)]
        return {str(k): {"0": raw} for k, raw in enumerate(runs)}
