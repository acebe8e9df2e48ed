"""Classical decoders of one subject, trial by trial: features are computed once for all, and centres move together."""

from collections import defaultdict

import numpy as np

from braindecode_censor.classical import geometry
from braindecode_censor.storage.seal import digest
from braindecode_censor.trials.affine import level_of, summarize
from braindecode_censor.trials.amplitude import AmplitudePrior

__all__ = ["TrialwiseClassifiers"]


class TrialwiseClassifiers:
    """Fitted classical decoders as one, with equal probabilities at a lower cost; the decoders do not change.

    With ``streams`` every trial moves the centres before it is decoded, as :meth:`TangentSpaceClassifier.stream` does.
    """

    def __init__(self, estimators, streams):
        groups = defaultdict(list)
        for k, estimator in enumerate(estimators):
            groups[_feature_key(estimator)].append(k)
        self._groups = [(idx, _Group([estimators[k] for k in idx], streams)) for idx in groups.values()]

    def __call__(self, trial):
        """Return the probabilities of a trial of shape (1, n_chans, n_times), one array per decoder."""
        scores = {k: row for idx, group in self._groups for k, row in zip(idx, group.scores(trial))}
        powers = [np.exp(scores[k] - scores[k].max()) for k in range(len(scores))]
        return [row / row.sum() for row in powers]


def _feature_key(estimator):
    """Return what the features of a trial depend on."""
    learned = [
        estimator.arrays_[name].tobytes() for name in ("filters", "responses") if name in estimator.arrays_
    ]
    if learned and estimator.recentre:  # Their signals are rescaled.
        learned += [estimator.arrays_["amplitude"].tobytes(), repr(estimator.prior).encode()]
    options = estimator.features, estimator.bands, estimator.windows, estimator.segments, estimator.n_filters
    return digest(b"".join(learned), repr((options, bool(learned and estimator.recentre))).encode())


class _Group:
    """Decoders with equal features; equal centres that move equally are kept once."""

    def __init__(self, estimators, streams):
        self.first, self.decoders, self.gains = estimators[0], [], _Gains(estimators, streams)
        rows = {1: {}, 2: {}}  # vectors, matrices: (block, weight, centre, ...) -> row of the stack
        for k, estimator in enumerate(estimators):
            # An infinite weight stays where it is.
            weight = estimator.prior + estimator.n_target_ if streams and estimator.recentre else np.inf
            moved = self.gains.keys[k] if streams and estimator.recentre else b""
            centres = estimator._centre()
            # How centres of vectors change with the logarithm of a gain; those of matrices all change alike.
            units = estimator._rescale(
                [np.zeros(c.shape[:1]) if c.ndim == 1 else np.ones(1) for c in centres], 1.0
            )
            coefs = np.split(estimator.arrays_["coef"], np.cumsum([_width(c) for c in centres])[:-1], axis=1)
            terms = []
            for block, (centre, coef) in enumerate(zip(centres, coefs)):
                stack = rows[centre.ndim]
                row, *_ = stack.setdefault(
                    (block, weight, centre.tobytes(), moved), (len(stack), centre, k, units[block])
                )
                terms.append((centre.ndim, row, _symmetric(coef, len(centre)) if centre.ndim == 2 else coef))
            self.decoders.append((estimator.arrays_["intercept"], terms))
        self.centres = {ndim: _CENTRES[ndim](stack) for ndim, stack in rows.items() if stack}

    def scores(self, trial):
        """Yield the scores of every decoder."""
        changes = self.gains.step(trial)
        blocks, _ = self.first._blocks(self.first._scale(trial, self.gains.log_gains[0]))
        means = [block[0] if len(block) == 1 else geometry.mean(block) for block in blocks]
        differences = {ndim: centres.step(blocks, means, changes) for ndim, centres in self.centres.items()}
        for intercept, terms in self.decoders:
            yield intercept + sum(coef @ differences[ndim][row].ravel() for ndim, row, coef in terms)


class _Gains:
    """The subject's gain relative to the population of each decoder, and how it changes with the trials."""

    def __init__(self, estimators, streams):
        self.amplitude = AmplitudePrior(*np.stack([clf.arrays_["amplitude"] for clf in estimators], axis=1))
        self.priors = np.array([float(clf.prior) for clf in estimators])
        self.keys = [clf.arrays_["amplitude"].tobytes() + repr(clf.prior).encode() for clf in estimators]
        self.log_gains = np.array([clf._log_gain() for clf in estimators])
        moving = [clf for clf in estimators if streams and clf.recentre]
        self.target = moving[0]._copy() if moving else None

    def step(self, trial):
        """Count a trial, and return how the logarithms of the population's part of every centre change."""
        if self.target is None:
            return np.zeros(len(self.priors))
        self.target._count(trial)
        n_trials, before = self.target.n_target_, self.log_gains
        level = level_of(summarize(self.target.arrays_["moments"], "subject"), "subject")
        self.log_gains = self.amplitude.estimate(level, n_trials, self.priors) - self.amplitude.centre
        return (self.log_gains - before) * self.priors / np.maximum(self.priors + n_trials - 1, 1e-12)


class _Vectors:
    """Centres of vectors; the mean difference of a trial's segments is the difference of their mean."""

    def __init__(self, rows):
        self.blocks, weights, *_ = zip(*rows)
        self.weights = np.array(weights)
        _, centres, self.owners, units = zip(*rows.values())
        self.centres, self.units = np.stack(centres), np.isfinite(self.weights)[:, None] * np.stack(units)

    def step(self, blocks, means, changes):
        """Move the centres by a trial, and return its differences from them."""
        self.centres = self.centres + self.units * changes[list(self.owners), None]
        means = np.stack([means[k] for k in self.blocks])
        self.weights += 1
        self.centres = self.centres + (means - self.centres) / self.weights[:, None]
        return means - self.centres


class _Matrices:
    r"""Centres of covariance matrices.

    The step along a geodesic and the tangent vector share a decomposition. For a centre A, a trial B and a step α,
    :math:`A^{-1/2} B A^{-1/2} = V \lambda V^T` gives :math:`G = A^{1/2} V \lambda^{\alpha / 2}`, the new centre
    :math:`C = G G^T` and :math:`\log(C^{-1/2} B C^{-1/2}) = (1 - \alpha) W \log \lambda \, W^T` with
    :math:`W = C^{-1/2} G`. The roots of C serve the next trial.
    """

    def __init__(self, rows):
        self.blocks, weights, *_ = zip(*rows)
        self.weights = np.array(weights)
        self.moving = np.flatnonzero(np.isfinite(self.weights))
        _, centres, self.owners, units = zip(*rows.values())
        self.scale = np.isfinite(self.weights) * (np.ravel(units) > 1)  # not where signals are rescaled
        self.roots, self.inverses = geometry.roots(np.stack(centres))

    def step(self, blocks, means, changes):
        """Move the centres by a trial, and return the mean tangent vector of its segments, as matrices."""
        gains = np.exp(self.scale * changes[list(self.owners)])[:, None, None]
        self.roots, self.inverses = self.roots * gains, self.inverses / gains
        means = np.stack([means[k] for k in self.blocks])
        values, axes = np.linalg.eigh(geometry.whiten(means, self.inverses))
        self.weights += 1
        fractions = 1 / self.weights[:, None]
        moving = self.moving
        if len(moving):
            factors = (
                self.roots[moving] @ axes[moving] * values[moving, None] ** (fractions[moving, None] / 2)
            )
            self.roots[moving], self.inverses[moving] = geometry.roots(factors @ np.swapaxes(factors, 1, 2))
            axes[moving] = self.inverses[moving] @ factors
        if len(blocks[self.blocks[0]]) > 1:
            segments = np.stack([blocks[k] for k in self.blocks], axis=1)
            return geometry.logarithm(geometry.whiten(segments, self.inverses)).mean(axis=0)
        logs = (1 - fractions) * np.log(values)
        return axes * logs[:, None] @ np.swapaxes(axes, 1, 2)


_CENTRES = {1: _Vectors, 2: _Matrices}


def _width(centre):
    """Return the number of features of a block."""
    return len(centre) if centre.ndim == 1 else len(centre) * (len(centre) + 1) // 2


def _symmetric(coef, n):
    """Return coefficients of tangent vectors as those of all entries of symmetric matrices, shape (n_classes, n²)."""
    rows, columns = np.triu_indices(n)
    full = np.zeros((len(coef), n, n))
    full[:, rows, columns] = coef * np.where(rows == columns, 0.5, np.sqrt(0.5))
    return (full + np.swapaxes(full, 1, 2)).reshape(len(coef), -1)
