"""The engine of live decoding on a recording, without a stream: pseudo-online evaluation."""

import mne
import numpy as np
import pandas as pd

from braindecode_censor.live.engine import Engine
from braindecode_censor.live.table import make_table

__all__ = ["replay"]

_CHUNK = 32  # samples


def replay(decoder, raw, events=None, every=None, subjects=None, **options):
    """Decode a recording as if it arrived now, by the rules of :class:`~braindecode_censor.live.decoder.LiveDecoder`.

    Parameters
    ----------
    decoder : str, path-like or AutoTransferClassifier
        The folder of a decoder, or the decoder.
    raw : mne.io.Raw, path-like, or MOABB dataset
        Recording in volts; its bad channels are estimated from the others. Of a dataset all runs are decoded, every run
        as a stream of its own.
    events : array of shape (n_events, 3), dict, list or None
        With None and a list, trials begin at annotations, all of them or those of these descriptions; a dict names the
        classes of descriptions. An array holds MNE's events, whose codes are the classes. With `every` they only tell
        the truth: annotations last as long as they say, and what lies outside is the decoder's class of rest.
    every : float or None
        Seconds between windows, instead of trials.
    subjects : list or None
        Subjects of a dataset; None takes all.
    **options
        ``sure``, ``smooth``, ``agree``, ``pause``, ``learn``, ``filter`` and ``bads`` of
        :class:`~braindecode_censor.live.decoder.LiveDecoder`.

    Returns
    -------
    table : DecisionTable
        One row per window; ``table.summary()`` is what they are worth. Of a dataset, with subject, session and run.
    """
    if hasattr(raw, "get_data") and hasattr(raw, "subject_list"):
        return _replay_dataset(decoder, raw, subjects, events=events, every=every, **options)
    if not isinstance(raw, mne.io.BaseRaw):
        raw = mne.io.read_raw(raw, verbose="error")
    engine = Engine(decoder, "V", every=every, **options)
    names = engine.arrange("The recording", raw.ch_names, raw.info["sfreq"], raw.info["bads"])
    episodes = _read_episodes(raw, events, engine.classes)
    stamps, decisions = np.arange(raw.n_times) / raw.info["sfreq"], []
    if every is None:
        for onset, _, label in episodes:
            engine.mark(onset, label)
    for start in range(0, raw.n_times, _CHUNK):
        rows = slice(start, min(start + _CHUNK, raw.n_times))
        engine.add(raw.get_data(names, rows.start, rows.stop).T, stamps[rows])
        decisions += engine.decisions()
    idle, onsets = engine.input.preparation.idle, [onset for onset, _, _ in episodes]
    if every is None:
        return make_table(decisions, engine.classes, _match(decisions, episodes), idle, 0, onsets)
    length = engine.input.n_times / engine.input.sfreq
    truth = [_truth_of(d.time - length, d.time, episodes, idle) for d in decisions]
    rest = raw.n_times / raw.info["sfreq"] - sum(min(end, stamps[-1]) - start for start, end, _ in episodes)
    return make_table(decisions, engine.classes, truth, idle, rest if idle is not None else 0, onsets)


def _replay_dataset(decoder, dataset, subjects, **options):
    tables, seconds = [], 0.0
    if options["events"] is None:  # MOABB's runs have annotations, or a channel of codes.
        codes = {code: name for name, code in dataset.event_id.items()}
        options["events"] = codes | {name: name for name in dataset.event_id}
    for subject, sessions in dataset.get_data(subjects).items():
        for session, runs in sessions.items():
            for run, raw in runs.items():
                try:
                    table = replay(decoder, raw, **options)
                except ValueError as error:
                    raise ValueError(f"subject {subject}, session {session}, run {run}: {error}") from error
                table.insert(0, "subject", subject)
                table.insert(1, "session", session)
                table.insert(2, "run", run)
                table["episode"] += sum(len(one.onsets) for one in tables)
                tables.append(table)
                seconds += table.seconds_of_rest
    joined = pd.concat(tables, ignore_index=True)
    joined.idle, joined.seconds_of_rest = tables[0].idle, seconds
    joined.onsets = [onset for table in tables for onset in table.onsets]
    return joined


def _read_episodes(raw, events, classes):
    """Return (onset, end, label) of all trials or stretches, in seconds from the first sample."""
    class_of = {str(k): k for k in classes}
    if events is not None and not isinstance(events, (dict, list)):
        onsets = (np.asarray(events)[:, 0] - raw.first_samp) / raw.info["sfreq"]
        return [
            (onset, onset, class_of.get(str(code), code))
            for onset, code in zip(onsets, np.asarray(events)[:, 2])
        ]
    names = (
        events if isinstance(events, dict) else {name: name for name in events or raw.annotations.description}
    )
    has_codes = len(mne.pick_types(raw.info, meg=False, stim=True)) > 0
    if has_codes and not set(names) & set(raw.annotations.description):
        rows = mne.find_events(raw, verbose="error").tolist()
        rows = [(first, 0, names.get(code, code)) for first, _, code in rows if not names or code in names]
        return _read_episodes(raw, np.array(rows, dtype=object).reshape(-1, 3), classes)
    onsets = raw.annotations.onset - (raw.first_time if raw.annotations.orig_time is not None else 0)
    rows = zip(onsets, raw.annotations.duration, raw.annotations.description)
    return [(t, t + d, class_of.get(str(names[name]), names[name])) for t, d, name in rows if name in names]


def _match(decisions, episodes):
    """Return the class and the number of the episode of every decision, which come in another order."""
    waiting = {}
    for k, (_, _, label) in enumerate(episodes):
        waiting.setdefault(label, []).append(k)
    return [(d.marker, waiting[d.marker].pop(0)) for d in decisions]


def _truth_of(start, end, episodes, idle):
    """Return the class that a window lies in and the number of its episode; None for a window in between."""
    for k, (onset, stop, label) in enumerate(episodes):
        if start >= onset - 1e-9 and end <= stop + 1e-9:
            return label, k
        if end > onset and start < stop:
            return None, None
    return idle, None
