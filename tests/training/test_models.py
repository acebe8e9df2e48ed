"""Every Braindecode model that classifies trials is censored, or says why it cannot be."""

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
PLACES = {"chs_info": INFO["chs"]}
SLEEP = {"n_times": 3000, "sfreq": 100.0}
EMG = {"n_chans": 16, "sfreq": 2000.0}
# What a model asks of its input, and options that keep large ones small.
OPTIONS = {
    "AttnSleep": {**SLEEP, "n_chans": 1, "n_tce": 1, "d_ff": 8},
    "BENDR": {"encoder_h": 16, "contextualizer_hidden": 16, "transformer_layers": 1, "transformer_heads": 2},
    "BIOT": {"embed_dim": 16, "num_heads": 2, "num_layers": 1},
    "BrainModule": {"hidden_dim": 16, "depth": 2},
    "CBraMod": {"n_times": 400, "n_layer": 1, "dim_feedforward": 8},
    "CodeBrain": {
        "n_times": 400,
        "res_channels": 20,
        "skip_channels": 20,
        "num_res_layers": 1,
        "s4_d_state": 4,
    },
    "DGCNN": PLACES,
    "DeepSleepNet": {"n_chans": 1, "n_times": 1500, "bilstm_hidden_size": 8, "bilstm_num_layers": 1},
    "EEGDINO": {"n_times": 400, "n_layer": 2, "nhead": 2, "dim_feedforward": 8},
    "EEGInceptionMI": {"n_convs": 1, "n_filters": 4},
    "EEGPT": {**PLACES, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "EEGSym": PLACES,
    "LUNA": {**PLACES, "n_times": 240, "embed_dim": 16, "depth": 1},
    "Labram": {"n_chans": 128, "n_times": 200, "embed_dim": 20, "num_layers": 1, "num_heads": 2},
    "MEDFormer": {"embed_dim": 16, "num_heads": 2, "num_layers": 1},
    "STEEGFormer": {"embed_dim": 16, "depth": 1, "num_heads": 2},
    "SignalJEPA_Contextual": {**PLACES, "transformer__num_encoder_layers": 1},
    "SleepStagerBlanco2020": {**SLEEP, "n_chans": 4},
    "ZUNA": {**PLACES, "sfreq": 256.0, "dim": 16, "n_layers": 1, "n_heads": 2, "head_dim": 16},
}
# Models whose final layer is not called, with a layer that would do.
OTHER_LAYER = {"ATCNet": "final_layer.1"}
# No classifiers of trials: they answer for many moments, or with features, so no `EEGClassifier` trains them.
SEQUENCES = {
    "DANCE": {**PLACES, "n_queries": 4, "fourier_emb_dim": 32, "conv_depth": 1, "perceiver_depth": 1},
    "EMG2QwertyNet": {**EMG, "n_chans": 32, "n_times": 800, "kernel_width": 4},
    "MetaNeuromotorHand": {**EMG, "n_times": 2000, "conformer_num_layers": 1, "conformer_stride": 1,
                           "conformer_attn_window_size": 4},
    "NeuroPose": {**EMG, "n_times": 640},
    "SensingDynamics": {**EMG, "n_times": 480},
    "SignalJEPA": {**PLACES, "n_outputs": None},
    "VEMG2Pose": {**EMG, "n_times": 2000},
}  # fmt: skip
DOWNLOADS = {"REVE"}  # fetches a table of positions from the network when it is made
MODELS = sorted(set(models_dict) - set(SEQUENCES) - DOWNLOADS)

Y, SUBJECTS = np.arange(N_TRIALS) % 2, np.arange(N_TRIALS) // 2 % 4


def options_of(name):
    return {**SIZES, "n_outputs": 2, **OPTIONS.get(name, {}), **SEQUENCES.get(name, {})}


def fit(name, weight, layer="final_layer"):
    """One step of a model."""
    torch.manual_seed(0)
    options = options_of(name)
    shape = (N_TRIALS, options["n_chans"], options["n_times"])
    X = np.random.default_rng(0).normal(size=shape) + 2 * SUBJECTS[:, None, None]
    net = EEGClassifier(
        name,
        callbacks=[Censor("mmd", weight=weight, subjects=SUBJECTS, layer=layer)],
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_models_that_are_left_out_do_not_classify_trials(name):
    options = options_of(name)
    module = models_dict[name](**options).eval()
    with torch.no_grad():
        answer = module(torch.zeros(2, options["n_chans"], options["n_times"]))
    assert not isinstance(answer, torch.Tensor) or answer.shape != (2, 2)
    assert set(models_dict) > DOWNLOADS
