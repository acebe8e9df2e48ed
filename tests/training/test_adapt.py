"""Adaptation uses the target subject's trials only, leaves the general decoder unchanged, and helps."""

import copy
import warnings

import numpy as np
import pytest
import torch
from rhythms import simulate
from torch import nn

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.training.adapt import correct_head

SMALL = {"max_steps": 20, "batch_size": 32, "module__F1": 4, "module__D": 1, "penalty": None}


@pytest.fixture(scope="module")
def all_trials():
    """Five subjects, each with its own channel gains; the fifth is the target subject."""
    x, y, subjects = simulate(n_trials=40)
    gains = np.random.default_rng(1).uniform(0.2, 5.0, size=(6, 4, 1)).astype("float32")
    return x * gains[subjects], y, subjects


@pytest.fixture(scope="module", params=["subject", "euclidean", "population", "none"])
def general(all_trials, request):
    x, y, subjects = all_trials
    is_source = subjects < 5
    return CensoredEEGClassifier(normalize=request.param, **SMALL).fit(
        x[is_source], y[is_source], subjects=subjects[is_source]
    )


@pytest.fixture(scope="module")
def by_subject(all_trials):
    x, y, subjects = all_trials
    is_source = subjects < 5
    return CensoredEEGClassifier(**SMALL).fit(x[is_source], y[is_source], subjects=subjects[is_source])


@pytest.fixture(scope="module")
def new(all_trials):
    x, y, subjects = all_trials
    return x[subjects == 5], y[subjects == 5]


def _fingerprint(clf):
    state = {**clf.module_.state_dict(), **{k: torch.as_tensor(v) for k, v in _statistics(clf).items()}}
    return {name: tensor.clone() for name, tensor in state.items()}


def _statistics(clf):
    return clf.normalizer_.get_state()["arrays"]


def _proba(decoder, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return decoder.predict_proba(x)


def test_trials_are_decoded_independently(general, new):
    x, y = new
    loud = np.concatenate([x[:3], 100 * x[3:20] + 7])
    for decoder in (general, general.adapt(x), general.adapt(x[:9], y[:9])):
        whole = _proba(decoder, x)
        np.testing.assert_allclose(_proba(decoder, x[:1]), whole[:1], atol=1e-5)
        np.testing.assert_allclose(_proba(decoder, loud)[:3], whole[:3], atol=1e-5)
        np.testing.assert_allclose(_proba(decoder, x[::-1].copy())[::-1], whole, atol=1e-5)


def test_general_decoder_does_not_change(general, new):
    x, y = new
    before, proba = _fingerprint(general), _proba(general, x)
    general.adapt(x), general.adapt(x, y), general.stream().predict_proba(x[:5])
    after = _fingerprint(general)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert np.array_equal(_proba(general, x), proba)
    assert not general.adapted_ and general.head_ is None


def test_stream_is_causal(general, new):
    x, _ = new
    order = np.concatenate([np.arange(12), 12 + np.random.default_rng(0).permutation(28)])
    first, second = general.stream().predict_proba(x), general.stream().predict_proba(x[order])
    assert np.array_equal(first[:12], second[:12])
    parts = general.stream()
    again = np.concatenate([parts.predict_proba(x[:7]), parts.predict_proba(x[7:])])
    assert np.array_equal(first, again)


def test_adapted_decoder_is_invariant_to_channel_gains(by_subject, new):
    x, _ = new
    gains = np.array([0.1, 3.0, 10.0, 1.0], dtype="float32")[:, None]
    without_prior = copy.deepcopy(by_subject).set_params(prior=0.0)
    without_prior.normalizer_.prior = 0.0
    one, two = (_proba(without_prior.adapt(block), block) for block in (x, gains * x))
    np.testing.assert_allclose(one, two, atol=1e-4)
    assert np.abs(_proba(by_subject, x) - _proba(by_subject, gains * x)).max() > 0.05, (
        "the gains change nothing anyway"
    )


@pytest.mark.parametrize("normalize", ["population", "none"])
def test_adapted_batch_norms_improve_the_likelihood(all_trials, new, normalize):
    """Larger signals of the target subject, which the batch norms alone can correct."""
    x, y, subjects = all_trials
    is_source = subjects < 5
    clf = CensoredEEGClassifier(**{**SMALL, "max_steps": 60, "augment": None}, normalize=normalize)
    clf.fit(x[is_source], y[is_source], subjects=subjects[is_source])
    block, target = 20 * new[0] + 5, new[1]
    general, adapted = (
        np.log(_proba(one, block)[np.arange(40), target]).mean() for one in (clf, clf.adapt(block))
    )
    assert adapted > general + 0.1


def test_labels_correct_the_last_layer(all_trials, new):
    """The target subject has the opposite classes, which labels alone can show."""
    x, y = new
    is_source = all_trials[2] < 5
    clf = CensoredEEGClassifier(**{**SMALL, "max_steps": 60, "augment": None})
    clf.fit(all_trials[0][is_source], all_trials[1][is_source], subjects=all_trials[2][is_source])
    opposite = 1 - y
    scores = [
        (decoder.predict(x[20:]) == opposite[20:]).mean()
        for decoder in (clf.adapt(x[:20]), clf.adapt(x[:20], opposite[:20]))
    ]
    assert scores[0] < 0.3
    assert scores[1] > scores[0] + 0.2


def test_large_prior_is_the_general_decoder(by_subject, new):
    x, y = new
    pulled = copy.deepcopy(by_subject).set_params(prior=1e12)
    pulled.normalizer_.prior = 1e12
    np.testing.assert_allclose(_proba(pulled.adapt(x, y), x), _proba(by_subject, x), atol=1e-5)


def test_one_trial_and_missing_classes(by_subject, new):
    x, y = new
    assert np.isfinite(_proba(by_subject.adapt(x[:1]), x)).all()
    plain = _proba(by_subject.adapt(x[y == 0]), x)
    labelled = _proba(by_subject.adapt(x[y == 0], y[y == 0]), x)
    np.testing.assert_allclose(labelled, plain, atol=1e-5)


def test_correction_minimises_its_loss():
    """Against torch's autograd, with other sizes of the classes and one class that does not occur."""
    rng = np.random.default_rng(0)
    z, logits, codes = (
        rng.normal(2, 3, size=(30, 5)),
        rng.normal(size=(30, 4)),
        rng.choice([0, 2, 3], size=30),
    )
    head = correct_head(z, logits, codes, prior=5.0)
    assert (head["coef"][1] == 0).all() and head["intercept"][1] == 0
    scale = z.std(axis=0) * np.sqrt(5)
    coef = torch.tensor(head["coef"], requires_grad=True)
    intercept = torch.tensor(head["intercept"], requires_grad=True)
    scores = torch.tensor(logits) + torch.tensor(z) @ coef.T + intercept
    scores[:, 1] = -torch.inf
    counts = np.bincount(codes, minlength=4)
    weight = torch.tensor(np.where(counts, 30 / 3 / np.maximum(counts, 1), 0))
    loss = nn.functional.cross_entropy(scores, torch.tensor(codes), weight=weight, reduction="sum")
    centred = intercept + coef @ torch.tensor(z.mean(axis=0))
    loss = loss + 5 / 8 * ((coef * torch.tensor(scale)).square().sum() + centred.square().sum())
    gradients = torch.autograd.grad(loss, [coef, intercept])
    assert max(gradient.abs().max() for gradient in gradients) < 1e-2
    nothing = correct_head(z, logits, codes, prior=1e12)
    assert np.abs(nothing["coef"]).max() < 1e-9


def test_bad_input(by_subject, new):
    x, y = new
    cases = {
        r"X has \(2, 96\) channels and samples per trial, fit had \(4, 96\)": (x[:, :2], None),
        "NaN or infinite values in 1 of 40": (np.where(np.arange(40)[:, None, None] == 3, np.nan, x), None),
        r"X has shape \(0, 4, 96\)": (x[:0], None),
        r"did not have: \[7\]; fit had \[0, 1\]: pass adapt trials of these": (x, np.full(40, 7)),
        r"y has shape \(39,\) and X has 40 trials": (x, y[:-1]),
    }
    for message, (trials, classes) in cases.items():
        with pytest.raises(ValueError, match=message):
            by_subject.adapt(trials, classes)
    adapted = by_subject.adapt(x)
    with pytest.raises(ValueError, match="already adapted to a subject: call adapt of the one"):
        adapted.adapt(x)
    with pytest.raises(ValueError, match="call stream of the one"):
        adapted.stream()
    with pytest.raises(ValueError, match="channels and samples"):
        by_subject.stream().predict(x[:, :2])


def test_correction_needs_cross_entropy(data, quick):
    clf = CensoredEEGClassifier(criterion=nn.NLLLoss, **quick).fit(*data)
    with pytest.raises(ValueError, match="criterion=NLLLoss: adapt"):
        clf.adapt(data[0], data[1])


def test_missing_target_data_warn_once(by_subject, new):
    decoder = copy.deepcopy(by_subject)
    with pytest.warns(UserWarning, match=r"no trials of the new subject.*adapt\(X\)"):
        decoder.predict(new[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.predict(new[0])
        decoder.adapt(new[0]).predict(new[0])
        decoder.stream().predict(new[0][:2])


def test_fit_with_target_data_equals_adapt(all_trials, by_subject, new):
    x, y, subjects = all_trials
    is_source = subjects < 5
    clf = CensoredEEGClassifier(**SMALL)
    clf.fit(x[is_source], y[is_source], subjects=subjects[is_source], X_target_unlabeled=new[0])
    assert clf.adapted_
    np.testing.assert_allclose(
        clf.predict_proba(new[0]), by_subject.adapt(new[0]).predict_proba(new[0]), atol=1e-6
    )
    clf.fit(
        x[is_source],
        y[is_source],
        subjects=subjects[is_source],
        X_target_labeled=new[0],
        y_target_labeled=new[1],
    )
    np.testing.assert_allclose(
        clf.predict_proba(new[0]), by_subject.adapt(*new).predict_proba(new[0]), atol=1e-6
    )
    clf.set_params(max_steps=1).fit(x[is_source], y[is_source], subjects=subjects[is_source])
    assert not clf.adapted_ and clf.head_ is None
    with pytest.raises(ValueError, match="X_target_unlabeled alone"):
        clf.fit(x[is_source], y[is_source], subjects=subjects[is_source], X_target_labeled=new[0])
