"""A decoder for one person: what it may see, what it must not change, and what it is worth."""

import copy
import warnings

import numpy as np
import pytest
import torch
from rhythms import simulate
from torch import nn

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.training.adapt import correct_head
from braindecode_censor.trials.normalize import NORMALIZATIONS

SMALL = {"max_steps": 20, "batch_size": 32, "module__F1": 4, "module__D": 1, "penalty": None}


@pytest.fixture(scope="module")
def people():
    """Five people, each with gains of the channels of their own; the fifth is new."""
    x, y, subjects = simulate(n_trials=40)
    gains = np.random.default_rng(1).uniform(0.2, 5.0, size=(6, 4, 1)).astype("float32")
    return x * gains[subjects], y, subjects


@pytest.fixture(scope="module", params=NORMALIZATIONS)
def general(people, request):
    x, y, subjects = people
    known = subjects < 5
    return CensoredEEGClassifier(normalize=request.param, **SMALL).fit(
        x[known], y[known], subjects=subjects[known]
    )


@pytest.fixture(scope="module")
def by_person(people):
    x, y, subjects = people
    known = subjects < 5
    return CensoredEEGClassifier(**SMALL).fit(x[known], y[known], subjects=subjects[known])


@pytest.fixture(scope="module")
def new(people):
    x, y, subjects = people
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


# --- what must not be seen, and must not change -----------------------------------------------------------


def test_a_trial_does_not_depend_on_those_beside_it(general, new):
    x, y = new
    loud = np.concatenate([x[:3], 100 * x[3:20] + 7])
    for decoder in (general, general.adapt(x), general.adapt(x[:9], y[:9])):
        whole = _proba(decoder, x)
        np.testing.assert_allclose(_proba(decoder, x[:1]), whole[:1], atol=1e-5)
        np.testing.assert_allclose(_proba(decoder, loud)[:3], whole[:3], atol=1e-5)
        np.testing.assert_allclose(_proba(decoder, x[::-1].copy())[::-1], whole, atol=1e-5)


def test_the_general_decoder_stays_as_it_is(general, new):
    x, y = new
    before, proba = _fingerprint(general), _proba(general, x)
    general.adapt(x), general.adapt(x, y), general.stream().predict_proba(x[:5])
    after = _fingerprint(general)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert np.array_equal(_proba(general, x), proba)
    assert not general.adapted_ and general.head_ is None


def test_the_stream_is_causal(general, new):
    x, _ = new
    order = np.concatenate([np.arange(12), 12 + np.random.default_rng(0).permutation(28)])
    first, second = general.stream().predict_proba(x), general.stream().predict_proba(x[order])
    assert np.array_equal(first[:12], second[:12])
    parts = general.stream()
    again = np.concatenate([parts.predict_proba(x[:7]), parts.predict_proba(x[7:])])
    assert np.array_equal(first, again)


def test_the_stream_approaches_the_block(by_person, new):
    """After 240 trials the statistics of trials 1 .. n are almost those of the whole block."""
    x = np.tile(new[0], (6, 1, 1))
    stream, block = by_person.stream().predict_proba(x), _proba(by_person.adapt(x), x)
    gap = np.abs(stream - block).max(axis=1)
    assert gap[-40:].max() < 0.3 * gap[:40].max()


# --- what it knows ----------------------------------------------------------------------------------------


def test_after_adapting_gains_do_not_matter(by_person, new):
    x, _ = new
    gains = np.array([0.1, 3.0, 10.0, 1.0], dtype="float32")[:, None]
    without_prior = copy.deepcopy(by_person).set_params(prior=0.0)
    without_prior.normalizer_.prior = 0.0
    one, two = (_proba(without_prior.adapt(block), block) for block in (x, gains * x))
    np.testing.assert_allclose(one, two, atol=1e-4)
    assert np.abs(_proba(by_person, x) - _proba(by_person, gains * x)).max() > 0.05, (
        "the gains change nothing anyway"
    )


def test_an_euclidean_decoder_does_not_notice_a_common_gain(people, new):
    x, y, subjects = people
    known = subjects < 5
    clf = CensoredEEGClassifier(normalize="euclidean", prior=0.0, **SMALL).fit(
        x[known], y[known], subjects[known]
    )
    block = new[0]
    one, two = (_proba(clf.adapt(gain * block), gain * block) for gain in (1.0, 20.0))
    np.testing.assert_allclose(one, two, atol=1e-3)


@pytest.mark.parametrize("normalize", ["population", "none"])
def test_it_is_worth_something(people, new, normalize):
    """Somebody whose signals are five times larger, and a network that knows it by its batch norms alone."""
    x, y, subjects = people
    known = subjects < 5
    clf = CensoredEEGClassifier(**{**SMALL, "max_steps": 60, "augment": None}, normalize=normalize)
    clf.fit(x[known], y[known], subjects=subjects[known])
    block, target = 20 * new[0] + 5, new[1]
    general, adapted = (
        np.log(_proba(one, block)[np.arange(40), target]).mean() for one in (clf, clf.adapt(block))
    )
    assert adapted > general + 0.1


def test_classes_correct_the_last_layer(people, new):
    """Somebody who does the opposite: nothing but classes can tell."""
    x, y = new
    known = people[2] < 5
    clf = CensoredEEGClassifier(**{**SMALL, "max_steps": 60, "augment": None})
    clf.fit(people[0][known], people[1][known], subjects=people[2][known])
    opposite = 1 - y
    scores = [
        (decoder.predict(x[20:]) == opposite[20:]).mean()
        for decoder in (clf.adapt(x[:20]), clf.adapt(x[:20], opposite[:20]))
    ]
    assert scores[0] < 0.3
    assert scores[1] > scores[0] + 0.2


def test_a_strong_prior_is_the_general_decoder(by_person, new):
    x, y = new
    pulled = copy.deepcopy(by_person).set_params(prior=1e12)
    pulled.normalizer_.prior = 1e12
    np.testing.assert_allclose(_proba(pulled.adapt(x, y), x), _proba(by_person, x), atol=1e-5)


def test_one_trial_and_missing_classes(by_person, new):
    x, y = new
    assert np.isfinite(_proba(by_person.adapt(x[:1]), x)).all()
    plain = _proba(by_person.adapt(x[y == 0]), x)
    labelled = _proba(by_person.adapt(x[y == 0], y[y == 0]), x)
    np.testing.assert_allclose(labelled, plain, atol=1e-5)  # one class alone teaches nothing about the other


# --- closed forms -----------------------------------------------------------------------------------------


def test_the_correction_is_where_the_gradient_vanishes():
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


# --- every network ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["EEGNet", "ShallowFBCSPNet", "EEGConformer", "SyncNet", "TIDNet"])
def test_networks_with_and_without_batch_norm(module):
    x, y, subjects = simulate(n_subjects=3, n_trials=8, n_chans=4, n_times=256)
    clf = CensoredEEGClassifier(module, penalty=None, max_steps=2, batch_size=16, augment=None)
    clf.fit(x, y, subjects=subjects)
    person = clf.adapt(x[:8], y[:8])
    assert np.isfinite(person.predict_proba(x[:8])).all()
    assert np.isfinite(clf.stream().predict_proba(x[:2])).all()
    norms = [part for part in clf.module_.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    changed = any(
        not torch.equal(tensor, person.module_.state_dict()[name])
        for name, tensor in clf.module_.state_dict().items()
    )
    assert changed == bool(norms)


def test_the_fast_network_adapts_as_the_stock_one(people, new):
    x, y, subjects = people
    known = subjects < 5
    fast = CensoredEEGClassifier(**{**SMALL, "max_steps": 5}).fit(
        x[known], y[known], subjects=subjects[known]
    )
    stock = CensoredEEGClassifier(**{**SMALL, "max_steps": 5}, fast=False)
    stock.fit(x[known], y[known], subjects=subjects[known])
    stock.module_.load_state_dict(fast.module_.state_dict())
    block = new[0]
    np.testing.assert_allclose(_proba(fast.adapt(block), block), _proba(stock.adapt(block), block), atol=1e-5)
    np.testing.assert_allclose(
        fast.stream().predict_proba(block[:5]), stock.stream().predict_proba(block[:5]), atol=1e-5
    )


# --- bad input --------------------------------------------------------------------------------------------


def test_bad_input(by_person, new):
    x, y = new
    cases = {
        r"X has \(2, 96\) channels and samples per trial, fit had \(4, 96\)": (x[:, :2], None),
        "NaN or infinite values in 1 of 40": (np.where(np.arange(40)[:, None, None] == 3, np.nan, x), None),
        r"X has shape \(0, 4, 96\)": (x[:0], None),
        r"y holds \[7\], but the net was made for the classes \[0, 1\]: adapt needs these": (
            x,
            np.full(40, 7),
        ),
        r"y has shape \(39,\) and X has 40 trials": (x, y[:-1]),
    }
    for message, (trials, classes) in cases.items():
        with pytest.raises(ValueError, match=message):
            by_person.adapt(trials, classes)
    person = by_person.adapt(x)
    with pytest.raises(ValueError, match="adapted to a person already: call adapt of the general one"):
        person.adapt(x)
    with pytest.raises(ValueError, match="call stream of the general one"):
        person.stream()
    with pytest.raises(ValueError, match="channels and samples"):
        by_person.stream().predict(x[:, :2])


def test_other_losses_have_no_logits_to_correct(data, quick):
    clf = CensoredEEGClassifier(criterion=nn.NLLLoss, **quick).fit(*data)
    with pytest.raises(ValueError, match="criterion=NLLLoss: adapt"):
        clf.adapt(data[0], data[1])


def test_without_the_persons_trials_it_warns_once_and_names_adapt(by_person, new):
    decoder = copy.deepcopy(by_person)
    with pytest.warns(UserWarning, match=r"no trials of the new person.*adapt\(X\)"):
        decoder.predict(new[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.predict(new[0])
        decoder.adapt(new[0]).predict(new[0])
        decoder.stream().predict(new[0][:2])


# --- the person's trials given to fit ---------------------------------------------------------------------


def test_fit_ends_with_the_decoder_of_that_person(people, by_person, new):
    x, y, subjects = people
    known = subjects < 5
    clf = CensoredEEGClassifier(**SMALL)
    clf.fit(x[known], y[known], subjects=subjects[known], X_target_unlabeled=new[0])
    assert clf.adapted_
    np.testing.assert_allclose(
        clf.predict_proba(new[0]), by_person.adapt(new[0]).predict_proba(new[0]), atol=1e-6
    )
    clf.fit(x[known], y[known], subjects=subjects[known], X_target_labeled=new[0], y_target_labeled=new[1])
    np.testing.assert_allclose(
        clf.predict_proba(new[0]), by_person.adapt(*new).predict_proba(new[0]), atol=1e-6
    )
    clf.set_params(max_steps=1).fit(x[known], y[known], subjects=subjects[known])
    assert not clf.adapted_ and clf.head_ is None
    with pytest.raises(ValueError, match="X_target_unlabeled alone"):
        clf.fit(x[known], y[known], subjects=subjects[known], X_target_labeled=new[0])
