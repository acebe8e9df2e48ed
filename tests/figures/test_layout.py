"""Every label can be read at the width of the paper's column: none is cut off, none covers another."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from figures.finished import spoilt
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from braindecode_censor.figures import plot_codes
from braindecode_censor.figures.folder import read_results
from braindecode_censor.figures.plot_all import PLOTS
from braindecode_censor.figures.style import COLUMN, PAGE, style

NAMES = [plot.name for plot in PLOTS]


def many(scores):
    """Sixteen subjects with long names that hold special characters of LaTeX and HTML."""
    copies = []
    for k in range(4):
        copy = scores.copy()
        copy["subject"] = [f"patient_$%02d<b>{4 * k + int(s)}" for s in scores["subject"]]
        copy["score"] = (scores["score"] + 0.01 * k).clip(0, 1)
        copies.append(copy)
    return pd.concat(copies, ignore_index=True)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    return read_results(spoilt(tmp_path_factory.mktemp("crowded") / "out", many))


def labels(figure):
    texts = list(figure.texts)
    for axis in figure.axes:
        legends = [axis.get_legend()] if axis.get_legend() else []
        texts += [axis.title, *axis.texts]
        for legend in legends:
            texts += [*legend.get_texts(), legend.get_title()]
        if not axis.axison:
            continue
        for line in (axis.xaxis, axis.yaxis):
            low, high = sorted(line.get_view_interval())
            room = 1e-6 * (high - low)
            ticks = [*line.get_major_ticks(), *line.get_minor_ticks()]
            texts += [
                t.label1 for t in ticks if t.label1.get_visible() and low - room <= t.get_loc() <= high + room
            ]
            texts.append(line.label)
    for legend in figure.legends:
        texts += legend.get_texts()
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def footprint(text, canvas):
    """Return the pixels under a text's box, which turns with the text."""
    width, height = canvas.get_width_height()
    renderer = RendererAgg(width, height, canvas.figure.dpi)
    text.set_bbox({"facecolor": "black", "edgecolor": "none", "pad": 0.0})
    text.draw(renderer)
    text.set_bbox(None)
    return np.asarray(renderer.buffer_rgba())[..., 3] > 128


def check(figure):
    figure.set_dpi(120)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.set_layout_engine("none")  # measuring must not move anything
    texts = labels(figure)
    width, height = canvas.get_width_height()
    owners = np.full((height, width), -1)  # of every pixel, the number of the text that lies there
    assert len(texts) > 5
    for number, text in enumerate(texts):
        box = text.get_window_extent(canvas.get_renderer())
        inside = box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= width + 0.5 and box.y1 <= height + 0.5
        assert inside, f"{text.get_text()!r} is cut off"
        assert text.get_fontsize() >= 6, f"{text.get_text()!r} is too small to print"
        mask = footprint(text, canvas)
        others = {texts[k].get_text() for k in np.unique(owners[mask]) if k >= 0}
        assert not others, f"{text.get_text()!r} lies over {others}"
        owners[mask] = number


@pytest.mark.parametrize("name", NAMES)
def test_labels_fit(name, results):
    figure = PLOTS[NAMES.index(name)].figure(results)
    assert figure.get_figwidth() in (COLUMN, PAGE)
    check(figure)


@pytest.mark.parametrize("name", ["results", "gains"])
def test_labels_of_many_subjects_with_long_names_fit(name, crowded):
    figure = PLOTS[NAMES.index(name)].figure(crowded)
    check(figure)
    assert len(figure.axes[0 if name == "gains" else 1].get_xticklabels()) == 16


@pytest.mark.parametrize("n_subjects", [5, 16, 40])
def test_codes_show_subjects_with_different_looks(n_subjects):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"subject": np.repeat(np.arange(n_subjects), 10), "label": ["left", "right"] * 5 * n_subjects}
    )
    frame[["first", "second"]] = rng.standard_normal((len(frame), 2))
    frame = pd.concat([frame.assign(decoder=d, explained=0.5) for d in plot_codes.TITLES], ignore_index=True)
    with style():
        figure = plot_codes.draw(frame)
        check(figure)
    lines = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == n_subjects
    legend = figure.legends[0] if figure.legends else figure.axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [str(k) for k in range(n_subjects)]


def test_style_does_not_depend_on_the_users_settings(results, tmp_path):
    PLOTS[0].write(results, tmp_path / "plain")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "savefig.dpi": 50}):
        PLOTS[0].write(results, tmp_path / "changed")
    assert (tmp_path / "changed" / "results.png").read_bytes() == (
        tmp_path / "plain" / "results.png"
    ).read_bytes()
