"""Classical decoders of one subject, trial by trial: features and the subject's centres are computed once for all."""

from collections import defaultdict

import numpy as np

from braindecode_censor.classical import geometry
from braindecode_censor.classical.features import FEATURES
from braindecode_censor.storage.seal import digest
from braindecode_censor.trials.affine import level_of, mean_description, summarize
from braindecode_censor.trials.amplitude import AmplitudePrior

__all__ = ["TrialwiseClassifiers"]


class TrialwiseClassifiers:
    """Fitted classical decoders as one, with equal probabilities at a lower cost; the decoders do not change.

    With ``streams`` every trial moves the centres before it is decoded, as :meth:`TangentSpaceClassifier.stream` does.
    """

    def __init__(self, estimators, streams):
        groups = defaultdict(list)
        for k, estimator in enumerate(estimators):
            groups[_key(estimator)].append(k)
        self._groups = [(idx, _Group([estimators[k] for k in idx], streams)) for idx in groups.values()]

    def __call__(self, trial, learn=True):
        """Return the probabilities of a trial of shape (1, n_chans, n_times), one array per decoder."""
        moments = mean_description([trial], "subject")[0] if learn else None
        scores = {k: row for idx, group in self._groups for k, row in zip(idx, group.scores(trial, moments))}
        powers = [np.exp(scores[k] - scores[k].max()) for k in range(len(scores))]
        return [row / row.sum() for row in powers]


def _is_supervised(estimator):
    return FEATURES[estimator.features].supervised


def _key(estimator):
    """Return what the features of a trial, and the subject's centres, depend on."""
    own = ("coef", "intercept") if _is_supervised(estimator) else ("coef", "intercept", "amplitude")
    arrays = {k: a for k, a in estimator.arrays_.items() if k not in own and not k.startswith("population")}
    options = estimator.features, estimator.bands, estimator.windows, estimator.segments, estimator.n_filters
    options += estimator.recentre, estimator.n_target_, _is_supervised(estimator) and estimator.prior
    return digest(b"".join(array.tobytes() for array in arrays.values()), repr((options, *arrays)).encode())


class _Group:
    """Decoders with equal features, of a subject with equal centres."""

    def __init__(self, estimators, streams):
        first = self.first = estimators[0]
        self.estimators, self.moves = estimators, streams and first.recentre
        self.n_trials, self.moments = first.n_target_, first.arrays_.get("moments", 0.0)
        n_blocks = sum(name.startswith("population") for name in first.arrays_)
        names = [f"population{k}" for k in range(n_blocks)]
        self.centres = [
            [e.arrays_[name] for name in names] if self.moves else e._centre() for e in estimators
        ]
        self.is_vector = [centre.ndim == 1 for centre in self.centres[0]]
        # A subject without trials has no centres yet; the first trial replaces them.
        subject = [first.arrays_.get(f"subject{k}", centre) for k, centre in enumerate(self.centres[0])]
        self.vectors = [centre for centre in subject if centre.ndim == 1]
        self.coefs = [_split(e.arrays_["coef"], c) for e, c in zip(estimators, self.centres)]
        matrices = [centre for centre in subject if centre.ndim == 2]
        self.matrices = _Matrices(matrices, self.centres, estimators, self.moves) if matrices else None
        self.log_gains = [estimator._log_gain() for estimator in estimators]

    def _regain(self, log_gain):
        rescale = self.first._make_features().rescale
        self.vectors = rescale(self.vectors, log_gain) if self.vectors else []
        if self.matrices is not None:
            self.matrices.subject = np.stack(rescale(list(self.matrices.subject), log_gain))

    def scores(self, trial, moments):
        """Yield the scores of every decoder, after a step of the centres if there are moments of the trial."""
        learns = self.moves and moments is not None
        if learns:
            self.n_trials += 1
            self.moments = self.moments + (moments - self.moments) / self.n_trials
            level = level_of(summarize(self.moments, "subject"), "subject")
            priors = [(AmplitudePrior(*e.arrays_["amplitude"]), e.prior) for e in self.estimators]
            before, self.log_gains = (
                self.log_gains,
                [one.estimate(level, self.n_trials, prior) - one.centre for one, prior in priors],
            )
            if _is_supervised(self.first):  # Centres of signals that were divided by the older estimate.
                self._regain(before[0] - self.log_gains[0])
        log_gains = self.log_gains
        blocks, _ = self.first._blocks(self.first._scale(trial, log_gains[0]))
        means = [block[0] if len(block) == 1 else geometry.mean(block) for block in blocks]
        vectors = [mean for mean, is_vector in zip(means, self.is_vector) if is_vector]
        if learns:
            pairs = zip(vectors, self.vectors)
            self.vectors = [old + (mean - old) / self.n_trials for mean, old in pairs]
        if self.matrices is not None:
            if learns:
                self.matrices.move(_choose(means, self.is_vector), self.n_trials)
            tangents = self.matrices.tangents(_choose(blocks, self.is_vector))
        for k, (estimator, log_gain) in enumerate(zip(self.estimators, log_gains)):
            own = (
                1 - self.n_trials / (self.n_trials + estimator.prior) if self.moves and self.n_trials else 1.0
            )
            centres = estimator._rescale(self.centres[k], log_gain) if self.moves else self.centres[k]
            centres = [centre for centre in centres if centre.ndim == 1]
            scores, coefs = estimator.arrays_["intercept"], self.coefs[k]
            for coef, mean, centre, subject in zip(coefs, vectors, centres, self.vectors):
                scores = scores + coef @ (mean - own * centre - (1 - own) * subject)
            if self.matrices is not None:
                # A gain of a centre only shifts the tangent vectors along the identity.
                gain = 2 * own * log_gain if self.moves and not _is_supervised(estimator) else 0.0
                for coef, row in zip(coefs[len(vectors) :], self.matrices.rows[k]):
                    tangent = tangents[row] - gain * np.eye(len(tangents[row]))
                    scores = scores + coef @ tangent.ravel()
            yield scores


class _Matrices:
    r"""Tangent vectors at the centres of a subject, shrunk towards those of the decoders' populations.

    A step α along the geodesic from A to B needs one decomposition, :math:`A^{-1/2} B A^{-1/2} = V \lambda V^T`: with
    :math:`G = A^{1/2} V \lambda^{\alpha / 2}` it ends in :math:`G G^T`. The roots of the populations serve all
    trials. Equal populations are kept once.
    """

    def __init__(self, subject, centres, estimators, moves):
        self.rows, distinct = [], {}
        for estimator, own in zip(estimators, centres):
            populations = enumerate(centre for centre in own if centre.ndim == 2)
            keys = [(block, estimator.prior, matrix.tobytes()) for block, matrix in populations]
            matrices = (centre for centre in own if centre.ndim == 2)
            idx = [distinct.setdefault(key, (len(distinct), m))[0] for key, m in zip(keys, matrices)]
            self.rows.append(idx)
        self.blocks, priors, _ = zip(*distinct)
        self.blocks, self.priors = list(self.blocks), np.array(priors)
        self.roots, self.inverses = geometry.roots(np.stack([matrix for _, matrix in distinct.values()]))
        self.subject = np.stack(subject)
        self.whitening = self.inverses
        if moves and estimators[0].n_target_:
            self._shrink(estimators[0].n_target_)

    def tangents(self, blocks):
        """Return the mean tangent vectors of a trial's segments, as matrices."""
        segments = np.stack([blocks[k] for k in self.blocks], axis=1)
        return geometry.logarithm(geometry.whiten(segments, self.whitening)).mean(axis=0)

    def move(self, means, n_trials):
        """Add a trial to the subject's centres."""
        means = np.stack(means)
        if n_trials == 1:
            self.subject = means
        else:
            factors = _step(*geometry.roots(self.subject), means, np.full(len(means), 1 / n_trials))
            self.subject = factors @ np.swapaxes(factors, 1, 2)
        self._shrink(n_trials)

    def _shrink(self, n_trials):
        """Set the inverse roots of the centres between the populations' and the subject's."""
        fractions = n_trials / (n_trials + self.priors)
        factors = _step(self.roots, self.inverses, self.subject[self.blocks], fractions)
        self.whitening = geometry.roots(factors @ np.swapaxes(factors, 1, 2))[1]


def _step(roots, inverses, ends, fractions):
    """Return factors G of the points GGᵀ at fractions of the way to the ends."""
    values, axes = np.linalg.eigh(geometry.whiten(ends, inverses))
    return roots @ axes * values[:, None] ** (fractions[:, None, None] / 2)


def _choose(blocks, is_vector):
    return [block for block, skip in zip(blocks, is_vector) if not skip]


def _split(coef, centres):
    """Return the coefficients of every block; those of tangent vectors as of all entries of symmetric matrices."""
    widths = [len(centre) if centre.ndim == 1 else len(centre) * (len(centre) + 1) // 2 for centre in centres]
    parts = np.split(coef, np.cumsum(widths)[:-1], axis=1)
    return [_symmetric(part, len(c)) if c.ndim == 2 else part for part, c in zip(parts, centres)]


def _symmetric(coef, n):
    rows, columns = np.triu_indices(n)
    full = np.zeros((len(coef), n, n))
    full[:, rows, columns] = coef * np.where(rows == columns, 0.5, np.sqrt(0.5))
    return (full + np.swapaxes(full, 1, 2)).reshape(len(coef), -1)
