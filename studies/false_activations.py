"""Asynchronous decoding of SSVEP with a class of rest: decisions and false activations, by rule and threshold.

A third of the subjects is kept apart in turn. A decoder is fitted on windows of two seconds of the others, and meets
every subject kept apart as a stream that it learns from, with a window every quarter of a second. The recording has
epochs of five seconds: those of a subject are joined in recorded order, and windows over two epochs of different
classes have no truth. Rules and thresholds share the probabilities of one pass.

`decided` is the share of windows of a stimulation, outside of pauses; `claimed` and `right` are mean probability and
accuracy of decisions; `hits` is the share of stimulations whose first decision is right.

    python -m studies.false_activations --data DIR/ssvep_exo --out probabilities.csv.gz --time 180
"""

import argparse
import copy
import warnings
from pathlib import Path

import mne
import numpy as np
import pandas as pd
import torch

from braindecode_censor import AutoTransferClassifier, replay
from braindecode_censor.datasets import default_paradigm
from braindecode_censor.decoder.taught import TaughtStream
from braindecode_censor.live.decide import Decide
from studies.recordings import open_dataset, sampling_rate

_IDLE, _SECONDS, _EVERY, _N_GROUPS = "rest", 2.0, 0.25, 3
_RULES = {
    "single window": {},
    "mean of 1 s": {"smooth": 1.0},
    "mean of 2 s": {"smooth": 2.0},
    "3 agree": {"agree": 3},
}
_THRESHOLDS = (0.6, 0.8, 0.9, 0.95)
_PAUSE = 1.0  # seconds, as by default


def cut(X, y, subjects, sfreq):
    """Return windows of two seconds at the beginning, the middle and the end of every epoch."""
    length = round(_SECONDS * sfreq)
    starts = np.linspace(0, X.shape[2] - length, 3).astype(int)
    return np.concatenate([X[:, :, k : k + length] for k in starts]), np.tile(y, 3), np.tile(subjects, 3)


def join(X, y, sfreq):
    """Return the epochs of a subject as one recording, annotated where there is a stimulation."""
    seconds = X.shape[2] / sfreq
    raw = mne.io.RawArray(
        1e-6 * np.concatenate(list(X), axis=1), mne.create_info(X.shape[1], sfreq, "eeg"), verbose="error"
    )
    rows = np.flatnonzero(y != _IDLE)
    return raw.set_annotations(mne.Annotations(rows * seconds, seconds, y[rows]))


def teach(table, clf, raw):
    """Return the table with the probabilities of a stream that is taught, which needs no second pass of the models."""
    columns = [name for name in table if name.startswith("p_")]
    taught, rows, step = (
        TaughtStream(clf.teacher_, "unknown", clf.stream_prior_),
        [],
        round(_EVERY * raw.info["sfreq"]),
    )
    length, samples = round(_SECONDS * raw.info["sfreq"]), 1e6 * raw.get_data()
    for k, p in enumerate(table[columns].to_numpy()):
        window = samples[None, :, k * step : k * step + length].astype(np.float32)
        rows.append(taught.predict_proba(window, p[None], k * step % length == 0)[0])
    return table.assign(**dict(zip(columns, np.transpose(rows))))


def decode(X, y, subjects, sfreq, time_limit, candidates):
    """Return the probabilities of all windows of all subjects, each kept apart once, taught and untaught."""
    tables, order = [], np.random.default_rng(0).permutation(np.unique(subjects))
    for group in range(_N_GROUPS):
        train = ~np.isin(subjects, order[group::_N_GROUPS])
        clf = AutoTransferClassifier(
            "unlabeled", time_limit=time_limit, candidates=candidates, sfreq=sfreq, device="cpu", verbose=0,
            preparation={"phase": "causal", "idle": _IDLE},
        )  # fmt: skip
        trials, labels, owners = cut(X[train], y[train], subjects[train], sfreq)
        clf.fit(trials, labels, subjects=owners)
        untaught = copy.copy(clf)
        untaught.teacher_ = None
        for subject in order[group::_N_GROUPS]:
            raw = join(X[subjects == subject], y[subjects == subject], sfreq)
            table = replay(untaught, raw, every=_EVERY, sure=0, pause=0)
            table = pd.DataFrame(table).assign(subject=subject, minutes=table.seconds_of_rest / 60)
            tables += [
                table.assign(decoder="untaught"),
                teach(table, clf, raw).assign(decoder="taught"),
            ]
            print(f"subject {subject}: {len(table)} windows, {len(clf.ensemble_.models)} models", flush=True)
    return pd.concat(tables, ignore_index=True)


def decide(table, rule, sure):
    """Return a table of one pass with the decisions of a rule."""
    columns = [name for name in table if name.startswith("p_")]
    rule = Decide(np.array([name[2:] for name in columns]), sure, pause=_PAUSE, idle=_IDLE, **rule)
    rows = [rule(time, p) for time, p in zip(table["time"], table[columns].to_numpy())]
    claimed = [p.max() for _, p, _ in rows]
    return table.assign(label=[row[0] for row in rows], claimed=claimed, why=[row[2] for row in rows])


def summarise(tables):
    """Print a row per decoder, rule and threshold."""
    print(
        "| decoder | rule | threshold | decided | claimed | right | hits | false activations a minute of rest |"
    )
    print("|" + "---|" * 8)
    for decoder, passes in tables.groupby("decoder"):
        for name, rule in _RULES.items():
            for sure in _THRESHOLDS:
                rows = pd.concat(decide(one, rule, sure) for _, one in passes.groupby("subject"))
                active = rows[rows["episode"].notna() & (rows["why"] != "pause")]
                decided = active[active["label"].notna()]
                first = decided.groupby(["subject", "episode"]).first()
                n_episodes = len(rows.dropna(subset="episode").groupby(["subject", "episode"]))
                false = rows[(rows["truth"] == _IDLE) & rows["label"].notna()]
                cells = [len(decided) / len(active), decided["claimed"].mean()]
                cells += [(decided["label"] == decided["truth"]).mean()]
                cells += [(first["label"] == first["truth"]).sum() / n_episodes]
                rate = len(false) / passes.groupby("subject")["minutes"].first().sum()
                numbers = " | ".join(f"{cell:.2f}" for cell in cells).replace("nan", "–")
                print(f"| {decoder} | {name} | {sure} | {numbers} | {rate:.1f} |")


def main(argv=None):
    """Decode all subjects, unless that has been done, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the recording")
    parser.add_argument(
        "--out", type=Path, required=True, help="CSV file of probabilities; read if it is there"
    )
    parser.add_argument("--time", type=float, default=180, help="time_limit of each of three fits in seconds")
    parser.add_argument(
        "--candidates", nargs="+", help="names of candidates; all default candidates if not given"
    )
    args = parser.parse_args(argv)
    if not args.out.exists():
        dataset = open_dataset(args.data)
        paradigm = default_paradigm(dataset)
        X, y, metadata = paradigm.get_data(dataset)
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = sampling_rate(dataset, paradigm), args.time, args.candidates
            decode(X, y, metadata["subject"].to_numpy(), *options).to_csv(args.out, index=False)
    summarise(pd.read_csv(args.out))


if __name__ == "__main__":
    main()
