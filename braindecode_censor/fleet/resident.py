"""The trials of a fleet on its device: normalised once for everybody, and changed step by step where members differ."""

import numpy as np
import torch

from braindecode_censor.trials.dataset import Trials
from braindecode_censor.trials.normalize import SubjectNormalizer, normalize_people, people_statistics
from braindecode_censor.trials.people import TRIALWISE

__all__ = ["People", "Resident"]


class People:
    """Statistics of all people of a recording, each computed once however many members need it.

    Parameters
    ----------
    signals : ndarray of shape (n_trials, n_chans, n_times)
        Trials as recorded.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    """

    def __init__(self, signals, subjects):
        self.signals, self.subjects = signals, subjects
        self._statistics = {}

    def normalizer(self, clf, train):
        """Return the normaliser that ``fit`` would have learnt.

        Parameters
        ----------
        clf : CensoredEEGClassifier
            Says how to normalise.
        train : ndarray of int
            The trials it trains on: all trials of some people.

        Returns
        -------
        normalizer : SubjectNormalizer
            Fitted on the people of these trials alone.
        """
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
    """All trials of a recording on the device, with what the encoders need of them.

    Parameters
    ----------
    clf : CensoredEEGClassifier
        Initialised; says how to normalise, how to augment and where to put them.
    people : People
        The trials and whose they are.

    Attributes
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Normalised by each trial or each person alone, so that one copy serves all members. For "population", where
        the statistics depend on who is trained on, as recorded.
    moments : Tensor of shape (n_trials, K, 1 + K) or None
        Lag moments of the trials; None where a step changes them, so that they have to be computed in the step.
    recorded_steps : dict of tuple to Recorder
        Recordings of steps on these trials, by the groups that take them; empty when a group changes.
    """

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
        """Tell whether batches are made without a word of the host.

        Returns
        -------
        waits_for_nothing : bool
            Braindecode's own transforms draw their random numbers on the host.
        """
        return self.augmentation is None or self.augmentation.is_counted

    def affine(self, members):
        """Return the members' own maps of the channels.

        Parameters
        ----------
        members : list of Member
            Members.

        Returns
        -------
        affine : Tensor of shape (2, n_members, n_chans, 1) or None
            What to subtract from every channel and what to multiply it with; None where all members see the
            same signals.
        """
        if not self.by_population:
            return None
        maps = [member.clf.normalizer_.affine for member in members]
        rows = np.stack([[one.offset for one in maps], [np.diagonal(one.weight) for one in maps]])
        return torch.as_tensor(rows).to(self.x).unsqueeze(-1)

    def take(self, positions, affine=None):
        """Return trials as their members see them.

        Parameters
        ----------
        positions : Tensor of shape (n_members, n)
            Places of the trials.
        affine : Tensor or None
            Of these members, from :meth:`affine`.

        Returns
        -------
        x : Tensor of shape (n_members, n, n_chans, n_times)
            Normalised signals.
        """
        x = self.x[positions]
        return x if affine is None else (x - affine[0].unsqueeze(1)) * affine[1].unsqueeze(1)

    def take_batch(self, positions, affine, seeds, counts):
        """Return the batches of a training step.

        Parameters
        ----------
        positions, affine : Tensor
            As in :meth:`take`.
        seeds, counts : Tensor of shape (n_members,)
            Each member's seed, and the number of its step from 1.

        Returns
        -------
        x : Tensor of shape (n_members, n, n_chans, n_times)
            Normalised and augmented signals.
        moments : Tensor of shape (n_members, n, K, 1 + K) or None
            Their lag moments, if they are known.
        """
        x = self.take(positions, affine)
        if self.augmentation is not None:
            x = self.augmentation.apply_members(x, seeds, counts - 1)
        return x, None if self.moments is None else self.moments[positions]

    def trials_of(self, member):
        """Return the trials that a member was given, as its estimator would hold them.

        Parameters
        ----------
        member : Member
            A member.

        Returns
        -------
        trials : Trials
            Normalised signals and classes.
        """
        places = torch.as_tensor(member.seen, device=self.x.device)
        affine = self.affine([member])
        x = self.take(places.unsqueeze(0), affine).squeeze(0)
        return Trials(x, torch.as_tensor(member.y[member.seen], device=self.x.device))
