"""A player of signals and text markers over LSL, in a process of its own: faults on request."""

import argparse
import json
import time

import numpy as np
from mne_lsl import lsl


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path", help="npz of samples (n, n_chans), sfreq, names and markers")
    parser.add_argument("--name", default="EEG")
    parser.add_argument("--unit", default="microvolts")
    parser.add_argument("--source", default="player")
    parser.add_argument(
        "--lose", type=int, nargs=2, default=(0, 0), help="first sample and number of lost ones"
    )
    parser.add_argument("--silent", type=float, nargs=2, default=(0, 0), help="sample and seconds of silence")
    parser.add_argument("--wait", type=float, default=0.3, help="seconds before the first sample")
    args = parser.parse_args()
    data = np.load(args.path)
    samples, sfreq, names = data["samples"].astype(np.float32), float(data["sfreq"]), data["names"].tolist()
    markers = json.loads(str(data["markers"]))
    info = lsl.StreamInfo(args.name, "EEG", len(names), sfreq, "float32", args.source)
    info.set_channel_names(names)
    if args.unit != "none":
        info.set_channel_units(args.unit)
    outlet = lsl.StreamOutlet(info)
    marker_outlet = None
    if markers:
        marker_outlet = lsl.StreamOutlet(
            lsl.StreamInfo("Markers", "Markers", 1, 0, "string", f"{args.source}-m")
        )
    print("open", flush=True)
    while not outlet.has_consumers:
        time.sleep(0.01)
    time.sleep(args.wait)
    start, k = lsl.local_clock() + 0.05, 0
    first, n_lost = args.lose
    at, seconds = args.silent
    while k < len(samples):
        if seconds and k >= at:
            time.sleep(seconds)
            seconds = 0
        due = min(len(samples), int((lsl.local_clock() - start) * sfreq))
        if due - k >= 8 or due == len(samples):
            kept = [i for i in range(k, due) if not first <= i < first + n_lost]
            if kept:
                outlet.push_chunk(np.ascontiguousarray(samples[kept]), start + np.array(kept) / sfreq)
            while markers and markers[0][0] < due:
                sample, value = markers.pop(0)
                marker_outlet.push_sample([value], start + (sample + 0.3) / sfreq)
            k = due
        time.sleep(0.005)
    time.sleep(1.0)


if __name__ == "__main__":
    main()
