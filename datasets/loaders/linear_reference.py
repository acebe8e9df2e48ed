"""A plain linear decoder, within and across subjects: what simulated subjects are measured with."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold


def features(X, kind):
    """Return what a linear model can use."""
    X = np.asarray(X, float)
    if kind == "emg":
        power = np.log(X[..., X.shape[-1] // 3 :].var(axis=-1))
        return power - power.mean(axis=1, keepdims=True)
    X = (X - X.mean(axis=-1, keepdims=True)) / X.std(axis=-1, keepdims=True)
    whole = X.shape[-1] // 8 * 8
    return X[..., :whole].reshape(*X.shape[:2], -1, 8).mean(axis=-1).reshape(len(X), -1)


def fit(F, y):
    """Return a fitted linear discriminant with shrinkage."""
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(F, y)


def _score(train, test):
    return balanced_accuracy_score(test[1], fit(*train).predict(test[0]))


def within(F, y, s):
    """Return the accuracy of five-fold cross-validation within each subject."""
    out = []
    for subject in np.unique(s):
        Fk, yk = F[s == subject], y[s == subject]
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(Fk, yk)
        out += [_score((Fk[a], yk[a]), (Fk[b], yk[b])) for a, b in folds]
    return float(np.mean(out))


def across(F, y, s, n_train=None, repeats=1):
    """Return the accuracy on subjects left out one after the other."""
    rng, out = np.random.default_rng(0), []
    for subject in np.unique(s):
        rest = np.flatnonzero(s != subject)
        for _ in range(repeats):
            keep = rest if n_train is None else rng.choice(rest, n_train, replace=False)
            out.append(_score((F[keep], y[keep]), (F[s == subject], y[s == subject])))
    return float(np.mean(out))


def across_invariant(F, y, s, n_directions=2):
    """Return the accuracy on subjects left out, with features on which the training subjects agree.

    The directions in which the difference of the two classes varies most between the training subjects are
    projected out: conditional censoring of first moments, without a network.
    """
    out = []
    for subject in np.unique(s):
        rest = s != subject
        means = [[F[(s == other) & (y == c)].mean(axis=0) for c in (0, 1)] for other in np.unique(s[rest])]
        effect = np.diff(means, axis=1)[:, 0]
        basis = np.linalg.svd(effect - effect.mean(axis=0), full_matrices=False)[2][:n_directions]
        G = F - F @ basis.T @ basis
        out.append(_score((G[rest], y[rest]), (G[~rest], y[~rest])))
    return float(np.mean(out))
