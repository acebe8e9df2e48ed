"""One page on an experiment, to be sent to a colleague: everything is in the file, nothing is fetched."""

import tempfile
import warnings
from pathlib import Path

import pandas as pd

from braindecode_censor.figures.folder import Missing, read_results
from braindecode_censor.figures.plot_all import PLOTS, TABLES
from braindecode_censor.figures.product import make
from braindecode_censor.report import html
from braindecode_censor.report.probing import probe
from braindecode_censor.report.warnings import find_warnings
from braindecode_censor.search.index import SELECTED, read_index
from braindecode_censor.search.selection import NESTED, RULES
from braindecode_censor.storage.files import read_experiment, write_atomically

__all__ = ["write_report"]

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


def write_report(out, table, scores, chosen, recording=None):
    """Probe the decoders, draw the figures and write ``report.html``.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    table, scores : DataFrame
        From :func:`~braindecode_censor.search.summary.summarise` and
        :func:`~braindecode_censor.autotransfer.evaluation.tidy`.
    chosen : dict of str to str or Series
        What each rule chose.
    recording : Recording or None
        The trials; None reads them again if they are needed.

    Returns
    -------
    path : Path
        The page; it needs no other file. Figures and tables lie in ``figures/``, too.
    """
    notes = []
    try:
        probe(out, table, recording)
    except (
        ValueError,
        OSError,
    ) as error:  # the dataset is elsewhere: a report without leakage is still a report
        notes.append(f"The stored decoders were not probed: {error}")
    results = read_results(out)
    _, missing = make((*PLOTS, *TABLES), results, out / "figures")
    notes += [*results.notes, *(f"{name} was not drawn: {reason}" for name, reason in missing.items())]
    report = _new_report(results)
    _add_summary(report, results, table, scores, chosen, notes)
    _add_results(report, results, table, chosen)
    _add_subjects(report, results)
    _add_leakage(report, results)
    _add_search(report, results)
    _add_reuse(report, results, table)
    _add_provenance(report, results)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        report.save(file, open_browser=False, overwrite=True, verbose="ERROR")
        write_atomically(out / "report.html", file.read_bytes())
    return out / "report.html"


def _new_report(results):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mne import Report  # late: it is only needed here and takes a while

        report = Report(title=f"AutoTransfer on {results.identity.get('dataset_code', '?')}", verbose="ERROR")
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


def _add_summary(report, results, table, scores, chosen, notes):
    row = table.loc[SELECTED]
    numbers = {
        "selected": chosen["paper"],
        "mean balanced test accuracy": row["mean"],
        "of the baseline": table.loc["baseline", "mean"],
        "gain": row["gain"],
        "95 % interval over subjects": f"{row['low']:+.3f} to {row['high']:+.3f}",
        "p (Wilcoxon, paired over subjects)": row["p"],
        "gain in the lower quartile": row["gain_lower_quartile"],
        "seeds": int(row["seeds"]),
    }
    try:
        cells = results.probed("cells")
    except Missing:
        cells = None
    found = find_warnings(table, scores, cells)
    content = [html.facts(numbers, "selected")]
    if found:
        content += ["<h5>Warnings</h5>", html.items(found, "warnings")]
    if notes:
        content += ["<h5>Notes</h5>", html.items(notes, "notes")]
    _add_html(report, "What was selected", content, tags=("summary",))


def _add_results(report, results, table, chosen):
    rules = {**{rule: entry[3] for rule, entry in RULES.items()}, NESTED: _NESTED}
    note = (
        "Balanced accuracy on test subjects, averaged over seeds; p, effect, low and high are paired over subjects "
        "against the baseline. “distinguishable” is about seeds; it is empty where one seed cannot tell."
    )
    lines = [f"AutoTransfer ({rule}): {rules[rule]}" for rule in chosen]
    content = [html.table(table.reset_index(), "results"), html.paragraph(note), html.items(lines)]
    _add_html(report, "Table of results", content, "Results")
    _add_figures(report, results, "Results")
    _add_table(report, results, "pairs", "Every pair of decoders", "Results")


def _add_table(report, results, name, title, section):
    file = results.folder / "figures" / f"{name}.csv"
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
    except Missing as reason:
        _add_html(report, "Leakage", [html.paragraph(str(reason))], "Leakage")
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
    path = results.folder / "search.csv"
    if path.is_file():
        _add_html(report, "Settings of the search", [html.table(pd.read_csv(path), "search")], "Search")
    _add_table(report, results, "hyperparameters", "Values explored", "Search")
    _add_figures(report, results, "Method")
    _add_table(report, results, "penalties", "Penalties", "Method")


def _add_reuse(report, results, table):
    """Show how to load the fold of the winner that did best on its validation subject."""
    setting = table.loc[SELECTED, "setting"]
    index = read_index(results.folder)
    keys = ["setting", "seed", "subject"]
    mine = results.scores[results.scores["setting"] == setting].merge(index, on=keys)
    dataset = results.identity.get("dataset_code", "")
    version = results.identity.get("versions", {}).get("braindecode-censor", "")
    cite = html.items([line.format(version=version, dataset=dataset) for line in _CITATION])
    if len(mine):
        best = mine.sort_values("score_valid", ascending=False, kind="stable").iloc[0]
        lines = (
            "from braindecode_censor import CensoredEEGClassifier\n"
            f'clf = CensoredEEGClassifier.load("{results.folder.name}/trainings/{best["key"]}.safetensors")\n'
            "y = clf.predict(X)  # X: trials × channels × samples, cut and filtered as in the experiment\n"
        )
        words = (
            f"Every fold's decoder is kept. This one was trained without subject {best['subject']} and did best on its "
            "validation subject; run the lines beside the folder of results. Classes are numbered in the "
            "alphabetical order of their names."
        )
        _add_html(
            report, "How to reuse the winner", [html.code(lines), html.paragraph(words)], "Use", tags=("use",)
        )
    _add_html(report, "How to cite", [cite], "Use", tags=("use",))


def _add_provenance(report, results):
    content = read_experiment(results.folder)
    identity = {key: value for key, value in content["identity"].items() if key not in ("grid", "versions")}
    values = {**content["provenance"], **identity, **content["identity"].get("versions", {})}
    _add_html(report, "Provenance", [html.facts(values, "provenance")], tags=("provenance",))
