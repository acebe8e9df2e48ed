"""Trials of a fleet on its device: normalised once for all replicas, and changed in the steps where they differ."""

import numpy as np
import torch

from braindecode_censor.trials.augment import make_transforms
from braindecode_censor.trials.dataset import Trials
from braindecode_censor.trials.normalizations import TRIALWISE, normalize_subjects, subject_statistics
from braindecode_censor.trials.normalize import SubjectNormalizer

__all__ = ["DeviceTrials", "SubjectStatistics"]


class SubjectStatistics:
    """Statistics of all subjects, each computed once for all replicas."""

    def __init__(self, signals, subjects):
        self.signals, self.subjects = signals, subjects
        self._statistics = {}

    def normalizer(self, clf, train_idx):
        """Return the normaliser that ``fit`` would have fitted."""
        strategy, n_chans = clf.normalize, self.signals.shape[1]
        if strategy in TRIALWISE:
            return SubjectNormalizer.from_statistics(strategy, [], None, n_chans, clf.prior)
        if strategy not in self._statistics:
            self._statistics[strategy] = subject_statistics(self.signals, self.subjects, strategy)
        labels, statistics, spreads = self._statistics[strategy]
        is_source = np.isin(labels, self.subjects[train_idx])
        if np.isin(self.subjects, labels[is_source]).sum() != len(train_idx):
            raise ValueError(
                f"normalize={strategy!r}: a fleet shares the statistics of subjects among its replicas, so it needs "
                "all trials of every source subject. Leave out whole subjects, or call the estimator's own fit."
            )
        return SubjectNormalizer.from_statistics(
            strategy,
            labels[is_source],
            statistics[is_source],
            n_chans,
            clf.prior,
            spreads=spreads[is_source],
        )


class DeviceTrials:
    """All trials on the device, with all that the encoders need of them."""

    def __init__(self, clf, statistics):
        self.captured_steps = {}
        self.by_population = clf.normalize == "population"
        self.augmentation = make_transforms(clf.augment, getattr(clf, "module__sfreq", None), clf._seed())
        signals = statistics.signals
        if not self.by_population:
            signals = normalize_subjects(signals, statistics.subjects, clf.normalize)
        self.x = clf._to_tensor(signals).to(clf.device)
        changes = self.by_population or self.augmentation is not None
        lag_moments = getattr(clf.module_, "lag_moments", None)  # Only the fast EEGNet has them.
        self.moments = None if changes or lag_moments is None else lag_moments(self.x)

    def can_be_captured(self):
        """Return whether batches are made on the device alone."""
        return self.augmentation is None or self.augmentation.is_counted

    def affine(self, replicas):
        """Return offset and scale of the channels of each replica, (n_replicas, 2, n_chans, 1)."""
        maps = [replica.clf.normalizer_.affine for replica in replicas]
        rows = np.stack([[one.offset, np.diagonal(one.weight)] for one in maps])
        return torch.as_tensor(rows).to(self.x).unsqueeze(-1)

    def take(self, positions, affine=None):
        """Return trials as normalised for the replicas."""
        x = self.x[positions]
        return x if affine is None else (x - affine[:, :1]) * affine[:, 1:]

    def take_batch(self, positions, affine, seeds, counts):
        """Return the batches of a training step and their moments."""
        x = self.take(positions, affine)
        if self.augmentation is not None:
            x = self.augmentation.apply_replicas(x, seeds, counts - 1)
        return x, None if self.moments is None else self.moments[positions]

    def trials_of(self, replica):
        """Return the training and validation trials of a replica, as its estimator would hold them."""
        positions = torch.as_tensor(replica.train_idx, device=self.x.device)
        affine = self.affine([replica]) if self.by_population else None
        x = self.take(positions.unsqueeze(0), affine).squeeze(0)
        return Trials(x, torch.as_tensor(replica.y[replica.train_idx], device=self.x.device))
