"""Draw the picture of the page on live decoding: a replay of a simulated subject, with truth, decisions, probability.

python docs/make_live.py
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import mne
import numpy as np

from braindecode_censor import AutoTransferClassifier, replay
from braindecode_censor.datasets import SimulatedSubjects

REST, SURE, SECONDS = "gesture04", 0.8, 4
COLOURS = {"gesture01": "#0072B2", "gesture02": "#D55E00", "gesture03": "#009E73", REST: "#dddddd"}


def make_replay():
    """Return the truth in seconds and the table of a subject kept out of training."""
    people = SimulatedSubjects(6, 24, kind="emg", n_classes=4, duration=SECONDS, seed=1)
    X, labels, subjects = people.arrays()
    y, sfreq = np.array(people.class_names)[labels], people.design.sfreq
    new, length = subjects == 6, int(sfreq)
    windows = np.concatenate([X[~new][:, :, k * length : (k + 1) * length] for k in range(SECONDS)])
    options = {"preparation": {"phase": "causal", "idle": REST}, "verbose": 0, "time_limit": None}
    clf = AutoTransferClassifier(candidates=["riemann"], sfreq=sfreq, **options)
    clf.fit(windows, np.tile(y[~new], SECONDS), subjects=np.tile(subjects[~new], SECONDS))
    onsets, rows = np.arange(new.sum()) * SECONDS, np.flatnonzero(y[new] != REST)
    raw = mne.io.RawArray(
        1e-6 * np.concatenate(list(X[new]), axis=1), mne.create_info(X.shape[1], sfreq, "emg")
    )
    raw.set_annotations(mne.Annotations(onsets[rows], SECONDS, y[new][rows]))
    return list(zip(onsets, y[new])), replay(clf, raw, every=0.25, sure=SURE, agree=2, pause=0.5)


def main():
    """Draw and save."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth, table = make_replay()
    print(table.summary().round(2).to_string())
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 2.8), sharex=True, layout="constrained")
    for onset, label in truth:
        top.axvspan(onset, onset + SECONDS, 0.55, 1, color=COLOURS[label], lw=0)
    for label, rows in table[table["label"].notna()].groupby("label"):
        top.scatter(rows["time"], np.zeros(len(rows)), s=22, color=COLOURS[label], label=label)
    top.set(ylim=(-0.5, 1.2), yticks=[0, 0.82], yticklabels=["decisions", "truth\n(grey: rest)"])
    probabilities = table[[f"p_{label}" for label in COLOURS]]
    bottom.plot(table["time"], probabilities.max(axis=1), color="#444444", lw=1)
    bottom.axhline(SURE, color="k", ls=":", lw=1)
    bottom.set(ylim=(0.2, 1.02), xlim=(0, truth[-1][0] + SECONDS), xlabel="seconds", ylabel="probability")
    figure.savefig(Path(__file__).parent / "_static" / "live.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
