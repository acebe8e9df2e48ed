"""The fleet on a GPU: exact, without waiting for the device between steps, and the same compiled."""

from itertools import product

import pytest
import torch

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet import Replica, cuda_graphs
from braindecode_censor.fleet.epoch import step_groups, train_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.device_trials import DeviceTrials, SubjectStatistics
from fleet.folds import assert_equal, data, folds, train_alone, train_together
from fleet.test_equal_to_alone import CASE_IDS, CASES, three
from fleet.test_networks import NETWORKS, largest_difference, train_both
from fleet.test_recipe import RECIPE

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_full_run_with_members_that_stop_at_different_epochs(method, mode):
    """Dropout is off, because the fleet's masks are its own there."""
    X, y, subjects = data(shift=0.3)
    settings = three(method, mode, device="cuda")
    for setting, patience, epochs in zip(settings, (1, 2, None), (9, 9, 5)):
        setting.update(patience=patience, max_epochs=epochs, lr=1e-2)
    alone = train_alone(X, y, subjects, settings)
    together = train_together(X, y, subjects, settings, group_size=2)
    assert next(together[0].module_.parameters()).is_cuda
    assert_equal(together, alone, 1e-7)


def test_trials_are_dealt_out_as_alone():
    X, y, subjects = data()
    settings = three("mige", "marginal", device="cuda", penalty__calibrate=True)
    assert_equal(train_together(X, y, subjects, settings), train_alone(X, y, subjects, settings), 1e-7)


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_no_step_waits_for_the_device(method, mode, calibrate):
    X, y, subjects = data()
    settings = three(method, mode, device="cuda", module__drop_prob=0.25)
    if method == "mige":  # the spectral estimators look at the error code of their decomposition
        options = {"penalty__score": "stein", "penalty__calibrate": calibrate}
        settings = [{**setting, **options} for setting in settings]
    elif calibrate:
        pytest.skip("only MIGE can be calibrated")
    members = [
        Replica(*task, SubjectStatistics(X, subjects), y) for task in folds(subjects, settings, CensoredEEGClassifier)
    ]
    group = Group(members, DeviceTrials(members[0].clf, SubjectStatistics(X, subjects)))
    train_epoch([group])  # the first may set up libraries
    launches = group.plan_epoch()
    assert len(launches) > 2
    monitors = [Monitor(len(group))]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for launch in launches:
            step_groups([group], [(0, launch)], monitors)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("lengthscale", ["median", "tsne"])
@pytest.mark.parametrize("score", ["ssge", "stein", "tikhonov", "nu"])
def test_recorded_penalties_are_the_same(score, lengthscale, calibrate, monkeypatch):
    """Steps are recorded the second time, and again when members have left; spectral scores interrupt that."""
    X, y, subjects = data()
    settings = three("mige", "complementary", device="cuda")
    for setting, epochs in zip(settings, (3, 5, 5)):
        setting.update(penalty__score=score, penalty__lengthscale=lengthscale, max_epochs=epochs)
        setting["penalty__calibrate"] = calibrate
    made = []
    record = cuda_graphs.GraphCapture.__init__
    monkeypatch.setattr(
        cuda_graphs.GraphCapture,
        "__init__",
        lambda *args: made.append(len(args[2].get("0.y", ()))) or record(*args),
    )
    recorded = train_together(X, y, subjects, settings)
    assert set(made) - {0} == {3, 2}
    monkeypatch.setattr(cuda_graphs.CapturedFunction, "find", lambda *_: None)
    plain = train_together(X, y, subjects, settings)
    assert_equal(recorded, [plain[k] for k in range(3)], 1e-9)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
@pytest.mark.parametrize("normalize", ["subject", "population"])
@pytest.mark.parametrize("methods", [(None,), (None, "mmd", "adv", "began")], ids=["plain", "censored"])
def test_recorded_steps_are_the_same(normalize, methods, monkeypatch):
    """Batches, augmentation, dropout, encoders, penalties, optimisers and averages are one recording."""
    X, y, subjects = data()
    shared = {**RECIPE, "normalize": normalize, "keep": "ema", "augment": "standard", "device": "cuda"}
    settings = [
        {
            **shared,
            "penalty": method,
            "module__drop_prob": 0.25,
            "random_state": k,
            "max_steps": 11 + 4 * (k > 1),
        }
        for method in methods
        for k in range(4)
    ]
    made = []
    record = cuda_graphs.GraphCapture.__init__
    monkeypatch.setattr(
        cuda_graphs.GraphCapture,
        "__init__",
        lambda *args: made.append(len(args[2].get("0.y", ()))) or record(*args),
    )
    recorded = train_together(X, y, subjects, settings)
    assert {4, 2} <= set(made)
    monkeypatch.setattr(cuda_graphs.CapturedFunction, "find", lambda *_: None)
    plain = train_together(X, y, subjects, settings)
    for k, clf in recorded.items():
        state = plain[k].module_.state_dict()
        for name, tensor in clf.module_.state_dict().items():
            torch.testing.assert_close(tensor, state[name], rtol=0, atol=1e-9, msg=name)


def test_several_recorded_groups_are_the_same(monkeypatch):
    """Several graphs at a time, some of whose members leave early, so that recordings are given up and made anew."""
    X, y, subjects = data()
    scores = {"stein": "tsne", "tikhonov": "median", "nu": "tsne", "ssge": "median"}
    kinds = [{"penalty": method} for method in ("adv", "mmd", "began", None)]
    kinds += [{"penalty": "mige", "penalty__score": k, "penalty__lengthscale": v} for k, v in scores.items()]
    settings = [
        {
            **kind,
            "censoring": mode,
            "device": "cuda",
            "weight": 0.1,
            "random_state": k,
            "max_epochs": 3 + k % 4,
        }
        for k, (kind, mode) in enumerate(product(kinds, ("marginal", "conditional", "complementary")))
    ]
    recorded = train_together(X, y, subjects, settings, group_size=18)
    monkeypatch.setattr(cuda_graphs.CapturedFunction, "find", lambda *_: None)
    plain = train_together(X, y, subjects, settings, group_size=18)
    assert_equal(recorded, [plain[k] for k in range(len(settings))], 1e-9)


@pytest.mark.parametrize("method", [None, "mmd", "adv", "mige", "calibrated", "began"])
def test_compiled_is_the_same_up_to_rounding(method):
    X, y, subjects = data(n_times=128)
    if method == "calibrated":
        settings = three("mige", "marginal", device="cuda", penalty__calibrate=True)
    else:
        settings = three(method, "conditional", device="cuda")
    plain, compiled = (train_together(X, y, subjects, settings, compile=compile) for compile in (False, True))
    assert_equal(compiled, [plain[k] for k in range(3)], 1e-7)


@pytest.mark.parametrize("name", NETWORKS)
def test_other_networks(name):
    """Without and with a penalty, convolutions as matrix products."""
    for one, member in zip(*train_both(name, device="cuda")):
        assert member.error is None
        assert largest_difference(one, member.clf) < 1e-7
