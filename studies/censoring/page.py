"""The censoring study in words and Markdown tables."""

import pandas as pd

from studies.censoring.tables import GROUPS, count_sure

__all__ = ["as_details", "as_markdown", "as_page"]


_INTRO = """# Does censoring help on top?

The paper measures its gains against a network trained by its own protocol. Here every way of censoring is put on
top of decoders that are trained well without it, and on top of the paper's protocol, and compared with the same
training without the penalty: the same seeds, the same folds of people, the same kind of batches.

```
RUN="python paper_figures/run_censoring.py --data DIR --device cuda --out results/censoring"
RUN="$RUN --levels 0.3 1 3 10 --seeds 8 --at-once 4 --group-size 2048 --compile"
ALL="--recording erp_uci_smni --recording ssvep_exo --recording emg_myo"
# Two recipes on the recordings. Then, in the same folder and shorter, the paper's protocol and simulated people.
$RUN --max-steps 1000 --base person --base euclidean $ALL --jobs 4
$RUN --max-steps 300 --folds 3 --base paper $ALL --jobs 2
$RUN --max-steps 300 --folds 3 --recording simulated --jobs 2
# The best network of EMG and SSVEP and the second best of ERP, to its end. Other weights cost more, controls as well.
wide() { LONG="$RUN --max-steps 4000 --jobs 4 $*"; $LONG --recording erp_uci_smni --base person-wide
    $LONG --recording emg_myo --recording ssvep_exo --base euclidean-wide; }
wide --control-modes --levels 1
wide --control-modes --levels 0.1 0.3 3
wide --control-modes conditional --levels  # no weights: controls alone
wide --control-modes marginal --levels --methods mige
python paper_figures/plot_censoring.py --results results/censoring --docs docs
```

The scores of this page are kept: `plot_censoring.py --results docs/results/censoring --docs docs` writes it without any
training.

An interrupted run goes on where it was, and trains what is missing when weights or seeds are added. Of trainings of two
lengths the longer count. **How it was measured.** Five methods in three modes, each with several
weights, on top of each recipe of the table. People are shared out to a few folds, anew with every seed, and everybody
is decoded by networks that have not seen them: with the person's own unlabelled trials, by the paper's protocol with
nothing but the trial. Scores are balanced accuracies. *Leakage* is how often a fresh linear probe, cross-validated over
the trials of the training people, names the person from the code, less chance: from the whole code, class by class for
conditional censoring, from the first half for complementary censoring.

**How it is judged.** A weight, or a method, is chosen for every person by all *other* people, so the gain is what a
user would have got; its interval and its p come from a studentised wild bootstrap over people and seeds in which the
choice is repeated. p is corrected by Holm's method within a question: all rows of a recording for the first table, the
fifteen methods and modes for the next. *Weaker half*: by the baseline's *other* seeds, because people who are weak
by the very scores they are compared with gain by luck. *Smallest detectable*: a gain of this size would have passed
the corrected test with a probability of 80 %. It is mostly larger where a choice is tested, because among many settings
one can look good by luck. The usual weight of a method and mode, which nobody chose, is tested beside it.
"""
_FIGURES = {
    "trade": "Gain against what is left of the leakage; every point is a method, a mode and a weight. Points to the "
    "left of the line at one leak less than the uncensored network; points above zero decode new people better. Where "
    "the uncensored network hardly leaks there are no points, and those beyond 2 are drawn at 2. Gains "
    "below -0.1 are cut off.",
    "people": "Every person's gain with the setting that all others like best, against the score without censoring; "
    "bars are standard errors over seeds. If censoring helped the weak most, points would rise to the left.",
    "gain": "Gain against weight, with 95 % intervals over people and seeds, one weight at a time and not corrected. "
    "Curves that leave a panel lose more than 0.1.",
    "leakage": "What is left of the leakage against the weight: 1 is the uncensored network, 0 is chance.",
}


def as_page(tables):
    """Write the page of the documentation around the tables."""
    parts = [
        _INTRO,
        "```{include} results/censoring.md\n```",
        _figure("trade"),
        _figure("people"),
        "[Every method, mode and control](evidence_tables.md)",
        "```{toctree}\n:hidden:\n\nevidence_tables\n```",
        "## Weights",
    ]
    for recording in dict.fromkeys(tables["answers"]["recording"]):
        parts += [f"### {recording}", _figure("gain", recording), _figure("leakage", recording)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _figure(name, recording=None):
    file = "_".join(["censoring", name, *([recording] if recording else [])])
    return f"```{{figure}} _static/{file}.png\n:width: 100%\n\n{_FIGURES[name]}\n```"


def as_markdown(tables):
    """Write the answers of a study in words and a Markdown table."""
    parts = []
    for recording, found in tables["answers"].groupby("recording", sort=False):
        cost = tables["cost"][tables["cost"]["recording"] == recording]
        told = (
            f"{cost['trainings'].sum():.0f} trainings, {cost['seconds'].sum() / 60:.1f} minutes of a process"
        )
        parts.append(f"**{recording}** ({told}).")
        lines = [_sentence(row, cost) for row in found.itertuples() if row.group == "all"]
        parts.append("\n".join(f"* {line}" for line in lines))
    parts += _lacking(tables["settings"])
    parts += [_usual(tables["settings"]), _leakage(tables["half"])]
    wide = tables["weights"][tables["weights"]["base"].str.endswith("-wide")]
    if len(wide):
        parts += ["What is left of it on top of the wide networks, weight by weight:", _by_weight(wide)]
    parts += ["Gains where other people choose method, mode and weight:", _answers(tables["answers"])]
    if len(tables["sets"]):
        parts += [
            "The same by two halves of the seeds, each as if it were the whole study:",
            _sets(tables["sets"]),
        ]
    if len(tables["again"]):
        parts.append(_again(tables["again"]))
    return "\n\n".join(parts) + "\n"


def _lacking(settings):
    """Say which methods were trained elsewhere, but not on top of a recipe."""
    every, found = set(settings["method"]), []
    for (recording, base), part in settings.groupby(["recording", "base"], sort=False):
        lacking = sorted(every - set(part["method"]))
        found += [f"{', '.join(lacking)} on `{base}` ({recording})"] if lacking else []
    told = f"Not in these numbers, because there are no such trainings: {'; '.join(found)}."
    return [told] if found else []


def _again(table):
    """Whether numbers repeat."""
    equal, people = table["equal"].sum(), table["people"].sum()
    where = ", ".join(f"{a} on `{b}`" for a, b in dict.fromkeys(zip(table["recording"], table["base"])))
    return (
        f"{len(table)} settings were trained once more, with the same seeds on a device of the same kind ({where}): "
        f"{equal:.0f} of {people:.0f} scores of a person are the same, and the mean over people differs by "
        f"{table['difference'].abs().max():.4f} at most."
    )


def _steps(cost):
    steps = sorted(set(cost["max_steps"].dropna().astype(int)))
    return f"{' or '.join(map(str, steps))} steps" if steps else "the recipe's own length"


def _usual(settings):
    """How many of the weights that nobody chose help or hurt, on top of each recipe."""
    found = []
    for (recording, base), part in settings.groupby(["recording", "base"], sort=False):
        count = count_sure(part)
        if count["helps"] or count["hurts"]:
            found.append(f"{recording} on `{base}` {count['helps']} and {count['hurts']}")
    count = count_sure(settings)
    known = settings.loc[settings["group"] == "all", "usual_detectable"]
    text = f"{count['helps']} of {count['settings']} settings help and {count['hurts']} hurt after correction"
    where = f" ({', '.join(found)})" if found else ""
    detectable = f"median of the smallest detectable gain {known.median():.3f}"
    return f"With usual weights, chosen by nobody, {text}{where}; {detectable}."


def _leakage(half):
    leaking = half[half["least"].notna()]
    if leaking.empty:
        return "Without censoring the networks hardly leak."
    halved = leaking[leaking["weight"].notna()]
    cost = f", where the median gain is {halved['gain'].median():+.3f}" if len(halved) else ""
    return (
        f"Some weight lowers leakage in {(leaking['least'] < 1).sum()} of {len(leaking)} settings whose uncensored "
        f"network leaks, in {leaking['falls'].sum():.0f} of them the largest weight more than the smallest; and by "
        f"half in {len(halved)}{cost}."
    )


def _by_weight(weights):
    """Leakage that is left and gain at each weight, mean over recordings."""
    rows = []
    for key, part in weights.groupby(["method", "mode"], sort=False):
        part = part.assign(share=part["share"].clip(lower=0))  # a probe below chance has read nothing
        mean = part.groupby("weight")[["share", "gain"]].mean()
        cells = {"share": "{:.2f}", "gain": "{:+.3f}"}
        numbers = (", ".join(map(cell.format, mean[name])) for name, cell in cells.items())
        rows.append((*key, ", ".join(f"{weight:g}" for weight in mean.index), *numbers))
    header = ("method", "mode", "weights", "leakage left, mean over recordings", "gain, mean over recordings")
    return _table(header, rows)


def as_details(tables):
    """Write all other tables of a study in Markdown."""
    parts = []
    for recording in dict.fromkeys(tables["answers"]["recording"]):
        mine = {
            name: tables[name][tables[name]["recording"] == recording]
            for name in ("settings", "controls", "half")
        }
        parts.append(f"## {recording}")
        for base, settings in mine["settings"].groupby("base", sort=False):
            parts += [f"**Each method and mode on top of `{base}`**", _settings(settings)]
        parts += ["**What should not gain**", _controls(mine["controls"])]
        parts += ["**What halving the leakage costs**", _half(mine["half"])]
    return "\n\n".join(parts) + "\n"


def _sentence(row, cost):
    how = f"{_steps(cost[cost['base'] == row.base])}, {row.seeds} seed{'s' * (row.seeds > 1)}"
    told = f"{row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f}, corrected p = {_p(row.p_holm)})"
    if row.p_holm < 0.05:
        return f"On top of `{row.base}` ({how}) censoring **{'helps' if row.gain > 0 else 'hurts'}**: {told}."
    found = f"A gain of {row.detectable:.3f} would have been found with a probability of 80 %"
    return f"On top of `{row.base}` ({how}) **no gain** was found: {told}. {found}."


def _p(value):
    return "" if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _number(value):
    return "" if pd.isna(value) else f"{value:.3f}"


def _gain(row):
    return "" if pd.isna(row.gain) else f"{row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"


def _table(header, rows):
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def _answers(table):
    header = ("recording", "recipe", "people", "uncensored", "gain", "single seeds", "p", "corrected p")
    rows = []
    for row in table.itertuples():
        who = f"{GROUPS[row.group]} ({row.people:.0f})"
        known = not pd.isna(row.lowest)
        seeds = f"{row.lowest:+.3f} to {row.highest:+.3f} ({row.seeds})" if known else ""
        numbers = (_gain(row), seeds, _p(row.p), _p(row.p_holm), _number(row.detectable))
        rows.append((row.recording, row.base, who, _number(row.score), *numbers))
    return _table((*header, "smallest detectable"), rows)


def _sets(table):
    header = ("recording", "recipe", "seeds", "gain", "corrected p", "usual weights that help", "that hurt")
    rows = []
    for row in table.itertuples():
        counts = (f"{count} of {row.settings}" for count in (row.helps, row.hurts))
        rows.append((row.recording, row.base, row.seeds, _gain(row), _p(row.p_holm), *counts))
    return _table(header, rows)


def _settings(table):
    chosen = ("chosen weight", "gain, everybody", "corrected p", "gain, weaker half", "corrected p")
    usual = ("smallest detectable", "gain with the usual weight", "corrected p", "smallest detectable")
    groups = {group: part.set_index(["method", "mode"]) for group, part in table.groupby("group")}
    rows = []
    for key, weak in groups["weak"].iterrows():
        every = groups["all"].loc[key]
        fixed = every.rename(lambda name: name.removeprefix("usual_")).groupby(level=0).last()
        row = (*key, f"{every.weight:g}", _gain(every), _p(every.p_holm), _gain(weak), _p(weak.p_holm))
        row = (*row, _number(every.detectable), _gain(fixed), _p(fixed.p_holm), _number(fixed.detectable))
        rows.append(row)
    return _table(("method", "mode", *chosen, *usual), rows)


def _controls(table):
    names = {
        "batches": "balanced batches, no penalty",
        "reveal": "revealing (negative weight)",
        "labels": "shuffled labels of people",
    }
    rows = [
        (row.base, names[row.control], row.method, row.mode, _gain(row), _p(row.p_holm), _share(row.share))
        for row in table.sort_values(["base", "control"]).itertuples()
    ]
    return _table(("recipe", "control", "method", "mode", "gain", "corrected p", "leakage left"), rows)


def _share(value):
    return "hardly leaks" if pd.isna(value) else f"{value:.2f}"


def _falls(row):
    return "" if pd.isna(row.least) else "yes" if row.falls else "no"


def _half(table):
    rows = [
        (row.base, row.method, row.mode, _falls(row), _share(row.least))
        + (("not reached", "") if pd.isna(row.weight) else (f"{row.weight:g}", _gain(row)))
        for row in table.itertuples()
    ]
    header = (
        "recipe",
        "method",
        "mode",
        "falls with the weight",
        "least share left",
        "weight for half",
        "gain there",
    )
    return _table(header, rows)
