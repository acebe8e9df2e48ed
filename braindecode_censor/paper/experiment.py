"""The paper's method behind one call: search, cross-validate, select."""

import os
import sys
from functools import cached_property
from pathlib import Path

import pandas as pd

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.paper import plan
from braindecode_censor.paper.cluster import open_client
from braindecode_censor.paper.data import ExperimentData, make_dataset, make_paradigm
from braindecode_censor.paper.evaluation import cross_validate, make_pipelines, tidy
from braindecode_censor.paper.grid import BASELINE, get_preset, merge
from braindecode_censor.paper.identity import open_experiment, read_experiment
from braindecode_censor.paper.optuna_search import search
from braindecode_censor.paper.references import make_references
from braindecode_censor.paper.result import finish
from braindecode_censor.paper.selection import best_of_each_method
from braindecode_censor.paper.stored import open_store
from braindecode_censor.paper.tables import INDEX, is_intact, write_table
from braindecode_censor.paper.training_options import check_training
from braindecode_censor.paper.trainings import as_row, cross_validation, make_index, make_training
from braindecode_censor.run.progress import Progress
from braindecode_censor.run.runner import count_workers, run
from braindecode_censor.storage.files import clean, locked
from braindecode_censor.storage.keys import versions

__all__ = ["AutoTransfer"]


class AutoTransfer:
    """Search the paper's censoring methods for the one that decodes new subjects best.

    Parameters
    ----------
    dataset : str or moabb.datasets.base.BaseDataset
        Name (see ``autotransfer datasets``), folder of epochs, or a MOABB dataset of at least four subjects.
    out : str or path-like
        Folder of results. The same call continues an experiment that was interrupted; with more seeds, configurations
        or trials of Optuna it adds to the experiment. Finished trainings are not repeated.
    preset : str, path-like or list of dict
        "quick", "paper", or a grid of your own, see :func:`~braindecode_censor.paper.grid.get_preset`.
    random_state : int
        First seed.
    n_seeds : int
        Number of seeds of the cross-validation, counted up from the first. The search uses the first.
    search : str
        "grid" tries every configuration; with "optuna", Optuna proposes `n_optuna_trials` of each method. The address
        of a database, such as "postgresql://host/name", is Optuna's search shared by several machines.
    n_top : int
        Number of configurations of each method that are cross-validated.
    n_optuna_trials : int
        Optuna's trials per method.
    dataset_options : dict or None
        Options of a dataset given by name.
    paradigm : str, moabb.paradigms.base.BaseParadigm or None
        MOABB paradigm or its name; None takes the dataset's. Scores are balanced accuracies in any case.
    training : dict or None
        Arguments of :class:`~braindecode_censor.CensoredEEGClassifier` that replace the preset's, such as
        ``max_epochs`` or ``device``. On a GPU, many trainings run as one.
    others : dict of str to estimator, list of str or None
        Other pipelines that are evaluated, too. The name "riemann" is a tangent-space classifier of pyRiemann.
    n_jobs : int
        Number of trainings at a time in processes of this machine; -1 is one per core.
    scheduler : str, dask.distributed.Client or None
        Dask cluster to train on, as a client or the address of its scheduler.

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
        random_state=0,
        n_seeds=1,
        search="grid",
        n_top=3,
        n_optuna_trials=20,
        dataset_options=None,
        paradigm=None,
        training=None,
        others=None,
        n_jobs=1,
        scheduler=None,
    ):
        self.out = Path(out)
        first = check_size("random_state", random_state, 0)
        self.seeds = list(range(first, first + check_size("n_seeds", n_seeds)))
        self.preset = get_preset(preset)
        self.training = check_training(merge(self.preset.training, training), scheduler is None)
        self.storage = search if isinstance(search, str) and "://" in search else None
        self.search = "optuna" if self.storage else check_choice("search", search, ["grid", "optuna"])
        self.n_top = check_size("n_top", n_top)
        self.n_optuna_trials = check_size("n_optuna_trials", n_optuna_trials)
        self.n_jobs = n_jobs if n_jobs == -1 else check_size("n_jobs", n_jobs)
        self.scheduler = scheduler
        self.name, self.dataset_options = dataset, dict(dataset_options or {})
        self.dataset = make_dataset(dataset, self.dataset_options)
        self.paradigm = make_paradigm(paradigm, self.dataset)
        self.others = make_references(others, self.dataset)
        self.store = open_store(self.out)
        self._verbose = 1

    @cached_property
    def data(self):
        """The trials, read when first needed."""
        return ExperimentData(self.dataset, self.paradigm, self.out)

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
            "classes": self.data.classes,
            "paradigm": type(self.paradigm).__name__,
            # This covers options of the paradigm, and files that changed under the same name.
            "data": self.data.digest,
            "training": self.training,
            "search": self.search,
            "first_seed": self.seeds[0],
            "versions": versions(),
            "grid": [config.as_dict() for config in self.preset.grid],
            "seeds": self.seeds,
            "n_optuna_trials": self.n_optuna_trials if self.search == "optuna" else 0,
            "n_top": self.n_top,
            "others": list(self.others),
        }

    def plan(self):
        """Return the number of trainings, how many of them remain, and about how long they take.

        Returns
        -------
        plan : dict
            ``configurations`` per method, ``trainings`` per stage, ``remaining`` trainings, ``seconds`` and ``text``.
        """
        grid, n_trials = self.preset.grid, self.n_optuna_trials if self.search == "optuna" else None
        counts = plan.count_trainings(
            grid, len(self.data.all_subjects), len(self.seeds), self.n_top, n_trials
        )
        remaining = self._count_remaining(counts["total"])
        seconds = plan.time_epochs(grid, self.data, self.training) if remaining else {}
        n_epochs = plan.typical_epochs(self.data, self.training)
        with open_client(self.scheduler) as client:
            n_workers = count_workers(self.n_jobs, client)
        return plan.describe_plan(grid, counts, remaining, seconds, n_epochs, n_workers)

    def _count_remaining(self, total):
        """Return the number of trainings that are not stored; Optuna stores no pruned ones."""
        if not (self.out / "experiment.json").is_file():
            return total
        stored = read_experiment(self.out)["identity"]
        if self.search == "optuna" and stored["n_optuna_trials"] == self.n_optuna_trials:
            return 0 if is_intact(self.out, "scores.csv") else total
        return max(0, total - len(list(self.store.folder.glob("*.training"))))

    def run(self, report=True, verbose=1):
        """Run the experiment, or what remains of it.

        Parameters
        ----------
        report : bool
            Whether to probe the decoders, draw the figures and write the report. Tables are written in any case, and
            ``autotransfer report`` adds the report later.
        verbose : int
            1 shows the progress on standard error, 0 nothing.

        Returns
        -------
        result : Result
            Selected configuration, table, scores and report.
        """
        self._verbose, identity = verbose, self.identity()
        with locked(self.out):
            open_experiment(self.out, identity)
            clean(self.out)
            with open_client(self.scheduler) as client:
                rows = search(self, client) if self.search == "optuna" else self._search_grid(client)
                scores = self._cross_validate([BASELINE, *self._select_best(rows)], client)
            return finish(self.out, scores, self.data, report)

    def train(self, trainings, description, client):
        """Return the record of every training, in their order; finished trainings are read.

        Parameters
        ----------
        trainings : list of Training
            The trainings; two of them may be equal.
        description : str
            Name of this stage of the experiment.
        client : dask.distributed.Client or None
            Cluster to train on.

        Returns
        -------
        records : list of dict
            What the results of the trainings hold besides models and probabilities.
        """
        keys = [training.key(self.data) for training in trainings]
        unique = dict(zip(keys, trainings))
        records, scores = {}, {}
        with Progress(len(unique), "trainings", description, not self._verbose) as progress:
            for result in run(unique.values(), self.data, self.store, self.n_jobs, client):
                if result.error is not None and not result.diverged and "pruned" not in result.record:
                    raise ValueError(result.error.partition(": ")[2])
                records[result.training.key(self.data)] = result.record
                if "valid_score" in result.record:
                    scores.setdefault(result.training.name, []).append(result.record["valid_score"])
                progress.update(len(records), best_so_far(scores))
        return [records[key] for key in keys]

    def _search_grid(self, client):
        """Return the row of the table of the search by configuration."""
        grid = self.preset.grid
        first = self.data.all_subjects[0]
        trainings = [make_training(c, self.seeds[0], first, self.training, self.data) for c in grid]
        records = self.train(trainings, "search", client)
        return {config: as_row(config, *fit) for config, *fit in zip(grid, trainings, records)}

    def _select_best(self, rows):
        """Return the best configurations of each method, and write the table of the search."""
        table = pd.DataFrame(rows.values())
        write_table(self.out, "search.csv", table)
        by_name = {config.name: config for config in rows}
        best = [by_name[name] for name in best_of_each_method(table, self.n_top)]
        if not best:
            raise ValueError("All trainings of the search failed: lower the penalty weights of the grid.")
        return best

    def _cross_validate(self, configs, client):
        trainings = cross_validation(configs, self.seeds, self.training, self.data)
        records = self.train(trainings, "cross-validation", client)
        failed = sorted({t.name for t, record in zip(trainings, records) if "valid_score" not in record})
        if "baseline" in failed:
            raise ValueError("The loss of the baseline was not finite in a fold: lower lr.")
        if failed:
            print(f"Left out, because a loss was not finite: {', '.join(failed)}", file=sys.stderr)
        configs = [config for config in configs if config.name not in failed]
        finished = [training for training in trainings if training.name not in failed]
        write_table(self.out, INDEX, make_index(finished, self.data))
        pipelines = make_pipelines(configs, self.seeds, self.training, self.data.all_subjects) | self.others
        # Ours decode the test subject only; other pipelines need a fold's trials in memory, as MOABB reads them.
        in_memory = bool(self.others)
        results = cross_validate(self.dataset, self.paradigm, pipelines, self.out, self.data, in_memory)
        return tidy(results, configs, self.seeds, self.data, self.others)


def best_so_far(scores):
    """Return the name with the highest mean among those with most scores, as text."""
    if not scores:
        return ""
    n_folds = max(map(len, scores.values()))
    means = {name: sum(values) / n_folds for name, values in scores.items() if len(values) == n_folds}
    best = max(means, key=means.get)
    return f"best so far {best} ({means[best]:.3f} over {n_folds} fold{'s' if n_folds > 1 else ''})"
