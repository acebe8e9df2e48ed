"""A player process and real LSL on loopback: decisions equal those of a replay and of trials cut offline; faults."""

import re
import signal
import subprocess
import sys
import time

import mne
import numpy as np
import pandas as pd
import pytest
from live.conftest import NAMES, SFREQ, cut, make_recording

import braindecode_censor as bc
from braindecode_censor.live.decide import Decide
from braindecode_censor.live.demo import decode_on_loopback
from braindecode_censor.live.player import open_outlet


def open_live(decoder, **options):
    return bc.LiveDecoder(decoder, **{"stream": "EEG", "outlet": None, "seconds": 60, **options})


def collect(live, n, seconds=120):
    """Return the next n windows; a player that a busy machine keeps waiting may be silent in between."""
    decisions, end = [], time.time() + seconds
    for decision in live:
        decisions += [decision] if decision.why != "no signal" else []
        if len(decisions) == n or time.time() > end:
            break
    return decisions


def as_raw(samples, markers, names=NAMES):
    raw = mne.io.RawArray(1e-6 * samples.T, mne.create_info(list(names), SFREQ, "eeg"), verbose="error")
    return raw.set_annotations(
        mne.Annotations([(s + 0.3) / SFREQ for s, _ in markers], 0, [m for _, m in markers])
    )


def test_live_equals_replay_and_the_offline_stream(decoder, play):
    samples, markers = make_recording(8)
    order = [2, 0, 4, 3, 1]
    play(1e-6 * samples[:, order], markers, np.array(NAMES)[order], unit="volts")
    with open_live(decoder, events="Markers", outlet="decisions", sure=0.6) as live:
        decisions = collect(live, 8)
    clf = bc.AutoTransferClassifier.load(decoder)
    trials, y = cut(samples, markers)
    offline = clf.stream().predict_proba(trials)
    np.testing.assert_allclose([d.probabilities for d in decisions], offline, atol=1e-5)
    assert [d.marker for d in decisions] == y.tolist()
    table = bc.replay(clf, as_raw(samples, markers), sure=0.6)
    np.testing.assert_allclose(table[["p_left", "p_right"]], offline, atol=1e-5)
    assert table["label"].tolist() == [d.label for d in decisions]
    expected = [k if p >= 0.6 else None for k, p in zip(clf.classes_[offline.argmax(1)], offline.max(1))]
    assert [d.label for d in decisions] == expected
    assert (table["truth"] == y).all()
    assert np.median([d.latency for d in decisions]) > 0
    summary = live.table().summary()
    assert summary["n"] == 8 and summary["right"] > 0.7


def test_outlets_send_decisions_and_probabilities(decoder, play):
    from mne_lsl import lsl

    samples, markers = make_recording(6)
    play(samples, markers)
    with open_live(decoder, events="Markers", sure=0.6, outlet="out", probabilities=True) as live:
        inlets = [
            lsl.StreamInlet(lsl.resolve_streams(3, name=name)[0]) for name in ("out", "out-probabilities")
        ]
        for inlet in inlets:
            inlet.open_stream(timeout=30)
        decisions = collect(live, 6)  # None is made before.
        decided = [d for d in decisions if d.label is not None]
        labels, stamps = inlets[0].pull_chunk(timeout=30, max_samples=len(decided))
        rows, _ = inlets[1].pull_chunk(timeout=30, max_samples=6)
    assert [row[0] for row in labels] == [d.label for d in decided] != []
    np.testing.assert_allclose(stamps, [d.time for d in decided])
    np.testing.assert_allclose(rows, [d.probabilities for d in decisions], atol=1e-6)


def test_lost_samples_nan_and_silence_are_refused_and_said(decoder, play):
    samples, markers = make_recording(8)
    samples[markers[4][0] + 10, 1] = np.nan
    play(samples, markers, lose=(markers[1][0] + 20, 3), silent=(markers[6][0] - 20, 1.8))
    with open_live(decoder, events="Markers") as live:
        decisions = collect(live, 8)
    assert {k: d.why for k, d in enumerate(decisions) if d.probabilities is None} == {
        1: "samples lost",
        4: "not finite",
    }
    silent = [k for k, d in enumerate(live.decisions) if d.why == "no signal"]
    assert live.decisions.index(decisions[5]) < silent[-1] < live.decisions.index(decisions[6])
    summary = live.table().summary()
    assert summary["refused: samples lost"] == 1 and summary["refused: no signal"] == len(silent)


@pytest.mark.filterwarnings("ignore:The decoder has no class of rest")
def test_a_player_that_is_killed_and_restarted_goes_on(decoder, play):
    samples, markers = make_recording(12)
    first = play(samples, markers)
    with open_live(decoder, every=0.5, pause=0, agree=2) as live:
        before = collect(live, 6)
        first.kill()
        first.wait()
        assert next(d for d in live if d.why == "no signal")
        second = play(samples, markers, wait=0.1)
        after = collect(live, 16)
        second.kill()
        second.wait()
        play(samples, markers, source="another", wait=0.1)
        live.seconds = 4
        assert list(live)[-1].why == "no signal", "a stream of another source is not that stream"
    # Windows are skipped where a busy machine decodes late.
    refused = [d.why for d in after if d.probabilities is None and d.why != "skipped"]
    assert refused and set(refused) == {"samples lost"}
    assert any(d.probabilities is not None for d in after)
    decide = Decide(live.engine.classes, agree=2)
    decoded = [d for d in before if d.probabilities is not None]
    rows = [decide(d.time, d.probabilities) for d in decoded]
    assert [(d.label, d.why) for d in decoded] == [(label, why) for label, _, why in rows] != []


@pytest.mark.filterwarnings("ignore:The decoder has no class of rest")
def test_streams_that_do_not_fit_are_errors_before_the_first_decision(decoder):
    fits = {"name": "EEG", "names": NAMES, "sfreq": SFREQ, "source": "a"}
    changes = [{"name": "none", "unit": None}, {"name": "wrong", "sfreq": 100.0}, {}]
    changes += [{"name": "lacks", "names": ["C3", "Cz", "C4", "Oz", "O1"]}, {"name": "two"}]
    outlets = [open_outlet(**fits | change) for change in [*changes, {"name": "two", "source": "b"}]]
    for stream, message in {
        "none": "declares no unit, or several .*pass units=",
        "wrong": "100 samples per second, the decoder was fitted with 64",
        "lacks": "lacks 2 of the decoder's 5 channels: Pz, P4. They cannot be estimated",
        "two": "One stream named 'two' is expected on the network, and 2 are",
        "missing": "One stream named 'missing' is expected on the network, and none is",
    }.items():
        with pytest.raises(ValueError, match=message), open_live(decoder, stream=stream, every=1.0):
            pass
    with (
        pytest.raises(ValueError, match="One marker stream named 'Markers'"),
        open_live(decoder, events="Markers"),
    ):
        pass
    with pytest.raises(ValueError, match="units='uv' is unknown"), open_live(decoder, every=1.0, units="uv"):
        pass
    with open_live(decoder, stream="none", every=1.0, units="uV") as live:
        assert live.source.unit == "uV"
    with pytest.raises(ValueError, match="Pass events=, the name of a marker stream, or every="):
        open_live(decoder)
    del outlets


def test_ctrl_c_of_the_command_closes_the_outlet_and_writes_the_summary(decoder, play, tmp_path):
    from mne_lsl import lsl

    play(*make_recording(60))
    command = [sys.executable, "-m", "braindecode_censor.cli.main", "live", "--decoder", decoder]
    command += [
        "--stream",
        "EEG",
        "--events",
        "Markers",
        "--outlet",
        "stopped",
        "--out",
        tmp_path / "log.csv",
    ]
    run = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed = [run.stdout.readline() for _ in range(2)]
        assert {info.name for info in lsl.resolve_streams(2, name="stopped")} == {"stopped"}
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=180)
    finally:
        run.kill()
    assert run.returncode == 0 and "interrupted" in err, err
    assert lsl.resolve_streams(1, name="stopped") == []
    rows = pd.read_csv(tmp_path / "log.csv")
    lines = [line for line in [*printed, *out.splitlines()] if re.match(r"\d+\.\d{3}  ", line)]
    np.testing.assert_allclose(rows["time"], [float(line.split()[0]) for line in lines], atol=1e-3)
    n = int(float(re.search(r"^n +([\d.]+)$", out, re.M)[1]))
    assert len(rows) <= n <= len(rows) + 1, "a decision that Ctrl-C meets is in the summary alone"
    assert rows.loc[rows["why"] != "no signal", ["p_left", "p_right"]].notna().all(axis=None)


def test_demonstration_shows_the_decisions_of_the_offline_stream(decoder, loopback, capsys):
    clf = bc.AutoTransferClassifier.load(decoder)
    X, y = cut(*make_recording(6))
    decode_on_loopback(clf, X, y)
    lines = capsys.readouterr().out.splitlines()
    offline = clf.stream().predict_proba(X)
    labels = [k if p >= 0.4 else "unsure" for k, p in zip(clf.classes_[offline.argmax(1)], offline.max(1))]
    rows = [line.split() for line in lines[1:7]]
    assert [row[1:4] for row in rows] == [
        [k, label, f"{p:.2f}"] for k, label, p in zip(y, labels, offline.max(1))
    ]
    right, decided = np.sum(labels == y), np.sum(np.array(labels) != "unsure")
    assert rows[-1][4] == f"{right / decided:.2f}"
    assert lines[7].startswith(f"6 trials decoded as they arrived, {decided} decided at")
