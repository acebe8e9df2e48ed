"""A player of signals and text markers over LSL, in a process of its own: for the demonstration and for tests."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

__all__ = ["open_outlet", "start_player", "use_loopback"]

# Where loopback has no multicast, several outlets are found as known peers alone.
_SETTINGS = (
    "[ports]\nIPv6 = disable\n[multicast]\nResolveScope = machine\n[lab]\nKnownPeers = {{127.0.0.1}}\n"
)
_SETTINGS += "SessionID = {session}\n[log]\nlevel = -3\n"
_CHUNK = 8  # samples


def use_loopback(folder):
    """Keep LSL of this process and of its players to themselves; liblsl reads these settings at its first use."""
    path = Path(folder) / "lsl_api.cfg"
    path.write_text(_SETTINGS.format(session=f"loopback-{os.getpid()}"))
    os.environ["LSLAPICFG"] = str(path)


def start_player(folder, samples, markers, names, sfreq, **options):
    """Start to play samples (n, n_chans) and markers (sample, text); return the process once its streams are open."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "signals.npz"
    np.savez(path, samples=samples.astype(np.float32), sfreq=sfreq, names=names, markers=json.dumps(markers))
    command = [sys.executable, "-W", "ignore", "-m", __name__, str(path), json.dumps(options)]
    player = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    if player.stdout.readline() != "open\n":
        player.wait()
        player.stdout.close()
        raise OSError("Lab Streaming Layer cannot open a stream on this machine.")
    return player


def open_outlet(name="EEG", names=("Cz",), sfreq=128.0, unit="microvolts", source="player"):
    """Return the outlet of a stream of signals."""
    from mne_lsl import lsl

    info = lsl.StreamInfo(name, "EEG", len(names), sfreq, "float32", source)
    info.set_channel_names(list(names))
    if unit is not None:
        info.set_channel_units(unit)
    return lsl.StreamOutlet(info)


def _play(path, lose=(0, 0), silent=(0, 0), wait=0.3, source="player", **options):
    """Play in real time; `lose` is a sample and a number of samples, `silent` a sample and seconds."""
    from mne_lsl import lsl

    data = np.load(path)
    samples, sfreq, markers = data["samples"], float(data["sfreq"]), json.loads(str(data["markers"]))
    outlet = open_outlet(names=data["names"].tolist(), sfreq=sfreq, source=source, **options)
    marker_outlet = None
    if markers:
        info = lsl.StreamInfo("Markers", "Markers", 1, 0, "string", f"{source}-m")
        marker_outlet = lsl.StreamOutlet(info)
    print("open", flush=True)
    if not outlet.wait_for_consumers(60):
        return
    time.sleep(wait)
    start, k, pause = lsl.local_clock() + 0.05, 0, silent[1]
    while k < len(samples):
        if pause and k >= silent[0]:
            time.sleep(pause)
            pause = 0
        due = min(len(samples), int((lsl.local_clock() - start) * sfreq))
        if due - k >= _CHUNK or due == len(samples):
            kept = [i for i in range(k, due) if not lose[0] <= i < sum(lose)]
            if kept:
                outlet.push_chunk(np.ascontiguousarray(samples[kept]), start + np.array(kept) / sfreq)
            while markers and markers[0][0] < due:
                sample, value = markers.pop(0)
                marker_outlet.push_sample([value], start + (sample + 0.3) / sfreq)
            k = due
        time.sleep(0.005)
    time.sleep(1.0)


if __name__ == "__main__":
    _play(sys.argv[1], **json.loads(sys.argv[2]))
