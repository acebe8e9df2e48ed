"""The report equals the store, warns where it should, and needs nothing but itself."""

import ast
import html
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from docs.runner import run_script
from figures.finished import claim, few_figures, spoilt

from braindecode_censor.figures.plot_all import PLOTS
from braindecode_censor.paper.probing import load_data
from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.wording import caveats, narrow_table, signed
from braindecode_censor.storage import html as html_page


class Page:
    """Tables, images, code and text of a report."""

    def __init__(self, path):
        self.source = path.read_text()
        self.style = re.search(r"<style>(.*?)</style>", self.source, re.DOTALL)[1]
        self.fetched = re.findall(r' (?:src|href|data)="([^"]*)"', self.source)
        self.images = re.findall(r'<img alt="([^"]*)"', self.source)
        self.code = [_text(block) for block in re.findall(r"<code>(.*?)</code>", self.source, re.DOTALL)]
        self.words = [
            _text(word).strip() for word in re.split(r"<[^>]*>", self.source.partition("<body>")[2])
        ]
        self.text = " ".join(self.words)

    def rows(self, name):
        (table,) = re.findall(rf'<table [^>]*id="{name}".*?</table>', self.source, re.DOTALL)
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
        return [[_text(cell) for cell in re.findall(r"<t[hd]\b.*?</t[hd]>", row)] for row in rows]

    def frame(self, name):
        head, *rows = self.rows(name)
        return pd.DataFrame(rows, columns=head)


def _text(source):
    return html.unescape(re.sub(r"<[^>]*>", "", source))


@pytest.fixture(scope="module")
def page(folder):
    return Page(folder / "report.html")


def test_report_fetches_nothing(page):
    assert page.fetched and all(address.startswith(("data:", "#")) for address in page.fetched)
    assert "url(" not in page.style and "@import" not in page.style


def test_selected_method_and_numbers_are_those_of_the_store(page, folder):
    table = pd.read_csv(folder / "table.csv")
    row = table.set_index("decoder").loc["AutoTransfer (paper)"]
    text = page.text
    assert f"Selected: {row['setting']}." in text and f"balanced accuracy of {row['mean']:.3f}" in text
    assert f"{signed(row['gain'])} (95 % interval over 4 subjects {signed(row['low'])}" in text
    assert "chance is 0.500" in text and "names the subject in" in text
    shown = page.frame("results")
    assert shown["decoder"].equals(table["decoder"]) and shown["configuration"].equals(table["setting"])
    for column in ("mean", "lower_quartile", "worst", "gain", "p"):
        np.testing.assert_allclose(shown[column.replace("_", " ")].astype(float), table[column], atol=5e-4)
    assert "-0.000" not in text and not {"nan", "None", "NaN"} & set(page.words)


def test_every_subject_has_its_scores(page, folder):
    scores = pd.read_csv(folder / "scores.csv")
    shown = page.frame("subjects")
    baseline = scores[scores["setting"] == "baseline"].groupby("subject")["score"].mean()
    order = baseline.sort_values(kind="stable").index
    assert list(shown["subject"]) == [str(subject) for subject in order]
    np.testing.assert_allclose(shown["baseline"].astype(float), baseline[order], atol=5e-4)
    for number, subject in enumerate(order):
        assert len(page.frame(f"subject-{number}")) == (scores["subject"] == subject).sum()


def test_all_figures_leakage_search_and_provenance_are_there(page, folder):
    assert page.images and set(page.images) == {plot.title for plot in PLOTS}
    leakage = pd.read_csv(folder / "probes" / "leakage.csv")
    shown = page.frame("leakage")
    accuracy = leakage.query("setting == 'baseline' and view == 'marginal'")["accuracy"].mean()
    row = shown[(shown["configuration"] == "baseline") & (shown["view"] == "marginal")]
    assert float(row["accuracy"].item()) == pytest.approx(accuracy, abs=5e-4)
    assert len(page.frame("search")) == len(pd.read_csv(folder / "search.csv"))
    provenance = dict(page.rows("provenance"))
    assert {"started", "machine", "python", "torch", "moabb", "dataset_code", "training"} <= set(provenance)
    text = page.text
    assert "Smedemark-Margulies" in text and "How to cite" in text


def test_the_lines_copy_and_run_anywhere(page, folder, tmp_path):
    """The decoder they load is the very one that was scored, on the subject that it has never seen."""
    (lines,) = page.code
    (tmp_path / "lines.py").write_text(lines)
    done = run_script(tmp_path / "lines.py", tmp_path, timeout=100)
    assert done.code == 0, done.output
    # The last line is the runner's.
    answers = np.array(ast.literal_eval(done.output.strip().splitlines()[-2]))
    assert set(answers) <= {"NonTarget", "Target"}
    index = pd.read_csv(folder / "trainings" / "index.csv")
    best = index[index["key"] == re.search(r'load_decoder\(folder, "(\w+)"\)', lines)[1]].iloc[0]
    data = load_data(folder)
    y = np.array(data.classes)[data.y[data.subjects == best["subject"]]]
    scores = pd.read_csv(folder / "scores.csv")
    fold = scores.query("setting == @best.setting and seed == @best.seed and subject == @best.subject")
    accuracy = np.mean([(answers == y)[y == name].mean() for name in data.classes])
    assert accuracy == pytest.approx(fold["score"].item())
    same = scores[scores["setting"] == best["setting"]]
    assert fold["score_valid"].item() == same["score_valid"].max()


def test_names_are_shown_as_text(tmp_path):
    name = "<script>document.title='changed'</script>"
    page = html_page.Page(name)
    page.add(name, name, html_page.table(pd.DataFrame({name: [name]}), "names"), html_page.items([name]))
    page.add(name, name, html_page.facts({name: name}, "facts"), html_page.folded(name, html_page.code(name)))
    shown = Page(page.write(tmp_path / "report.html"))
    assert shown.source.count("<script") == 1, "the page's script"
    assert shown.frame("names")[name].tolist() == [name] and dict(shown.rows("facts")) == {name: name}


def test_report_without_the_data_names_the_reason(tmp_path):
    folder = spoilt(tmp_path / "out")
    shutil.rmtree(folder / "probes")
    claim(folder, dataset=None)
    with few_figures("leakage"):
        text = Page(read_result(folder).report).text
    assert "were not probed" in text and "made with a dataset object" in text
    assert "leakage was not drawn" in text


def test_report_names_damaged_trainings(tmp_path):
    folder = spoilt(tmp_path / "out")
    row = pd.read_csv(folder / "trainings" / "index.csv").iloc[3]
    for path in (folder / "trainings").glob(f"{row['key']}*"):
        path.write_bytes(path.read_bytes()[:-10])
    with few_figures("schematic"):
        result = read_result(folder)
    (note,) = result.notes
    assert row["key"][:12] in note and row["setting"] in note and f"without subject {row['subject']}" in note
    assert note in Page(result.report).text


def test_the_table_of_the_terminal_fits_100_columns():
    names = ["baseline", "AutoTransfer (paper+baseline)", "a pipeline of the user"]
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
        ({}, AGREE, 30, None),
        ({}, AGREE, 9, "Too few trials: 1 of 2 cells"),
        ({"gain": -0.01, "low": -0.03}, AGREE, 30, "No gain"),
        ({"low": -0.01}, AGREE, 30, "No certain gain"),
        ({"seeds": 1}, AGREE, 30, "One seed"),
        ({"distinguishable": False}, AGREE, 30, "not distinguishable from the spread over seeds"),
        ({}, _scores([0.5, 0.6, 0.7, 0.8], [0.7, 0.6, 0.5, 0.4]), 30, "Validation and test disagree"),
        ({}, _scores([0.5, 0.6, 0.7, 0.8, 0.9], [0.4, 0.5, 0.6, 0.7, np.nan]), 30, "1 of 5 test scores"),
    ],
    ids=["none", "trials", "loss", "uncertain", "seed", "seeds", "disagree", "nan"],
)
def test_warnings(table, scores, trials, message):
    cells = pd.DataFrame({"subject": [1, 1], "label": [0, 1], "trials": [30, trials]})
    warnings = caveats(SimpleNamespace(table=_table(**table), scores=scores), cells)
    assert len(warnings) == (message is not None) and all(message in warning for warning in warnings)
