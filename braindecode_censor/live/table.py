"""Decisions as a table, and what they are worth."""

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

__all__ = ["DecisionTable", "make_table"]

_DECODED = ("", "unsure", "not agreed", "idle", "pause")  # Other reasons mean that a window was refused.


class DecisionTable(pd.DataFrame):
    """Decisions, one per row, with :meth:`summary`.

    Columns are those of a :class:`~braindecode_censor.live.engine.Decision`, one ``p_<class>`` per class, and where it
    is known ``truth``, the class during the window, and ``episode``, the number of the trial or stretch it lies in.
    """

    _metadata = ("idle", "seconds_of_rest", "onsets")

    @property
    def _constructor(self):
        return DecisionTable

    def summary(self):
        """Return what the decisions are worth.

        Returns
        -------
        summary : pandas.Series
            Number of windows; of those with a known truth the share undecided, the balanced accuracy of decisions,
            their mean probability (`claimed`) and accuracy (`right`); `hits`, the share of episodes with a right first
            decision; false activations per minute of rest; median seconds from an episode's beginning to its first
            decision; nMCC, (1 + MCC) / 2; bits per minute by Wolpaw's formula,
            ``log2 K + p log2 p + (1 - p) log2((1 - p) / (K - 1))`` per decision; median and 99th percentile of the
            latency; refused windows by reason.
        """
        decoded = self[self["why"].isin(_DECODED)]
        idle = getattr(self, "idle", None)
        rows = {"n": len(self), "undecided": _share(decoded["label"].isna())}
        known = decoded[decoded["truth"].notna()]
        active = known[known["truth"].astype(str) != str(idle)]
        decided = active[active["label"].notna()]
        truth, labels = decided["truth"].astype(str), decided["label"].astype(str)
        if len(decided):
            columns = [name for name in self.columns if name.startswith("p_")]
            rows["balanced accuracy"] = balanced_accuracy_score(truth, labels)
            rows["claimed"] = decided[columns].max(axis=1).mean()
            rows["right"] = _share(truth == labels)
            rows["nMCC"] = (1 + matthews_corrcoef(truth, labels)) / 2
            rows["bits a minute"] = self._information(rows["right"], len(decided), decoded)
        rows |= self._episodes(active)
        seconds = getattr(self, "seconds_of_rest", 0) or 0
        if seconds:
            false = known[(known["truth"].astype(str) == str(idle)) & known["label"].notna()]
            rows["false activations a minute of rest"] = 60 * len(false) / seconds
        latency = decoded["latency"].dropna()
        if len(latency):
            rows |= {"latency, median": latency.median(), "latency, p99": latency.quantile(0.99)}
        refused = self.loc[~self["why"].isin(_DECODED), "why"].value_counts()
        return pd.Series({**rows, **{f"refused: {why}": count for why, count in refused.items()}})

    def _episodes(self, active):
        if not len(active) or active["episode"].isna().all():
            return {}
        hits, seconds = [], []
        for episode, rows in active.groupby("episode"):
            first = rows[rows["label"].notna()].head(1)
            hits.append(len(first) > 0 and str(first["label"].iloc[0]) == str(first["truth"].iloc[0]))
            seconds += (first["time"] - self.onsets[int(episode)]).tolist()
        return {"hits": float(np.mean(hits)), "seconds to decision": float(np.median(seconds or [np.nan]))}

    def _information(self, right, n_decided, decoded):
        n_classes = sum(name.startswith("p_") for name in self.columns) - (
            getattr(self, "idle", None) is not None
        )
        minutes = (decoded["time"].max() - decoded["time"].min()) / 60
        if n_classes < 2 or not minutes > 0:
            return np.nan
        bits = np.log2(n_classes)
        if 0 < right < 1:
            bits += right * np.log2(right) + (1 - right) * np.log2((1 - right) / (n_classes - 1))
        elif right == 0:
            bits -= np.log2(n_classes - 1) if n_classes > 2 else 0
        return bits * n_decided / minutes


def _share(mask):
    return float(mask.mean()) if len(mask) else np.nan


def make_table(decisions, classes, truth=None, idle=None, seconds_of_rest=0, onsets=()):
    """Return decisions as a table; `truth` holds a class and the number of an episode for each, or None."""
    nothing = np.full(len(classes), np.nan)
    rows = [
        {
            "time": d.time,
            "label": d.label,
            "marker": d.marker,
            "why": d.why,
            "latency": d.latency,
            **{f"p_{k}": p for k, p in zip(classes, nothing if d.probabilities is None else d.probabilities)},
        }
        for d in decisions
    ]
    columns = ["time", "label", "marker", "why", "latency", *(f"p_{k}" for k in classes)]
    table = DecisionTable(rows, columns=columns)
    for name in ("label", "marker"):  # None stays None.
        table[name] = pd.Series([getattr(d, name) for d in decisions], dtype=object)
    known = {str(k): k for k in classes}
    if truth is None:  # A marker that is the name of a class tells the truth.
        truth = [(known.get(str(d.marker)), k) for k, d in enumerate(decisions)]
        onsets = [np.nan] * len(decisions)
    table["truth"] = pd.Series([label for label, _ in truth], dtype=object)
    table["episode"] = pd.Series([np.nan if k is None else k for _, k in truth], dtype=float)
    table.idle, table.seconds_of_rest, table.onsets = idle, seconds_of_rest, list(onsets)
    return table
