r"""The decoder for the next person on real recordings: the family against the paper's protocol, tier by tier.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``. Every candidate of the family, and
censoring on top of two of its networks, is trained without every pair of people, with several seeds. All of them are
trained whatever their scores are, so that every number of the ensemble is strictly nested: for the person tested only
models are used that have not seen this person, in the choice and in the weights, too. Training does not depend on what
is known of a person later, so the tiers (nothing, unlabelled trials, a fifth of the trials with labels) share models.

    python paper_figures/run_transfer.py --data DIR --out results/transfer --device cuda
    python paper_figures/run_transfer.py --data DIR --out results/transfer --recording erp_uci_smni --seeds 1 \
        --candidates person euclidean waveform riemann
    python paper_figures/plot_transfer.py --results results/transfer

Interrupt and start again at will: finished trainings are kept. The last lines are the table of README.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, default_paradigm
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.search.family import BASELINE, family_names, find_candidates
from braindecode_censor.search.pair_data import TARGETS, PairData
from braindecode_censor.search.pair_runner import PairRunner
from braindecode_censor.search.pair_search import PairSearch, retest
from braindecode_censor.search.pair_store import PairStore
from braindecode_censor.search.pairs import make_pairs
from braindecode_censor.storage.files import clean, locked, write_atomically

#: Recording -> options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
#: Networks that are censored, and how.
CENSORED = [
    f"{base}+{method}-{mode}"
    for base in ("person", "euclidean")
    for method in ("mmd", "adv")
    for mode in ("marginal", "conditional")
]
#: Rule of combination -> its name in tables.
RULES = {"greedy": "family, averaged", "top": "best 3, averaged", "pick": "best one"}


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


def run_seed(data, candidates, folder, n_jobs, report):
    """Train everything with one seed and score it in every tier.

    Parameters
    ----------
    data : PairData
        Trials and pairs.
    candidates : list of str
        Names.
    folder : Path
        Where trainings are kept.
    n_jobs : int
        Trainings at a time.
    report : callable
        Called after every training.

    Returns
    -------
    scores : DataFrame
        Columns target, person, decoder, kind and score.
    """
    found, _ = find_candidates(candidates)
    runner = PairRunner(data, PairStore(folder, data), n_jobs)
    result = PairSearch(data, found, False, Budget(), runner, report).run()
    rows = []
    for target in TARGETS:
        heldout = result.heldout if target == data.target else retest(result, data, target)
        every = {name: (result.candidates[name].kind, heldout.scores(name)) for name in result.finalists}
        for rule, name in RULES.items():
            every[name] = "combination", heldout.nested_scores(result.finalists, rule)
        rows += [
            (target, person, name, kind, score)
            for name, (kind, scores) in every.items()
            for person, score in enumerate(scores)
        ]
    return pd.DataFrame(rows, columns=["target", "person", "decoder", "kind", "score"])


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
        As from :func:`run_seed`, with recording and seed.
    """
    X, y, subjects, sfreq = read_recording(args.data / name, *RECORDINGS.get(name, ({}, {})))
    codes, people = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
    frames = []
    for seed in range(args.seeds):
        started, path = time.monotonic(), args.out / name / f"seed_{seed}.csv"
        pairs = make_pairs(people.max() + 1, args.partners, seed)
        data = PairData(X, codes, people, pairs, "unlabeled", sfreq, args.device, seed)
        print(f"{name}, seed {seed}: {len(pairs)} pairs x {len(candidates)} candidates", flush=True)
        scores = run_seed(data, candidates, args.out / name, args.jobs, lambda outcome, result: None)
        write_atomically(path, scores.to_csv(index=False).encode())
        note = {"seconds": time.monotonic() - started, "trainings": len(pairs) * len(candidates)}
        write_atomically(path.with_suffix(".json"), json.dumps({**note, "candidates": candidates}).encode())
        frames.append(scores.assign(recording=name, seed=seed))
    return pd.concat(frames, ignore_index=True)


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
    add("--jobs", type=int, default=1, help="trainings at a time on a CPU")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    with locked(args.out):
        clean(args.out)
        names = args.recording or list(RECORDINGS)
        scores = pd.concat([run_recording(name, args, args.candidates) for name in names], ignore_index=True)
        write_atomically(args.out / "scores.csv", scores.to_csv(index=False).encode())
        table = as_markdown(summarise(scores))
        write_atomically(args.out / "table.md", table.encode())
    print(f"\n{table}")


if __name__ == "__main__":
    main()
