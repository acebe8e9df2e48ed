"""Many networks in one pass say what each says alone, and probes side by side are scikit-learn's."""

import numpy as np
import pytest
import torch
from subjects import mixed_subjects
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from braindecode_censor import CensoredEEGClassifier
from studies.censoring.side_by_side import Networks, leakage_of_codes, probe_codes


@pytest.fixture(scope="module")
def people():
    return mixed_subjects(4, 12)


@pytest.fixture(scope="module")
def fitted(people):
    X, y, subjects = people
    old = subjects != 4
    make = lambda seed: CensoredEEGClassifier(penalty=None, max_steps=20, random_state=seed)  # noqa: E731
    return [make(seed).fit(X[old], y[old], subjects=subjects[old]) for seed in range(3)]


def test_new_people_are_decoded_as_each_network_alone_decodes_them(people, fitted):
    X, _, subjects = people
    new = X[subjects == 4]
    networks = Networks(fitted, at_once=2)
    x = fitted[0].normalizer_.adapt(new).transform(new)
    found = networks.decode([0, 1, 2], x, prior=5.0)
    for clf, mine in zip(fitted, found):
        np.testing.assert_allclose(mine, clf.adapt(new).predict_proba(new), atol=2e-5)
        assert np.abs(mine - clf.predict_proba(new)).max() > 1e-3
    np.testing.assert_allclose(networks.decode([1], x)[0], _plain(fitted[1], new, x), atol=1e-5)


def _plain(clf, new, x):
    with torch.no_grad():
        return torch.softmax(clf.module_.eval()(torch.as_tensor(x, dtype=torch.float32)), -1).numpy()


def test_codes_are_those_of_each_network(people, fitted):
    X, _, subjects = people
    old = subjects != 4
    x = fitted[0].normalizer_.fit_transform(X[old], subjects=subjects[old])
    z = Networks(fitted).encode([2, 0], x)
    for row, clf in zip(z, (fitted[2], fitted[0])):
        np.testing.assert_allclose(row, clf.features(X[old], subjects=subjects[old]), atol=1e-4)


def test_a_probe_is_ridge_classification():
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(3), 30)
    z = rng.normal(size=(2, 90, 5)) + np.array([0.0, 0.8])[:, None, None] * rng.normal(size=(3, 5))[subjects]
    z[..., 4] = 1.0  # a unit that is dead
    found = probe_codes(torch.as_tensor(z), subjects)
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.1 * 60))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for accuracy, code in zip(found, z):
        guesses = cross_val_predict(model, code, subjects, cv=folds)
        assert accuracy == pytest.approx(balanced_accuracy_score(subjects, guesses))
    assert found[0] < 0.5 < 0.6 < found[1]


def test_each_mode_is_probed_where_it_censors():
    rng = np.random.default_rng(1)
    subjects, y = np.arange(240) % 4, np.arange(240) // 4 % 2
    noise, person = rng.normal(size=(240, 4)), 5 * np.eye(4)[subjects]
    second = np.column_stack([noise, person + rng.normal(size=(240, 4))])
    # With the class told, the sign of the first feature names one of two people; without it, it says nothing.
    given = noise.copy()
    given[:, 0] += 6 * np.where((subjects < 2) == (y == 0), 1, -1)
    codes = torch.as_tensor(np.stack([second, np.column_stack([given, noise])]))
    found = leakage_of_codes(codes, y, subjects)
    assert found["marginal"][0] > 0.9 and found["complementary"][0] < 0.4
    assert found["conditional"][1] > 0.45 > 0.35 > found["marginal"][1]


def test_one_person_cannot_be_guessed():
    with pytest.raises(ValueError, match="subjects has 1 people"):
        probe_codes(torch.zeros(1, 4, 2), np.zeros(4))
