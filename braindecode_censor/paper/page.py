"""One page on an experiment, to be sent to a colleague: everything is in the file, nothing is fetched."""

import tempfile
import warnings
from pathlib import Path

import pandas as pd

from braindecode_censor.figures.folder import Missing, read_results
from braindecode_censor.figures.plot_all import PLOTS, TABLES
from braindecode_censor.figures.product import make
from braindecode_censor.paper import html
from braindecode_censor.paper.caveats import find_warnings
from braindecode_censor.paper.selection import NESTED, RULES, SELECTED
from braindecode_censor.paper.use import how_to_use
from braindecode_censor.paper.wording import sentences, signed
from braindecode_censor.storage.files import write_atomically

__all__ = ["new_report", "save_report", "write_report"]

_NESTED = "per test subject, by trainings that never saw it"
_SECTIONS = {
    "schematic": "Method",
    "weights": "Search",
    "training": "Search",
    "leakage": "Leakage",
    "codes": "Leakage",
}
_CITATION = (
    "N. Smedemark-Margulies, Y. Wang, T. Koike-Akino, D. Erdoğmuş: AutoTransfer: Subject Transfer Learning with "
    "Censored Representations on Biosignals Data, 2022 (the method)",
    "the braindecode-censor developers: braindecode-censor, version {version} (this implementation)",
    "the authors of Braindecode and MOABB, and of the dataset {dataset}",
)


def write_report(out, table, scores, chosen, leakage=None, notes=()):
    """Draw the figures and write ``report.html``."""
    results = read_results(out)
    _, missing = make((*PLOTS, *TABLES), results, out / "figures")
    notes = [*notes, *results.notes, *(f"{name} was not drawn: {reason}" for name, reason in missing.items())]
    report = new_report(results.identity.get("dataset_code", "?"))
    _add_summary(report, results, table, scores, leakage, notes)
    _add_results(report, results, table, chosen)
    _add_subjects(report, results)
    _add_leakage(report, results)
    _add_search(report, results)
    _add_use(report, results, table)
    _add_provenance(report, results)
    return save_report(report, out)


def save_report(report, out):
    """Write a page so that it is there in full or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        report.save(file, open_browser=False, overwrite=True, verbose="ERROR")
        write_atomically(out / "report.html", file.read_bytes())
    return out / "report.html"


def new_report(dataset):
    """Return an empty page with our styles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mne import Report  # late: it is only needed here and takes a while

        report = Report(title=f"AutoTransfer on {dataset}", verbose="ERROR")
    report.add_custom_js(html.SORTING)
    report.add_custom_css(html.STYLE)
    return report


def _add_figures(report, results, section):
    for plot in PLOTS:
        file = results.folder / "figures" / f"{plot.name}.png"
        if _SECTIONS.get(plot.name, "Results") == section and file.is_file():
            report.add_image(file, title=plot.title, caption=plot.caption, section=section, tags=("figure",))


def _add_html(report, title, content, section=None, tags=("table",)):
    report.add_html("\n".join(content), title=title, section=section, tags=tags)


def _add_summary(report, results, table, scores, leakage, notes):
    try:
        cells = results.probed("cells")
    except Missing:
        cells = None
    n_people = scores["subject"].nunique()
    content = [html.items(sentences(table, n_people, results.chance, leakage), "summary")]
    if found := find_warnings(table, scores, cells):
        content += ["<h5>Warnings</h5>", html.items(found, "warnings")]
    if notes:
        content += ["<h5>Notes</h5>", html.items(notes, "notes")]
    _add_html(report, "What was selected", content, tags=("summary",))


def _add_results(report, results, table, chosen):
    shown = table.rename_axis("decoder").reset_index()
    short = shown[["decoder", "setting", "mean", "lower_quartile", "worst", "gain"]].copy()
    short["95 % interval"] = [
        f"{signed(low)} to {signed(high)}" for low, high in zip(shown["low"], shown["high"])
    ]
    short["p"] = shown["p"]
    note = (
        f"Balanced accuracy on test subjects, averaged over seeds; chance is {results.chance:.3f}. The gain, its "
        "interval and p (Wilcoxon) are paired over subjects against the baseline."
    )
    rules = {**{rule: entry[3] for rule, entry in RULES.items()}, NESTED: _NESTED}
    lines = [f"AutoTransfer ({rule}): {rules[rule]}" for rule in chosen]
    more = (
        "effect: rank-biserial correlation; seed_spread: standard deviation of the gain over seeds; distinguishable: "
        "whether it is more than that; weak: gain of the half of subjects that the baseline is worst on."
    )
    rest = shown.drop(columns=["setting", "mean", "lower_quartile", "worst", "gain", "low", "high", "p"])
    content = [html.table(short, "results"), html.paragraph(note), html.items(lines)]
    content.append(html.folded("More numbers", html.table(rest, "more") + html.paragraph(more)))
    _add_html(report, "Table of results", content, "Results")
    _add_figures(report, results, "Results")
    _add_table(report, results, "pairs", "Every pair of decoders", "Results")


def _add_table(report, results, name, title, section):
    file = results.folder / "figures" / f"{name}.csv"  # which this process has just written
    if file.is_file():
        _add_html(report, title, [html.table(pd.read_csv(file), name)], section)


def _add_subjects(report, results):
    scores = results.by_subject
    wide = scores.rename_axis("subject").reset_index()
    if {"baseline", SELECTED} <= set(scores.columns):
        wide["gain"] = (scores[SELECTED] - scores["baseline"]).to_numpy()
    content = [html.paragraph("Test score of every decoder by subject, sorted by the baseline.")]
    content.append(html.table(wide, "subjects"))
    _add_html(report, "All subjects", content, "Subjects")
    columns = ["setting", "seed", "valid_subject", "score", "score_valid"]
    best = results.scores.sort_values("score", ascending=False, kind="stable")
    content = [html.paragraph("Every cross-validated setting and seed, the best first.")]
    for number, subject in enumerate(scores.index):
        mine = best.loc[best["subject"] == subject, columns]
        content.append(html.folded(f"Subject {subject}", html.table(mine, f"subject-{number}")))
    _add_html(report, "Subject by subject", content, "Subjects")


def _add_leakage(report, results):
    _add_figures(report, results, "Leakage")
    try:
        frame = results.probed("leakage")
    except Missing:  # why it is missing stands among the notes
        return
    means = frame.groupby(["setting", "part", "view"], sort=False)[["accuracy", "chance", "excess"]].mean()
    note = (
        "How often a fresh logistic regression names the right subject from the latent code, over all folds of the "
        "first seed; balanced over subjects. “within class” is what conditional censoring removes; halves are shown "
        "of a selected complementary decoder, which hides the subject in the first and reveals it in the second."
    )
    _add_html(
        report,
        "Leakage by decoder",
        [html.table(means.reset_index(), "leakage"), html.paragraph(note)],
        "Leakage",
    )


def _add_search(report, results):
    _add_figures(report, results, "Search")
    try:
        search = results.require("search.csv", "it is written by `autotransfer run`")
        _add_html(report, "Settings of the search", [html.table(search, "search")], "Search")
    except Missing as reason:
        _add_html(report, "Settings of the search", [html.paragraph(str(reason))], "Search")
    _add_table(report, results, "hyperparameters", "Values explored", "Search")
    _add_figures(report, results, "Method")
    _add_table(report, results, "penalties", "Penalties", "Method")


def _add_use(report, results, table):
    lines, words = how_to_use(results, table.loc[SELECTED, "setting"])
    if lines:
        content = [html.paragraph(words), html.code(lines)]
        _add_html(report, "How to use the decoder", content, "Use", tags=("use",))
    names = {
        "dataset": results.identity.get("dataset_code", ""),
        "version": results.identity.get("versions", {}).get("braindecode-censor", ""),
    }
    cite = html.items([line.format(**names) for line in _CITATION])
    _add_html(report, "How to cite", [cite], "Use", tags=("use",))


def _add_provenance(report, results):
    identity = {key: value for key, value in results.identity.items() if key not in ("grid", "versions")}
    values = {**results.provenance, **identity, **results.identity.get("versions", {})}
    _add_html(report, "Provenance", [html.facts(values, "provenance")], tags=("provenance",))
