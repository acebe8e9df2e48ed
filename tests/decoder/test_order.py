"""Where classes come one after the other, a stream trusts the training subjects' statistics longer, if that helps."""

import numpy as np
import pytest
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.decoder.order import design_effect


def test_known_answers():
    rng = np.random.default_rng(0)
    assert design_effect(rng.integers(3, size=(8, 60)), 3) < 1.5
    assert design_effect(np.tile([0, 1, 2], (4, 20)), 3) < 1
    # Two blocks: of the first n trials of one class all tell as much as one; then the effect falls to that of all.
    n = np.arange(1, 61)
    effects = np.where(n <= 30, n, (60 - n) ** 2 / n)
    expected = np.average(effects, weights=1 / n)
    assert design_effect(np.tile(np.repeat([0, 1], 30), (4, 1)), 2) == pytest.approx(expected)
    assert design_effect(np.tile(np.repeat([0, 1, 0, 1], 15), (4, 1)), 2) < expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mixing", [0.05, 1.0])
def test_fit_takes_the_larger_prior_where_subjects_are_alike_and_classes_come_in_blocks(mixing, tmp_path):
    X, y, subjects = mixed_subjects(10, 40, mixing=mixing, effect=1.3)
    orders, scores = {"blocks": np.lexsort((y, subjects)), "mixed": np.arange(len(y))}, {}
    for name, order in orders.items():
        rows = order[subjects[order] <= 6]
        clf = bc.AutoTransferClassifier(candidates=["riemann"], time_limit=None, taught=False, verbose=0)
        clf.fit(X[rows], y[rows], subjects=subjects[rows]).save(tmp_path / name)
        assert bc.AutoTransferClassifier.load(tmp_path / name).stream_prior_ == clf.stream_prior_
        new = [orders["blocks"][subjects[orders["blocks"]] == s] for s in range(7, 11)]
        scores[name] = np.mean([(clf.stream().predict(X[rows]) == y[rows]).mean() for rows in new])
        assert name == "blocks" or clf.stream_prior_ == 1
    assert scores["blocks"] >= scores["mixed"]
