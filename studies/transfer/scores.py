"""Scores on held-out subjects: of every candidate and combination, for every seed and for all seeds together."""

import pandas as pd

from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.search.weights import choose_weights

__all__ = ["ALL_SEEDS", "RULE_LABELS", "ensemble_weights", "score_seeds"]

#: Rule of an ensemble -> its name in tables.
RULE_LABELS = {"greedy": "ensemble", "top": "best three, averaged", "pick": "best candidate"}
#: The ensemble whose weights come from the partners of all seeds.
ALL_SEEDS = "ensemble, all seeds"


def score_seeds(result):
    """Return the scores of a :class:`~studies.transfer.study.StudyResult`; seed -1 is all seeds together."""
    names, frames = list(result.kinds), []

    def add(seed, target, decoder, kind, scores):
        row = {"target": target, "subject": range(len(scores)), "decoder": decoder, "kind": kind}
        frames.append(pd.DataFrame(row | {"score": scores, "seed": seed}))

    for seed, by_target in result.heldout.items():
        for target, heldout in by_target.items():
            for name, kind in result.kinds.items():
                add(seed, target, name, kind, heldout.scores(name))
            for rule, label in RULE_LABELS.items():
                add(seed, target, label, "combination", heldout.nested_scores(names, rule))
    if len(result.heldout) > 1:
        for target in next(iter(result.heldout.values())):
            together = join([by_target[target] for by_target in result.heldout.values()])
            add(-1, target, ALL_SEEDS, "combination", together.nested_scores(names))
    return pd.concat(frames, ignore_index=True)


def join(parts):
    """Return the held-out probabilities of several seeds as those of one search over the folds of all of them."""
    whole = HeldOut(parts[0].labels, [fold for heldout in parts for fold in heldout.folds])
    first = 0
    for heldout in parts:
        for name, by_fold in heldout.probabilities.items():
            for fold, probabilities in by_fold.items():
                whole.add(name, first + fold, probabilities)
        first += len(heldout.folds)
    return whole


def ensemble_weights(result):
    """Return the weight of every candidate in the ensemble for a new subject."""
    rows = []
    for seed, by_target in result.heldout.items():
        for target, heldout in by_target.items():
            weights = choose_weights(*heldout.for_final_weights(list(result.kinds)))
            rows += [(target, *item, weight, seed) for item, weight in zip(result.kinds.items(), weights)]
    return pd.DataFrame(rows, columns=["target", "decoder", "kind", "weight", "seed"])
