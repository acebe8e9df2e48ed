r"""The decoder for the next person on real recordings: the family against the paper's protocol, tier by tier.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``. Every candidate of the family, and
censoring on top of two of its networks, is trained without every pair of people, with several seeds. All of them are
trained whatever their scores are, so that every number of the ensemble is strictly nested: for the person tested only
models are used that have not seen this person, in the choice and in the weights, too. Training does not depend on what
is known of a person later, so the tiers share models:

* ``none``: nothing is known of the person;
* ``stream``: every trial is decoded with the unlabelled trials before it;
* ``unlabeled-20p``: the first fifth of the trials is known without labels, the others are decoded;
* ``unlabeled``: all trials are known without labels;
* ``labeled-5``: the labels of the first five trials of every class are known, the others are decoded.

    python paper_figures/run_transfer.py --data DIR --out results/transfer --device cuda
    python paper_figures/run_transfer.py --data DIR --out results/transfer --recording erp_uci_smni --seeds 1 \
        --candidates person euclidean waveform riemann
    python paper_figures/plot_transfer.py --results results/transfer

Interrupt and start again at will: finished trainings are kept, and so are held-out probabilities, from which the table
is made. The last lines are the table of README.
"""

import argparse
import json
import time
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, default_paradigm
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.search.family import BASELINE, family_names, find_candidates
from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.search.pair_data import PairData
from braindecode_censor.search.pair_runner import PairRunner
from braindecode_censor.search.pair_search import PairSearch, retest
from braindecode_censor.search.pair_store import PairStore
from braindecode_censor.search.pair_trainings import adapt_to
from braindecode_censor.search.pairs import make_pairs
from braindecode_censor.storage.files import clean, locked, write_atomically

#: Recording -> options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
#: Networks that are censored, and how.
CENSORED = [f"{base}+{method}-conditional" for base in ("person", "euclidean") for method in ("mmd", "adv")]
#: Rule of combination -> its name in tables.
RULES = {"greedy": "family, averaged", "top": "best 3, averaged", "pick": "best one"}
#: What may be known of the person who is tested.
TIERS = ("none", "stream", "unlabeled-20p", "unlabeled", "labeled-5")


def decode(tier, model, X, y, n_classes):
    """Let a model decode a person whom it has not seen.

    Parameters
    ----------
    tier : str
        One of ``TIERS``.
    model : object
        Fitted, on all classes.
    X : ndarray of shape (n_trials, n_chans, n_times)
        All trials of the person, in the order in which they were recorded.
    y : ndarray of int of shape (n_trials,)
        Their classes; used in the last tier alone.
    n_classes : int
        Number of classes.

    Returns
    -------
    probabilities : ndarray of shape (n_trials, n_classes)
        NaN for trials that were given to the model before the others are decoded.
    """
    given = np.zeros(len(X), dtype=bool)
    if tier == "unlabeled-20p":
        given[: ceil(0.2 * len(X))] = True
        model = model.adapt(X[given])
    elif tier == "labeled-5":
        for k in np.unique(y):
            mine = np.flatnonzero(y == k)
            given[mine[: min(5, len(mine) - 1)]] = True
        model = adapt_to(model, X[given], y[given])
    elif tier == "unlabeled":
        model = model.adapt(X)
    elif tier == "stream":
        model = model.stream()
    probabilities = np.full((len(X), n_classes), np.nan)
    probabilities[~given] = model.predict_proba(X[~given])
    return probabilities


def read_recording(folder, options, cut):
    """Read a folder as MOABB hands it out.

    Parameters
    ----------
    folder : Path
        With one file per person.
    options, cut : dict
        Options of the dataset and of the paradigm.

    Returns
    -------
    X, y, subjects : ndarray
        Trials.
    sfreq : float
        Sampling rate.
    """
    dataset = EpochsFolder(folder, **options)
    paradigm = default_paradigm(dataset, **cut)
    X, y, metadata = paradigm.get_data(dataset)
    first = next(iter(dataset.get_data([dataset.subject_list[0]])[dataset.subject_list[0]].values()))
    sfreq = paradigm.resample or next(iter(first.values())).info["sfreq"]
    return X.astype(np.float32), y, metadata["subject"].to_numpy(), float(sfreq)


def run_seeds(data, candidates, folder, n_jobs, tiers):
    """Train everything and let it decode in every tier.

    Parameters
    ----------
    data : PairData
        Trials and pairs.
    candidates : list of str
        Names.
    folder : Path
        Where trainings are kept.
    n_jobs : int
        Trainings and tests at a time.
    tiers : list of str
        Some of ``TIERS``.

    Returns
    -------
    heldout : dict of str to HeldOut
        Tier -> what every candidate says about people it has not seen.
    kinds : dict of str to str
        Candidate -> network or classical.
    """
    found, _ = find_candidates(candidates)
    started = time.monotonic()

    def report(outcome, result):
        if sum(result.trainings.values()) % 100 == 0:
            told = f"{sum(result.trainings.values())} trainings, {time.monotonic() - started:.0f} s"
            print(f"  {told}; the last one was {outcome.candidate}: {outcome.error or 'done'}", flush=True)

    runner = PairRunner(data, PairStore(folder, data), n_jobs)
    result = PairSearch(data, found, False, Budget(), runner, report).run()
    for name, error in result.errors.items():
        print(f"  {name} failed: {error}", flush=True)
    print(f"  trained after {time.monotonic() - started:.0f} s", flush=True)
    tests = {tier: partial(decode, tier, n_classes=data.n_classes) for tier in tiers}
    heldout = retest(result, data, tests, n_jobs)
    print(f"  tested after {time.monotonic() - started:.0f} s", flush=True)
    return heldout, {name: result.candidates[name].kind for name in result.finalists}


def score_people(heldout, kinds):
    """Score candidates and combinations, person by person.

    Parameters
    ----------
    heldout : dict of str to HeldOut
        Tier -> what every candidate says.
    kinds : dict of str to str
        Candidate -> network or classical.

    Returns
    -------
    scores : DataFrame
        Columns target, person, decoder, kind and score.
    """
    rows = []
    for target, found in heldout.items():
        every = {name: (kind, found.scores(name)) for name, kind in kinds.items()}
        for rule, name in RULES.items():
            every[name] = "combination", found.nested_scores(list(kinds), rule)
        rows += [
            (target, person, name, kind, score)
            for name, (kind, scores) in every.items()
            for person, score in enumerate(scores)
        ]
    return pd.DataFrame(rows, columns=["target", "person", "decoder", "kind", "score"])


def write_heldout(path, heldout, kinds):
    """Keep held-out probabilities in a file.

    Parameters
    ----------
    path : Path
        An npz file.
    heldout : dict of str to HeldOut
        Tier -> what every candidate says.
    kinds : dict of str to str
        Candidate -> network or classical.
    """
    first = next(iter(heldout.values()))
    arrays = {"kinds": json.dumps(kinds), "pairs": np.array(first.pairs), "tiers": list(heldout)}
    arrays |= {f"y {person}": y for person, y in enumerate(first.labels)}
    for tier, found in heldout.items():
        for name in kinds:
            said = [p for pair in range(len(first.pairs)) for p in found.found[name][pair].values()]
            arrays[f"{tier} {name}"] = np.concatenate(said).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def read_heldout(path):
    """Read what :func:`write_heldout` has written.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    heldout : dict of str to HeldOut
        Tier -> what every candidate says.
    kinds : dict of str to str
        Candidate -> network or classical.
    """
    with np.load(path) as arrays:
        kinds, pairs = json.loads(str(arrays["kinds"])), [tuple(pair) for pair in arrays["pairs"].tolist()]
        labels = [arrays[f"y {person}"] for person in range(max(map(max, pairs)) + 1)]
        ends = np.cumsum([len(labels[person]) for pair in pairs for person in pair])[:-1]
        heldout = {}
        for tier in arrays["tiers"].tolist():
            heldout[tier] = HeldOut(labels, pairs)
            for name in kinds:
                said = np.split(arrays[f"{tier} {name}"], ends)
                for pair in range(len(pairs)):
                    heldout[tier].add(name, pair, *said[2 * pair : 2 * pair + 2])
    return heldout, kinds


def summarise(scores):
    """Compare the family with the paper's protocol and with the best classical decoder, tier by tier.

    Parameters
    ----------
    scores : DataFrame
        Of all recordings, tiers and seeds.

    Returns
    -------
    table : DataFrame
        One row per recording, tier and decoder: mean and lower quartile over people, averaged over seeds, and the gain
        over the paper's protocol, which knows nothing of the person in any tier, with its 95 % interval over people.
    """
    rows = []
    by_person = scores.groupby(["recording", "target", "decoder", "kind", "person"])["score"].mean()
    for (recording, target), part in by_person.groupby(level=["recording", "target"]):
        means = part.groupby(level=["decoder", "kind"]).mean()
        classical = means[means.index.get_level_values("kind") == "classical"]
        shown = {} if classical.empty else {"best classical": classical.idxmax()[0]}
        shown |= {name: name for name in RULES.values()}
        plain = _people(by_person, recording, "none", BASELINE)
        if plain is not None:
            shown = {"paper protocol": None, **shown}
        for label, decoder in shown.items():
            mine = plain if decoder is None else _people(by_person, recording, target, decoder)
            row = {"recording": recording, "target": target, "decoder": label, "people": len(mine)}
            row |= {"mean": mine.mean(), "lower_quartile": mine.quantile(0.25), "worst": mine.min()}
            if plain is not None and decoder is not None:
                gain = paired_interval(mine, plain, 0.95)
                row |= {"gain": gain["mean"], "low": gain["low"], "high": gain["high"]}
            rows.append(row)
    return pd.DataFrame(rows)


def _people(by_person, recording, target, decoder):
    try:
        return by_person.loc[recording, target, decoder].droplevel("kind").sort_index().dropna()
    except KeyError:
        return None


def as_markdown(table):
    """Return the table as Markdown.

    Parameters
    ----------
    table : DataFrame
        From :func:`summarise`.

    Returns
    -------
    text : str
        With a header.
    """
    lines = [
        "| recording | known of the person | decoder | mean | lower quartile | gain over the paper's protocol |",
        "|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        gain = getattr(row, "gain", np.nan)
        told = "" if np.isnan(gain) else f"{gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
        lines.append(
            f"| {row.recording} | {row.target} | {row.decoder} | {row.mean:.3f} | {row.lower_quartile:.3f} | {told} |"
        )
    return "\n".join(lines)


def run_recording(name, args, candidates):
    """Run all seeds of one recording, or what is left of them.

    Parameters
    ----------
    name : str
        Folder under ``--data``.
    args : argparse.Namespace
        Options of the shell.
    candidates : list of str
        Names.

    Returns
    -------
    scores : DataFrame
        As from :func:`score_people`, with recording and seed.
    """
    folder = args.out / name
    with locked(folder):
        clean(folder)
        paths = {seed: folder / f"seed_{seed}.npz" for seed in range(args.seeds)}
        missing = {seed: path for seed, path in paths.items() if not path.exists()}
        if missing:
            recording = read_recording(args.data / name, *RECORDINGS.get(name, ({}, {})))
            train_and_test(recording, missing, args, candidates)
    frames = [score_people(*read_heldout(path)).assign(seed=seed) for seed, path in paths.items()]
    return pd.concat(frames, ignore_index=True).assign(recording=name)


def train_and_test(recording, paths, args, candidates):
    """Run seeds of one recording, all of them in the same fleets, and keep what they say.

    Parameters
    ----------
    recording : tuple
        From :func:`read_recording`.
    paths : dict of int to Path
        Seed, of pairs and of trainings -> the file to write.
    args : argparse.Namespace
        Options of the shell.
    candidates : list of str
        Names.
    """
    X, y, subjects, sfreq = recording
    codes, people = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
    started, each = time.monotonic(), [make_pairs(people.max() + 1, args.partners, seed) for seed in paths]
    pairs = [pair for mine in each for pair in mine]
    data = PairData(X, codes, people, pairs, "unlabeled", sfreq, args.device, min(paths))
    folder = next(iter(paths.values())).parent
    print(f"{folder.name}: {len(data.pairs)} pairs x {len(candidates)} candidates", flush=True)
    heldout, kinds = run_seeds(data, candidates, folder, args.jobs, args.tiers)
    note = {"seconds": (time.monotonic() - started) / len(each), "trainings": len(each[0]) * len(candidates)}
    note |= {"partners": args.partners, "device": args.device, "candidates": candidates}
    first = 0
    for path, pairs in zip(paths.values(), each):
        write_heldout(path, {tier: cut(found, first, pairs) for tier, found in heldout.items()}, kinds)
        write_atomically(path.with_suffix(".json"), json.dumps(note).encode())
        first += len(pairs)


def cut(heldout, first, pairs):
    """Return the part of held-out probabilities that belongs to one seed.

    Parameters
    ----------
    heldout : HeldOut
        Of all seeds.
    first : int
        Position of the seed's first pair.
    pairs : list of (int, int)
        The seed's pairs.

    Returns
    -------
    part : HeldOut
        Of these pairs alone.
    """
    part = HeldOut(heldout.labels, pairs)
    for name, found in heldout.found.items():
        for position in range(len(pairs)):
            part.add(name, position, *found[first + position].values())
    return part


def main(argv=None):
    """Run the recordings asked for and print the table.

    Parameters
    ----------
    argv : list of str or None
        Arguments; those of the process when omitted.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder that holds the recordings' folders")
    add("--out", type=Path, default=Path("results/transfer"), help="folder for results")
    add("--recording", action="append", help="folder under --data; the three known ones if not given")
    add("--candidates", nargs="+", default=[*family_names(), *CENSORED], help="names of candidates")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--partners", type=int, default=4, help="partners of each person")
    add("--tiers", nargs="+", default=list(TIERS), choices=TIERS, help="what may be known of the person")
    add("--jobs", type=int, default=1, help="trainings and tests at a time on a CPU")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    names = args.recording or list(RECORDINGS)
    scores = pd.concat([run_recording(name, args, args.candidates) for name in names], ignore_index=True)
    write_atomically(args.out / "scores.csv", scores.to_csv(index=False).encode())
    table = as_markdown(summarise(scores))
    write_atomically(args.out / "table.md", table.encode())
    print(f"\n{table}")


if __name__ == "__main__":
    main()
