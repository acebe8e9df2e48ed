"""The demonstration: people who were recorded, people who come tomorrow, and four ways to decode them."""

import warnings

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.decoder.classifier import AutoTransferClassifier
from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.training.arguments import PAPER
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["RECORDED", "TRAINING", "compare_on_new_people", "describe_new_people"]

#: Options of the people who were recorded; their amplifiers, heads and caps differ.
RECORDED = {"kind": "mixed", "n_subjects": 8, "n_trials": 48}
#: How the paper's protocol is trained on them.
TRAINING = {"max_epochs": 20, "patience": 6}
_N_NEW = 8

_PLAIN, _PAPER = "plain network", "the paper's AutoTransfer"
_NONE, _UNLABELED = "this, nothing known", "this, their unlabelled trials"


def compare_on_new_people(setting, seed=0, seconds=40.0, verbose=1):
    """Decode people whom nobody has recorded before, in four ways."""
    n_recorded = RECORDED["n_subjects"]
    population = SimulatedSubjects(**{**RECORDED, "n_subjects": n_recorded + _N_NEW}, seed=seed)
    X, y, subjects = population.arrays()
    old, new = subjects <= n_recorded, np.arange(n_recorded + 1, n_recorded + _N_NEW + 1)
    data = X[old], y[old]
    protocol = {**PAPER, **TRAINING, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a person is not known is what the rows say
        general = {
            _PLAIN: CensoredEEGClassifier(**{**protocol, "penalty": None}),
            _PAPER: CensoredEEGClassifier(**{**protocol, **setting}),
            _NONE: AutoTransferClassifier("none", time_limit=seconds, random_state=seed, verbose=verbose),
        }
        ways = {name: clf.fit(*data, subjects=subjects[old]).predict for name, clf in general.items()}
        search = AutoTransferClassifier("unlabeled", time_limit=seconds, random_state=seed, verbose=verbose)
        search.fit(*data, subjects=subjects[old])
        ways[_UNLABELED] = lambda trials: search.adapt(trials).predict(trials)
        rows = [
            {
                name: balanced_accuracy_score(y[subjects == k], way(X[subjects == k]))
                for name, way in ways.items()
            }
            for k in new
        ]
    best = population.oracle_accuracy(subjects=new.tolist())
    return pd.DataFrame(rows, index=pd.Index(new, name="subject")), float(best)


def describe_new_people(scores, best, n_classes=4):
    """Say in words and one small table what was found."""
    gain = paired_interval(scores[_UNLABELED], scores[_PLAIN], 0.95)
    low, high = gain["low"], gain["high"]
    words = "better" if low > 0 else "worse" if high < 0 else "neither better nor worse than chance allows"
    table = pd.DataFrame(
        {
            "mean": scores.mean(),
            "weakest quarter": scores.quantile(0.25),
            "weakest": scores.min(),
        }
    ).round(3)
    return (
        f"{len(scores)} simulated people who were not among the {RECORDED['n_subjects']} recorded ones. With their "
        f"unlabelled trials AutoTransferClassifier decodes them {words}, compared with the plain network: "
        f"{gain['mean']:+.2f} balanced accuracy (95 % interval {low:+.2f} to {high:+.2f}).\n\n"
        f"{table.to_string()}\n\n"
        f"Chance is {1 / n_classes:.2f}; the best decoder possible, which knows every person, has {best:.2f}."
    )
