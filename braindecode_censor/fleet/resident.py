"""The trials of a fleet on its device: normalised once for everybody, and changed step by step where members differ."""

import numpy as np
import torch

from braindecode_censor.trials.dataset import Trials
from braindecode_censor.trials.normalize import SubjectNormalizer, normalize_people, people_statistics
from braindecode_censor.trials.people import TRIALWISE

__all__ = ["People", "Resident"]


class People:
    """Statistics of all people of a recording, each computed once however many members need it."""

    def __init__(self, signals, subjects):
        self.signals, self.subjects = signals, subjects
        self._statistics = {}

    def normalizer(self, clf, train):
        """Return the normaliser that ``fit`` would have learnt."""
        how, n_chans = clf.normalize, self.signals.shape[1]
        if how in TRIALWISE:
            return SubjectNormalizer.from_people(how, [], None, n_chans, clf.prior)
        if how not in self._statistics:
            self._statistics[how] = people_statistics(self.signals, self.subjects, how)
        people, statistics = self._statistics[how]
        mine = np.isin(people, self.subjects[train])
        if np.isin(self.subjects, people[mine]).sum() != len(train):
            raise ValueError(
                f"normalize={how!r} in a fleet needs all trials of every person it trains on, because people's "
                "statistics are shared by all members: leave out whole people, or use engine='sequential'."
            )
        return SubjectNormalizer.from_people(how, people[mine], statistics[mine], n_chans, clf.prior)


class Resident:
    """All trials of a recording on the device, with what the encoders need of them."""

    def __init__(self, clf, people):
        self.recorded_steps = {}
        self.by_population = clf.normalize == "population"
        self.augmentation = clf._make_augmentation()
        signals = people.signals
        if not self.by_population:
            signals = normalize_people(signals, people.subjects, clf.normalize)
        self.x = clf._to_tensor(signals).to(clf.device)
        changes = self.by_population or self.augmentation is not None
        lag_moments = getattr(clf.module_, "lag_moments", None)  # only the fast EEGNet has a use for them
        self.moments = None if changes or lag_moments is None else lag_moments(self.x)

    def waits_for_nothing(self):
        """Tell whether batches are made without a word of the host."""
        return self.augmentation is None or self.augmentation.is_counted

    def affine(self, members):
        """Return the members' own maps of the channels."""
        if not self.by_population:
            return None
        maps = [member.clf.normalizer_.affine for member in members]
        rows = np.stack([[one.offset for one in maps], [np.diagonal(one.weight) for one in maps]])
        return torch.as_tensor(rows).to(self.x).unsqueeze(-1)

    def take(self, positions, affine=None):
        """Return trials as their members see them."""
        x = self.x[positions]
        return x if affine is None else (x - affine[0].unsqueeze(1)) * affine[1].unsqueeze(1)

    def take_batch(self, positions, affine, seeds, counts):
        """Return the batches of a training step."""
        x = self.take(positions, affine)
        if self.augmentation is not None:
            x = self.augmentation.apply_members(x, seeds, counts - 1)
        return x, None if self.moments is None else self.moments[positions]

    def trials_of(self, member):
        """Return the trials that a member was given, as its estimator would hold them."""
        places = torch.as_tensor(member.seen, device=self.x.device)
        affine = self.affine([member])
        x = self.take(places.unsqueeze(0), affine).squeeze(0)
        return Trials(x, torch.as_tensor(member.y[member.seen], device=self.x.device))
