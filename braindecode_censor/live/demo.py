"""Half a minute of live decoding: a player plays a subject's trials over LSL on this machine, and a decoder decodes."""

import os
import tempfile
import textwrap

import numpy as np

from braindecode_censor.live.decoder import LiveDecoder
from braindecode_censor.live.player import start_player, use_loopback
from braindecode_censor.live.source import clock

__all__ = ["decode_on_loopback"]

_SURE = 0.4
_START = 30.0  # seconds in which streams open and the first samples come


def decode_on_loopback(decoder, X, y):
    """Decode the trials of a subject as they are played, and print decisions against truth; skip it without LSL."""
    is_shared = "LSLAPICFG" in os.environ
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not is_shared:
                use_loopback(folder)
            _decode(decoder, X, y, folder)
    except KeyboardInterrupt:
        print("Live decoding was interrupted.")
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(textwrap.fill(f"Live decoding is skipped: {error}", 100))
    finally:
        if not is_shared:
            os.environ.pop("LSLAPICFG", None)


def _decode(decoder, X, y, folder):
    clock()  # Raises without MNE-LSL, before a player starts.
    sfreq, n_times = decoder.input_.sfreq, X.shape[2]
    markers = [(n_times * k, str(label)) for k, label in enumerate(y)]
    names = decoder.input_.ch_names or [str(k) for k in range(X.shape[1])]
    live = LiveDecoder(
        decoder, "EEG", "Markers", sure=_SURE, outlet=None, seconds=len(y) * n_times / sfreq + _START
    )
    player = start_player(folder, np.concatenate(X.swapaxes(1, 2)), markers, names, sfreq)
    try:
        with live:
            _show(live, len(y))
    finally:
        player.kill()
        player.wait()
        player.stdout.close()


def _show(live, n_trials):
    print(
        f"{'trial':>5}  {'truth':<12}{'decision':<12}{'probability':>11}{'accuracy so far':>17}", flush=True
    )
    n_decided = n_right = n = 0
    for decision in live:
        if decision.marker is None:  # the silence before the player or after it
            continue
        n += 1
        n_decided += decision.label is not None
        n_right += str(decision.label) == decision.marker
        label = (decision.why or str(decision.label))[:11]
        claimed = "" if decision.probabilities is None else f"{decision.probabilities.max():.2f}"
        accuracy = f"{n_right / n_decided:.2f}" if n_decided else ""
        print(f"{n:5}  {decision.marker:<12}{label:<12}{claimed:>11}{accuracy:>17}", flush=True)
        if n == n_trials:
            break
    latency = live.table().summary().get("latency, median", np.nan)
    print(
        f"{n} trials decoded as they arrived, {n_decided} decided at a probability of {_SURE} or more,\n{n_right} of "
        f"them right; {1e3 * latency:.0f} ms from a trial's last sample to its decision."
    )
