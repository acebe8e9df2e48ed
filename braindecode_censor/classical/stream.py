"""Classical decoders of one subject, trial by trial: features are computed once for all, and centres move together."""

from collections import defaultdict

import numpy as np

from braindecode_censor.classical import geometry
from braindecode_censor.storage.seal import digest

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
    options = estimator.features, estimator.bands, estimator.windows, estimator.segments, estimator.n_filters
    return digest(b"".join(learned), repr(options).encode())


class _Group:
    """Decoders with equal features; equal centres that move equally are kept once."""

    def __init__(self, estimators, streams):
        self.first, self.decoders = estimators[0], []
        rows = {1: {}, 2: {}}  # vectors, matrices: (block, weight, centre) -> row of the stack
        for estimator in estimators:
            weight = estimator.prior + getattr(estimator, "n_target_", 0)
            weight = (
                weight if streams and estimator.recentre else np.inf
            )  # An infinite weight stays where it is.
            centres = estimator._centre()
            coefs = np.split(estimator.arrays_["coef"], np.cumsum([_width(c) for c in centres])[:-1], axis=1)
            terms = []
            for block, (centre, coef) in enumerate(zip(centres, coefs)):
                stack = rows[centre.ndim]
                row, _ = stack.setdefault((block, weight, centre.tobytes()), (len(stack), centre))
                terms.append((centre.ndim, row, _symmetric(coef, len(centre)) if centre.ndim == 2 else coef))
            self.decoders.append((estimator.arrays_["intercept"], terms))
        self.centres = {ndim: _CENTRES[ndim](stack) for ndim, stack in rows.items() if stack}

    def scores(self, trial):
        """Yield the scores of every decoder."""
        blocks, _ = self.first._blocks(trial)
        means = [block[0] if len(block) == 1 else geometry.mean(block) for block in blocks]
        differences = {ndim: centres.step(blocks, means) for ndim, centres in self.centres.items()}
        for intercept, terms in self.decoders:
            yield intercept + sum(coef @ differences[ndim][row].ravel() for ndim, row, coef in terms)


class _Vectors:
    """Centres of vectors; the mean difference of a trial's segments is the difference of their mean."""

    def __init__(self, rows):
        self.blocks, weights, _ = zip(*rows)
        self.weights = np.array(weights)
        self.centres = np.stack([centre for _, centre in rows.values()])

    def step(self, blocks, means):
        """Move the centres by a trial, and return its differences from them."""
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
        self.blocks, weights, _ = zip(*rows)
        self.weights = np.array(weights)
        self.moving = np.flatnonzero(np.isfinite(self.weights))
        self.roots, self.inverses = geometry.roots(np.stack([centre for _, centre in rows.values()]))

    def step(self, blocks, means):
        """Move the centres by a trial, and return the mean tangent vector of its segments, as matrices."""
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
