"""Decisions as a table, and what they are worth."""

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

__all__ = ["DecisionTable", "make_table"]

_COLUMNS = ("time", "label", "marker", "why", "latency")
_DECODED = ("", "unsure", "not agreed", "idle", "pause")  # Other reasons mean that a window was refused.


class DecisionTable(pd.DataFrame):
    """Decisions, one per row, with :meth:`summary`.

    Columns are those of a :class:`~braindecode_censor.live.engine.Decision`, one ``p_<class>`` per class, and where it
    is known ``truth``, the class during the window, and ``episode``, the number of the trial or stretch it lies in.
    """

    _metadata = ("idle", "seconds_of_rest", "onsets")
    idle, seconds_of_rest, onsets = None, 0, ()

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
        rows = {"n": len(self), "undecided": decoded["label"].isna().mean()}
        labelled = decoded[decoded["truth"].notna()]
        is_rest = labelled["truth"].astype(str) == str(self.idle)
        active, decided = labelled[~is_rest], labelled[~is_rest & labelled["label"].notna()]
        if len(decided):
            columns = [name for name in self.columns if name.startswith("p_")]
            truth, labels = decided["truth"].astype(str), decided["label"].astype(str)
            rows["balanced accuracy"] = balanced_accuracy_score(truth, labels)
            rows["claimed"] = decided[columns].max(axis=1).mean()
            rows["right"] = (truth == labels).mean()
            rows["nMCC"] = (1 + matthews_corrcoef(truth, labels)) / 2
            minutes = (decoded["time"].max() - decoded["time"].min()) / 60
            bits = _information(rows["right"], len(columns) - (self.idle is not None))
            rows["bits a minute"] = bits * len(decided) / minutes if minutes else np.nan
        if active["episode"].notna().any():
            first = decided.groupby("episode").first()
            is_hit = first["label"].astype(str) == first["truth"].astype(str)
            rows["hits"] = is_hit.sum() / active["episode"].nunique()
            onsets = [self.onsets[int(episode)] for episode in first.index]
            rows["seconds to decision"] = (first["time"] - onsets).median()
        if self.seconds_of_rest:
            n_false = (is_rest & labelled["label"].notna()).sum()
            rows["false activations a minute of rest"] = 60 * n_false / self.seconds_of_rest
        latency = decoded["latency"].dropna()
        if len(latency):
            rows |= {"latency, median": latency.median(), "latency, p99": latency.quantile(0.99)}
        refused = self.loc[~self["why"].isin(_DECODED), "why"].value_counts()
        return pd.Series({**rows, **{f"refused: {why}": count for why, count in refused.items()}})


def _information(p, n_classes):
    """Return Wolpaw's bits per decision."""
    if n_classes < 2:
        return np.nan
    return np.log2(n_classes) + (xlogy(p, p) + xlogy(1 - p, (1 - p) / (n_classes - 1))) / np.log(2)


def make_table(decisions, classes, truth=None, idle=None, seconds_of_rest=0, onsets=()):
    """Return decisions as a table; `truth` holds a class and the number of an episode for each, or None."""
    nothing = np.full(len(classes), np.nan)
    probabilities = [nothing if d.probabilities is None else d.probabilities for d in decisions]
    if truth is None:  # A marker that is the name of a class tells the truth.
        class_of = {str(k): k for k in classes}
        truth = [(class_of.get(str(d.marker)), k) for k, d in enumerate(decisions)]
        onsets = [np.nan] * len(decisions)
    columns = {name: [getattr(d, name) for d in decisions] for name in _COLUMNS}
    columns |= {f"p_{k}": [p[i] for p in probabilities] for i, k in enumerate(classes)}
    columns |= {"truth": [label for label, _ in truth], "episode": [episode for _, episode in truth]}
    types = {name: object for name in ("label", "marker", "truth")}  # None stays None.
    types |= {"why": str, "episode": float}
    table = DecisionTable(
        {name: pd.Series(values, dtype=types.get(name)) for name, values in columns.items()}
    )
    table.idle, table.seconds_of_rest, table.onsets = idle, seconds_of_rest, list(onsets)
    return table
