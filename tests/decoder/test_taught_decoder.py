"""The taught decoder: what it gains, what it may see, and blocks that are not like those of the training subjects."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score
from subjects import fit_decoder, mixed_subjects

import braindecode_censor as bc
from braindecode_censor.decoder.forecast import Forecast, Forecaster
from braindecode_censor.decoder.heldout_teaching import HeldOutTeaching
from braindecode_censor.run.training import TrialData
from braindecode_censor.search.folds import FoldedTrials, make_folds
from braindecode_censor.search.heldout import HeldOut

N_TRAIN, N_CLASSES = 8, 3
X, Y, SUBJECTS = mixed_subjects(12, n_trials=48, n_classes=N_CLASSES, mixing=0.8, effect=1.7, n_times=32)
LABELS = np.array(["foot", "left", "right"])[Y]
TRAIN = SUBJECTS <= N_TRAIN
NEW = [(X[s == SUBJECTS], LABELS[s == SUBJECTS]) for s in range(N_TRAIN + 1, 13)]
rng = np.random.default_rng(0)


def fit(X=X[TRAIN], y=LABELS[TRAIN], subjects=SUBJECTS[TRAIN], **options):
    return fit_decoder(X, y, subjects, partners=2, **options)


@pytest.fixture(scope="module")
def taught():
    return fit()


@pytest.fixture(scope="module")
def untaught(taught):
    clf = copy.copy(taught)
    clf.teacher_ = None
    return clf


def mean_score(clf, blocks, **options):
    """Return the mean accuracy on blocks of (X, y)."""
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for signals, y in blocks:
            found = clf.adapt(signals, **options).predict(signals)
            several = len(np.unique(y)) == N_CLASSES
            scores.append(balanced_accuracy_score(y, found) if several else (found == y).mean())
    return np.mean(scores)


def test_teaching_gains(taught, untaught):
    assert mean_score(taught, NEW) > mean_score(untaught, NEW) + 0.01
    board = taught.leaderboard_.set_index("candidate")["mean"]
    assert board["taught"] > board["greedy ensemble"] and taught.heldout_.mean == pytest.approx(
        board["taught"]
    )


def test_untaught_decoder_is_the_ensemble(untaught):
    plain = fit(taught=False)
    assert plain.teacher_ is None and "taught" not in plain.leaderboard_["candidate"].to_list()
    signals, _ = NEW[0]
    np.testing.assert_array_equal(plain.adapt(signals).block_, untaught.adapt(signals).block_)
    assert fit(target="none").teacher_ is None


def some(idx):
    """Return a block of every new subject for every class."""
    return [(signals[i], y[i]) for signals, y in NEW for k in np.unique(y) for i in [idx(y, k)]]


BLOCKS = {
    "one class": some(lambda y, k: np.flatnonzero(y == k)),
    "85 % of one class": some(lambda y, k: np.r_[np.flatnonzero(y == k), np.flatnonzero(y != k)[:3]]),
    "5 trials": some(lambda y, k: rng.permutation(48)[:5]),
    "10 trials": some(lambda y, k: rng.permutation(48)[:10]),
}


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_blocks_of_unknown_proportions_lose_nothing(taught, untaught, blocks):
    assert mean_score(taught, blocks, proportions="unknown") >= mean_score(untaught, blocks) - 0.01


def test_one_class_is_noticed(taught):
    refused = []
    for block, _ in BLOCKS["one class"]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            adapted = taught.adapt(block)
        if any("seem to differ from those of the training subjects" in str(w.message) for w in caught):
            refused.append(block)
            unknown = taught.adapt(block, proportions="unknown")
            np.testing.assert_array_equal(adapted.block_, unknown.block_)
    # Recentring on one class hides it from the models, so that not every block is refused.
    assert len(refused) >= 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for signals, _ in NEW:
            taught.adapt(signals)


def test_known_proportions_help(taught):
    block, y = BLOCKS["85 % of one class"][1]
    shares = {str(k): np.mean(y == k) for k in np.unique(y)}
    wrong = dict(zip(shares, [*list(shares.values())[1:], shares["foot"]]))
    right, others = ((taught.adapt(block, proportions=p).predict(block) == y).mean() for p in (shares, wrong))
    assert right > others


@pytest.mark.parametrize(
    "proportions, message",
    [
        ("usual", "proportions='usual' is unknown"),
        ({"up": 1.0}, "proportions has the class 'up'"),
        ({"left": 0.5}, "sum to 0.5"),
        ({"left": -1, "foot": 2}, r"proportions\['left'\]=-1"),
    ],
)
def test_wrong_proportions_are_refused(taught, proportions, message):
    for method in (
        lambda: taught.adapt(NEW[0][0], proportions=proportions),
        lambda: taught.stream(proportions),
    ):
        with pytest.raises(ValueError, match=message):
            method()


@pytest.mark.parametrize("unknown", [-1, None, np.nan])
def test_partly_known_labels(taught, unknown):
    signals, y = NEW[1]
    some = np.array(y, dtype=object)
    some[24:] = unknown
    partly, plain = taught.adapt(signals, some), taught.adapt(signals)
    assert not np.allclose(partly.block_, plain.block_)
    np.testing.assert_array_equal(taught.adapt(signals, np.full(48, unknown)).block_, plain.block_)


def test_labels_of_half_a_block_help_the_other_half(taught):
    half = np.arange(48) < 24
    scores = [
        [
            (taught.adapt(b, labels).predict(b[24:]) == y[24:]).mean()
            for labels in (None, np.where(half, y, None))
        ]
        for b, y in NEW
    ]
    without, with_labels = np.mean(scores, axis=0)
    assert with_labels >= without - 0.02  # two trials of 96, because hardly any is wrong


def test_all_labels_known_and_a_label_that_does_not_exist(taught):
    signals, y = NEW[2]
    assert (taught.adapt(signals[::2], y[::2]).predict(signals[1::2]) == y[1::2]).mean() > 0.5
    with pytest.raises(ValueError, match="labels that fit did not have"):
        taught.adapt(signals, np.where(np.arange(48) < 24, "up", None))


def test_trials_of_the_block_are_recognised_and_others_decoded_alone(taught):
    signals, _ = NEW[0]
    adapted = taught.adapt(signals[:32])
    np.testing.assert_allclose(adapted.predict_proba(signals[:32]), adapted.block_, atol=1e-9)
    together = adapted.predict_proba(signals)
    np.testing.assert_allclose(together[:32], adapted.block_, atol=1e-9)
    np.testing.assert_allclose(together[40:41], adapted.predict_proba(signals[40:41]), atol=1e-6)
    np.testing.assert_allclose(together.sum(axis=1), 1)


def test_stream_is_causal_and_gains(taught, untaught):
    signals, _ = NEW[0]
    later = np.concatenate([signals[:20], 3 * signals[20:26][::-1]])
    P = taught.stream().predict_proba(signals[:26])
    np.testing.assert_array_equal(taught.stream().predict_proba(later)[:20], P[:20])
    stream = taught.stream()
    pieces = [stream.predict_proba(piece) for piece in (signals[:7], signals[7:8], signals[8:26])]
    np.testing.assert_allclose(np.concatenate(pieces), P, atol=1e-9)
    scores = [
        np.mean([(clf.stream().predict(b) == y).mean() for b, y in NEW[:2]]) for clf in (taught, untaught)
    ]
    assert scores[0] >= scores[1] - 0.01


def test_saved_decoder_gives_the_same_answers(taught, tmp_path):
    signals, y = NEW[0]
    adapted = taught.adapt(signals[:30], np.where(np.arange(30) < 10, y[:30].astype(object), None))
    for name, clf in (("general", taught), ("subject", adapted)):
        clf.save(tmp_path / name)
    general, subject = (bc.AutoTransferClassifier.load(tmp_path / name) for name in ("general", "subject"))
    np.testing.assert_allclose(subject.predict_proba(signals), adapted.predict_proba(signals), atol=1e-6)
    np.testing.assert_allclose(general.adapt(signals).block_, taught.adapt(signals).block_, atol=1e-6)
    pair = [clf.stream().predict_proba(signals[:15]) for clf in (general, taught)]
    np.testing.assert_allclose(*pair, atol=1e-6)
    assert str(general.adapt(signals).forecast_) == str(taught.adapt(signals).forecast_)


@pytest.mark.parametrize("fault", ["outlier", "flat channel"])
def test_damaged_trials_change_little(taught, untaught, fault):
    signals, y = NEW[3]
    damaged = signals.copy()
    if fault == "outlier":
        damaged[5] *= 1000
    else:
        damaged[:, 2] = 0
    others = np.arange(48) != 5
    gains = []
    for block in (signals, damaged):
        scores = [(clf.adapt(block).predict(block)[others] == y[others]).mean() for clf in (taught, untaught)]
        gains.append(scores[0] - scores[1])
    assert gains[1] > gains[0] - 0.1


def test_sure_leaves_trials_undecided(taught):
    signals, y = NEW[0]
    adapted = taught.adapt(signals)
    sure = adapted.block_.max(axis=1) >= 0.8
    found = adapted.predict(signals, sure=0.8)
    assert (
        0 < sure.sum() < 48
        and (found[~sure] == -1).all()
        and (found[sure] == adapted.predict(signals)[sure]).all()
    )
    assert set(adapted.predict(signals, sure=0.8, undecided="?")) == {"?", *adapted.predict(signals)[sure]}
    with pytest.raises(ValueError, match="sure=2"):
        adapted.predict(signals, sure=2)


# What may be seen, on probabilities of which the answers are known.


def teaching(labels=Y[TRAIN], signals=X[TRAIN]):
    """Return held-out teaching of probabilities that do not depend on the labels or signals given."""
    subjects, folds = SUBJECTS[TRAIN] - 1, make_folds(N_TRAIN, 4)
    trials = FoldedTrials(TrialData(signals, labels, subjects), folds)
    heldout, noise = HeldOut(trials.labels, folds), np.random.default_rng(3)
    for name in ("a", "b"):
        for k, fold in enumerate(folds):
            logits = {s: noise.normal(size=(48, 3)) + 1.5 * np.eye(3)[Y[s + 1 == SUBJECTS]] for s in fold}
            heldout.add(
                name, k, {s: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for s, z in logits.items()}
            )
    return HeldOutTeaching(heldout, ["a", "b"], trials)


def test_labels_of_the_tested_subject_change_nothing():
    changed = Y[TRAIN].copy()
    changed[SUBJECTS[TRAIN] == 1] = np.roll(changed[SUBJECTS[TRAIN] == 1], 1)
    before, after = teaching(), teaching(changed)
    for array, other in zip(before.nested(0), after.nested(0)):
        np.testing.assert_array_equal(array, other)
    partner = sum(
        next(fold for fold in before.heldout.folds if 0 in fold)
    )  # the other one of subject 0's fold
    assert not np.array_equal(before.nested(partner)[1], after.nested(partner)[1])


def test_trials_of_the_tested_subject_change_no_weights():
    signals = X[TRAIN].copy()
    signals[SUBJECTS[TRAIN] == 1] = np.random.default_rng(8).normal(size=signals[SUBJECTS[TRAIN] == 1].shape)
    before, after = teaching().nested(0), teaching(signals=signals).nested(0)
    np.testing.assert_array_equal(before[1], after[1])
    assert not np.allclose(before[0], after[0])  # but its own answers, of course


def test_adaptation_does_not_change_the_teacher(taught):
    before = taught.teacher_.weights.copy()
    taught.adapt(10 * NEW[0][0], proportions="unknown")
    taught.stream().predict(NEW[0][0][:5])
    np.testing.assert_array_equal(before, taught.teacher_.weights)


# Forecasts of statistics with known relations to the scores.


def test_forecast_of_a_related_statistic():
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.4, 0.95, 20)
    statistics = np.column_stack([scores + 0.03 * rng.normal(size=20), rng.normal(size=20)])
    forecaster = Forecaster(statistics, scores)
    found = forecaster.forecast(np.array([0.8, 0.0]))
    assert isinstance(found, Forecast) and found.low < found.score < found.high
    assert found.score == pytest.approx(0.8, abs=0.06) and found.high - found.low < 0.25
    inside = [np.subtract(*forecaster.interval(p, k)) for k, p in enumerate(forecaster.left_out)]
    assert len(inside) == 20
    covered = [
        low <= score <= high
        for k, (p, score) in enumerate(zip(forecaster.left_out, scores))
        for low, high in [forecaster.interval(p, k)]
    ]
    assert 0.6 <= np.mean(covered) <= 1


def test_forecast_is_unknown_without_relation():
    unknown = [
        Forecaster(rng.normal(size=(16, 2)), rng.uniform(0.4, 0.9, 16)).forecast(np.zeros(2)) == "unknown"
        for rng in map(np.random.default_rng, range(20))
    ]
    assert np.mean(unknown) >= 0.9
    assert Forecaster(np.eye(4)[:, :2], np.arange(4) / 4).forecast(np.zeros(2)) == "unknown"  # few subjects
