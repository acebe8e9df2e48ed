"""Accuracy of a linear decoder within and across subjects, for simulated subjects."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold


def _score(F, y, train, test):
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(F[train], y[train])
    return balanced_accuracy_score(y[test], lda.predict(F[test]))


def within(F, y, s):
    """Return the accuracy of five-fold cross-validation within each subject."""
    scores = []
    for subject in np.unique(s):
        Fk, yk = F[s == subject], y[s == subject]
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(Fk, yk)
        scores += [_score(Fk, yk, train, test) for train, test in folds]
    return float(np.mean(scores))


def across(F, y, s, n_train=None, repeats=1):
    """Return the accuracy on held-out subjects, one after the other."""
    rng, scores = np.random.default_rng(0), []
    for subject in np.unique(s):
        train = np.flatnonzero(s != subject)
        for _ in range(repeats):
            selected = train if n_train is None else rng.choice(train, n_train, replace=False)
            scores.append(_score(F, y, selected, s == subject))
    return float(np.mean(scores))


def across_invariant(F, y, s, n_directions=2):
    """Return the accuracy on held-out subjects, with features on which the training subjects agree.

    The directions in which the difference of the two classes varies most between the training subjects are
    projected out: conditional censoring of first moments, without a network.
    """
    scores = []
    for subject in np.unique(s):
        train = s != subject
        means = [[F[(s == k) & (y == c)].mean(axis=0) for c in (0, 1)] for k in np.unique(s[train])]
        effect = np.diff(means, axis=1)[:, 0]
        basis = np.linalg.svd(effect - effect.mean(axis=0), full_matrices=False)[2][:n_directions]
        scores.append(_score(F - F @ basis.T @ basis, y, train, ~train))
    return float(np.mean(scores))
