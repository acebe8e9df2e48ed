"""What one decoder says about a person it has not seen: by what is known of the person, and by how much of it."""

import numpy as np
from sklearn.metrics import recall_score

from braindecode_censor.run.pair_trainings import quiet

#: What is known of the person -> name in tables. "inputs" takes the statistics of the signals alone.
TIERS = {
    "none": "nothing",
    "inputs": "unlabelled trials: input",
    "unlabeled": "unlabelled trials: input and batch norm",
}
#: Shares of a person's trials that are given without classes; half of them are kept for the score.
SHARES = (0.0, 0.05, 0.1, 0.2, 0.5)
#: Trials of each class that are given with their class.
LABELED = (1, 2, 5, 10)
#: Share of one class in a block -> its name.
BLOCKS = {"balanced": None, "85 % one class": 0.85, "one class": 1.0}
#: What is taken from the block.
ADAPTED = ("inputs", "batch norm", "both")
#: How many trials the population is worth; None is as it has.
PRIORS = (5.0, 20.0, None)
_NOTHING = 1e12  # a prior so strong that nothing is learnt


def score(y, found):
    """Return the mean recall of the classes that occur."""
    return recall_score(y, found, labels=np.unique(y), average="macro", zero_division=0)


def adapt(clf, X, y=None, inputs=5.0, norms=5.0):
    """Adapt a decoder with priors of its own for the two things that are learnt of a person."""
    clf.normalizer_.prior, clf.prior = inputs, norms
    return clf.adapt(X, y)


def decode(clf, X):
    """Decode all trials of a person in every tier."""
    with quiet():
        found = {"none": clf.predict_proba(X), "inputs": _decode_normalized(clf, X, X)}
        found["unlabeled"] = adapt(clf, X).predict_proba(X)
    return {tier: array.astype(np.float32) for tier, array in found.items()}


def _decode_normalized(clf, block, X):
    """Decode with the block's statistics of the signals and the population's of batch norm."""
    general = clf.normalizer_
    try:
        clf.normalizer_ = general.adapt(block)
        return clf.predict_proba(X)
    finally:
        clf.normalizer_ = general


def halves(y, rng):
    """Draw the trials that may be given and those that are scored, each with half of every class."""
    given = [rng.permutation(np.flatnonzero(y == k)) for k in np.unique(y)]
    given = rng.permutation(np.concatenate([mine[: len(mine) // 2] for mine in given]))
    return given, np.setdiff1d(np.arange(len(y)), given)


def curve_unlabeled(clf, X, y, rng):
    """Score a decoder by the share of the person's trials that it was given without their classes."""
    given, scored = halves(y, rng)
    rows = []
    with quiet():
        for share in SHARES:
            n = min(len(given), max(1, round(share * len(y))))
            person = adapt(clf, X[given[:n]]) if share else clf
            rows.append(("unlabeled", f"{share:g}", score(y[scored], person.predict(X[scored]))))
        rows.append(("unlabeled", "all", score(y[scored], adapt(clf, X).predict(X[scored]))))
        clf.normalizer_.prior = clf.prior = 5.0
        order = np.concatenate([given, rng.permutation(scored)])
        found = clf.stream().predict(X[order])[len(given) :]
        rows.append(("unlabeled", "stream", score(y[order[len(given) :]], found)))
    return rows


def curve_labeled(clf, X, y, rng):
    """Score a decoder by the number of trials of each class that it was given, with and without their classes."""
    mine = [rng.permutation(np.flatnonzero(y == k)) for k in np.unique(y)]
    amounts = [n for n in LABELED if n + 2 <= min(map(len, mine))]
    pool = np.concatenate([one[: amounts[-1]] for one in mine]) if amounts else np.arange(0)
    scored = np.setdiff1d(np.arange(len(y)), pool)
    rows = []
    with quiet():
        plain = score(y[scored], clf.predict(X[scored]))
        for n in (0, *amounts):
            given = np.concatenate([one[:n] for one in mine])
            for curve, labels in (("labeled", y[given]), ("labeled, classes hidden", None)):
                reached = plain if n == 0 else None
                if reached is None:
                    reached = score(y[scored], adapt(clf, X[given], labels).predict(X[scored]))
                rows.append((curve, str(n), reached))
    return rows


def draw_block(y, one, share, rng):
    """Draw a block of trials in which one class prevails."""
    mine, others = np.flatnonzero(y == one), rng.permutation(np.flatnonzero(y != one))
    if share is not None:
        return np.concatenate([mine, others[: round(len(mine) * (1 - share) / share)]])
    shuffled = rng.permutation(len(y))
    turn = np.array([np.sum(y[shuffled[:i]] == y[trial]) for i, trial in enumerate(shuffled)])
    return shuffled[np.argsort(turn, kind="stable")][: len(mine)]  # the first of every class, then the second


def label_shift(clf, X, y, one, n_population, rng):
    """Measure what a block of one class does to the decoding of all classes."""
    rows = []

    def add(block, what, prior, found):
        right = found == y
        rows.append((block, what, prior, right[y == one].mean(), score(y[y != one], found[y != one])))

    with quiet():
        add("none", "nothing", "", clf.predict(X))
        for name, share in BLOCKS.items():
            block = X[draw_block(y, one, share, rng)]
            for prior in PRIORS:
                strength = n_population if prior is None else prior
                for what in ADAPTED:
                    inputs = _NOTHING if what == "batch norm" else strength
                    norms = _NOTHING if what == "inputs" else strength
                    person = adapt(clf, block, inputs=inputs, norms=norms)
                    add(name, what, "population" if prior is None else f"{prior:g}", person.predict(X))
    return rows
