"""Scores of the family on people held out: person by person, seed by seed, and combined."""

import pandas as pd

from braindecode_censor.search.weights import choose_weights
from studies.transfer.heldout_file import join_heldout

__all__ = ["RULES", "TOGETHER", "score_people", "score_seeds", "weigh"]

#: Rule of combination -> its name in tables.
RULES = {"greedy": "family, averaged", "top": "best 3, averaged", "pick": "best one"}
#: The family again, but with the partners of all seeds for every person.
TOGETHER = "family, all seeds"


def score_people(heldout, kinds):
    """Score candidates and combinations, person by person."""
    rows = []
    for target, found in heldout.items():
        every = {name: (kind, found.scores(name)) for name, kind in kinds.items()}
        for rule, name in RULES.items():
            every[name] = "combination", found.nested_scores(list(kinds), rule)
        rows += [
            (target, person, name, kind, score)
            for name, (kind, scores) in every.items()
            for person, score in enumerate(scores)
        ]
    return pd.DataFrame(rows, columns=["target", "subject", "decoder", "kind", "score"])


def score_seeds(found):
    """Score every seed, and all of them together."""
    frames = [score_people(*said).assign(seed=seed) for seed, said in found.items()]
    if len(found) > 1:
        names = [name for name in next(iter(found.values()))[1] if all(name in k for _, k in found.values())]
        for target in next(iter(found.values()))[0]:
            scores = join_heldout([heldout[target] for heldout, _ in found.values()]).nested_scores(names)
            rows = {"target": target, "subject": range(len(scores)), "decoder": TOGETHER}
            frames.append(pd.DataFrame(rows | {"kind": "combination", "score": scores, "seed": -1}))
    return pd.concat(frames, ignore_index=True)


def weigh(heldout, kinds):
    """Return how much every candidate counts in the average for the next person."""
    rows = []
    for target, found in heldout.items():
        weights = choose_weights(*found.of_population(list(kinds)))
        rows += [(target, *item, weight) for item, weight in zip(kinds.items(), weights)]
    return pd.DataFrame(rows, columns=["target", "decoder", "kind", "weight"])
