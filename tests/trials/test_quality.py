"""Warnings of trials that are valid and yet probably wrong name the subject and the channel."""

import warnings

import numpy as np
import pytest

from braindecode_censor.trials.quality import TrialsWarning, check_trials

NAMES = ["Fz", "Cz", "Pz"]


def make(spoil):
    rng = np.random.default_rng(0)
    X, y, subjects = rng.standard_normal((60, 3, 50)), np.arange(60) % 2, np.repeat([1, 2, 3], 20)
    spoil(X, y, subjects)
    return X, y, subjects


def flat(X, y, subjects):
    X[subjects == 2, 1] = 7.1


def flat_in_two(X, y, subjects):
    X[subjects > 1, 1] = 0


def loud(X, y, subjects):
    X[subjects == 3] *= 1e6


def quiet(X, y, subjects):
    X[subjects == 3] *= 1e-6


def silent(X, y, subjects):
    X[subjects == 1] = np.array([1.0, 2, 3])[:, None]


def constant(X, y, subjects):
    X[[21, 24]] = 5


def one_class(X, y, subjects):
    y[subjects == 1] = 0


def nearly_one_class(X, y, subjects):
    y[subjects == 1] = np.arange(20) < 17


CASES = {
    flat: "subject 2: 1 flat channels, constant in all trials: Cz",
    flat_in_two: "subject 2, subject 3: 1 flat channels, constant in all trials: Cz",
    loud: r"subject 3: a typical amplitude of 9\..*e\+05",
    quiet: r"subject 3: a typical amplitude of 9\..*e-07",
    silent: "subject 1: no signal",
    constant: "subject 2: 2 constant trials of 20, first trial 1",
    one_class: "subject 1: 20 of 20 trials are of class 0",
    nearly_one_class: "subject 1: 17 of 20 trials are of class 1",
}


@pytest.mark.parametrize("spoil", CASES, ids=lambda f: f.__name__)
def test_one_warning_that_names_it(spoil):
    with pytest.warns(TrialsWarning, match=CASES[spoil]) as caught:
        check_trials(*make(spoil), NAMES)
    assert len(caught) == 1


def test_good_trials_and_single_ones_do_not_warn():
    X, y, subjects = make(lambda *data: None)
    X[:, :, 10:20] = 0  # A pause is no flat channel.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_trials(X, y, subjects, NAMES)
        check_trials(X[:1])
        check_trials(X[:, :, :1])
        check_trials(X, amplitude=30.0)


def test_block_of_a_new_subject():
    X, _, _ = make(lambda *data: None)
    with pytest.warns(TrialsWarning, match="X: a typical amplitude of .* training subjects have 300"):
        check_trials(X, amplitude=300.0)
    X[:, 2] = 0
    with pytest.warns(TrialsWarning, match="X: 1 flat channels, constant in all trials: 2"):
        check_trials(X)
