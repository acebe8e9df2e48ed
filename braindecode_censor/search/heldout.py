"""Held-out probabilities, the currency of the search: every rule, table and figure is computed from them.

For the decoder of a new subject all folds vote. For an honest score of subject t only models trained without t are
used, and the weights come from what these very models predict for t's partners, whom they have not seen either.
"""

import numpy as np

from braindecode_censor.search.folds import partners_of
from braindecode_censor.search.weights import balanced_loss, choose_weights
from braindecode_censor.trials.balance import balanced_weights

__all__ = ["HeldOut", "balanced_accuracy"]


def balanced_accuracy(probabilities, y):
    """Return the mean over classes of the fraction of trials that are decoded correctly."""
    correct = probabilities.argmax(axis=1) == y
    return float(np.mean([correct[y == k].mean() for k in np.unique(y)]))


class HeldOut:
    """The probabilities of every candidate for subjects that its models have not seen.

    Calibration trials, whose labels a model was given, are NaN and left out of every choice and score.
    """

    def __init__(self, labels, folds):
        self.labels = [np.asarray(y) for y in labels]  # of each subject's trials, 0 .. n_classes - 1
        self.folds = list(folds)
        self.probabilities = {}  # candidate -> fold -> subject -> (n_trials, n_classes)
        self._partners = {subject: partners_of(subject, self.folds) for subject in range(len(self.labels))}
        self._nested = {}

    def add(self, candidate, fold, probabilities):
        """Store the probabilities of a model for the two subjects of its fold."""
        for subject in self.folds[fold]:
            n_trials = len(self.labels[subject])
            if len(probabilities[subject]) != n_trials:
                raise ValueError(
                    f"{len(probabilities[subject])} probabilities for the {n_trials} trials of a subject."
                )
        self._nested.clear()
        self.probabilities.setdefault(candidate, {})[fold] = dict(probabilities)

    def remove(self, candidate):
        """Remove the held-out probabilities of a candidate."""
        self._nested.clear()
        self.probabilities.pop(candidate, None)

    def shared_folds(self, candidates):
        """Return the folds for which all candidates were trained."""
        return sorted(set.intersection(*(set(self.probabilities.get(name, {})) for name in candidates)))

    def tested_subjects(self, candidate):
        """Return the subjects that some model of a candidate has decoded."""
        return {subject for fold in self.probabilities.get(candidate, {}) for subject in self.folds[fold]}

    def for_final_weights(self, candidates):
        """Return what sets the weights of the final ensemble: for every subject, averages over models without it.

        Returns probabilities of shape (n_candidates, n_trials, n_classes), labels and subjects of the trials.
        """
        subjects = sorted(set.intersection(*(self.tested_subjects(name) for name in candidates)))
        return self._stack({subject: self._averages(candidates, subject) for subject in subjects})

    def for_nested_weights(self, subject, candidates):
        """Return what may set the weights for the test of a subject: its partners, by models that saw neither."""
        shared = set(self.shared_folds(candidates))
        partners = {v: k for v, k in sorted(self._partners[subject].items()) if k in shared}
        return self._stack(
            {
                v: np.array([self.probabilities[name][k][v] for name in candidates])
                for v, k in partners.items()
            }
        )

    def for_test(self, subject, candidates):
        """Return the averages over all models that have not seen a subject, and the labels of its trials."""
        probabilities, y, _ = self._stack({subject: self._averages(candidates, subject)})
        return probabilities, y

    def nested_scores(self, candidates, rule="greedy"):
        """Return the nested balanced accuracy of a rule for every subject, NaN for those that were not tested."""
        key = (*candidates, rule)
        if key not in self._nested:
            scores = self._nested[key] = np.full(len(self.labels), np.nan)
            for subject in self.nested_subjects(candidates):
                scores[subject] = balanced_accuracy(*self.nested_answers(subject, candidates, rule))
        return self._nested[key].copy()

    def nested_answers(self, subject, candidates, rule="greedy"):
        """Return the probabilities of a subject's trials by weights of its partners alone, and the labels."""
        weights = choose_weights(*self.for_nested_weights(subject, candidates), rule)
        probabilities, y = self.for_test(subject, candidates)
        return np.tensordot(weights, probabilities, 1), y

    def nested_subjects(self, candidates):
        """Return the subjects that have a nested score."""
        return sorted({subject for fold in self.shared_folds(candidates) for subject in self.folds[fold]})

    def scores(self, candidate):
        """Return the balanced accuracy of one candidate for every subject, NaN for those that were not tested."""
        scores = np.full(len(self.labels), np.nan)
        for subject in self.tested_subjects(candidate):
            probabilities, y = self.for_test(subject, [candidate])
            scores[subject] = balanced_accuracy(probabilities[0], y)
        return scores

    def loss(self, candidate):
        """Return the balanced held-out loss of a candidate, infinite without trainings."""
        if not self.probabilities.get(candidate):
            return np.inf
        probabilities, y, subjects = self.for_final_weights([candidate])
        return float(balanced_loss(probabilities[0, np.arange(len(y)), y], balanced_weights(y, subjects)))

    def _averages(self, candidates, subject):
        """Return the averages over each candidate's models without a subject, (n_candidates, n_trials, n_classes)."""
        folds = self._partners[subject].values()
        each = (
            [self.probabilities[name][k][subject] for k in folds if k in self.probabilities[name]]
            for name in candidates
        )
        return np.stack([np.mean(np.asarray(models, dtype=float), axis=0) for models in each])

    def _stack(self, by_subject):
        """Join subject -> probabilities along trials, without those that some model was given the labels of."""
        y = np.concatenate([self.labels[subject] for subject in by_subject])
        subjects = np.concatenate([np.full(len(self.labels[subject]), subject) for subject in by_subject])
        probabilities = np.concatenate([np.asarray(p, dtype=float) for p in by_subject.values()], axis=1)
        is_tested = np.isfinite(probabilities).all(axis=(0, 2))
        return probabilities[:, is_tested], y[is_tested], subjects[is_tested]
