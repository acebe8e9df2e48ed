"""Does the page say what the store holds, warn where it should, and need nothing but itself?"""

import ast
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from docs.runner import run_script
from figures.finished import claim, few_figures, spoilt

from braindecode_censor.figures.plot_all import PLOTS
from braindecode_censor.paper.caveats import find_warnings
from braindecode_censor.paper.probing import load_recording
from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.wording import narrow_table, sentences, signed

FETCHING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "object": "data", "source": "src"}


class Page(HTMLParser):
    """Tables, images, scripts and text of a page."""

    def __init__(self, path):
        super().__init__()
        self.tables, self.fetched, self.images, self.words, self.scripts, self.code = {}, [], [], [], 0, []
        self._table, self._cell, self._quiet, self._code, self.styles = None, None, None, None, ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.scripts += tag == "script"
        self._quiet = tag if tag in ("script", "style") else None
        if tag in FETCHING and FETCHING[tag] in attrs:
            self.fetched.append(attrs[FETCHING[tag]])
        if tag == "img":
            self.images.append(attrs["alt"])
        if tag == "table":
            self._table = self.tables.setdefault(attrs.get("id"), [])
        if tag == "tr" and self._table is not None:
            self._table.append([])
        if tag in ("td", "th") and self._table is not None:
            self._cell = ""
        if tag == "pre":
            self._code = ""

    def handle_data(self, data):
        if self._quiet:
            self.styles += data if self._quiet == "style" else ""
            return
        self.words.append(data)
        if self._cell is not None:
            self._cell += data
        if self._code is not None:
            self._code += data

    def handle_endtag(self, tag):
        self._quiet = None
        if tag in ("td", "th") and self._cell is not None:
            self._table[-1].append(self._cell)
            self._cell = None
        if tag == "table":
            self._table = None
        if tag == "pre":
            self.code.append(self._code)
            self._code = None

    def frame(self, name):
        head, *rows = self.tables[name]
        return pd.DataFrame(rows, columns=head)


@pytest.fixture(scope="module")
def page(folder):
    return Page(folder / "report.html")


def test_nothing_is_fetched(page):
    assert page.fetched and all(address.startswith("data:") for address in page.fetched)
    addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)", page.styles)
    assert addresses and all(address.startswith("data:") for address in addresses)
    assert "@import" not in page.styles


def test_selected_method_and_numbers_are_those_of_the_store(page, folder):
    table = pd.read_csv(folder / "table.csv")
    row = table.set_index("decoder").loc["AutoTransfer (paper)"]
    said = " ".join(page.words)
    assert f"Selected: {row['setting']}." in said and f"balanced accuracy of {row['mean']:.3f}" in said
    assert f"{signed(row['gain'])} (95 % interval over 4 people {signed(row['low'])}" in said
    assert "chance is 0.500" in said and "names the person in" in said
    shown = page.frame("results")
    assert list(shown["decoder"]) == list(table["decoder"]) and list(shown["setting"]) == list(
        table["setting"]
    )
    for column in ("mean", "lower_quartile", "worst", "gain", "p"):
        np.testing.assert_allclose(shown[column.replace("_", " ")].astype(float), table[column], atol=5e-4)
    assert "-0.000" not in said and not {"nan", "None", "NaN"} & {word.strip() for word in page.words}


def test_every_subject_has_its_scores(page, folder):
    scores = pd.read_csv(folder / "scores.csv")
    shown = page.frame("subjects")
    baseline = scores[scores["setting"] == "baseline"].groupby("subject")["score"].mean()
    order = baseline.sort_values(kind="stable").index
    assert list(shown["subject"]) == [str(subject) for subject in order]
    np.testing.assert_allclose(shown["baseline"].astype(float), baseline[order], atol=5e-4)
    for number, subject in enumerate(order):
        mine = page.frame(f"subject-{number}")
        assert len(mine) == (scores["subject"] == subject).sum()


def test_all_figures_leakage_search_and_provenance_are_there(page, folder):
    assert [title for title in page.images if title != "MNE"] and {plot.title for plot in PLOTS} <= set(
        page.images
    )
    leakage = pd.read_csv(folder / "probes" / "leakage.csv")
    shown = page.frame("leakage")
    mine = leakage.query("setting == 'baseline' and view == 'marginal'")["accuracy"].mean()
    row = shown[(shown["setting"] == "baseline") & (shown["view"] == "marginal")]
    assert float(row["accuracy"].item()) == pytest.approx(mine, abs=5e-4)
    assert len(page.frame("search")) == len(pd.read_csv(folder / "search.csv"))
    provenance = dict(page.tables["provenance"])
    assert {"started", "commit", "machine", "python", "torch", "moabb", "dataset_code", "training"} <= set(
        provenance
    )
    text = " ".join(page.words)
    assert "Smedemark-Margulies" in text and "How to cite" in text


def test_the_lines_copy_and_run_anywhere(page, folder, tmp_path):
    """The decoder they load is the very one that was scored, on the subject that it has never seen."""
    (lines,) = page.code
    (tmp_path / "lines.py").write_text(lines)
    done = run_script(tmp_path / "lines.py", tmp_path, timeout=100)
    assert done.code == 0, done.output
    answers = np.array(
        ast.literal_eval(done.output.strip().splitlines()[-2])
    )  # the last line is the runner's
    assert set(answers) <= {"NonTarget", "Target"}
    index = pd.read_csv(folder / "trainings" / "index.csv")
    best = index[index["key"] == re.search(r"(\w+)\.safetensors", lines)[1]].iloc[0]
    recording = load_recording(folder)
    y = np.array(recording.classes)[recording.y[recording.subjects == best["subject"]]]
    scores = pd.read_csv(folder / "scores.csv")
    mine = scores.query("setting == @best.setting and seed == @best.seed and subject == @best.subject")
    found = np.mean([(answers == y)[y == name].mean() for name in recording.classes])
    assert found == pytest.approx(mine["score"].item())
    same = scores[scores["setting"] == best["setting"]]
    assert mine["score_valid"].item() == same["score_valid"].max()


def test_names_are_shown_as_text(evil, page):
    found = Page(evil / "report.html")
    name = "<script>document.title='owned'</script>"
    assert found.scripts == page.scripts
    assert "<script>document.title" not in (evil / "report.html").read_text()
    assert name in set(found.frame("subjects")["subject"])
    assert dict(found.tables["provenance"])["dataset_code"] == name


def test_a_report_without_the_data_says_so(tmp_path):
    folder = spoilt(tmp_path / "out")
    shutil.rmtree(folder / "probes")
    claim(folder, dataset=None)
    with few_figures("leakage"):
        text = " ".join(Page(read_result(folder).report).words)
    assert "were not probed" in text and "made with a dataset object" in text
    assert "leakage was not drawn" in text


def test_a_report_names_damaged_trainings(tmp_path):
    folder = spoilt(tmp_path / "out")
    index = pd.read_csv(folder / "trainings" / "index.csv")
    row = index.iloc[3]
    path = folder / "trainings" / f"{row['key']}.json"
    path.write_text(path.read_text().replace('"best_epoch": ', '"best_epoch": 1'))
    with few_figures("schematic"):
        result = read_result(folder)
    (note,) = result.notes
    assert row["key"][:12] in note and row["setting"] in note and f"without subject {row['subject']}" in note
    assert note in " ".join(Page(result.report).words)


def test_class_names_are_shown_and_not_numbers(folder):
    cells = pd.read_csv(folder / "probes" / "cells.csv")
    assert set(cells["label"]) == set(pd.read_csv(folder / "probes" / "codes.csv")["label"])
    assert set(cells["label"]) == {"NonTarget", "Target"}


def test_a_classical_reference_is_named():
    columns = [
        "setting",
        "mean",
        "low",
        "high",
        "gain",
        "p",
        "gain_lower_quartile",
        "seeds",
        "distinguishable",
    ]
    rows = [["baseline", 0.6, 0, 0, 0, 1, 0, 1, None], ["mmd", 0.6, 0, 0, 0, 1, 0, 1, None]]
    rows.append(["riemann", 0.71, 0, 0, 0.11, 1, 0, 1, None])
    table = pd.DataFrame(rows, columns=columns, index=["baseline", "AutoTransfer (paper)", "riemann"])
    assert "A classical reference" in sentences(table, 4, 0.5)[-1] and "0.710" in sentences(table, 4, 0.5)[-1]
    assert not any("classical" in line for line in sentences(table[:2], 4, 0.5))


def test_the_table_of_the_terminal_fits_100_columns():
    names = ["baseline", "AutoTransfer (paper+baseline)", "somebody else's pipeline"]
    table = pd.DataFrame(
        {"setting": ["baseline", "mige-complementary-0.1-reg0.001-nu-tsne", "x"]}, index=names
    )
    for column in ("mean", "lower_quartile", "worst", "p"):
        table[column] = [0.5, 0.123456, np.nan]
    table["gain"] = [0.0, -0.0001, np.nan]
    lines = narrow_table(table).splitlines()
    assert max(map(len, lines)) <= 100 and len(lines) == 4
    assert "nan" not in " ".join(lines) and "-0.000" not in " ".join(lines) and "None" not in " ".join(lines)
    assert lines[2].index("0.123") + 5 == lines[0].index("mean") + 4, "heads stand over their numbers"


def _table(**changes):
    row = {"gain": 0.05, "low": 0.01, "high": 0.1, "seeds": 3, "distinguishable": True}
    return pd.DataFrame([{**row, **changes}], index=["AutoTransfer (paper)"])


def _scores(valid, test):
    rows = [(f"s{k}", v, t) for k, (v, t) in enumerate(zip(valid, test))]
    return pd.DataFrame(rows, columns=["setting", "score_valid", "score"])


AGREE = _scores([0.5, 0.6, 0.7, 0.8], [0.4, 0.5, 0.6, 0.7])


@pytest.mark.parametrize(
    ("table", "scores", "trials", "message"),
    [
        ({}, AGREE, 9, "Too few trials: 1 of 2 cells"),
        ({"gain": -0.01, "low": -0.03}, AGREE, 30, "No gain"),
        ({"low": -0.01}, AGREE, 30, "No certain gain"),
        ({"seeds": 1}, AGREE, 30, "One seed"),
        ({"distinguishable": False}, AGREE, 30, "not distinguishable from the spread of seeds"),
        ({}, _scores([0.5, 0.6, 0.7, 0.8], [0.7, 0.6, 0.5, 0.4]), 30, "Validation and test disagree"),
        ({}, _scores([0.5, 0.6, 0.7, 0.8, 0.9], [0.4, 0.5, 0.6, 0.7, np.nan]), 30, "1 of 5 test scores"),
    ],
    ids=["trials", "loss", "uncertain", "seed", "seeds", "disagree", "nan"],
)
def test_warnings(table, scores, trials, message):
    cells = pd.DataFrame({"subject": [1, 1], "label": [0, 1], "trials": [30, trials]})
    (found,) = find_warnings(_table(**table), scores, cells)
    assert message in found


def test_nothing_to_warn_of():
    assert find_warnings(_table(), AGREE, pd.DataFrame({"subject": [1], "label": [0], "trials": [30]})) == []
