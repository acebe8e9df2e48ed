"""One command draws everything, twice the same, and names what a folder lacks."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from docs.runner import run_script
from figures.finished import claim, finished, spoilt
from tiny import DATA

from braindecode_censor.figures import plot_codes, plot_gains, plot_results, plot_tables, product
from braindecode_censor.figures.folder import Missing, Results, read_results
from braindecode_censor.figures.plot_all import PLOTS, TABLES
from braindecode_censor.paper.probing import load_data, probe

ROOT = Path(__file__).parents[2]
PLOT_ALL = ROOT / "paper_figures" / "plot_all.py"
ENDINGS = {
    **{plot.name: {"pdf", "png", "csv"} for plot in PLOTS},
    **{table.name: {"csv", "tex"} for table in TABLES},
}
ENDINGS["schematic"] = {"pdf", "png"}


def made(folder):
    files = [path.name.split(".") for path in folder.iterdir()]
    return {name: {ending for n, ending in files if n == name} for name, _ in files}


def everything(folder):
    """Draw everything without writing it, which takes most of the time; returns what is missing, and the notes."""
    results, missing = read_results(folder), {}
    for item in (*PLOTS, *TABLES):
        try:
            item.figure(results) if item in PLOTS else item.rows(results)
        except Missing as reason:
            missing[item.name] = str(reason)
    return missing, results.notes


def test_the_command_makes_everything_and_always_the_same(tmp_path):
    """As `make figures` calls it."""
    done = run_script(PLOT_ALL, tmp_path, 100, ["--results", finished(), "--out", tmp_path / "figures"])
    assert done.code == 0 and made(tmp_path / "figures") == ENDINGS, done.output
    assert "not drawn" not in done.output and "note" not in done.output
    # the report's were drawn by another process, and are the same bytes
    for path in (tmp_path / "figures").iterdir():
        assert path.read_bytes() == (finished() / "figures" / path.name).read_bytes(), path.name


def test_an_empty_folder_gives_what_needs_no_results(tmp_path):
    (tmp_path / "empty").mkdir()
    results = read_results(tmp_path / "empty")
    _, missing = product.make((*PLOTS, *TABLES), results, tmp_path / "out")
    assert made(tmp_path / "out") == {
        name: ENDINGS[name] for name in ("schematic", "penalties", "hyperparameters")
    }
    assert "holds no scores" in missing["results"] and "autotransfer run" in missing["results"]
    assert "only figures that need no scores" in results.notes[0]
    with pytest.raises(Missing, match="is no folder: make one with"):
        read_results(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("column", "value", "note", "missing_figures"),
    [
        ("method", "METHOD", "METHOD: no scores, not drawn", set()),
        ("setting", "SELECTED", "SELECTED was selected, but has no scores", {"gains"}),
        ("method", "baseline", "baseline: no scores, not drawn", {"gains"}),
    ],
    ids=["method", "selected", "baseline"],
)
def test_incomplete_scores_are_named_and_the_others_drawn(column, value, note, missing_figures, tmp_path):
    selected = json.loads((finished() / "selected.json").read_text())["paper"]
    names = {"SELECTED": selected, "METHOD": "adv" if selected.startswith("mmd") else "mmd"}
    for word, name in names.items():
        note, value = note.replace(word, name), value.replace(word, name)
    folder = spoilt(tmp_path / "out", lambda scores: scores[scores[column] != value])
    missing, notes = everything(folder)
    assert any(line.startswith(note) for line in notes)
    assert set(missing) == missing_figures and all("selected decoder" in text for text in missing.values())
    decoders = set(plot_results.numbers(read_results(folder))["decoder"])
    assert decoders and value not in decoders


def test_one_subject_has_no_paired_tests(tmp_path):
    folder = spoilt(tmp_path / "out", lambda scores: scores[scores["subject"] == 2])
    missing, notes = everything(folder)
    assert notes[0].startswith("one subject only") and set(missing) == {"ranks", "pairs"}


def test_scores_that_are_no_numbers_are_said_and_left_out(tmp_path):
    def change(scores):
        scores.loc[(scores["method"] == "adv") & (scores["subject"] == 3), "score"] = np.nan
        return scores

    folder = spoilt(tmp_path / "out", change)
    missing, notes = everything(folder)
    assert not missing and re.fullmatch(
        r"adv-\S+: 2 of 8 test scores are not a number and are left out", notes[0]
    )
    figure = plot_results.PLOT.figure(read_results(folder))
    folds = {line.get_label(): line for line in figure.axes[0].lines}
    assert len(folds["Adv"].get_ydata()) == 3 and len(folds["MMD"].get_ydata()) == 4


def test_what_can_no_longer_be_drawn_does_not_stay(tmp_path):
    folder = spoilt(tmp_path / "out")
    written, _ = product.make([plot_codes.PLOT], read_results(folder), tmp_path / "figures")
    assert len(written) == 3 and all(path.is_file() for path in written)
    (folder / "probes" / "codes.csv").unlink()
    _, missing = product.make([plot_codes.PLOT], read_results(folder), tmp_path / "figures")
    assert "autotransfer report" in missing["codes"] and not list((tmp_path / "figures").glob("codes.*"))


def test_gains_without_probes_take_the_interval_over_seeds(tmp_path):
    folder = spoilt(tmp_path / "out")
    (folder / "probes" / "gains.csv").unlink()
    assert "seeds" in set(plot_gains.numbers(read_results(folder))["over"])


def test_folder_without_a_grid_gives_the_papers_tables():
    frame = plot_tables.hyperparameters(Results(Path("none")))
    values = frame.set_index(["methods", "parameter"])["values"]
    assert values["Adv, BEGAN, MIGE", "penalty weight λ"] == "1, 0.3, 0.1, 0.03, 0.01"
    assert values["MIGE", "regularisation γ of the score estimator"] == "0.01, 0.001, 0.0001"
    penalties = plot_tables.penalties()
    assert penalties["information"].tolist()[:2] == ["I(z;s)", "I(z;s|y)"]
    assert penalties.iloc[-1, 2:].tolist() == ["Adv, MIGE", "MMD, PairMMD, BEGAN"]


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_latex_has_the_rows_of_the_csv(table, results):
    rows = table.rows(results)
    source = table.latex(rows)
    lines = [line for line in source.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(rows) + 1
    assert all(len(re.findall(r"(?<!\\)&", line)) == rows.shape[1] - 1 for line in lines)
    assert not re.search(r"(?<!\\)%", "\n".join(lines)) and source.count("$") % 2 == 0
    assert source.isascii()


def test_probes_are_the_same_from_the_folder_alone_and_not_repeated(tmp_path):
    folder = spoilt(tmp_path / "out")
    table = pd.read_csv(folder / "table.csv", index_col="decoder")
    before = {path.name: path.read_bytes() for path in (folder / "probes").iterdir()}
    stamp = (folder / "probes" / "leakage.csv").stat().st_mtime_ns
    probe(folder, table)
    assert (folder / "probes" / "leakage.csv").stat().st_mtime_ns == stamp
    (folder / "probes" / "leakage.csv").write_text("changed")
    probe(folder, table)
    after = {path.name: path.read_bytes() for path in (folder / "probes").iterdir()}
    codes = [pd.read_csv(io.BytesIO(files.pop("codes.csv"))) for files in (before, after)]
    pd.testing.assert_frame_equal(*codes, atol=1e-5)  # projections round differently from run to run
    assert after == before


def test_other_data_under_the_same_name_are_not_probed(tmp_path):
    folder = spoilt(tmp_path / "out")
    claim(folder, dataset_options={**DATA, "n_trials": 30})
    with pytest.raises(ValueError, match="does not give the trials"):
        load_data(folder)
    claim(folder, dataset=None)
    with pytest.raises(ValueError, match="made with a dataset object"):
        load_data(folder)
    (folder / "trainings" / "index.csv").unlink()
    with pytest.raises(ValueError, match="autotransfer resume"):
        probe(folder, pd.read_csv(folder / "table.csv", index_col="decoder"))


def test_changed_tables_are_not_drawn(tmp_path):
    folder = spoilt(tmp_path / "out")
    path = folder / "scores.csv"
    path.write_text(path.read_text().replace("0.", "0.9", 1))
    with pytest.raises(Missing, match=r"scores.csv was changed after it was written.*autotransfer resume"):
        read_results(folder)
    done = run_script(PLOT_ALL, tmp_path, 100, ["--results", folder])
    assert done.code == 1 and "was changed after" in done.output and "Traceback" not in done.output
