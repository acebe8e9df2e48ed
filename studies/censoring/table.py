"""The table of the censoring study: gains of censoring on top of a candidate, and of its controls.

    python -m studies.censoring.table --results docs/results/censoring             # the stored scores
    python -m studies.censoring.table --results docs/results/censoring --docs docs # and as the documentation shows it
    python -m studies.censoring.table --results docs/results/censoring --by-weight subject-wide euclidean-wide
    python -m studies.censoring.table --results DIR                                # of run.py

A row is a base candidate on a recording. Every gain is over the same candidate with the same batches and no penalty.

* nested gain: the method, mode and penalty weight (or none) that are best for all other subjects, with a 95 % interval
  by a wild bootstrap that repeats the choice; p is corrected by Holm's method within a recording, over both groups of
  subjects. The weaker half of the subjects is that of the baseline's other seeds;
* smallest detectable: a gain that would have passed the corrected test with a probability of 80 %;
* fixed weights: of the methods and modes with the penalty weights of the default candidates, how many help and how many
  hurt after correction;
* controls: of the censored trainings with shuffled subject labels, and of those with a negative weight, which reveals
  the subject, how many help;
* leakage: what is left of the subject leakage with the fixed weights, median over methods and modes.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.search.family import find_candidates
from braindecode_censor.storage.files import write_atomically
from studies.censoring.gain import (
    choose_nested,
    correct,
    fixed_gain,
    nested_gain,
    smallest_detectable,
    weak_subjects,
)

__all__ = [
    "Gains",
    "as_markdown",
    "compare_bases",
    "fixed_gains",
    "leakage_left",
    "nested_gains",
    "read_gains",
]

_BASE = ["recording", "base"]
_ARM = ["control", "method", "mode", "weight"]
_LEAST_LEAKAGE = 0.02  # above chance, below which a fraction of it says nothing
_LEVEL = 0.05


class Gains:
    """Gains of all arms on top of one base candidate on one recording, each of shape (n_subjects, n_seeds)."""

    def __init__(self, scores):
        cells = scores.pivot_table(index=_ARM, columns=["subject", "seed"], values="score", dropna=False)
        cells = cells[cells.notna().any(axis=1)]
        shape = scores["subject"].nunique(), scores["seed"].nunique()
        self.scores = {arm: row.reshape(shape) for arm, row in zip(cells.index, cells.to_numpy())}
        plain = {mode: self.scores["batches", "none", mode, 0.0] for mode in ("marginal", "conditional")}
        self.baselines = {**plain, "complementary": plain["marginal"]}  # whose batches are the same
        self.arms = [arm for arm in self.scores if arm[0] == "censored"]
        self.groups = {"all": np.ones(shape, dtype=bool), "weak": weak_subjects(plain["conditional"])}

    def of(self, arm):
        """Return the gains of an arm."""
        return self.scores[arm] - self.baselines[arm[2]]

    def all(self):
        """Return the gains of all censored arms, (n_arms, n_subjects, n_seeds)."""
        return np.stack([self.of(arm) for arm in self.arms])


def read_gains(scores):
    """Return recording and base -> :class:`Gains`."""
    return {key: Gains(group) for key, group in scores.groupby(_BASE)}


def nested_gains(gains):
    """Return a row per base and group of subjects: the gain of the nested choice among all arms and none."""
    rows = []
    for key, base in gains.items():
        n_tests = len(base.groups) * sum(other[0] == key[0] for other in gains)
        censored = (choose_nested(base.all(), none=True)[1] >= 0).mean()
        for group, row in nested_gain(base.all(), base.groups, none=True).iterrows():
            mask, score = base.groups[group], base.baselines["conditional"]
            row = dict(zip(_BASE, key)) | {"group": group, "censored": censored} | row.to_dict()
            row["uncensored"] = np.mean(score, where=mask) if mask.any() else np.nan
            rows.append(row | {"detectable": smallest_detectable(row["error"], row["subjects"], n_tests)})
    table = pd.DataFrame(rows)
    table["p_holm"] = table.groupby("recording")["p"].transform(correct)
    return table


def fixed_gains(gains):
    """Return a row per arm that was fixed beforehand: controls, and the penalty weights of the default candidates."""
    rows = []
    for (recording, name), base in gains.items():
        for arm in base.scores:
            if (arm[0] == "censored" and not _is_default(name, arm)) or arm[1] == "none":
                continue
            values = base.of(arm)
            row = fixed_gain(values, {"all": np.isfinite(values)}).iloc[0].to_dict()
            rows.append({"recording": recording, "base": name, **dict(zip(_ARM, arm)), **row})
    table = pd.DataFrame(rows)
    table["p_holm"] = table.groupby([*_BASE, "control"])["p"].transform(correct)
    return table


def _is_default(base, arm):
    _, method, mode, weight = arm
    (candidate,), _ = find_candidates([f"{base}+{method}-{mode}"])
    return np.isclose(weight, candidate.spec["weight"])


def leakage_left(leakage):
    """Return the fraction of the subject leakage that every arm leaves, NaN where there is hardly any to begin with."""
    own = leakage[leakage["probe"] == leakage["mode"]]  # the view that the mode censors
    excess = (own["accuracy"] - own["chance"]).groupby([own[name] for name in [*_BASE, *_ARM]]).mean()
    everything = (leakage["accuracy"] - leakage["chance"]).groupby(
        [leakage[name] for name in [*_BASE, *_ARM, "probe"]]
    )
    everything, left = everything.mean(), {}
    for recording, base, *arm in excess.index:
        mode = arm[2]
        # The batches of complementary censoring are those of marginal censoring.
        batches = "conditional" if mode == "conditional" else "marginal"
        plain = everything.get((recording, base, "batches", "none", batches, 0.0, mode), np.nan)
        key = recording, base, *arm
        left[key] = excess[key] / plain if plain >= _LEAST_LEAKAGE else np.nan
    return pd.Series(left, name="left", dtype=float).rename_axis([*_BASE, *_ARM])


def compare_bases(scores, leakage):
    """Return the table: a row per base candidate and recording."""
    gains = read_gains(scores)
    nested, fixed = nested_gains(gains), fixed_gains(gains)
    fixed = fixed.merge(leakage_left(leakage).reset_index(), how="left", on=[*_BASE, *_ARM])
    rows = []
    for (recording, base), group in nested.groupby(_BASE):
        group = group.set_index("group")
        row = {"recording": recording, "base": base, "seeds": gains[recording, base].all().shape[2]}
        row |= group.loc["all"].drop(_BASE).to_dict()
        row |= {f"weak_{name}": group.loc["weak", name] for name in ("gain", "low", "high", "p_holm")}
        arms = fixed[(fixed["recording"] == recording) & (fixed["base"] == base)]
        for control, subset in arms.groupby("control"):
            is_sure = subset["p_holm"] < _LEVEL
            row |= {
                f"{control}_n": len(subset),
                f"{control}_help": int((is_sure & (subset["gain"] > 0)).sum()),
            }
            row[f"{control}_hurt"] = int((is_sure & (subset["gain"] < 0)).sum())
        row["leakage"] = arms.loc[arms["control"] == "censored", "left"].median()
        rows.append(row)
    return pd.DataFrame(rows)


def compare_weights(scores, leakage, bases):
    """Return a row per method and penalty weight: gain and subject leakage left, means over recordings and modes."""
    rows = [
        {"recording": recording, "base": base, **dict(zip(_ARM, arm)), "gain": np.nanmean(gains.of(arm))}
        for (recording, base), gains in read_gains(scores[scores["base"].isin(bases)]).items()
        for arm in gains.arms
    ]
    table = pd.DataFrame(rows).merge(leakage_left(leakage).reset_index(), how="left", on=[*_BASE, *_ARM])
    table = table.groupby(["method", "weight"])[["left", "gain"]].agg(
        {"left": "mean", "gain": ["mean", "min"]}
    )
    return table.set_axis(["leakage left", "gain", "smallest gain"], axis=1).reset_index()


def as_markdown(table):
    """Return the table in Markdown."""
    header = ["recording", "base candidate", "subjects", "seeds", "uncensored", "nested gain", "corrected p"]
    header += ["smallest detectable", "gain of the weaker half", "corrected p", "fixed weights: help, hurt"]
    header += ["shuffled labels: help", "revealing: help", "leakage left"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in table.to_dict("records"):
        count = lambda control, *names: _count(row, control, names)  # noqa: B023, E731
        cells = [row["recording"], f"`{row['base']}`", f"{row['subjects']:.0f}", f"{row['seeds']}"]
        cells += [_number(row["uncensored"]), _interval(row, ""), _number(row["p_holm"])]
        cells += [_number(row["detectable"]), _interval(row, "weak_"), _number(row["weak_p_holm"])]
        cells += [count("censored", "help", "hurt"), count("labels", "help"), count("reveal", "help")]
        has_default = not pd.isna(row.get("censored_n"))
        cells.append(
            f"{row['leakage']:.2f}" if not pd.isna(row["leakage"]) else "too little" if has_default else ""
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _count(row, control, names):
    if pd.isna(row.get(f"{control}_n")):
        return ""
    counts = ", ".join(f"{row[f'{control}_{name}']:.0f}" for name in names)
    return f"{counts} of {row[f'{control}_n']:.0f}"


def _number(value):
    return "" if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _interval(row, prefix):
    gain, low, high = (row[prefix + name] for name in ("gain", "low", "high"))
    return "" if pd.isna(gain) else f"{gain:+.3f} ({low:+.3f} to {high:+.3f})"


def main(argv=None):
    """Print the table of a study, and write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="folder with scores.csv.gz and leakage.csv.gz"
    )
    parser.add_argument("--docs", type=Path, help="folder of the documentation")
    parser.add_argument(
        "--by-weight", nargs="+", metavar="BASE", help="print gain and leakage by penalty weight only"
    )
    args = parser.parse_args(argv)
    tables = [pd.read_csv(args.results / f"{name}.csv.gz") for name in ("scores", "leakage")]
    if args.by_weight:
        print(compare_weights(*tables, args.by_weight).to_string(index=False, float_format="{:.3f}".format))
        return
    text = as_markdown(compare_bases(*tables))
    path = args.results / "censoring.md" if args.docs is None else args.docs / "results" / "censoring.md"
    write_atomically(path, text.encode())
    print(text)


if __name__ == "__main__":
    main()
