"""Windows and decisions without a stream: known answers, any chunks, losses, jitter, late markers."""

import numpy as np
import pytest
from scipy.signal import butter, sosfilt

from braindecode_censor.live.decide import Decide
from braindecode_censor.live.engine import _CausalFilter
from braindecode_censor.live.windows import Windows

SFREQ = 128.0
N_TIMES = 64


def feed(samples, stamps, sizes, markers=(), **options):
    """Return all windows of a stream in chunks of these sizes, in turn."""
    windows, taken, start, k = Windows(N_TIMES, SFREQ, **options), [], 0, 0
    for marker in markers:
        windows.mark(*marker)
    while start < len(samples):
        rows = slice(start, start + sizes[k % len(sizes)])
        windows.add(samples[rows], stamps[rows])
        taken += windows.take()
        start, k = rows.stop, k + 1
    return taken


def recording(seconds=40, seed=0):
    n = int(seconds * SFREQ)
    return np.random.default_rng(seed).normal(size=(n, 3)), 100 + np.arange(n) / SFREQ


def lose(samples, stamps, first, n):
    keep = np.r_[:first, first + n : len(samples)]
    return samples[keep], stamps[keep]


def test_markers_cut_from_the_nearest_sample():
    samples, stamps = recording()
    # 0.4 of a sample late: the nearest is the one before; 0.6: the one after.
    markers = [(stamps[500] + 0.4 / SFREQ, "a"), (stamps[900] + 0.6 / SFREQ, "b")]
    first, second = feed(samples, stamps, [17], markers)
    np.testing.assert_array_equal(first.signals, samples[500 : 500 + N_TIMES].T)
    np.testing.assert_array_equal(second.signals, samples[901 : 901 + N_TIMES].T)
    assert (first.marker, first.first, second.first) == ("a", 500, 901)
    (before,) = feed(samples, stamps, [17], [markers[0]], tmin=-20)
    np.testing.assert_array_equal(before.signals, samples[480 : 480 + N_TIMES].T)


@pytest.mark.parametrize("every", [None, 0.25])
@pytest.mark.parametrize("noise", [0, 0.006])
def test_chunks_do_not_matter(every, noise):
    samples, stamps = lose(*recording(), 2000, 3)
    stamps = stamps + np.random.default_rng(1).uniform(-noise, noise, len(stamps))
    markers = [] if every else [(100 + t, str(t)) for t in (0.5, 3.3, 9.7, 15.6, 22.1, 38)]
    reference = feed(samples, stamps, [1], markers, every=every)
    assert len(reference) == (158 if every else 6)
    for sizes in ([4], [32], [1, 7, 100], [len(samples)]):
        windows = feed(samples, stamps, sizes, markers, every=every)
        assert [(w.first, w.why, w.marker) for w in windows] == [
            (w.first, w.why, w.marker) for w in reference
        ]
        for one, other in zip(windows, reference):
            np.testing.assert_array_equal(one.signals, other.signals)


@pytest.mark.parametrize("n_lost", [1, 12, 300])
@pytest.mark.parametrize("noise", [0, 0.006])
def test_no_window_over_a_loss_and_all_others_whole(n_lost, noise):
    original, times = recording()
    samples, stamps = lose(original, times, 2500, n_lost)
    stamps = stamps + np.random.default_rng(2).uniform(-noise, noise, len(stamps))
    for window in feed(samples, stamps, [16], every=0.1):
        end = window.first + N_TIMES
        # Where stamps jitter, a loss in the last samples of a window cannot be seen yet.
        seen = window.first < 2500 < end - (0 if noise == 0 else 40)
        near = window.first - 40 < 2500 < end + 40
        assert window.why == "samples lost" if seen else near or window.why == "", window
        assert (window.signals is None) == bool(window.why)


def test_jitter_and_drift_of_a_clock_refuse_nothing():
    samples, stamps = recording(120)
    drifting = (
        stamps + 50e-6 * (stamps - stamps[0]) + np.random.default_rng(3).uniform(-0.006, 0.006, len(stamps))
    )
    assert {window.why for window in feed(samples, drifting, [16], every=0.5)} == {""}
    in_chunks = (
        stamps
        + np.random.default_rng(4).uniform(-0.006, 0.006, len(stamps) // 16 + 1).repeat(16)[: len(stamps)]
    )
    assert {window.why for window in feed(samples, in_chunks, [16], every=0.5)} == {""}


def test_another_rate_than_declared_is_refused():
    samples, _ = recording(20)
    whys = [window.why for window in feed(samples, np.arange(len(samples)) / 120, [16], every=0.5)]
    assert whys[-1] == "rate of 120 samples per second"


def test_late_reordered_early_and_missing_markers():
    samples, stamps = recording(60)
    windows, taken = Windows(N_TIMES, SFREQ), []
    for k in range(0, len(samples), 128):
        windows.add(samples[k : k + 128], stamps[k : k + 128])
        if k == 1280:  # of ten seconds ago, not in their order, and before the stream
            for time, name in ((105.0, "b"), (103.0, "a"), (99.0, "early")):
                windows.mark(time, name)
        if k == 59 * 128:
            windows.mark(101.0, "late")
            windows.mark(200.0, "never")
        taken += windows.take()
    assert [(w.marker, w.why) for w in taken] == [
        ("early", "before the stream"),
        ("a", ""),
        ("b", ""),
        ("late", "marker too late"),
    ]


def test_a_value_that_is_not_finite_refuses_its_windows_until_the_filter_has_settled():
    samples, stamps = recording()
    samples[3000, 1] = np.nan
    whys = {w.first: w.why for w in feed(samples, stamps, [16], every=0.1, settle=100)}
    assert all(
        (why == "not finite") == (first - 100 <= 3000 < first + N_TIMES)
        for first, why in whys.items()
        if first >= 100
    )
    assert {why for first, why in whys.items() if first < 100} == {"filter settles"}


def test_memory_stays_the_same():
    samples, stamps = recording(10)
    windows, sizes = Windows(N_TIMES, SFREQ, every=0.5), []
    for k in range(100):
        windows.add(samples, stamps + 10 * k)
        windows.take()
        sizes.append(windows._samples.nbytes)
    assert max(sizes[50:]) <= max(sizes[:50])


@pytest.mark.parametrize("chunk", [1, 33, 4000])
def test_causal_filter_equals_that_of_the_whole_recording(chunk):
    sos = butter(4, [1, 40], "bandpass", fs=SFREQ, output="sos")
    samples, _ = recording()
    samples = samples + 50
    live = _CausalFilter(sos)
    filtered = np.concatenate([live(samples[k : k + chunk]) for k in range(0, len(samples), chunk)])
    offline = sosfilt(sos, samples, axis=0)
    assert SFREQ < live.settle < 6 * SFREQ
    np.testing.assert_allclose(filtered[live.settle :], offline[live.settle :], atol=50 * 1e-5)
    samples[100, 0] = np.nan
    assert np.isnan(_CausalFilter(sos)(samples)).sum() == 1


CLASSES = np.array(["left", "right", "rest"])
LEFT, UNSURE, RIGHT, REST = ([0.9, 0.05, 0.05], [0.5, 0.4, 0.1], [0.05, 0.9, 0.05], [0.0, 0.0, 1.0])
L, R = "left", "right"


@pytest.mark.parametrize(
    ("options", "probabilities", "labels"),
    [
        ({}, [LEFT, UNSURE, RIGHT, REST], [L, None, R, "rest"]),
        ({"idle": "rest"}, [LEFT, REST], [L, None]),
        ({"sure": 0.95}, [LEFT, REST], [None, "rest"]),
        ({"agree": 2}, [LEFT, RIGHT, RIGHT, RIGHT, UNSURE, RIGHT, RIGHT], [None, None, R, R, None, None, R]),
        ({"agree": 2, "pause": 0.25}, [LEFT, LEFT, LEFT, LEFT, LEFT], [None, L, None, L, None]),
        ({"pause": 0.3}, [LEFT, LEFT, RIGHT, RIGHT], [L, None, None, R]),
        ({"smooth": 0.2}, [LEFT, UNSURE, UNSURE, UNSURE], [L, None, None, None]),
        ({"smooth": 10}, [LEFT] * 30, [L] * 30),
    ],
)
def test_decisions_by_a_table_of_cases(options, probabilities, labels):
    decide = Decide(CLASSES, **options)
    assert [decide(0.125 * k, np.array(p))[0] for k, p in enumerate(probabilities)] == labels


@pytest.mark.parametrize("options", [{}, {"smooth": 5}, {"agree": 10}])
def test_copies_of_a_window_do_not_raise_confidence(options):
    decide = Decide(CLASSES, sure=0.6, **options)
    for k in range(40):
        label, probabilities, why = decide(0.1 * k, np.array(UNSURE))
        np.testing.assert_allclose(probabilities, UNSURE)
        assert label is None and why


def test_a_gap_resets_agreement_and_rules_are_checked():
    decide = Decide(CLASSES, agree=2)
    decide(0, np.array(LEFT))
    decide.reset()
    assert decide(1, np.array(LEFT))[0] is None
    with pytest.raises(ValueError, match="exclude each other"):
        Decide(CLASSES, smooth=1, agree=2)
    with pytest.raises(ValueError, match="idle='pause' is no class"):
        Decide(CLASSES, idle="pause")
    with pytest.raises(ValueError, match="between 0 and 1"):
        Decide(CLASSES, sure=80)
