"""Any Braindecode model that classifies trials can be censored."""

import inspect
import sys

import mne
import numpy as np
import pytest
import torch
from braindecode import EEGClassifier
from braindecode.models.util import models_dict

from braindecode_censor import Censor

N_TRIALS = 8
SIZES = {"n_chans": 8, "n_times": 256, "sfreq": 128.0}
INFO = mne.create_info(["Fz", "Cz", "C3", "C4", "P3", "P4", "O1", "O2"], 128.0, "eeg").set_montage(
    "colin27_1020"
)
# One model per family: convolutions, recurrence, attention, graphs, filter banks, positions of channels.
OPTIONS = {
    "ATCNet": {},
    "AttentionBaseNet": {},
    "BIOT": {"embed_dim": 16, "num_heads": 2, "num_layers": 1},
    "DGCNN": {"chs_info": INFO["chs"]},
    "DeepSleepNet": {"n_chans": 1, "n_times": 1500, "bilstm_hidden_size": 8, "bilstm_num_layers": 1},
    "EEGConformer": {},
    "EEGNet": {},
    "FBCNet": {},
    "Labram": {"n_chans": 128, "n_times": 200, "embed_dim": 20, "num_layers": 1, "num_heads": 2},
    "ShallowFBCSPNet": {},
    "TIDNet": {},
}
# Its final layer is a list, which is never called.
OTHER_LAYER = {"ATCNet": "final_layer.1"}

Y, SUBJECTS = np.arange(N_TRIALS) % 2, np.arange(N_TRIALS) // 2 % 4


def fit(name, weight, layer="final_layer"):
    torch.manual_seed(0)
    options = {**SIZES, "n_outputs": 2, **OPTIONS[name]}
    shape = (N_TRIALS, options["n_chans"], options["n_times"])
    X = np.random.default_rng(0).normal(size=shape) + 2 * SUBJECTS[:, None, None]
    net = EEGClassifier(
        name,
        callbacks=[Censor("mmd", "marginal", weight=weight, subjects=SUBJECTS, layer=layer)],
        optimizer=torch.optim.SGD,
        lr=1e-3,
        max_epochs=1,
        batch_size=N_TRIALS,
        train_split=None,
        verbose=0,
        **{f"module__{key}": value for key, value in options.items()},
    )
    return net.fit(X.astype("float32"), Y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPTIONS)
def test_penalty_changes_the_network(name):
    layer = OTHER_LAYER.get(name, "final_layer")
    monitored, censored = (fit(name, weight, layer) for weight in (0.0, 1e3))
    assert monitored.history[-1, "subject_penalty"] == pytest.approx(censored.history[-1, "subject_penalty"])
    assert np.isfinite(censored.history[-1, "subject_penalty"])
    before, after = (dict(net.module_.named_parameters()) for net in (monitored, censored))
    assert any(not torch.equal(before[key], after[key]) for key in before)


def test_every_model_defines_a_final_layer():
    for model in models_dict.values():
        assert "final_layer" in inspect.getsource(sys.modules[model.__module__])
