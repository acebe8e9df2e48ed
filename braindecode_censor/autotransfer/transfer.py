"""The preset ``transfer``: the whole family on people held out, every tier in its own table."""

import os
from pathlib import Path

import numpy as np

from braindecode_censor._check import check_size
from braindecode_censor.autotransfer.classifier import find_device
from braindecode_censor.autotransfer.progress import Progress
from braindecode_censor.autotransfer.search_progress import SearchProgress
from braindecode_censor.autotransfer.transfer_result import finish_transfer
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.plan import in_words
from braindecode_censor.search.recording import (
    Recording,
    digest_of_data,
    make_dataset,
    make_paradigm,
    sampling_rate,
)
from braindecode_censor.search.tiers import TIERS
from braindecode_censor.search.transfer_study import CANDIDATES, TransferStudy
from braindecode_censor.storage.experiment import open_experiment
from braindecode_censor.storage.files import clean, locked
from braindecode_censor.storage.keys import versions
from braindecode_censor.storage.tables import is_intact, write_table

__all__ = ["TransferExperiment", "check_options"]

# Options of grids, and what they are when nobody asked for anything.
_OF_GRIDS = {
    "search": "grid",
    "nested": False,
    "top": 3,
    "trials": 20,
    "storage": None,
    "others": None,
    "backend": "local",
    "scheduler": None,
    "engine": "sequential",
}


def check_options(training, **options):
    """Refuse by name what means nothing to this preset.

    Parameters
    ----------
    training : dict or None
        Only the device may be in it.
    **options
        Options of :class:`~braindecode_censor.AutoTransfer` for grids of settings.

    Returns
    -------
    device : str
        Where to train.
    """
    for name, default in _OF_GRIDS.items():
        if (options[name] or None) != (default or None):
            raise ValueError(
                f"{name}={options[name]!r} is for grids of settings and means nothing to preset='transfer', which "
                "evaluates a family of decoders: leave it out."
            )
    unknown = [name for name in training or {} if name != "device"]
    if unknown:
        raise ValueError(
            f"training has {', '.join(unknown)}, but preset='transfer' trains every candidate in its own way: only "
            "device can be given. Give candidates of your own, such as "
            "candidates=[{'name': 'mine', 'network': 'EEGNet', 'max_steps': 500}]."
        )
    return find_device((training or {}).get("device", "cpu"))


class TransferExperiment:
    """Evaluate the family of decoders on people held out; :class:`~braindecode_censor.AutoTransfer` makes one.

    Parameters
    ----------
    dataset : str, path-like or moabb.datasets.base.BaseDataset
        Name, folder of epochs, or a MOABB dataset of four subjects or more.
    out : str or path-like
        Folder for results. Running again with the same arguments goes on where it stopped.
    seeds : list of int
        Seeds of pairs and of trainings.
    candidates : list or None
        Names and dictionaries as for :class:`~braindecode_censor.AutoTransferClassifier`; None is the family, with
        censoring on top of two of its networks.
    partners : int or None
        Partners of each person, who is tested by as many models; None takes 4.
    dataset_options : dict or None
        Options of a dataset given by name.
    paradigm : str, moabb.paradigms.base.BaseParadigm or None
        How trials are cut.
    device : str
        Where networks are trained.
    jobs : int
        Trainings at a time on a CPU.
    """

    def __init__(
        self,
        dataset,
        out,
        seeds=(0,),
        candidates=None,
        partners=None,
        dataset_options=None,
        paradigm=None,
        device="cpu",
        jobs=1,
    ):
        self.out = Path(out)
        self.seeds = list(seeds)
        self.candidates = _find(candidates)
        self.partners = 4 if partners is None else check_size("partners", partners, 2)
        self.device = device
        self.jobs = check_size("jobs", jobs)
        self.name, self.dataset_options = dataset, dict(dataset_options or {})
        self.dataset = make_dataset(dataset, self.dataset_options)
        self.paradigm = make_paradigm(paradigm, self.dataset)
        self._recording = None

    @property
    def recording(self):
        """The trials, read when first needed."""
        if self._recording is None:
            self._recording = Recording(self.dataset, self.paradigm, self.out)
        return self._recording

    def identity(self):
        """Return all that decides about the numbers.

        Returns
        -------
        identity : dict
            As JSON can hold it.
        """
        name = self.name if isinstance(self.name, (str, os.PathLike)) else None
        return {
            "preset": "transfer",
            "dataset": None if name is None else str(name),
            "dataset_options": self.dataset_options,
            "dataset_code": self.dataset.code,
            "subjects": [str(subject) for subject in np.unique(self.recording.subjects)],
            "classes": self.recording.classes,
            "paradigm": type(self.paradigm).__name__,
            "data": digest_of_data(self.recording),
            "candidates": [{"name": c.name, **c.spec} for c in self.candidates],
            "partners": self.partners,
            "tiers": list(TIERS),
            "device": self.device,  # rounding differs
            "versions": versions(),
            "first_seed": self.seeds[0],
            "seeds": self.seeds,
        }

    def study(self, **watchers):
        """Return the study that does the work.

        Parameters
        ----------
        **watchers
            ``say`` and ``watch`` of :class:`~braindecode_censor.search.transfer_study.TransferStudy`.

        Returns
        -------
        study : TransferStudy
            In the folder that is called like the dataset.
        """
        machine = {"device": self.device, "n_jobs": self.jobs, **watchers}
        folder = self.out / self.dataset.code
        return TransferStudy(self._read, folder, self.candidates, self.partners, **machine)

    def _read(self):
        recording = self.recording
        return recording.X, recording.y, recording.subjects, sampling_rate(self.dataset, self.paradigm)

    def plan(self):
        """Return how many trainings there are, how many are left, and about how long they take.

        Returns
        -------
        plan : dict
            ``candidates``, ``trainings``, ``left``, ``seconds`` and ``text``.
        """
        study = self.study()
        total, left = study.count(self.seeds)
        seconds = left * study.seconds_each() / self.jobs if left else 0.0
        kinds = [candidate.kind for candidate in self.candidates]
        counted = f"{kinds.count('network')} networks, {kinds.count('classical')} classical"
        lines = [
            f"Candidates: {len(kinds)} ({counted}), {study.n_people} people, {len(self.seeds)} "
            f"seed{'s' if len(self.seeds) > 1 else ''}.",
            f"Trainings: {total}, each without two people; {left} are left.",
            f"Time: about {in_words(seconds)} with {self.jobs} at a time, then the learning curve, tables and report.",
        ]
        if not left:
            lines = ["Nothing is left to train: tables and report are written anew."]
        plan = {"candidates": len(kinds), "trainings": total, "left": left, "seconds": seconds}
        return {**plan, "text": "\n".join(lines)}

    def run(self, progress=None, report=True):
        """Do all of it, or what is left of it.

        Parameters
        ----------
        progress : Progress or None
            Says whether to show a bar; None shows one on a terminal and nothing elsewhere.
        report : bool
            Whether to draw the figures and write the page. Tables are written in any case.

        Returns
        -------
        result : TransferResult
            The table, the scores and the report.
        """
        progress = Progress() if progress is None else progress
        with locked(self.out):
            open_experiment(self.out, self.identity())
            clean(self.out)
            total, _ = self.study().count(self.seeds)
            with SearchProgress(not progress.quiet, Budget(), total) as bar:
                study = self.study(watch=bar.report)
                found = study.run(self.seeds)
                self._learn(study, *found[self.seeds[0]])
            return finish_transfer(self.out, found, report)

    def _learn(self, study, heldout, kinds):
        name = f"{study.folder.name}/learning.csv"
        if not is_intact(self.out, name):
            write_table(self.out, name, study.learn(self.seeds[0], heldout, kinds))


def _find(candidates):
    found, censored = find_candidates(CANDIDATES if candidates is None else candidates)
    if censored:
        raise ValueError(
            "candidates has 'censored', which depends on what is best and so on the people tested: name what to "
            "censor and how, such as 'person+mmd-conditional'."
        )
    own = [candidate.name for candidate in found if candidate.kind == "own"]
    if own:
        raise ValueError(
            f"candidates has {', '.join(own)}, an estimator of your own, which cannot be kept on disk without pickle: "
            "give it to AutoTransferClassifier, or give names and dictionaries here."
        )
    return found
