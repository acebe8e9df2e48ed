"""The fleet on a GPU: exact, without waiting for the device between steps, and the same captured or compiled."""

from itertools import product

import pytest
import torch

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet import cuda_graphs
from braindecode_censor.fleet.epoch import step_groups, train_epoch
from braindecode_censor.fleet.monitor import Monitor
from fleet.folds import assert_equal, assert_trained_alike, data, fit_fleet, largest_difference, make_group
from fleet.test_equal_to_single import CASE_IDS, CASES, three
from fleet.test_networks import NETWORKS, train_both
from fleet.test_recipe import RECIPE

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_replicas_stop_at_different_epochs(method, mode):
    settings = three(method, mode, device="cuda")
    for setting, patience, epochs in zip(settings, (1, 2, None), (9, 9, 5)):
        setting.update(patience=patience, max_epochs=epochs, lr=1e-2)
    singles = assert_trained_alike(settings, 1e-7, data(shift=0.3), group_size=2)
    assert next(singles[0].module_.parameters()).is_cuda


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_steps_do_not_wait_for_the_device(method, mode, calibrate):
    settings = three(method, mode, device="cuda", module__drop_prob=0.25)
    if method == "mige":  # The spectral estimators read the error code of their decomposition.
        options = {"penalty__score": "stein", "penalty__calibrate": calibrate}
        settings = [{**setting, **options} for setting in settings]
    elif calibrate:
        pytest.skip("only MIGE can be calibrated")
    group = make_group(settings, CensoredEEGClassifier)
    train_epoch([group])  # The first may set up libraries.
    launches, monitors = group.plan_epoch(), [Monitor(len(group))]
    assert len(launches) > 2
    torch.cuda.set_sync_debug_mode("error")
    try:
        for launch in launches:
            step_groups([group], [(0, launch)], monitors)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def fit_captured_and_not(monkeypatch, settings, **options):
    """Return estimators of fleets with and without captures, and the numbers of replicas in captured steps."""
    sizes, begin = set(), cuda_graphs.GraphCapture.__init__

    def count(self, function, inputs):
        sizes.add(len(inputs.get("0.y", ())))
        begin(self, function, inputs)

    monkeypatch.setattr(cuda_graphs.GraphCapture, "__init__", count)
    captured = fit_fleet(*data(), settings, **options)
    monkeypatch.setattr(cuda_graphs.CapturedFunction, "find", lambda *_: None)
    eager = fit_fleet(*data(), settings, **options)
    return captured, [eager[k] for k in range(len(settings))], sizes - {0}


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("lengthscale", ["median", "tsne"])
@pytest.mark.parametrize("score", ["ssge", "stein", "tikhonov", "nu"])
def test_captured_penalties_equal_eager(score, lengthscale, calibrate, monkeypatch):
    """Steps are captured again when a replica has finished; spectral scores interrupt the capture."""
    settings = three("mige", "complementary", device="cuda")
    for setting, epochs in zip(settings, (3, 5, 5)):
        setting.update(penalty__score=score, penalty__lengthscale=lengthscale, max_epochs=epochs)
        setting["penalty__calibrate"] = calibrate
    captured, eager, sizes = fit_captured_and_not(monkeypatch, settings)
    assert sizes == {3, 2}
    assert_equal(captured, eager, 1e-9)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
@pytest.mark.parametrize("normalize", ["subject", "population"])
@pytest.mark.parametrize("methods", [(None,), (None, "mmd", "adv", "began")], ids=["plain", "censored"])
def test_captured_steps_equal_eager(normalize, methods, monkeypatch):
    """Batches, augmentation, dropout, encoders, penalties, optimisers and averages are one capture."""
    shared = {"normalize": normalize, "keep": "ema", "augment": "standard", "device": "cuda"}
    shared |= {"module__drop_prob": 0.25}
    settings = [
        {**RECIPE, **shared, "penalty": method, "random_state": k, "max_steps": 11 + 4 * (k > 1)}
        for method in methods
        for k in range(4)
    ]
    captured, eager, sizes = fit_captured_and_not(monkeypatch, settings)
    assert {4, 2} <= sizes
    assert max(largest_difference(captured[k], clf) for k, clf in enumerate(eager)) <= 1e-9


def test_captured_groups_equal_eager(monkeypatch):
    """Several graphs at a time; replicas that finish early end a capture."""
    scores = {"stein": "tsne", "tikhonov": "median", "nu": "tsne", "ssge": "median"}
    penalties = [{"penalty": method} for method in ("adv", "mmd", "began", None)]
    penalties += [
        {"penalty": "mige", "penalty__score": k, "penalty__lengthscale": v} for k, v in scores.items()
    ]
    settings = [
        {
            **penalty,
            "censoring": mode,
            "device": "cuda",
            "weight": 0.1,
            "random_state": k,
            "max_epochs": 3 + k % 4,
        }
        for k, (penalty, mode) in enumerate(product(penalties, ("marginal", "conditional", "complementary")))
    ]
    captured, eager, _ = fit_captured_and_not(monkeypatch, settings, group_size=18)
    assert_equal(captured, eager, 1e-9)


@pytest.mark.parametrize("method", [None, "mmd", "adv", "mige", "calibrated", "began"])
def test_compiled_equals_eager(method):
    X, y, subjects = data(n_times=128)
    options = {"penalty__calibrate": True} if method == "calibrated" else {}
    mode = "marginal" if method == "calibrated" else "conditional"
    settings = three("mige" if method == "calibrated" else method, mode, device="cuda", **options)
    eager, compiled = (fit_fleet(X, y, subjects, settings, compile=compile) for compile in (False, True))
    assert_equal(compiled, [eager[k] for k in range(3)], 1e-7)


@pytest.mark.parametrize("name", NETWORKS)
def test_other_networks_equal_single_training(name):
    options = {"module": name, **NETWORKS[name], "device": "cuda"}
    settings = {"penalty": None}, {"penalty": "adv", "censoring": "conditional", "weight": 0.3}
    for single, clf in zip(*train_both(options, *settings)):
        assert largest_difference(single, clf) < 1e-7
