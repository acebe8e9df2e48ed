"""What teaching gains: one ``fit`` per third of the subjects kept apart, which are then decoded with all target data.

Subjects kept apart are decoded twice by the same models, untaught and taught. Their scores are strictly nested: weights
come from everybody else. The rows "by partners" are ``heldout_`` of the same fits, whose weights come from the partners
of a subject alone. Every fit runs in a process of its own, keeps its decoder in OUT, by which it is not repeated, and
writes its rows to ``OUT/*.csv``; tables are printed from all rows in OUT, also of earlier runs.

    python -m studies.person --data DIR --out OUT --time 120 --jobs 9
    python -m studies.person --data DIR/erp_uci_smni --out OTHER --time 600 --device cpu --groups 0
    python -m studies.person --out docs/results/person --figure docs/_static/person.png
"""

import argparse
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
import torch
from scipy.stats import spearmanr

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.decoder.report import calibration_table
from braindecode_censor.decoder.teaching import log_probabilities
from braindecode_censor.search.heldout import balanced_accuracy
from studies.recordings import find_recordings, read_recording

_N_GROUPS = 3


def first(y, n_labels):
    """Return the positions of the first trials of every class."""
    return np.sort(np.concatenate([np.flatnonzero(y == k)[:n_labels] for k in np.unique(y)]))


def loss(probabilities, y):
    """Return minus the mean log-probability of the labels."""
    return -log_probabilities(probabilities)[np.arange(len(y)), y].mean()


def decode(clf, X, y, block, tested, labels=None, **options):
    """Return untaught and taught probabilities of some trials after adaptation to a block, and the adapted decoder."""
    adapted = clf.adapt(X[block], labels, **options)
    untaught = adapted.ensemble_.predict_proba(X[tested])
    return untaught, adapted.subject_.predict_proba(X[tested], untaught), adapted


def tiers(clf, X, y):
    """Yield target data, the positions of the tested trials, and their untaught and taught probabilities."""
    rows = np.arange(len(y))
    none = clf.general_.predict_proba(X)
    yield "none", rows, none, none
    for name, order in (("stream", rows), ("stream, sorted by class", np.argsort(y, kind="stable"))):
        stream = clf.stream()
        untaught = stream.ensemble.predict_proba(X[order])
        yield name, order, untaught, stream.taught_.predict_proba(X[order], untaught)
    for percent in (20, 50):
        n = int(np.ceil(percent / 100 * len(y)))
        yield f"unlabelled {percent} %", rows[n:], *decode(clf, X, y, rows[:n], rows[n:])[:2]
    yield "unlabelled", rows, *decode(clf, X, y, rows, rows)[:2]
    few = first(y, 5)
    others = np.setdiff1d(rows, few)
    if len(others):
        yield "5 labels per class alone", others, *decode(clf, X, y, few, others, y[few])[:2]
        partly = np.where(np.isin(rows, few), y, -1)
        yield "5 labels per class and the rest", others, *decode(clf, X, y, rows, others, partly)[:2]
        yield "unlabelled, the same trials", others, *decode(clf, X, y, rows, others)[:2]


def blocks(clf, X, y, rng):
    """Yield blocks that are not like training, decoded with unknown proportions and with the check."""
    classes = rng.permutation(np.unique(y))
    one, others = np.flatnonzero(y == classes[0]), rng.permutation(np.flatnonzero(y != classes[0]))
    made = {
        "one class": one,
        "85 % of one class": np.r_[one, others[: max(1, round(len(one) * 0.15 / 0.85))]],
        "three classes": np.flatnonzero(np.isin(y, classes[:3])),
        "10 trials": rng.permutation(len(y))[:10],
        "5 trials": rng.permutation(len(y))[:5],
    }
    for name, rows in made.items():
        for proportions in ("unknown", "as-trained"):
            found = decode(clf, X, y, rows, rows, proportions=proportions)[:2]
            yield f"{name}, {proportions}", rows, *found


def run(folder, seed, group, args):
    """Write the rows of one fit."""
    data, sfreq = read_recording(folder)
    apart = np.random.default_rng(seed).permutation(np.unique(data.subjects))[group::_N_GROUPS]
    train = ~np.isin(data.subjects, apart)
    kept = args.out / f"{folder.name}_{seed}_{group}"
    if not kept.exists():
        options = {
            "time_limit": args.time,
            "candidates": args.candidates,
            "device": args.device,
            "sfreq": sfreq,
        }
        clf = AutoTransferClassifier("unlabeled", random_state=seed, verbose=0, **options)
        clf.fit(data.X[train], data.y[train], subjects=data.subjects[train]).save(kept)
    clf = AutoTransferClassifier.load(kept, device=args.device)
    if (clf.time_limit, clf.candidates) != (args.time, args.candidates):
        raise SystemExit(f"{kept} is of other options: choose another --out.")
    key, rows = {"recording": folder.name, "seed": seed, "group": group}, []
    board = clf.leaderboard_.set_index("candidate")
    forecaster = clf.teacher_.forecaster
    errors = [forecaster.interval(p, k) for k, p in enumerate(forecaster.left_out)]
    covered = np.mean([low <= s <= high for (low, high), s in zip(errors, forecaster.scores)])
    answers = clf.answers_.values()
    rows.append({**key, "tier": "by partners", "untaught": board.loc["greedy ensemble", "mean"]})
    rows[0] |= {"taught": board.loc["taught", "mean"], "subject": -1, "coverage": covered}
    rows[0] |= {"rank": forecaster.rank_correlation.statistic, "predicts": forecaster.predicts}
    rows[0] |= {"ece": calibration_table(*map(np.concatenate, zip(*answers)))[1]}
    path, rng = args.out / f"{folder.name} {seed} {group}.csv", np.random.default_rng(seed)
    pd.DataFrame(rows).to_csv(path, index=False)
    for subject in apart:
        X, y = (values[data.subjects == subject] for values in (data.X, data.y))
        forecast = clf.adapt(X).forecast_
        for tier, tested, untaught, taught in [*tiers(clf, X, y), *blocks(clf, X, y, rng)]:
            row = {**key, "subject": subject, "tier": tier}
            row |= {"untaught": balanced_accuracy(untaught, y[tested])}
            row |= {"taught": balanced_accuracy(taught, y[tested]), "confidence": taught.max(axis=1).mean()}
            row |= {"loss untaught": loss(untaught, y[tested]), "loss taught": loss(taught, y[tested])}
            if forecast != "unknown":
                row |= {"forecast": forecast.score, "low": forecast.low, "high": forecast.high}
            rows.append(row)
        pd.DataFrame(rows).to_csv(path, index=False)


def summarise(out):
    """Print one table of tiers and one of forecasts."""
    frame = pd.concat(map(pd.read_csv, sorted(out.glob("*.csv"))), ignore_index=True)
    measured = ["untaught", "taught", "loss untaught", "loss taught"]
    by_subject = frame.groupby(["recording", "tier", "subject"], sort=False)[measured].mean()
    by_subject = by_subject.assign(gain=by_subject["taught"] - by_subject["untaught"])
    print(
        "| recording | tier | untaught | taught | lower quartile | gain | s.e. | up | down | log loss | taught |\n|"
        + "---|" * 11
    )
    for (recording, tier), part in by_subject.groupby(level=[0, 1], sort=False):
        gain = part["gain"]
        cells = [recording, tier, f"{part['untaught'].mean():.3f}", f"{part['taught'].mean():.3f}"]
        cells += [f"{part['taught'].quantile(0.25):.3f}", f"{gain.mean():+.3f}", f"{gain.sem():.3f}"]
        cells += [str((gain > 1e-9).sum()), str((gain < -1e-9).sum())]
        cells += [f"{part[name].mean():.3f}" for name in measured[2:]]
        print(f"| {' | '.join(cells)} |")
    print(
        "\n| recording | rank correlation, nested | coverage of 80 % | calibration error | rank, kept apart |"
    )
    print("|---|---|---|---|---|")
    for recording, part in frame.groupby("recording", sort=False):
        nested, apart = part.query("tier == 'by partners'"), part.query("tier == 'unlabelled'")
        rank = spearmanr(apart["confidence"], apart["taught"]).statistic if len(apart) > 2 else np.nan
        cells = [f"{nested[name].mean():.2f}" for name in ("rank", "coverage", "ece")]
        print(f"| {' | '.join([recording, *cells, f'{rank:.2f}'])} |")


def draw(out, path):
    """Draw every subject kept apart, untaught against taught, with all its trials unlabelled."""
    frame = pd.concat(map(pd.read_csv, sorted(out.glob("*.csv")))).query("tier == 'unlabelled'")
    frame = frame.groupby(["recording", "subject"], as_index=False)[["untaught", "taught"]].mean()
    sns.set_theme("paper", "ticks", "colorblind")
    grid = sns.relplot(frame, x="untaught", y="taught", hue="recording", style="recording", s=40, height=3.2)
    low = frame[["untaught", "taught"]].min().min() - 0.03
    grid.ax.plot([low, 1], [low, 1], ":", color="0.5")
    grid.set(xlim=(low, 1.02), ylim=(low, 1.02), aspect="equal")
    grid.set_axis_labels("balanced accuracy, untaught", "taught")
    grid.savefig(path, dpi=150)


def main(argv=None):
    """Run the fits side by side, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", help="folders of recordings, or folders that hold them")
    add("--out", type=Path, required=True, help="folder for rows")
    add("--time", type=float, default=600, help="time_limit in seconds")
    add("--candidates", nargs="+", help="names of candidates; all default candidates if not given")
    add("--seeds", type=int, nargs="+", default=[0])
    add(
        "--groups",
        type=int,
        nargs="+",
        default=list(range(_N_GROUPS)),
        help="thirds of the subjects kept apart",
    )
    add("--figure", type=Path, help="file of a picture of all subjects")
    add("--jobs", type=int, default=1, help="fits at a time")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add(
        "--one",
        nargs=2,
        type=int,
        metavar=("SEED", "GROUP"),
        help="one fit of one recording, in this process",
    )
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.one:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        run(args.data[0], *args.one, args)
        return
    options = ["--out", args.out, "--time", args.time, "--device", args.device]
    options += ["--candidates", *args.candidates] if args.candidates else []
    waiting = [
        [sys.executable, "-m", "studies.person", "--data", folder, *options, "--one", seed, group]
        for seed in args.seeds
        for folder in (find_recordings(args.data) if args.data else [])
        for group in args.groups
    ]
    running = []
    while waiting or running:
        while waiting and len(running) < args.jobs:
            running.append(subprocess.Popen(list(map(str, waiting.pop(0)))))
        running[0].wait()
        running = [process for process in running if process.poll() is None]
    summarise(args.out)
    if args.figure:
        draw(args.out, args.figure)


if __name__ == "__main__":
    main()
