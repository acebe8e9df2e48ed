"""Every Braindecode model that trains on eight channels is censored, or says why it cannot be."""

import numpy as np
import pytest
import torch
from braindecode import EEGClassifier
from braindecode.models.util import models_dict

from braindecode_censor import Censor

N_CHANS, N_TIMES, SFREQ, N_TRIALS = 8, 256, 128, 16
# Too large for a test: up to a quarter of a minute for one batch.
LARGE = {
    "BENDR",
    "BrainModule",
    "CodeBrain",
    "DeepSleepNet",
    "EEGDINO",
    "EEGInceptionMI",
    "EEGPT",
    "STEEGFormer",
}
NEEDS = {
    "AttnSleep": "30 s of sleep",
    "CBraMod": "patches of 200 samples",
    "DANCE": "places of the channels",
    "DGCNN": "places of the channels",
    "EEGSym": "places of the channels",
    "EMG2QwertyNet": "32 channels of EMG",
    "LUNA": "patches of 40 samples",
    "Labram": "patches of 200 samples",
    "MetaNeuromotorHand": "EMG at 2 kHz",
    "NeuroPose": "16 channels of EMG",
    "REVE": "pretrained positions",
    "SensingDynamics": "16 channels of EMG",
    "SignalJEPA": "places of the channels",
    "SignalJEPA_Contextual": "places of the channels",
    "SleepStagerBlanco2020": "30 s of sleep",
    "VEMG2Pose": "EMG at 2 kHz",
    "ZUNA": "places of the channels",
}
# Models whose final layer is not called, with a layer that would do.
OTHER_LAYER = {"ATCNet": "final_layer.1"}
MODELS = sorted(set(models_dict) - set(NEEDS) - LARGE)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_TRIALS, N_CHANS, N_TIMES)).astype("float32")
Y, SUBJECTS = np.arange(N_TRIALS) % 2, np.arange(N_TRIALS) // 2 % 4
X += 2 * SUBJECTS[:, None, None]


def fit(name, weight, layer="final_layer"):
    """One step of a model."""
    torch.manual_seed(0)
    censor = Censor("mmd", weight=weight, subjects=SUBJECTS, layer=layer)
    sizes = {"n_chans": N_CHANS, "n_times": N_TIMES, "n_outputs": 2, "sfreq": SFREQ}
    net = EEGClassifier(
        name,
        callbacks=[censor],
        optimizer=torch.optim.SGD,
        lr=1e-3,
        max_epochs=1,
        batch_size=N_TRIALS,
        train_split=None,
        verbose=0,
        **{f"module__{key}": value for key, value in sizes.items()},
    )
    return net.fit(X, Y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_the_penalty_is_logged_and_changes_the_network(name):
    layer = OTHER_LAYER.get(name, "final_layer")
    watched, censored = (fit(name, weight, layer) for weight in (0.0, 1e3))
    assert watched.history[-1, "subject_penalty"] == pytest.approx(censored.history[-1, "subject_penalty"])
    assert np.isfinite(censored.history[-1, "subject_penalty"])
    before, after = (dict(net.module_.named_parameters()) for net in (watched, censored))
    assert any(not torch.equal(before[key], after[key]) for key in before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(OTHER_LAYER))
def test_a_final_layer_that_is_never_called_is_an_error(name):
    with pytest.raises(ValueError, match=rf"layer='final_layer' of {name}.*\['{OTHER_LAYER[name]}'"):
        fit(name, 1.0)


def test_models_that_are_left_out_exist():
    assert set(models_dict) > set(NEEDS) | LARGE | set(OTHER_LAYER)
