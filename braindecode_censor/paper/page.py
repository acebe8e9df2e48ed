"""The report of an experiment: one page that holds its figures and fetches nothing."""

import pandas as pd

from braindecode_censor.figures.folder import Missing, read_results
from braindecode_censor.figures.plot_all import PLOTS, TABLES
from braindecode_censor.figures.product import make
from braindecode_censor.paper.selection import BASELINE, SELECTED, SELECTION_RULES
from braindecode_censor.paper.wording import caveats, sentences, signed, usage
from braindecode_censor.storage import html

__all__ = ["write_report"]

_CITATION = (
    "N. Smedemark-Margulies, Y. Wang, T. Koike-Akino, D. Erdoğmuş: AutoTransfer: Subject Transfer Learning with "
    "Censored Representations on Biosignals Data, 2022 (the method)",
    "the braindecode-censor developers: braindecode-censor, version {version} (this implementation)",
    "the authors of Braindecode and MOABB, and of the dataset {dataset}",
)
_RESULTS_NOTE = (
    "Balanced accuracy on test subjects, averaged over seeds; chance is {chance:.3f}. A gain is the decoder minus the "
    "baseline. The gain, its interval and p (Wilcoxon) are paired over subjects."
)
_MORE_NOTE = (
    "effect: rank-biserial correlation. seed_spread: standard deviation of the gain over seeds. distinguishable: the "
    "95 % interval of the gain over seeds excludes zero."
)
_PAIRS_NOTE = (
    "A gain is the decoder minus the reference, paired over subjects; p_holm is corrected for all pairs."
)
_LEAKAGE_NOTE = (
    "Subject accuracy of a fresh logistic regression on the latent code, over all folds of the first seed, balanced "
    "over subjects. Conditional censoring removes the information “within class”. Halves are shown of a selected "
    "complementary decoder, which hides the subject in the first half and reveals it in the second."
)


def write_report(result):
    """Draw the figures and write ``report.html``; return its path."""
    results = read_results(result.out)
    _, missing = make((*PLOTS, *TABLES), results, result.out / "figures")
    notes = [
        *result.notes,
        *results.notes,
        *(f"{name} was not drawn: {why}" for name, why in missing.items()),
    ]
    page = html.Page(f"AutoTransfer on {results.identity.get('dataset_code', '?')}")
    _add_summary(page, result, results, notes)
    _add_results(page, result, results)
    _add_subjects(page, results)
    _add_leakage(page, results)
    _add_search(page, results)
    _add_usage(page, result, results)
    identity = {key: value for key, value in results.identity.items() if key not in ("grid", "versions")}
    values = {**results.provenance, **identity, **results.identity.get("versions", {})}
    page.add("Provenance", "Dataset, options and versions", html.facts(values, "provenance"))
    return page.write(result.out / "report.html")


def _add_figures(page, results, section):
    for plot in PLOTS:
        path = results.folder / "figures" / f"{plot.name}.png"
        if plot.section == section and path.is_file():
            page.add_figure(section, plot.title, plot.caption, path.read_bytes())


def _add_table(page, results, section, name, title, *notes):
    path = results.folder / "figures" / f"{name}.csv"  # written by `make` above
    if path.is_file():
        page.add(section, title, html.table(pd.read_csv(path), name), *map(html.paragraph, notes))


def _add_summary(page, result, results, notes):
    page.add("Summary", "Selected configuration", html.items(sentences(result), "summary"))
    try:
        cells = results.probed("cells")
    except Missing:
        cells = None
    if warnings := caveats(result, cells):
        page.add("Summary", "Warnings", html.items(warnings, "warnings"))
    if notes:
        page.add("Summary", "Notes", html.items(notes, "notes"))


def _add_results(page, result, results):
    table = result.table.rename_axis("decoder").reset_index()
    short = table[["decoder", "setting", "mean", "lower_quartile", "worst", "gain"]].copy()
    short["95 % interval"] = table["low"].map(signed) + " to " + table["high"].map(signed)
    short["p"] = table["p"]
    more = table.drop(columns=["setting", "mean", "lower_quartile", "worst", "gain", "low", "high", "p"])
    page.add(
        "Results",
        "Table of results",
        html.table(short, "results"),
        html.paragraph(_RESULTS_NOTE.format(chance=result.chance)),
        html.items(f"AutoTransfer ({rule}): {SELECTION_RULES[rule][3]}." for rule in result.selected_by_rule),
        html.folded("More numbers", html.table(more, "more") + html.paragraph(_MORE_NOTE)),
    )
    _add_figures(page, results, "Results")
    _add_table(page, results, "Results", "pairs", "Every pair of decoders", _PAIRS_NOTE)


def _add_subjects(page, results):
    scores = results.by_subject
    wide = scores.rename_axis("subject").reset_index()
    if {BASELINE, SELECTED} <= set(scores.columns):
        wide["gain"] = (scores[SELECTED] - scores[BASELINE]).to_numpy()
    note = html.paragraph("Test score of every decoder by subject, sorted by the baseline.")
    page.add("Subjects", "All subjects", note, html.table(wide, "subjects"))
    columns = ["setting", "seed", "valid_subject", "score", "score_valid"]
    ranked = results.scores.sort_values("score", ascending=False, kind="stable")
    tables = [
        html.folded(
            f"Subject {name}", html.table(ranked.loc[ranked["subject"] == name, columns], f"subject-{number}")
        )
        for number, name in enumerate(scores.index)
    ]
    note = html.paragraph("Every cross-validated configuration and seed, the best first.")
    page.add("Subjects", "Subject by subject", note, *tables)


def _add_leakage(page, results):
    _add_figures(page, results, "Subject leakage")
    try:
        frame = results.probed("leakage")
    except Missing:  # the notes give the reason
        return
    means = frame.groupby(["setting", "part", "view"], sort=False)[["accuracy", "chance", "excess"]].mean()
    content = html.table(means.reset_index(), "leakage"), html.paragraph(_LEAKAGE_NOTE)
    page.add("Subject leakage", "Subject leakage by decoder", *content)


def _add_search(page, results):
    _add_figures(page, results, "Search")
    try:
        search = html.table(results.require("search.csv", "it is written by `autotransfer run`"), "search")
    except Missing as reason:
        search = html.paragraph(str(reason))
    page.add("Search", "Configurations of the search", search)
    _add_table(page, results, "Search", "hyperparameters", "Values explored")
    _add_figures(page, results, "Method")
    _add_table(page, results, "Method", "penalties", "Penalties")


def _add_usage(page, result, results):
    words, lines = usage(result.table.loc[SELECTED, "setting"], results)
    if lines:
        page.add("Use", "Use of the decoder", html.paragraph(words), html.code(lines))
    version = results.identity.get("versions", {}).get("braindecode-censor", "")
    dataset = results.identity.get("dataset_code", "")
    page.add(
        "Use", "How to cite", html.items(line.format(version=version, dataset=dataset) for line in _CITATION)
    )
