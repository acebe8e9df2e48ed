"""Replay of recordings: trials and regular windows, their summary, memory, and a dataset in one call."""

import gc
import sys
import warnings

import mne
import numpy as np
import pandas as pd
import pytest
from live.conftest import N_TIMES, NAMES, SFREQ, cut, make_recording

import braindecode_censor as bc
from braindecode_censor.cli.main import main
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.live.decide import Decide
from braindecode_censor.live.engine import Decision, Engine
from braindecode_censor.live.table import make_table

pytestmark = pytest.mark.filterwarnings("ignore:The decoder has no class of rest")


def as_raw(samples, markers, duration=0.0):
    raw = mne.io.RawArray(1e-6 * samples.T, mne.create_info(NAMES, SFREQ, "eeg"), verbose="error")
    onsets = [s / SFREQ for s, _ in markers]
    return raw.set_annotations(mne.Annotations(onsets, duration, [m for _, m in markers]))


def test_replay_of_trials_is_the_offline_stream_and_windows_learn_where_they_do_not_overlap(decoder):
    samples, markers = make_recording(6)
    clf = bc.AutoTransferClassifier.load(decoder)
    trials, y = cut(samples, markers)
    table = bc.replay(clf, as_raw(samples, markers))
    columns = ["p_left", "p_right"]
    np.testing.assert_allclose(table[columns], clf.stream().predict_proba(trials), atol=1e-5)
    assert (table["truth"] == y).all()
    with pytest.warns(UserWarning, match="not adapted"):
        frozen = bc.replay(clf, as_raw(samples, markers), learn=False)
    general = clf.predict_proba(trials)
    np.testing.assert_allclose(frozen[columns], general, atol=1e-5)
    step = N_TIMES / SFREQ
    windows = np.stack([samples[k : k + N_TIMES].T for k in range(0, len(samples) - N_TIMES + 1, N_TIMES)])
    offline = clf.stream().predict_proba(windows.astype("float32"))
    overlapping = bc.replay(clf, as_raw(samples, markers), every=step / 4)
    np.testing.assert_allclose(overlapping[columns].iloc[::4], offline, atol=1e-5)
    for rule in ({"smooth": 2 * step}, {"agree": 2}):
        options = {"sure": 0.6, "pause": 0.0, **rule}
        table = bc.replay(clf, as_raw(samples, markers), every=step / 4, **options)
        decide = Decide(clf.classes_, **options)
        rows = [decide(time, p) for time, p in zip(overlapping["time"], overlapping[columns].to_numpy())]
        assert table["label"].tolist() == [label for label, _, _ in rows]
        assert table["label"].notna().any() and table["why"].tolist() == [why for _, _, why in rows]
        np.testing.assert_allclose(table[columns], [p for _, p, _ in rows], atol=1e-5)


def test_bad_and_missing_channels_are_estimated_as_offline(decoder):
    samples, markers = make_recording(6)
    clf, raw = bc.AutoTransferClassifier.load(decoder), as_raw(samples, markers)
    trials, y = cut(samples, markers)
    there = [name for name in NAMES if name != "Cz"]
    info = mne.create_info(there, SFREQ, "eeg")
    epochs = mne.EpochsArray(1e-6 * trials[:, [NAMES.index(name) for name in there]], info, verbose="error")
    with pytest.warns(UserWarning, match="estimated"):
        offline = clf.stream().predict_proba(epochs)
    marked = raw.copy()
    marked.info["bads"] = ["Cz"]
    for recording, bads in ((raw, ["Cz"]), (marked, ()), (raw.copy().drop_channels("Cz"), ())):
        with pytest.warns(UserWarning, match="The recording lacks 1 of the decoder's 5 channels.*: Cz"):
            table = bc.replay(clf, recording, bads=bads)
        np.testing.assert_allclose(table[["p_left", "p_right"]], offline, atol=1e-5)
    assert not np.allclose(offline, clf.stream().predict_proba(trials), atol=1e-3)
    with pytest.raises(ValueError, match=r"bads=\['Fz'\] are not among the channels of The recording: C3"):
        bc.replay(clf, raw, bads=["Fz"])


def test_replay_of_a_dataset_is_one_table_whose_runs_are_streams_of_their_own():
    people = SimulatedSubjects(5, 24, kind="mixed", n_sessions=2, n_chans=4, duration=0.5)
    X, y, subjects = people.arrays()
    y, old = np.array(people.class_names)[y], subjects < 5
    options = {"sfreq": people.design.sfreq, "preparation": {"phase": "causal"}, "verbose": 0}
    clf = bc.AutoTransferClassifier(candidates=["riemann"], time_limit=None, **options)
    with warnings.catch_warnings(action="ignore"):
        clf.fit(X[old], y[old], subjects=subjects[old])
    table = bc.replay(clf, people, subjects=[4, 5])
    assert table.groupby(["subject", "session", "run"]).size().tolist() == [12] * 4
    runs = np.split(np.flatnonzero(subjects >= 4), 4)
    offline = np.concatenate([clf.stream().predict_proba(X[rows]) for rows in runs])
    np.testing.assert_allclose(table[[f"p_{name}" for name in clf.classes_]], offline, atol=1e-5)
    assert (table["truth"] == y[subjects >= 4]).all() and table["episode"].tolist() == list(range(48))
    assert table.summary()["n"] == 48


def test_shell_replays_a_file(decoder, tmp_path, capsys):
    samples, markers = make_recording(4)
    as_raw(samples, markers).save(tmp_path / "one_raw.fif", verbose="error")
    out = tmp_path / "log.csv"
    assert main(["replay", "--decoder", str(decoder), str(tmp_path / "one_raw.fif"), "--out", str(out)]) == 0
    assert len(pd.read_csv(out)) == 4
    assert "undecided" in capsys.readouterr().out


def test_an_hour_of_samples_keeps_memory_and_time(decoder):
    engine, samples = Engine(decoder, "uV", every=5.0), make_recording(80)[0][:6400]
    n_blocks, ends = [], []
    for minute in range(60):
        for k in range(0, 3840, 384):
            engine.add(samples[k : k + 384], 60 * minute + np.arange(k, k + 384) / SFREQ)
            ends += [d.time for d in engine.decisions()]
        gc.collect()
        n_blocks.append(sys.getallocatedblocks())
    # One block per window is its time in this test's list.
    assert n_blocks[-1] - n_blocks[30] < 2 * 360, "after 300 windows the oldest are forgotten"
    np.testing.assert_allclose(ends, (N_TIMES - 1) / SFREQ + 5.0 * np.arange(len(ends)), atol=1e-6)


def test_summary_by_hand():
    def one(time, label, p, why=""):
        return Decision(time, label, np.array([p, 1 - p]), 0.01, None, why)

    rows = [
        one(1, "a", 0.9),
        one(2, "b", 0.1),
        one(3, "a", 0.9),
        one(4, None, 0.5, "unsure"),
        one(5, "b", 0.2),
    ]
    rows.append(Decision(6, None, None, np.nan, None, "samples lost"))
    truth = [("a", 0), ("a", 0), ("b", 1), ("b", 1), ("rest", None), (None, None)]
    table = make_table(rows, ["a", "b"], truth, idle="rest", seconds_of_rest=30, onsets=[0.5, 2.0])
    summary = table.summary()
    assert summary["n"] == 6 and summary["undecided"] == 0.2
    assert summary["right"] == pytest.approx(1 / 3)
    assert summary["balanced accuracy"] == pytest.approx(0.25)
    assert summary["claimed"] == pytest.approx(0.9)
    assert summary["hits"] == 0.5
    assert summary["seconds to decision"] == pytest.approx(0.75)
    assert summary["false activations a minute of rest"] == 2
    assert summary["refused: samples lost"] == 1
