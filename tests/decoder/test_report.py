"""The report of a decoder: what it says, as one file that fetches nothing and fits a phone."""

import re

import numpy as np
import pytest
from browser import CLIPPED, FITS, NARROW, browser, opened  # noqa: F401 (fixtures)
from subjects import fit_decoder, mixed_subjects

import braindecode_censor as bc
from braindecode_censor.decoder.report import calibration_table, decided_table

X, Y, SUBJECTS = mixed_subjects(9, n_trials=18, n_times=32)
LABELS = np.array(["<left>", "right"])[Y]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    clf = fit_decoder(X, LABELS, SUBJECTS, partners=2)
    path = tmp_path_factory.mktemp("report") / "page.html"
    clf.save(path.parent / "decoder")
    bc.AutoTransferClassifier.load(path.parent / "decoder").report(path)  # The folder has all that it says.
    return path, clf


def test_report_says_what_to_expect(page):
    text, clf = page[0].read_text(), page[1]
    assert f"{clf.heldout_.mean:.3f} balanced accuracy" in text
    assert all(title in text for title in ("Held-out subjects", "Calibration", "Confusion matrix", "Limits"))
    assert "<left>" not in text and "taught" in text
    images = re.findall(r'<img alt="([^"]+)"[^>]*src="(data:image/png;base64,)', text)
    assert len(images) >= 4 and all(len(alt) > 10 for alt, _ in images)
    assert not re.search(r'(src|href)="(?!data:|#)', text)


@pytest.mark.parametrize("width", [390, 1280])
def test_report_fits_a_phone_and_a_screen(width, page, opened):  # noqa: F811
    shown = opened(page[0], width, "light")
    assert shown.evaluate(CLIPPED, "table, img, p, li, h1, h2, h3") == [] and shown.evaluate(FITS)
    assert shown.evaluate(NARROW) == []


def test_tables_of_known_trials():
    probabilities, y = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]), np.array([0, 1, 1, 1])
    assert decided_table(probabilities, y)["right"].tolist() == [1, 1, 1, 0.75]
    assert decided_table(probabilities, y)["sure"].tolist() == [0.9, 0.8, 0.7, 0.6]
    bins, error = calibration_table(probabilities, y)
    assert bins["trials"].sum() == 4
    assert error == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4)
