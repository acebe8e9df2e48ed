"""Normalisers of several decoders as one, for the trials of one subject as they arrive."""

import copy

from braindecode_censor.trials.normalizations import SUBJECTWISE, TRIALWISE

__all__ = ["TrialwiseNormalizers"]


class TrialwiseNormalizers:
    """Fitted normalisers whose statistics of the subject, and equal maps, are computed once; they do not change."""

    def __init__(self, normalizers):
        self._leaders, self._distinct, self.indices = {}, [], []
        by_key = {}
        for normalizer in normalizers:
            is_subjectwise = normalizer.strategy in SUBJECTWISE
            target = normalizer.estimator, normalizer.n_target_, _bytes(normalizer.target_)
            population = normalizer.prior, _bytes(normalizer.population_), normalizer.amplitude_
            key = normalizer.strategy, *population, *target
            if key not in by_key:
                by_key[key] = len(self._distinct)
                own = copy.copy(normalizer)
                leader = self._leaders.setdefault((own.strategy, *target), own) if is_subjectwise else None
                self._distinct.append((own, leader))
            self.indices.append(by_key[key])
        self._maps = None

    def __call__(self, trial, learn):
        """Return a trial (1, n_chans, n_times) by every normaliser, whose statistics it may be added to first."""
        if learn:
            for leader in self._leaders.values():
                leader._add_to_target(trial)
            for own, leader in self._distinct:
                if leader is not None:
                    own.target_, own.n_target_ = leader.target_, leader.n_target_
        if learn or self._maps is None:
            self._maps = [own.affine or TRIALWISE[own.strategy] for own, _ in self._distinct]
        normalized = [one(trial) for one in self._maps]
        return [normalized[k] for k in self.indices]


def _bytes(array):
    return None if array is None else array.tobytes()
