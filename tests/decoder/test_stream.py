"""The decoder of single trials has the numbers of the models' own streams."""

import copy

import numpy as np
import pytest
from subjects import mixed_subjects

from braindecode_censor.decoder.ensemble import Ensemble, Model
from braindecode_censor.decoder.stream import TrialwiseEnsemble
from braindecode_censor.search.family import find_candidates

N_CLASSES = 3


def fit(names=None, n_chans=4, n_times=128, steps=3):
    """Return one fitted model per candidate, every third one of them without the last class, and their trials."""
    X, y, subjects = mixed_subjects(3, 18, n_chans, n_times, N_CLASSES)
    models = []
    for k, candidate in enumerate(find_candidates(names)[0]):
        rows = np.flatnonzero(y < N_CLASSES - (k % 3 == 2))
        estimator = candidate.make(
            (n_chans, n_times), 128.0, steps=steps if candidate.kind == "network" else None
        )
        models.append(Model(candidate.name, 0, 0.0, estimator.fit(X[rows], y[rows], subjects=subjects[rows])))
    for k, model in enumerate(models):
        model.weight = (k + 1) / sum(range(len(models) + 1))
    return Ensemble(models, N_CLASSES)


def new_trials(n_trials, n_chans=4, n_times=128):
    """Return trials of another subject, of another size and with an offset."""
    X, _, _ = mixed_subjects(1, n_trials, n_chans, n_times, N_CLASSES, seed=7)
    return (2 * X + 0.3).astype("float32")


def by_model(ensemble, trial):
    """Return the probabilities of every model by its own ``predict_proba``."""
    probabilities = np.zeros((len(ensemble.models), N_CLASSES))
    for row, model in zip(probabilities, ensemble.models):
        row[model.estimator.classes_] = model.estimator.predict_proba(trial)[0]
    return probabilities


def largest_difference(ensemble, oracle, streams, trials):
    decoder = TrialwiseEnsemble(ensemble, streams)
    return max(abs(decoder.trial_probabilities(t[None]) - by_model(oracle, t[None])).max() for t in trials)


@pytest.fixture(scope="module")
def family():
    return fit()


@pytest.mark.filterwarnings("ignore")
def test_stream_equal_for_every_candidate(family):
    assert largest_difference(family, family.stream(), True, new_trials(12)) < 1e-6


@pytest.mark.filterwarnings("ignore")
def test_stream_equal_over_200_trials(family):
    names = ["subject", "euclidean", "riemann", "hjorth-riemann", "waveform", "xdawn"]
    some = Ensemble([model for model in family.models if model.candidate in names], N_CLASSES)
    assert largest_difference(some, some.stream(), True, new_trials(200)) < 1e-6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labelled", [False, True])
def test_single_trials_of_an_adapted_decoder_equal(family, labelled):
    trials = new_trials(12)
    adapted = family.adapt(trials, np.arange(12) % N_CLASSES if labelled else None)
    assert largest_difference(adapted, adapted, False, trials[:4]) < 1e-6
    assert largest_difference(family, adapted, False, trials[:4]) > 1e-3  # the statistics matter


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_times", [40, 700])
def test_other_lengths_and_several_folds_equal(n_times):
    names = [
        "subject",
        "euclidean",
        "subject-fast",
        "riemann-bands",
        "hjorth-riemann",
        "xdawn",
        "riemann-fixed",
    ]
    ensemble = fit(names, 3, n_times)
    other = fit(names[:4], 3, n_times, steps=5)  # stacked with those of the same candidates
    ensemble = Ensemble([*ensemble.models, *other.models], N_CLASSES)
    assert largest_difference(ensemble, ensemble.stream(), True, new_trials(6, 3, n_times)) < 1e-6


def test_average_is_that_of_the_ensemble_and_the_decoder_can_be_copied():
    ensemble = fit(["subject", "riemann", "waveform"])
    trials, decoder = new_trials(5), TrialwiseEnsemble(ensemble, False)
    np.testing.assert_allclose(decoder.predict_proba(trials), ensemble.predict_proba(trials), atol=1e-6)
    np.testing.assert_array_equal(copy.deepcopy(decoder).predict_proba(trials), decoder.predict_proba(trials))


def test_trials_change_neither_the_ensemble_nor_another_stream():
    ensemble = fit(["subject", "euclidean", "riemann", "power", "shallow-subject"])
    trials = new_trials(4)
    before = ensemble.predict_proba(trials)
    first, second = (TrialwiseEnsemble(ensemble, True).predict_proba(trials) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(ensemble.predict_proba(trials), before)


def test_a_trial_that_is_not_learned_changes_nothing():
    ensemble = fit(
        ["subject", "euclidean", "riemann", "hjorth", "hjorth-riemann", "xdawn", "shallow-subject"]
    )
    trials = new_trials(6)
    decoder, same = (TrialwiseEnsemble(ensemble, True) for _ in range(2))
    general = TrialwiseEnsemble(ensemble, False).predict_proba(trials[:1])
    np.testing.assert_allclose(decoder.predict_proba(trials[:1], learn=False), general, atol=1e-6)
    for trial in trials[:-1]:
        learned = same.predict_proba(trial[None])
        np.testing.assert_array_equal(decoder.predict_proba(trial[None]), learned)
        # The statistics already hold the trial, so decoding it again without learning is the same.
        np.testing.assert_allclose(decoder.predict_proba(trial[None], learn=False), learned, atol=1e-6)
        decoder.predict_proba(trials[-1:], learn=False)


@pytest.mark.filterwarnings("ignore")
def test_a_larger_prior_moves_statistics_less(family):
    trials = new_trials(4)
    slow = family.with_prior(1e9)
    assert largest_difference(slow, slow.stream(), True, trials) < 1e-6
    still = TrialwiseEnsemble(slow, True).predict_proba(trials)
    np.testing.assert_allclose(still, family.predict_proba(trials), atol=1e-4)
    assert abs(TrialwiseEnsemble(family, True).predict_proba(trials) - still).max() > 0.01
