"""LSL on loopback alone, in a session of its own, and a decoder of two classes that is fitted once."""

import os
import socket

import numpy as np
import pytest
from shared import once, set_home

from braindecode_censor.live.player import start_player, use_loopback

SFREQ, N_CHANS, N_TIMES = 64.0, 5, 48
NAMES = ["C3", "Cz", "C4", "Pz", "P4"]


@pytest.fixture(scope="session", autouse=True)
def loopback(tmp_path_factory):
    """The settings are read when liblsl is loaded, here and in the players."""
    pytest.importorskip("mne_lsl")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", 0))
    except OSError:
        pytest.skip("no socket can be opened")
    set_home(tmp_path_factory)
    use_loopback(tmp_path_factory.mktemp("lsl"))
    yield
    del os.environ["LSLAPICFG"]


def make_recording(n_trials, seed=0, subject=0):
    """Return samples (n, n_chans) in microvolts and markers (sample, class): the class is a stronger channel."""
    rng = np.random.default_rng([seed, subject])
    mixing = np.eye(N_CHANS) + 0.2 * np.random.default_rng(subject).normal(size=(N_CHANS, N_CHANS))
    gap = N_TIMES + 32
    samples = rng.normal(size=(n_trials * gap + 96, N_CHANS))
    markers = [(40 + k * gap, ("left", "right")[k % 2]) for k in range(n_trials)]
    for sample, name in markers:
        samples[sample : sample + N_TIMES, 0 if name == "left" else 2] *= 12
    return 10 * samples @ mixing.T, markers


def cut(samples, markers):
    trials = np.stack([samples[s : s + N_TIMES].T for s, _ in markers]).astype("float32")
    return trials, np.array([name for _, name in markers])


def _fit(folder):
    from braindecode_censor import AutoTransferClassifier

    blocks = [cut(*make_recording(12, subject=k)) for k in range(1, 5)]
    X, y = (np.concatenate(arrays) for arrays in zip(*blocks))
    net = {"name": "net", "network": "EEGNet", "normalize": "euclidean", "F1": 2, "D": 1, "max_steps": 20}
    clf = AutoTransferClassifier(
        candidates=["riemann", "power", net], time_limit=None, sfreq=SFREQ, ch_names=NAMES, verbose=0,
        preparation={"unit": "uV", "phase": "causal"}, device="cpu",
    )  # fmt: skip
    clf.fit(X, y, subjects=np.repeat(np.arange(4), 12)).save(folder)


@pytest.fixture(scope="session")
def decoder(loopback):
    """The folder of a decoder."""
    return once("live-decoder", _fit)


@pytest.fixture
def play(tmp_path):
    """Start players; all are ended with the test."""
    players = []

    def start(samples, markers=(), names=NAMES, sfreq=SFREQ, **options):
        players.append(start_player(tmp_path, samples, list(markers), list(names), sfreq, **options))
        return players[-1]

    yield start
    for player in players:
        player.kill()
        player.wait()
        player.stdout.close()
