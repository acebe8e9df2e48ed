"""Target data: what is available of the subject to be decoded.

Training does not depend on it, so the same models are tested with all kinds of target data:

* ``none``: nothing;
* ``stream``: every trial is decoded with the unlabelled trials before it;
* ``unlabeled-20p``: the first 20 % of the trials, without labels; the later ones are decoded;
* ``unlabeled``: all trials, without labels;
* ``labeled-5``: the first five trials of every class with labels, or all but one where there are fewer;
  the later ones are decoded.

Other numbers than 20 and 5 can be written, too.
"""

from math import ceil

import numpy as np

from braindecode_censor.run.decode import adapt_to, predict_others

__all__ = ["TARGET_DATA", "decode_with", "label_of", "order_of"]

#: Target data of the tables, from the least.
TARGET_DATA = ("none", "unlabeled-20p", "stream", "unlabeled", "labeled-5")
_LABELS = {"none": "none", "stream": "streamed", "unlabeled": "all unlabelled"}


def label_of(target):
    """Return the name of target data in tables."""
    name, _, amount = target.partition("-")
    if not amount:
        return _LABELS[target]
    return f"{amount[:-1]} % unlabelled" if name == "unlabeled" else f"{amount} labelled per class"


def order_of(targets):
    """Return target data in the order of the tables, further ones last."""
    return sorted(set(targets), key=lambda name: (name not in TARGET_DATA, (*TARGET_DATA, name).index(name)))


def decode_with(target, model, X, y, n_classes):
    """Return the probabilities of a held-out subject's trials, NaN for those that the model was given."""
    is_given = np.zeros(len(X), dtype=bool)
    name, _, amount = target.partition("-")
    if name == "stream":
        model = model.stream()
    elif target == "unlabeled":
        model = adapt_to(model, X)
    elif name == "unlabeled":
        is_given[: ceil(int(amount.removesuffix("p")) / 100 * len(X))] = True
        model = adapt_to(model, X[is_given])
    elif name == "labeled":
        for k in np.unique(y):
            class_idx = np.flatnonzero(y == k)
            is_given[class_idx[: min(int(amount), len(class_idx) - 1)]] = True
        model = adapt_to(model, X[is_given], y[is_given]) if is_given.any() else model
    elif target != "none":
        raise ValueError(
            f"target={target!r} is unknown: write one of {TARGET_DATA}, or another number in them."
        )
    return predict_others(model, X, is_given, n_classes)
