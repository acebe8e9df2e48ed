"""Training on a GPU equals training on a CPU up to rounding."""

import numpy as np
import pytest
import torch
from rhythms import IDS, METHODS_AND_MODES

from braindecode_censor import CensoredEEGClassifier

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
# Dropout draws other masks on a GPU, so it is off where the two are compared.
OPTIONS = {"max_epochs": 3, "batch_size": 32, "module__F1": 4, "module__drop_prob": 0.0}


@pytest.mark.parametrize(("method", "mode"), METHODS_AND_MODES, ids=IDS)
def test_cuda_equals_cpu(data, method, mode):
    x, y, subjects = data
    options = {"penalty": method, "censoring": mode, "weight": 0.1, **OPTIONS}
    cpu, cuda = (
        CensoredEEGClassifier(device=device, **options).fit(x, y, subjects) for device in ("cpu", "cuda")
    )
    assert next(cuda.module_.parameters()).is_cuda
    np.testing.assert_allclose(
        cpu.history[:, "train_loss"], cuda.history[:, "train_loss"], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(cpu.predict_proba(x), cuda.predict_proba(x), atol=5e-3)
    np.testing.assert_allclose(cpu.features(x), cuda.features(x), atol=5e-2)


def test_two_runs_with_one_seed(data):
    x, y, subjects = data
    options = {**OPTIONS, "module__drop_prob": 0.25, "penalty": "adv", "weight": 0.1, "device": "cuda"}
    state = torch.cuda.get_rng_state()
    first, again = (CensoredEEGClassifier(**options).fit(x, y, subjects) for _ in range(2))
    np.testing.assert_allclose(first.predict_proba(x), again.predict_proba(x), atol=1e-4)
    assert torch.equal(state, torch.cuda.get_rng_state())


def test_saved_on_a_gpu_loaded_on_a_cpu(data, tmp_path):
    x, y, subjects = data
    clf = CensoredEEGClassifier(device="cuda", **OPTIONS).fit(x, y, subjects)
    clf.save(tmp_path / "clf")
    loaded = CensoredEEGClassifier.load(tmp_path / "clf", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(x), clf.predict_proba(x), atol=1e-3)


def test_trials_that_do_not_fit_stay_on_the_cpu(data, monkeypatch):
    x, y, subjects = data
    options = {**OPTIONS, "max_epochs": 8, "penalty": "adv", "weight": 0.1, "device": "cuda"}
    resident = CensoredEEGClassifier(**options).fit(x, y, subjects)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (1000, 1000))
    moved = CensoredEEGClassifier(**options).fit(x, y, subjects)
    assert moved.get_dataset(x).x.device.type == "cpu"
    assert next(moved.module_.parameters()).is_cuda
    np.testing.assert_allclose(moved.predict_proba(x), resident.predict_proba(x), atol=5e-3)
