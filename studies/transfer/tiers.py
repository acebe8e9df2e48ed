"""What may be known of the person who is tested, and how a model decodes with it.

Training does not depend on what is known of a person later, so the tiers share models:

* ``none``: nothing is known of the person;
* ``stream``: every trial is decoded with the unlabelled trials before it;
* ``unlabeled-20p``: the first fifth of the trials is known without labels, the others are decoded;
* ``unlabeled``: all trials are known without labels;
* ``labeled-5``: the labels of the first five trials of every class are known, or of all but one where there are fewer;
  the others are decoded.
"""

from math import ceil

import numpy as np

from braindecode_censor.run.pair_trainings import adapt_to, decode_rest

__all__ = ["TIERS", "decode"]

#: Names of the tiers, from the one that knows least.
TIERS = ("none", "stream", "unlabeled-20p", "unlabeled", "labeled-5")


def decode(tier, model, X, y, n_classes):
    """Let a model decode a person whom it has not seen, with what it may know of this person."""
    given = np.zeros(len(X), dtype=bool)
    if tier == "unlabeled-20p":
        given[: ceil(0.2 * len(X))] = True
        model = model.adapt(X[given])
    elif tier == "labeled-5":
        for k in np.unique(y):
            mine = np.flatnonzero(y == k)
            given[mine[: min(5, len(mine) - 1)]] = True
        model = adapt_to(model, X[given], y[given]) if given.any() else model
    elif tier == "unlabeled":
        model = model.adapt(X)
    elif tier == "stream":
        model = model.stream()
    return decode_rest(model, X, given, n_classes)
