"""A decoder's answers to one subject, improved by what the subject's trials teach: of a block, or of a stream."""

from collections import deque
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from braindecode_censor.decoder.forecast import block_statistics
from braindecode_censor.decoder.regression import kernel_of
from braindecode_censor.decoder.teacher import Teacher
from braindecode_censor.decoder.teaching import answer, log_probabilities, stack_terms, teach

__all__ = ["TaughtStream", "TaughtSubject", "teach_subject"]

_MOST_TRIALS = 600  # of a block that are regressed on, because the time grows with the cube
_MOST_STREAMED = 300  # trials of a stream, so that its memory does not grow
_GROWTH = 1.1  # of the number of streamed trials, after which the regressions are fitted again
_PRIOR = 5.0  # trials that the training subjects' centres count as in a stream


def _digests(signals):
    """Return 16 bytes of every trial, by which it is recognised."""
    trials = (np.ascontiguousarray(trial, dtype=np.float32) for trial in signals)
    content = b"".join(blake2b(trial, digest_size=16).digest() for trial in trials)
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, 16)


@dataclass
class TaughtSubject:
    """What a block of a subject's trials taught."""

    teacher: Teacher
    weights: np.ndarray  # (2 + n_views,)
    offset: np.ndarray  # (n_classes,)
    regressions: list  # of each view, None without weight
    centres: list  # of each view, None without weight
    digests: np.ndarray  # (n_trials, 16) of the block
    log_q: np.ndarray  # (n_views, n_trials, n_classes), leave-one-out answers of the block
    statistics: np.ndarray  # of the block, for the forecast

    def predict_proba(self, signals, probabilities):
        """Return the taught probabilities of trials; those of a trial do not depend on other trials."""
        logs, log_q = log_probabilities(probabilities), np.zeros((len(self.log_q), *probabilities.shape))
        positions = {row.tobytes(): k for k, row in enumerate(self.digests)}
        block_rows = np.array([positions.get(digest.tobytes(), -1) for digest in _digests(signals)])
        log_q[:, block_rows >= 0] = self.log_q[:, block_rows[block_rows >= 0]]
        new = np.flatnonzero(block_rows < 0)
        for k, regression in enumerate(self.regressions):
            if len(new) and regression is not None:
                vectors = self.teacher.views[k].differences(np.asarray(signals[new]), self.centres[k])
                log_q[k, new] = regression.log_q(vectors)
        return np.exp(answer(stack_terms(logs, self.offset, log_q), self.weights))


def teach_subject(teacher, signals, probabilities, y=None, proportions="as-trained"):
    """Return the :class:`TaughtSubject` of a block; labels are -1 where unknown."""
    rows = np.arange(len(signals))
    if len(rows) > _MOST_TRIALS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_TRIALS])
    signals, y = np.asarray(signals[rows]), None if y is None else y[rows]
    logs = log_probabilities(probabilities[rows])
    share, weights = teacher.choose(logs, y, proportions)
    described = [v.describe(signals) if w else (None, None) for v, w in zip(teacher.views, weights[2:])]
    centres, vectors = zip(*described)
    lesson = teach(logs, map(kernel_of, vectors), share, y)
    functions, statistics = lesson.functions(vectors), block_statistics(lesson.terms, weights)
    digests, log_q = _digests(signals), lesson.terms[2:]
    return TaughtSubject(
        teacher, weights, lesson.offset, functions, list(centres), digests, log_q, statistics
    )


class TaughtStream:
    """What the trials of a stream teach so far: the answer to a trial uses the regressions on trials before it.

    Views keep running centres, which start at the training subjects'.
    """

    def __init__(self, teacher, proportions="unknown", prior_factor=1.0):
        self.teacher, self.proportions, self.prior = teacher, proportions, prior_factor * _PRIOR
        self.centres, self.n_trials, self.next_fit = list(teacher.centres), 0, 0
        _, self.weights = teacher.choose(np.zeros((1, 1)), None, "unknown")
        self.offset, self.regressions = np.zeros(len(teacher.proportions)), [None] * len(self.centres)
        # A view without weight in blocks of any size is not computed.
        self.used = np.flatnonzero(teacher.weights[:, :, 2:].any(axis=(0, 1)))
        self.logs = deque(maxlen=_MOST_STREAMED)
        self.vectors = [deque(maxlen=_MOST_STREAMED) for _ in self.centres]

    def predict_proba(self, signals, probabilities, learn=True):
        """Return the taught probabilities of the next trials, and learn from them."""
        return np.stack([self._next(x[None], p, learn) for x, p in zip(np.asarray(signals), probabilities)])

    def _next(self, trial, probabilities, learn):
        self.n_trials += learn
        logs, log_q = log_probabilities(probabilities), np.zeros((len(self.centres), len(probabilities)))
        for k in self.used:
            fraction = 1 / (self.prior + self.n_trials) if learn else 0.0
            self.centres[k], vector = self.teacher.views[k].move(trial, self.centres[k], fraction)
            if learn:
                self.vectors[k].append(vector)
            if self.regressions[k] is not None:
                log_q[k] = self.regressions[k].log_q(vector[None])[0]
        result = np.exp(answer(stack_terms(logs[None], self.offset, log_q[:, None]), self.weights))[0]
        if not learn:
            return result
        self.logs.append(logs)
        if self.n_trials >= self.next_fit:
            self._fit()
            self.next_fit = int(np.ceil(_GROWTH * self.n_trials))
        return result

    def _fit(self):
        logs = np.array(self.logs)
        share, self.weights = self.teacher.choose(logs, None, self.proportions, warn=False)
        vectors = [np.array(v) if w else None for v, w in zip(self.vectors, self.weights[2:])]
        lesson = teach(logs, map(kernel_of, vectors), share)
        self.offset, self.regressions = lesson.offset, lesson.functions(vectors)
