"""The whole method behind one call: search, cross-validate, select."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.paper import plan
from braindecode_censor.paper.data import Recording, digest_of_data, make_dataset, make_paradigm
from braindecode_censor.paper.evaluation import cross_validate, make_pipelines, tidy
from braindecode_censor.paper.grid import BASELINE, get_preset
from braindecode_censor.paper.identity import open_experiment, read_experiment
from braindecode_censor.paper.jobs import index_of
from braindecode_censor.paper.optuna_search import hide_password, search
from braindecode_censor.paper.progress import Progress
from braindecode_censor.paper.references import make_references
from braindecode_censor.paper.result import finish
from braindecode_censor.paper.selection import best_of_each_method, choose_nested
from braindecode_censor.paper.tables import INDEX, is_intact, write_table
from braindecode_censor.paper.training_options import check_training
from braindecode_censor.run.backends import Backend
from braindecode_censor.storage.files import clean, locked
from braindecode_censor.storage.keys import versions
from braindecode_censor.storage.trainings import TrainingCache

__all__ = ["AutoTransfer"]


class AutoTransfer:
    """Find the censoring that carries a decoder over to new people.

    Parameters
    ----------
    dataset : str or moabb.datasets.base.BaseDataset
        Name (see ``autotransfer datasets``), folder of epochs, or a MOABB dataset of four subjects or more.
    out : str or path-like
        Folder for results. Running again with the same arguments goes on where it stopped; with more seeds, settings
        or trials it adds to what is there, and only the new trainings are done.
    preset : str, path-like or list of dict
        "quick", "paper", or your own grid, see :func:`~braindecode_censor.paper.grid.get_preset`.
    seed : int
        First seed.
    seeds : int
        Number of seeds of the cross-validation, counted up from the first. The search uses the first.
    search : {"grid", "optuna"}
        Try every setting of the grid, or let Optuna propose `trials` of each method.
    nested : bool
        Whether to apply the nested rule too, which costs M - 1 times as much.
    top : int
        Settings of each method that are cross-validated.
    trials : int
        Optuna's trials per method.
    storage : str or None
        Database of Optuna's studies, such as "postgresql://host/name", which several machines can share; None
        keeps them in `out`.
    dataset_options : dict or None
        Options of a dataset given by name.
    paradigm : str, moabb.paradigms.base.BaseParadigm or None
        How trials are cut: a paradigm, the name of one of ours or MOABB's, or None for what fits the dataset. Scores
        are balanced accuracies, whatever it scores.
    training : dict or None
        Arguments of :class:`~braindecode_censor.CensoredEEGClassifier` that replace the preset's, such as
        ``max_epochs`` or ``device``.
    others : dict of str to estimator, list of str or None
        Further pipelines, evaluated beside ours. The name "riemann" stands for a tangent-space classifier of pyRiemann.
    jobs : int
        Trainings at a time.
    backend, scheduler : str or None
        "local", or "dask" with the address of a scheduler.
    engine : {"sequential", "fleet"}
        "fleet" trains all folds, settings and seeds of one method as one, with the same results up to rounding.

    Examples
    --------
    >>> result = AutoTransfer("simulated", out="results", preset="quick").run()  # doctest: +SKIP
    >>> result.selected, result.table, result.report  # doctest: +SKIP
    """

    def __init__(
        self,
        dataset="simulated",
        out="autotransfer_results",
        preset="quick",
        *,
        seed=0,
        seeds=1,
        search="grid",
        nested=False,
        top=3,
        trials=20,
        storage=None,
        dataset_options=None,
        paradigm=None,
        training=None,
        others=None,
        jobs=1,
        backend="local",
        scheduler=None,
        engine="sequential",
    ):
        self.out = Path(out)
        self.seeds = [check_size("seed", seed, 0) + k for k in range(check_size("seeds", seeds))]
        self.preset = get_preset(preset)
        if training is not None and not isinstance(training, dict):
            raise ValueError(f"training={training!r} must be a mapping, such as {{'max_epochs': 50}}.")
        self.training = check_training({**self.preset.training, **(training or {})}, backend)
        self.search, self.nested = check_choice("search", search, ["grid", "optuna"]), bool(nested)
        self.top, self.trials = check_size("top", top), check_size("trials", trials)
        self.storage = storage
        if storage is not None and self.search != "optuna":
            address = hide_password(storage, storage)
            raise ValueError(
                f"storage={address!r} is for search='optuna'; the grid keeps all it needs in out."
            )
        if self.nested and self.search == "optuna":
            raise ValueError(
                "nested=True needs search='grid': Optuna's proposals depend on the test subject."
            )
        self.backend = Backend(jobs, backend, scheduler, engine)
        self.name, self.dataset_options = dataset, dict(dataset_options or {})
        self.dataset = make_dataset(dataset, self.dataset_options)
        self.paradigm = make_paradigm(paradigm, self.dataset)
        self.others = make_references(others, self.dataset)
        self.cache = TrainingCache(self.out / "trainings")
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
            "dataset": None if name is None else str(name),
            "dataset_options": self.dataset_options,
            "dataset_code": self.dataset.code,
            "subjects": [str(subject) for subject in self.dataset.subject_list],
            "classes": self.recording.classes,
            "paradigm": type(self.paradigm).__name__,
            # catches other options of the paradigm and files that changed under the same name
            "data": digest_of_data(self.recording),
            "training": self.training,
            "search": self.search,
            "first_seed": self.seeds[0],
            "engine": self.backend.engine,  # rounding differs
            "versions": versions(),
            "grid": [setting.as_dict() for setting in self.preset.grid],
            "seeds": self.seeds,
            "trials": self.trials if self.search == "optuna" else 0,
            "top": self.top,
            "nested": self.nested,
            "others": list(self.others),
        }

    def plan(self):
        """Return how many trainings there are, how many are left, and about how long they take.

        Returns
        -------
        plan : dict
            See :func:`~braindecode_censor.paper.plan.describe_plan`.
        """
        trials = self.trials if self.search == "optuna" else None
        sizes = (len(self.recording.all_subjects), len(self.seeds), self.top, self.nested)
        counts = plan.count_trainings(self.preset.grid, *sizes, trials)
        left = self._count_left(counts)
        seconds = plan.time_epochs(self.preset.grid, self.recording, self.training) if left else {}
        epochs = plan.most_epochs(self.recording, self.training)
        alone = None
        if left and self.backend.engine == "fleet":
            alone = plan.why_no_fleet(self.preset.grid, self.recording, self.training)
        return plan.describe_plan(self.preset.grid, counts, left, seconds, epochs, self.backend.jobs, alone)

    def _count_left(self, counts):
        """Count the trainings that are not on disk, at most."""
        if not (self.out / "experiment.json").is_file():
            return counts["total"]
        if self.search == "optuna":
            known = read_experiment(self.out)["identity"]
            if is_intact(self.out, "scores.csv") and known["trials"] == self.trials:
                return 0
            return counts["total"]
        first = plan.search_jobs(self.preset.grid, self.recording, self.seeds[0])
        found = self._finished(first)
        if len(found) < len(first):
            return counts["total"] - len(found)
        settings = [BASELINE, *self.keep_best(found, write=False)]
        jobs = plan.cross_validation_jobs(settings, self.recording, self.seeds)
        left = len(jobs) - len(self._finished(jobs))
        if not self.nested:
            return left
        n_subjects = len(self.recording.all_subjects)
        for test in self.recording.all_subjects:
            jobs = plan.search_jobs(self.preset.grid, self.recording, self.seeds[0], test)
            found = self._finished(jobs)
            if len(found) < len(jobs):
                left += len(jobs) - len(found)
                left += (len(settings) - 1) * ((n_subjects - 1) * len(self.seeds) - 1)
                continue
            jobs = plan.nested_jobs(self.keep_best(found, write=False), self.recording, self.seeds, test)
            left += len(jobs) - len(self._finished(jobs))
        return left

    def _finished(self, jobs):
        records = {job: self.cache.read(job.key(self.recording, self.training)) for job in jobs}
        return {job: record for job, record in records.items() if record is not None}

    def run(self, progress=None, report=True):
        """Do all of it, or what is left of it.

        Parameters
        ----------
        progress : Progress or None
            Shows how far it is; None shows a bar on a terminal and nothing elsewhere.
        report : bool
            Whether to probe the decoders, draw the figures and write the page. Tables are written in any case, and
            ``autotransfer report`` makes up for it later.

        Returns
        -------
        result : Result or TransferResult
            The choice, the table, the scores and the report.
        """
        progress = Progress() if progress is None else progress
        identity = self.identity()
        with locked(self.out):
            open_experiment(self.out, identity)
            clean(self.out)
            try:
                candidates = self._search(progress)
                scores = self._cross_validate([BASELINE, *candidates], progress)
                inner = self._nested(progress) if self.nested else None
                if inner is not None:
                    scores = self._complete(scores, inner, progress)
            finally:
                progress.close()
                self.backend.close()
            return finish(self.out, scores, inner, self.recording, report)

    def _run_jobs(self, jobs, stage, progress):
        with progress.stage(stage, len(set(jobs))) as report:
            return self.backend.run(jobs, self.recording, self.training, self.cache, report)

    def _search(self, progress):
        """Return the best settings of each method on one split."""
        if self.search == "optuna":
            return search(self, progress)
        jobs = plan.search_jobs(self.preset.grid, self.recording, self.seeds[0])
        records = self._run_jobs(jobs, "search", progress)
        return self.keep_best(records)

    def keep_best(self, records, write=True):
        """Return the best settings of each method.

        Parameters
        ----------
        records : dict of Job to dict
            Trainings of the search.
        write : bool
            Whether to write them to ``search.csv``.

        Returns
        -------
        settings : list of Setting
            At most ``top`` of each method.
        """
        frame = _frame(records)
        if write:
            write_table(self.out, "search.csv", frame)
        known = {job.setting.name: job.setting for job in records}
        order = {setting.name: k for k, setting in enumerate(self.preset.grid)}
        frame = frame.sort_values("setting", key=lambda names: names.map(order), kind="stable")
        best = [known[name] for name in best_of_each_method(frame, self.top)]
        if not best:
            raise ValueError("every training of the search failed: lower the weights of the grid.")
        return best

    def _cross_validate(self, settings, progress):
        jobs = plan.cross_validation_jobs(settings, self.recording, self.seeds)
        records = self._run_jobs(jobs, "cross-validation", progress)
        failed = sorted({job.setting.name for job, record in records.items() if "error" in record})
        if "baseline" in failed:
            raise ValueError("the baseline's loss was never finite in some fold: lower lr.")
        if failed:
            progress.say(f"Left out, their loss was not finite in some fold: {', '.join(failed)}")
        settings = [setting for setting in settings if setting.name not in failed]
        pipelines = make_pipelines(settings, self.seeds, self.training, self.recording.all_subjects)
        done = [job for job in jobs if job.setting.name not in failed]
        write_table(self.out, INDEX, index_of(done, self.recording, self.training))
        if not progress.quiet:
            progress.say(f"MOABB scores {len(done)} folds.")
        # ours decode the person left out; other pipelines need a fold's trials in memory, as MOABB reads them
        trials = None if self.others else self.recording.trials
        pipelines |= self.others
        results = cross_validate(self.dataset, self.paradigm, pipelines, self.out, trials)
        return tidy(results, settings, self.seeds, self.recording, self.others)

    def _nested(self, progress):
        """Return inner validation scores of every outer fold; the search, too, is done without its subject."""
        frames = []
        for test in self.recording.all_subjects:
            searching = plan.search_jobs(self.preset.grid, self.recording, self.seeds[0], test)
            records = self._run_jobs(searching, f"nested search without {test}", progress)
            jobs = plan.nested_jobs(self.keep_best(records, write=False), self.recording, self.seeds, test)
            frames.append(_frame(self._run_jobs(jobs, f"nested folds without {test}", progress)))
        return pd.concat(frames, ignore_index=True)

    def _complete(self, scores, inner, progress):
        """Add the test scores of settings that only some outer fold kept."""
        grid = {setting.name: setting for setting in self.preset.grid}
        missing = [
            grid[name]
            for name in dict.fromkeys(choose_nested(inner))
            if name not in {*scores["setting"], "baseline"}
        ]
        write_table(self.out, "nested.csv", inner)
        if not missing:
            return scores
        settings = [
            grid.get(name, BASELINE) for name in dict.fromkeys(scores["setting"]) if name not in self.others
        ]
        return self._cross_validate([*settings, *missing], progress)


def _frame(records):
    rows = [
        {
            "method": job.setting.method,
            "mode": job.setting.mode,
            "weight": job.setting.weight,
            "setting": job.setting.name,
            "seed": job.seed,
            "subject": job.test_subject,
            "valid_subject": record.get("valid_subject"),
            "score_valid": record.get("valid_score", np.nan),
        }
        for job, record in records.items()
    ]
    return pd.DataFrame(rows)
