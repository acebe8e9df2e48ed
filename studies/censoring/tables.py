"""Tables of the censoring study: whether it helps on top, what could have been found, and what it costs."""

import numpy as np
import pandas as pd

from braindecode_censor.search.family import find_candidates
from studies.censoring.gain import (
    choose_nested,
    correct,
    describe,
    nested_gain,
    smallest_detectable,
    unchosen_gain,
    weak_people,
)

__all__ = [
    "GROUPS",
    "answers",
    "compare",
    "controls",
    "costs_of_half",
    "count_sure",
    "gains_by_setting",
    "gains_by_weight",
    "read_gains",
    "seed_sets",
]

_WHERE = ["recording", "base"]
_COUNTS = ["settings", "helps", "hurts"]
_HALF = 0.5
#: A probe that is better than chance by less than this says nothing about what is left.
_LEAST_LEAKAGE = 0.02
#: Who is asked about -> how they are called in tables.
GROUPS = {"all": "everybody", "weak": "weaker half"}


class Gains:
    """Gains of one recipe on one recording."""

    def __init__(self, scores):
        cells = scores.pivot_table(
            index=["control", "method", "mode", "weight"],
            columns=["subject", "seed"],
            values="score",
            dropna=False,
        )
        cells = cells[cells.notna().any(axis=1)]
        n_people, n_seeds = scores["subject"].nunique(), scores["seed"].nunique()
        self._cells = {key: row.reshape(n_people, n_seeds) for key, row in zip(cells.index, cells.to_numpy())}
        plain = {mode: self._cells["batches", "none", mode, 0.0] for mode in ("marginal", "conditional")}
        self.baselines = {**plain, "complementary": plain["marginal"]}  # whose batches are the same
        self.weights, self.gains = {}, {}
        for method, mode in dict.fromkeys(key[1:3] for key in self._cells if key[0] == "censored"):
            weights = sorted(key[3] for key in self._cells if key[:3] == ("censored", method, mode))
            found = [self._cells["censored", method, mode, weight] for weight in weights]
            self.weights[method, mode] = np.array(weights)
            self.gains[method, mode] = np.stack(found) - self.baselines[mode]
        self.weak = weak_people(plain["conditional"])

    @property
    def groups(self):
        """Whom to ask about."""
        return {"all": np.ones_like(self.weak), "weak": self.weak}

    def controls(self):
        """Return the gains of what should not gain."""
        found = {}
        for setting, scores in self._cells.items():
            if setting[0] in ("reveal", "labels"):
                found[setting] = scores - self.baselines[setting[2]]
            elif setting[0] == "batches":
                found[setting] = scores - self._cells["shuffle", "none", "marginal", 0.0]
        return found


class Leakage:
    """What probes still read of the person, mean over seeds."""

    def __init__(self, leakage):
        by = [*_WHERE, "control", "method", "mode", "weight", "probe"]
        self._excess = (
            leakage.assign(excess=leakage["accuracy"] - leakage["chance"]).groupby(by)["excess"].mean()
        )

    def of(self, key, setting):
        """Return what is left with a setting."""
        control, _, mode, _ = setting
        # complementary censoring has the batches of the marginal one
        plain = ("batches", "none", "conditional" if mode == "conditional" else "marginal")
        plain = ("shuffle", "none", "marginal") if control == "batches" else plain
        excess, plain = self._excess[(*key, *setting, mode)], self._excess[(*key, *plain, 0.0, mode)]
        return {"excess": excess, "share": excess / plain if plain >= _LEAST_LEAKAGE else np.nan}


def read_gains(scores):
    """Sort the scores of a study by recording and recipe."""
    return {key: Gains(part) for key, part in scores.groupby(_WHERE)}


def answers(gains):
    """Answer whether censoring helps, were it chosen on other people among all methods, modes, weights and none."""
    rows = []
    for (recording, base), found in gains.items():
        every, groups = np.concatenate(list(found.gains.values())), found.groups
        nested, chosen = choose_nested(every, none=True)
        censored, complete = (chosen >= 0).mean(), np.isfinite(nested).all(axis=0)
        n_tests = len(groups) * sum(key[0] == recording for key in gains)
        for group, row in _detectable(nested_gain(every, groups, none=True), n_tests).iterrows():
            score = (
                np.mean(found.baselines["conditional"], where=groups[group])
                if groups[group].any()
                else np.nan
            )
            where = {"recording": recording, "base": base, "group": group, "seeds": every.shape[2]}
            by_seed = pd.DataFrame(np.where(groups[group] & complete, nested, np.nan)).mean()
            spread = {"lowest": by_seed.min(), "highest": by_seed.max()}
            rows.append({**where, "score": score, "censored": censored, **spread, **row})
    return _corrected(pd.DataFrame(rows), ["recording"])


def seed_sets(scores):
    """Ask the same of either half of the seeds, as if each half were the whole study."""
    rows = []
    for _, recording in scores.groupby("recording"):
        halves = {}
        for key, part in recording.groupby(_WHERE):
            seeds = sorted(part["seed"].unique())
            if len(seeds) >= 4:
                halves[key] = [part[part["seed"].isin(half)] for half in np.array_split(seeds, 2)]
        for parts in zip(*halves.values()):
            gains = {key: Gains(part) for key, part in zip(halves, parts)}
            found = answers(gains)
            found = found[found["group"] == "all"].set_index(_WHERE)
            for key, part in zip(halves, parts):
                told = found.loc[key, ["gain", "low", "high", "p_holm"]].to_dict()
                first, last = part["seed"].min(), part["seed"].max()
                sure = count_sure(gains_by_setting({key: gains[key]}))
                rows.append({**dict(zip(_WHERE, key)), "seeds": f"{first} to {last}", **told, **sure})
    columns = [*_WHERE, "seeds", "gain", "low", "high", "p_holm", *_COUNTS]
    return pd.DataFrame(rows, columns=columns).sort_values([*_WHERE, "seeds"], ignore_index=True)


def compare(scores, again):
    """Hold a study against a second run of a part of it."""
    keys = [*_WHERE, "seed", "control", "method", "mode", "weight", "subject"]
    both = scores.merge(again, on=keys, suffixes=("", "_again")).dropna(subset=["score", "score_again"])
    both["difference"] = both["score_again"] - both["score"]
    both["equal"] = both["difference"].abs() < 1e-6
    cells = both.groupby([*_WHERE, "control", "method", "mode", "weight"], as_index=False)
    return cells.agg(people=("subject", "size"), equal=("equal", "sum"), difference=("difference", "mean"))


def count_sure(settings):
    """Count the weights that nobody chose and that help or hurt."""
    known = settings[(settings["group"] == "all") & settings["usual_p_holm"].notna()]
    sure = known["usual_p_holm"] < 0.05
    helps, hurts = (int((sure & (sign * known["usual_gain"] > 0)).sum()) for sign in (1, -1))
    return dict(zip(_COUNTS, (len(known), helps, hurts)))


def _detectable(table, n_tests):
    found = [smallest_detectable(row.error, row.people, n_tests) for row in table.itertuples()]
    return table.assign(detectable=found)


def gains_by_setting(gains):
    """Test all methods and modes, each with the weight that other people like best."""
    rows = []
    for (recording, base), found in gains.items():
        for (method, mode), every in found.gains.items():
            weights, groups = found.weights[method, mode], found.groups
            _, chosen = choose_nested(every)
            usual = np.isclose(weights, find_candidates([f"{base}+{method}-{mode}"])[0][0].spec["weight"])
            fixed = every[usual][0] if usual.any() else np.full_like(every[0], np.nan)
            fixed = _detectable(unchosen_gain(fixed, groups), len(found.gains)).add_prefix("usual_")
            for group, row in _detectable(nested_gain(every, groups), len(found.gains)).iterrows():
                where = {"recording": recording, "base": base, "group": group, "method": method, "mode": mode}
                where["weight"] = weights[np.bincount(chosen).argmax()]
                rows.append(
                    {**where, **row, **fixed.drop(columns=["usual_people", "usual_error"]).loc[group]}
                )
    table = _corrected(pd.DataFrame(rows), [*_WHERE, "group"])
    return _corrected(table, [*_WHERE, "group"], "usual_p")


def controls(gains, leakage):
    """Test what should not gain."""
    rows, left = [], Leakage(leakage)
    for key, found in gains.items():
        for setting, every in found.controls().items():
            row = dict(zip([*_WHERE, "control", "method", "mode"], key + setting))
            rows.append({**row, **describe(every), **left.of(key, setting)})
    return _corrected(pd.DataFrame(rows), [*_WHERE, "control"])


def _corrected(table, question, name="p"):
    table[f"{name}_holm"] = table.groupby(question)[name].transform(correct)
    return table


def gains_by_weight(gains, leakage):
    """List gain and leakage at every weight."""
    rows, left = [], Leakage(leakage)
    for key, found in gains.items():
        for (method, mode), every in found.gains.items():
            for weight, one in zip(found.weights[method, mode], every):
                row = dict(zip(_WHERE, key)) | {"method": method, "mode": mode, "weight": weight}
                rows.append({**row, **describe(one), **left.of(key, ("censored", method, mode, weight))})
    return pd.DataFrame(rows)


def costs_of_half(table):
    """Tell what censoring costs at the smallest weight that halves leakage."""
    rows = []
    for key, part in table.groupby([*_WHERE, "method", "mode"], sort=False):
        part = part.sort_values("weight")
        row = dict(zip([*_WHERE, "method", "mode"], key))
        *smaller, last = part["share"]
        row |= {"falls": last < min([1, *smaller[:1]]), "least": part["share"].min()}
        enough = part[part["share"] <= _HALF]
        names = ["weight", "gain", "low", "high"]
        row |= dict.fromkeys(names, np.nan) if enough.empty else enough.iloc[0][names].to_dict()
        rows.append(row)
    return pd.DataFrame(rows)
