"""The demonstration: simulated subjects to train on, new ones to decode, and four ways to decode them."""

import warnings

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.decoder.classifier import AutoTransferClassifier
from braindecode_censor.decoder.expectation import paired_interval
from braindecode_censor.training.arguments import PAPER
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["RECORDED", "TRAINING", "compare_on_new_subjects", "describe_new_subjects", "estimate_seconds"]

#: Options of the training subjects; their amplifiers, heads and caps differ.
RECORDED = {"kind": "mixed", "n_subjects": 8, "n_trials": 48}
#: Duration of trainings by the paper's protocol.
TRAINING = {"max_epochs": 20, "patience": 6}
_N_NEW = 8
_TIME_LIMIT = 40.0  # seconds of each of two searches
_N_LIVE = 30  # trials of a second each, decoded live
_REPORT_SECONDS = 40.0  # for figures and report, measured on one core

_PLAIN, _PAPER = "plain network", "the paper's AutoTransfer"
_NONE, _UNLABELED = "AutoTransferClassifier, no target data", "AutoTransferClassifier, unlabelled trials"


def estimate_seconds(with_report=True, without_search=False):
    """Return about how many seconds the demonstration takes besides the trainings of the experiment."""
    return _REPORT_SECONDS * with_report + (0 if without_search else 2.4 * _TIME_LIMIT + _N_LIVE)


def compare_on_new_subjects(parameters, seed=0, verbose=1):
    """Return the scores of four decoders on new subjects, the best score possible, and what is decoded live.

    That is a decoder, and trials and labels of a new subject.
    """
    n_recorded = RECORDED["n_subjects"]
    population = SimulatedSubjects(**{**RECORDED, "n_subjects": n_recorded + _N_NEW}, seed=seed)
    X, y, subjects = population.arrays()
    train, new = subjects <= n_recorded, np.arange(n_recorded + 1, n_recorded + _N_NEW + 1)
    protocol = {**PAPER, **TRAINING, "random_state": seed}
    options = {"time_limit": _TIME_LIMIT, "random_state": seed, "verbose": verbose}
    options |= {"sfreq": population.design.sfreq, "preparation": {"phase": "causal"}}
    decoders = {
        _PLAIN: CensoredEEGClassifier(**{**protocol, "penalty": None}),
        _PAPER: CensoredEEGClassifier(**{**protocol, **parameters}),
        _NONE: AutoTransferClassifier("none", **options),
        _UNLABELED: AutoTransferClassifier("unlabeled", **options),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The rows say which decoder has no target data.
        for decoder in decoders.values():
            decoder.fit(X[train], y[train], subjects=subjects[train])
        rows = []
        for subject in new:
            trials, labels = X[subjects == subject], y[subjects == subject]
            adapted = decoders | {_UNLABELED: decoders[_UNLABELED].adapt(trials)}
            scores = {n: balanced_accuracy_score(labels, clf.predict(trials)) for n, clf in adapted.items()}
            rows.append(scores)
    best = population.oracle_accuracy(subjects=new.tolist())
    live = decoders[_UNLABELED], trials[:_N_LIVE], labels[:_N_LIVE]
    return pd.DataFrame(rows, index=pd.Index(new, name="subject")), float(best), live


def describe_new_subjects(scores, best, n_classes=4):
    """Return a sentence and a table of the scores."""
    gain = paired_interval(scores[_UNLABELED], scores[_PLAIN], 0.95)
    low, high = gain["low"], gain["high"]
    verdict = "better" if low > 0 else "worse" if high < 0 else "neither better nor worse than chance allows"
    columns = {"mean": scores.mean(), "lower quartile": scores.quantile(0.25), "lowest": scores.min()}
    table = pd.DataFrame(columns).round(3)
    return (
        f"{len(scores)} new simulated subjects, and {RECORDED['n_subjects']} to train on. With their "
        f"unlabelled trials AutoTransferClassifier decodes the new ones {verdict}, compared with the plain network: "
        f"{gain['mean']:+.2f} balanced accuracy (95 % interval {low:+.2f} to {high:+.2f}).\n\n"
        f"{table.to_string()}\n\n"
        f"Chance is {1 / n_classes:.2f}; the best decoder possible, which knows every subject, has {best:.2f}."
    )
