"""Teaching of every training subject as if it were new: nested answers, and the teacher for the next subject."""

import numpy as np

from braindecode_censor.classical import geometry
from braindecode_censor.classical.views import make_views
from braindecode_censor.decoder.forecast import Forecaster, block_statistics
from braindecode_censor.decoder.regression import kernel_of, moments, standardise
from braindecode_censor.decoder.teacher import MODES, SIZES, Teacher, distance
from braindecode_censor.decoder.teaching import (
    answer,
    estimate_proportions,
    learn_weights,
    log_probabilities,
    stack_terms,
    teach,
)
from braindecode_censor.run.decode import calibration_mask
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.heldout import balanced_accuracy
from braindecode_censor.search.weights import choose_weights

__all__ = ["HeldOutTeaching", "learn_teaching"]

_MOST_TRIALS = 300  # of a subject
_DRAWS = 3  # blocks per subject, size and mode
_CHECKS = 20  # blocks per subject and size whose proportions are estimated
_USUAL, _MARGIN = 0.95, 1.1  # the limit is this quantile of their distances, times the margin
_SMALL = 0.25  # distance that is always usual, because few subjects may be alike by chance


def learn_teaching(heldout, candidates, ensemble_weights, trials):
    """Return the :class:`Teacher`, and subject -> nested taught probabilities and labels."""
    teaching = HeldOutTeaching(heldout, candidates, trials)
    nested = {subject: teaching.nested(subject) for subject in heldout.nested_subjects(candidates)}
    answers = {s: (np.exp(answer(*terms)), teaching.y[s]) for s, terms in nested.items()}
    scores = [balanced_accuracy(*answers[s]) for s in nested]
    statistics = [block_statistics(*terms) for terms in nested.values()]
    forecaster = Forecaster(np.array(statistics), np.array(scores))
    return teaching.teacher(ensemble_weights, forecaster, trials.random_state), answers


class HeldOutTeaching:
    """Teaching of training subjects by the probabilities of models that have not seen them.

    With ``target="labeled"``, a block is a subject's calibration trials with their labels, and the other trials are
    answered. Otherwise a block is all of a subject's trials.

    Parameters
    ----------
    heldout : HeldOut
        Held-out probabilities.
    candidates : list of str
        Candidates of the ensemble.
    trials : FoldedTrials
        Signals and target data.
    """

    def __init__(self, heldout, candidates, trials):
        self.heldout, self.candidates = heldout, candidates
        self.bands = find_candidates(["riemann-bands"])[0][0].spec["bands"]
        self.n_classes, self.is_labeled = trials.data.n_classes, trials.target == "labeled"
        self.shares = [np.bincount(y, minlength=self.n_classes) / len(y) for y in heldout.labels]
        rng, self.y, self.tested, self.calibration = np.random.default_rng(trials.random_state), [], [], []
        self.kernels, self.calibration_kernels, centres, views = [], [], [], make_views(self.bands)
        for subject, y in enumerate(heldout.labels):
            signals = trials.data.take(trials.data.rows([subject]))
            given = calibration_mask(y) if self.is_labeled else np.zeros(len(y), dtype=bool)
            others = np.flatnonzero(~given)
            tested = np.sort(rng.permutation(len(others))[:_MOST_TRIALS])
            self.tested.append(tested)
            self.y.append(y[others[tested]])
            self.calibration.append(y[given])
            block = np.asarray(signals[np.flatnonzero(given) if self.is_labeled else others[tested]])
            described = [view.describe(block) for view in views]
            centres.append([centre for centre, _ in described])
            kernels = [kernel_of(vectors) for _, vectors in described]
            self.calibration_kernels.append(kernels)
            if self.is_labeled:
                X = np.asarray(signals[others[tested]])
                kernels = [
                    _kernel_with(v.differences(X, c), vectors) for v, (c, vectors) in zip(views, described)
                ]
            self.kernels.append(kernels)
        # The centre of the subjects' centres, block by block of features.
        self.centres = [[geometry.mean(np.stack(c)) for c in zip(*by_view)] for by_view in zip(*centres)]

    def share(self, *without):
        """Return the mean class proportions of subjects."""
        return np.mean([share for s, share in enumerate(self.shares) if s not in without], axis=0)

    def nested(self, subject):
        """Return the terms of a subject's tested trials, and the weights that its partners alone have set."""
        stacked = self.heldout.for_nested_weights(subject, self.candidates)
        ensemble = choose_weights(*stacked)
        partners = self._by_subject(stacked, ensemble)
        terms = [self._terms(v, p, self.share(v, subject)) for v, p in partners.items()]
        weights = _learn(terms, [self.y[v] for v in partners])
        probabilities, y = self.heldout.for_test(subject, self.candidates)
        own = self._by_subject((probabilities, y, np.full(len(y), subject)), ensemble)[subject]
        return self._terms(subject, own, self.share(subject)), weights

    def teacher(self, ensemble_weights, forecaster, random_state=0):
        """Return the :class:`Teacher` for a new subject, from all subjects."""
        by_subject = self._by_subject(self.heldout.for_final_weights(self.candidates), ensemble_weights)
        rng = np.random.default_rng(random_state)
        n_trials = int(np.median([len(y) for y in (self.calibration if self.is_labeled else self.y)]))
        sizes = np.unique([n_trials] if self.is_labeled else [min(n, n_trials) for n in (*SIZES, n_trials)])
        weights = [
            [self._weights_at(n, n == n_trials, mode, by_subject, rng) for n in sizes] for mode in MODES
        ]
        limits = np.array([self._limit_at(min(n, SIZES[-1]), by_subject, rng) for n in sizes])
        return Teacher(self.share(), sizes, np.array(weights), limits, self.centres, self.bands, forecaster)

    def _by_subject(self, stacked, weights):
        """Return subject -> averages of the candidates' probabilities of its tested trials."""
        probabilities, _, subjects = stacked
        average = np.tensordot(weights, probabilities, 1)
        return {int(s): average[subjects == s][self.tested[s]] for s in np.unique(subjects)}

    def _terms(self, subject, probabilities, share):
        """Return the terms of a subject's tested trials."""
        logs, kernels = log_probabilities(probabilities), self.kernels[subject]
        if not self.is_labeled:
            return teach(logs, kernels, share).terms
        y = self.calibration[subject]
        lesson = teach(np.zeros((len(y), self.n_classes)), self.calibration_kernels[subject], share, y)
        log_q = [r.log_q_of(kernel) for r, kernel in zip(lesson.regressions, kernels)]
        return stack_terms(logs, lesson.offset, log_q)

    def _weights_at(self, size, is_all, mode, by_subject, rng):
        """Return weights learned on blocks of a size: as they are, or with classes in proportions drawn at random."""
        terms, labels = [], []
        for subject, p in by_subject.items():
            share, y = (self.share(subject) if mode == "as-trained" else None), self.y[subject]
            if self.is_labeled or (is_all and mode == "as-trained"):
                terms.append(self._terms(subject, p, share))
                labels.append(y)
                continue
            for _ in range(_DRAWS):
                rows = self._draw(y, size, mode, rng)
                kernels = [_part(kernel, rows) for kernel in self.kernels[subject]]
                terms.append(teach(log_probabilities(p[rows]), kernels, share).terms)
                labels.append(y[rows])
        return _learn(terms, labels)

    def _draw(self, y, size, mode, rng):
        order = rng.permutation(len(y))
        if mode == "as-trained":
            return order[:size]
        counts = rng.multinomial(size, rng.dirichlet(np.ones(self.n_classes)))
        return np.concatenate([order[y[order] == k][:n] for k, n in enumerate(counts)])

    def _limit_at(self, size, by_subject, rng):
        distances = [
            distance(estimate_proportions(log_probabilities(rng.permutation(p)[:size])), self.share(subject))
            for subject, p in by_subject.items()
            for _ in range(_CHECKS)
        ]
        return max(_MARGIN * np.quantile(distances, _USUAL), _SMALL)


def _learn(terms, labels):
    blocks = np.repeat(np.arange(len(labels)), [len(y) for y in labels])
    return learn_weights(np.concatenate(terms, axis=1), np.concatenate(labels), blocks)


def _kernel_with(vectors, block):
    """Return the kernel of trials with those of a block."""
    scale = moments(block)
    return standardise(vectors, *scale) @ standardise(block, *scale).T


def _part(kernel, rows):
    """Return the kernel of some trials after centring and scaling of these, as far as the kernel tells."""
    kernel = kernel[np.ix_(rows, rows)]
    kernel = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    return kernel / max(np.trace(kernel) / len(rows), 1e-12)
