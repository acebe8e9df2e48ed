"""A short page on an experiment: the table, what each rule means, and the paper's figure of results."""

import base64
import html
import io

import numpy as np
from matplotlib.figure import Figure

from braindecode_censor.autotransfer.selection import NESTED, RULES, scores_of_choice
from braindecode_censor.autotransfer.store import read_experiment, write_atomically

__all__ = ["draw_results", "write_report"]

_NESTED = "per test subject, by trainings that never saw it"


def write_report(out, table, scores, chosen):
    """Write ``report.html`` and the figure as PNG and PDF.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    table, scores : DataFrame
        From :func:`~braindecode_censor.autotransfer.summary.summarise` and
        :func:`~braindecode_censor.autotransfer.evaluation.tidy`.
    chosen : dict of str to str or Series
        What each rule chose.

    Returns
    -------
    path : Path
        The page; it needs no other file.
    """
    figure = draw_results(table, scores, chosen)
    images = {}
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        # no creation date, so that the same results give the same bytes
        figure.savefig(
            buffer, format=kind, dpi=150, metadata={"CreationDate": None} if kind == "pdf" else None
        )
        images[kind] = buffer.getvalue()
        write_atomically(out / f"results.{kind}", images[kind])
    content = read_experiment(out)
    rules = {**{rule: entry[3] for rule, entry in RULES.items()}, NESTED: _NESTED}
    lines = [f"<li><b>{html.escape(rule)}</b>: {html.escape(rules[rule])}</li>" for rule in chosen]
    facts = {"dataset": content["identity"]["dataset_code"], "seeds": content["identity"]["seeds"]}
    facts |= content["provenance"] | content["identity"]["versions"]
    listed = "".join(
        f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(str(v))}</td></tr>" for k, v in facts.items()
    )
    picture = base64.b64encode(images["png"]).decode()
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>AutoTransfer</title>
<style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em .6em;text-align:left}}</style>
<h1>AutoTransfer selected {html.escape(str(chosen["paper"]))}</h1>
{table.to_html(float_format="{:.3f}".format, escape=True, border=0)}
<p>Test scores are balanced accuracies over test subjects, averaged over seeds; p and effect are paired over
subjects against the baseline. "distinguishable" is about seeds: None means that one seed cannot tell.</p>
<h2>Rules</h2><ul>{"".join(lines)}</ul>
<img alt="Test accuracy of every subject" style="max-width:100%" src="data:image/png;base64,{picture}">
<h2>Provenance</h2><table>{listed}</table></html>
"""
    write_atomically(out / "report.html", page.encode())
    return out / "report.html"


def draw_results(table, scores, chosen):
    """Draw every subject's test accuracy by decoder, and the gain against the baseline's order of subjects.

    Parameters
    ----------
    table, scores : DataFrame
        As in :func:`write_report`.
    chosen : dict of str to str or Series
        What each rule chose.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Two panels.
    """
    # Figures without pyplot: no window, no global state, whatever backend the user has set.
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names, columns = list(table.index), []
    for name in names:
        rule = name.removeprefix("AutoTransfer (").removesuffix(")")
        choice = chosen[rule] if name.startswith("AutoTransfer") else table.loc[name, "setting"]
        columns.append(scores_of_choice(scores, choice).mean(axis=1))
    for place, column in enumerate(columns):
        jitter = np.linspace(-0.15, 0.15, len(column))
        left.plot(place + jitter, column, "o", ms=4, alpha=0.7)
        left.hlines(np.percentile(column, [25, 50, 75]), place - 0.3, place + 0.3, color="k", lw=[2, 1, 1])
    left.set_xticks(range(len(names)), names, rotation=45, ha="right")
    left.set_ylabel("balanced accuracy, test subject")
    order = columns[0].sort_values().index
    for name, column in zip(names, columns):
        shown = name == "baseline" or name == "AutoTransfer (paper)"
        right.plot(
            range(len(order)), column[order], "o-" if shown else ".:", alpha=1 if shown else 0.4, label=name
        )
    right.set_xlabel("test subjects, sorted by the baseline")
    right.set_xticks(range(len(order)), [str(subject) for subject in order])
    right.legend(fontsize=7)
    return figure
