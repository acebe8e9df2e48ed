"""Probes report the subject leakage that there is, and none where there is none."""

import numpy as np
import pytest

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.training.leakage import subject_leakage


@pytest.fixture(scope="module")
def labels():
    return np.tile(np.arange(4), 80), np.repeat(np.arange(2), 160)  # subjects, classes


def _excess(report, **where):
    for column, value in where.items():
        report = report[report[column] == value]
    return report["excess"].to_numpy()


def test_no_leakage_of_noise(labels):
    subjects, y = labels
    z = np.random.default_rng(0).normal(size=(320, 6))
    report = subject_leakage(z, y, subjects)
    assert len(report) == 4
    assert (report.chance == 0.25).all()
    assert np.abs(report.excess).max() < 0.1
    assert ((report.low < 0.05) & (report.high > -0.05)).all()


def test_code_that_is_the_subject(labels):
    subjects, y = labels
    z = np.eye(4)[subjects] + 0.01 * np.random.default_rng(0).normal(size=(320, 4))
    report = subject_leakage(z, y, subjects)
    np.testing.assert_allclose(report.accuracy, 1.0)
    np.testing.assert_allclose(report.excess, 0.75)


def test_within_class_leakage_excludes_the_class(labels):
    """Subjects 0, 1 do class 0 mostly, subjects 2, 3 class 1; the code knows the class and nothing else."""
    rng = np.random.default_rng(0)
    subjects, _ = labels
    y = (rng.random(320) < np.where(subjects < 2, 0.15, 0.85)).astype(int)
    z = 3 * y[:, None] + rng.normal(size=(320, 3))
    report = subject_leakage(z, y, subjects)
    assert _excess(report, view="marginal").min() > 0.1
    assert np.abs(_excess(report, view="within class")).max() < 0.1


def test_kernel_probe_detects_variances(labels):
    """Subjects differ in variance alone, which no linear probe can see."""
    subjects, y = labels
    z = np.random.default_rng(0).normal(size=(320, 4)) * (1 + 4 * (subjects % 2))[:, None]
    report = subject_leakage(z, y, subjects % 2)
    assert np.abs(_excess(report, probe="logistic")).max() < 0.15
    assert _excess(report, probe="kernel").min() > 0.3


def test_halves(labels):
    subjects, y = labels
    rng = np.random.default_rng(0)
    z = np.hstack([rng.normal(size=(320, 4)), np.eye(4)[subjects] + 0.1 * rng.normal(size=(320, 4))])
    report = subject_leakage(z, y, subjects, halves=True, probes=("logistic",))
    assert len(report) == 6
    assert np.abs(_excess(report, part="first half")).max() < 0.1
    assert _excess(report, part="second half").min() > 0.7


def test_interval_coverage():
    """Over repetitions, 95 % intervals of a known accuracy hold it about that often."""
    subjects, y = np.tile([0, 1], 100), np.zeros(200)
    truth, covered, widths = 0.8413 - 0.5, [], []  # two normal subjects, two standard deviations apart
    for seed in range(20):
        z = np.random.default_rng(seed).normal(size=(200, 1)) + 2 * subjects[:, None]
        row = subject_leakage(
            z, y, subjects, n_splits=2, n_boot=400, random_state=seed, probes=("logistic",)
        ).iloc[0]
        covered.append(row.low <= truth <= row.high)
        widths.append(row.high - row.low)
    assert np.mean(covered) >= 0.8
    expected = 2 * 1.96 * np.sqrt(0.8413 * 0.1587 / 200)
    assert np.mean(widths) == pytest.approx(expected, rel=0.2), "an infinite interval covers too"


def test_report_of_the_estimator(data, quick):
    options = {"probes": ("logistic",), "n_boot": 10}
    clf = CensoredEEGClassifier(penalty="mmd", censoring="complementary", **quick).fit(*data)
    assert set(clf.subject_leakage(*data, **options).part) == {"all", "first half", "second half"}
    clf = CensoredEEGClassifier(penalty="mmd", **quick).fit(*data)
    assert clf.subject_leakage(*data, **options).shape == (2, 8)
