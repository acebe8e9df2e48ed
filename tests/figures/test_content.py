"""The figures show the numbers of the folder, at the right position and in the right colour."""

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from figures.finished import SUBJECTS

from braindecode_censor.figures import (
    plot_codes,
    plot_gains,
    plot_leakage,
    plot_ranks,
    plot_results,
    plot_training,
    plot_weights,
)
from braindecode_censor.figures.style import label_of
from braindecode_censor.paper.selection import SELECTED
from braindecode_censor.paper.stored import read_training
from braindecode_censor.paper.tables import read_index

METHODS = ["adv", "mige", "mmd", "pairmmd", "began"]
DECODERS = ["baseline", *METHODS, SELECTED]


@pytest.fixture(scope="module")
def scores(results):
    """Test score by decoder and subject, computed from the two files that a run leaves."""
    rows = pd.read_csv(results.folder / "scores.csv")
    table = pd.read_csv(results.folder / "table.csv", index_col="decoder")
    by_decoder = {}
    for decoder in DECODERS:
        rows_of_decoder = rows[rows["setting"] == table.loc[decoder, "setting"]]
        by_decoder[decoder] = rows_of_decoder.groupby("subject")["score"].mean()
    return pd.DataFrame(by_decoder)


@pytest.fixture(scope="module")
def drawn(results):
    return plot_results.PLOT.figure(results)


def _data_lines(axis):
    return [line for line in axis.lines if line.get_label() != "_chance"]


def _folds_and_means(axis):
    means = [line for line in _data_lines(axis) if line.get_marker() == "x"]
    return [line for line in _data_lines(axis) if line.get_marker() != "x"], means


@pytest.mark.parametrize("module", [plot_results, plot_weights, plot_leakage])
def test_accuracies_are_shown_with_chance(module, results):
    for axis in module.PLOT.figure(results).axes:
        (line,) = [line for line in axis.lines if line.get_label() == "_chance"]
        assert set(line.get_ydata()) == {0.5}
        low, high = axis.get_ylim()
        assert low <= 0.5 <= high


def test_every_fold_of_every_method_is_a_point(drawn, scores):
    folds, _ = _folds_and_means(drawn.axes[0])
    assert [line.get_label() for line in folds] == [label_of(decoder) for decoder in DECODERS]
    for line, decoder in zip(folds, DECODERS):
        assert len(line.get_ydata()) == SUBJECTS
        np.testing.assert_allclose(sorted(line.get_ydata()), sorted(scores[decoder]))
        assert abs(np.asarray(line.get_xdata()) - DECODERS.index(decoder)).max() < 0.5


def test_means_are_black_crosses_at_the_means_of_the_csv(drawn, results):
    _, means = _folds_and_means(drawn.axes[0])
    table = pd.read_csv(results.folder / "table.csv", index_col="decoder")
    assert [matplotlib.colors.to_hex(line.get_color()) for line in means] == ["#000000"] * len(DECODERS)
    np.testing.assert_allclose([line.get_ydata()[0] for line in means], table.loc[DECODERS, "mean"])
    assert [line.get_xdata()[0] for line in means] == list(range(len(DECODERS)))


def test_subjects_are_in_the_order_of_the_baseline(drawn, scores):
    right = drawn.axes[1]
    order = scores["baseline"].sort_values(kind="stable").index
    assert [text.get_text() for text in right.get_xticklabels()] == [str(subject) for subject in order]
    for line, decoder in zip(right.lines, DECODERS):
        np.testing.assert_allclose(line.get_ydata(), scores.loc[order, decoder])
    baseline = np.asarray(right.lines[0].get_ydata())
    assert (np.diff(baseline) >= 0).all() and np.ptp(baseline) > 0


def test_gains_are_differences_with_intervals_around_them(results, scores):
    frame = plot_gains.numbers(results)
    by_subject = frame[frame["over"] == "trials"].set_index("subject")
    expected = scores[SELECTED] - scores["baseline"]
    np.testing.assert_allclose(by_subject.loc[expected.index, "gain"], expected, atol=1e-7)
    assert list(by_subject.index) == list(scores["baseline"].sort_values(kind="stable").index)
    assert (
        (by_subject["low"] <= by_subject["gain"] + 1e-9) & (by_subject["gain"] <= by_subject["high"] + 1e-9)
    ).all()
    table = pd.read_csv(results.folder / "table.csv", index_col="decoder")
    means = frame[frame["subject"] == "all"].set_index("decoder")
    for column in ("gain", "low", "high"):
        np.testing.assert_allclose(means.loc[METHODS, column], table.loc[METHODS, column])


def test_ranks_are_means_over_subjects(results, scores):
    frame = plot_ranks.numbers(results).set_index("decoder")
    ranks = scores[["baseline", *METHODS]].rank(axis=1, ascending=False).mean()
    np.testing.assert_allclose(frame.loc[ranks.index, "rank"], ranks)
    assert SELECTED not in frame.index and frame["selected"].sum() == 1
    # Demšar (2006), Table 5: q = 2.850 for six classifiers at the 5 % level
    assert frame["critical_difference"].iloc[0] == pytest.approx(
        2.850 * np.sqrt(6 * 7 / (6 * SUBJECTS)), rel=1e-3
    )
    pairs = plot_ranks.pairs(results)
    assert len(pairs) == 15 and (pairs["p_holm"] >= pairs["p"]).all()
    table = pd.read_csv(results.folder / "table.csv", index_col="decoder")
    gains = pairs[pairs["reference"] == "baseline"].set_index("decoder")["gain"]
    np.testing.assert_allclose(gains[METHODS], table.loc[METHODS, "gain"])  # one sign in both tables


def test_weights_show_the_search_and_the_tested_settings(results):
    search = pd.read_csv(results.folder / "search.csv")
    figure = plot_weights.PLOT.figure(results)
    assert [axis.get_title() for axis in figure.axes] == [label_of(method) for method in METHODS]
    frame = plot_weights.numbers(results)
    assert len(frame) == len(search) + 1
    mmd = frame[frame["method"] == "mmd"]
    assert set(mmd["mode"]) == {"marginal", "conditional"} and set(mmd["weight"]) == {0.1}
    adv = figure.axes[0].lines[1]
    np.testing.assert_allclose(adv.get_xdata(), [0.01, 0.1])
    np.testing.assert_allclose(adv.get_ydata(), search.loc[search["method"] == "adv", "score_valid"])


def test_training_curves_are_the_records_of_the_trainings(results):
    frame = plot_training.numbers(results)
    assert set(frame["decoder"]) == {"baseline", *METHODS}
    index = read_index(results.folder)
    index = index[(index["setting"] == results.decoders["adv"]) & (index["seed"] == 0)]
    assert len(index) == SUBJECTS
    for row in index.itertuples():
        history = read_training(results.folder, row.key).record["history"]
        curves = frame[(frame["decoder"] == "adv") & (frame["subject"] == row.subject)]
        for column, name in (("train_loss",) * 2, ("penalty", "subject_penalty"), ("subject_accuracy",) * 2):
            np.testing.assert_allclose(curves[column], history[name])
    assert frame.query("decoder == 'baseline'")["penalty"].isna().all()
    assert frame.query("decoder == 'mmd'")["penalty"].notna().all()


def test_leakage_and_codes_come_from_the_stored_weights(results):
    leakage = plot_leakage.numbers(results)
    assert leakage.groupby("decoder").size().to_dict() == {d: SUBJECTS for d in ["baseline", *METHODS]}
    assert (leakage["chance"] == 1 / SUBJECTS).all() and leakage["leakage"].between(0, 1).all()
    codes = plot_codes.numbers(results)
    assert codes.groupby("decoder").size().tolist() == [96, 96]
    figure = plot_codes.PLOT.figure(results)
    assert len(figure.axes) == 4 and len(figure.axes[0].lines) == SUBJECTS
    shown = np.concatenate([line.get_xydata() for line in figure.axes[0].lines])
    baseline = codes[codes["decoder"] == "baseline"].sort_values("subject", kind="stable")
    np.testing.assert_allclose(shown, baseline[["first", "second"]])
