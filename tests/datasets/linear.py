"""A plain linear decoder, within and across subjects, for the tests and the table of simulated presets."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold


def features(X, kind):
    """Return time averages of 8 samples (ERP) or log variances (EMG) of z-scored or scaled trials."""
    X = np.asarray(X, float)
    if kind == "emg":
        power = np.log(X[..., X.shape[-1] // 3 :].var(axis=-1))
        return power - power.mean(axis=1, keepdims=True)
    X = (X - X.mean(axis=-1, keepdims=True)) / X.std(axis=-1, keepdims=True)
    return X.reshape(*X.shape[:2], -1, 8).mean(axis=-1).reshape(len(X), -1)


def score(train, test):
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(*train)
    return balanced_accuracy_score(test[1], model.predict(test[0]))


def within(F, y, s):
    """Five-fold cross-validation within each subject, averaged."""
    out = []
    for subject in np.unique(s):
        Fk, yk = F[s == subject], y[s == subject]
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(Fk, yk)
        out += [score((Fk[a], yk[a]), (Fk[b], yk[b])) for a, b in folds]
    return float(np.mean(out))


def across(F, y, s, n_train=None, repeats=1):
    """Leave one subject out, averaged; with n_train, on so many trials of the others, drawn ``repeats`` times."""
    rng, out = np.random.default_rng(0), []
    for subject in np.unique(s):
        rest = np.flatnonzero(s != subject)
        for _ in range(repeats):
            keep = rest if n_train is None else rng.choice(rest, n_train, replace=False)
            out.append(score((F[keep], y[keep]), (F[s == subject], y[s == subject])))
    return float(np.mean(out))


def across_invariant(F, y, s, n_directions=2):
    """Leave one subject out, after removing the directions in which the training subjects' classes differ."""
    out = []
    for subject in np.unique(s):
        rest = s != subject
        effect = [
            F[(s == other) & (y == 1)].mean(0) - F[(s == other) & (y == 0)].mean(0)
            for other in np.unique(s[rest])
        ]
        basis = np.linalg.svd(effect - np.mean(effect, axis=0), full_matrices=False)[2][:n_directions]
        G = F - F @ basis.T @ basis
        out.append(score((G[rest], y[rest]), (G[~rest], y[~rest])))
    return float(np.mean(out))
