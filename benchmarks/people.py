"""What hundreds of people cost where nothing is trained: plan, selection and report; and a censored step.

    python benchmarks/people.py                       # 500 people, 20 trials each, 200 settings
    python benchmarks/people.py --quick               # 24 people, 10 settings
    python benchmarks/people.py --only steps          # a censored step with 500 people against one with 16

A folder of results is written as ``autotransfer run`` would have left it, with random scores and probabilities and the
weights of one small network, and thrown away at the end. Each part runs in a process of its own, whose peak of memory
is printed beside its seconds.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from skorch.callbacks import Callback

from braindecode_censor import AutoTransfer, CensoredEEGClassifier
from braindecode_censor.autotransfer.leaderboard import make_leaderboard
from braindecode_censor.autotransfer.result import finish
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.search import plan
from braindecode_censor.search.candidates import BASELINE
from braindecode_censor.search.ensemble import choose_weights
from braindecode_censor.search.expectation import expect
from braindecode_censor.search.family import Candidate
from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.search.jobs import index_of
from braindecode_censor.search.pair_search import SearchResult
from braindecode_censor.search.pairs import make_pairs
from braindecode_censor.search.recording import Recording
from braindecode_censor.storage.experiment import open_experiment
from braindecode_censor.storage.keys import subject_digests
from braindecode_censor.storage.tables import INDEX, write_table
from braindecode_censor.storage.train import pack

PARTS = ("plan", "selection", "report", "pairs", "steps")
_TRAINING = {"max_epochs": 2, "batch_size": 64, "module__F1": 2, "module__D": 1}
_SHAPE = (4, 64)


def make_recording(n_people, n_trials):
    """Return trials of many people without going through a dataset."""
    recording, rng = Recording.__new__(Recording), np.random.default_rng(0)
    recording.subjects = np.repeat(np.arange(1, n_people + 1), n_trials)
    recording.y = np.arange(len(recording.subjects)) % 2
    recording.X = rng.standard_normal((len(recording.y), *_SHAPE), dtype=np.float32)
    recording.classes, recording.all_subjects = ["a", "b"], list(range(1, n_people + 1))
    recording.digests = subject_digests(recording.X, recording.y, recording.subjects)
    return recording


def make_experiment(out, n_people, n_trials, n_settings):
    """Return an experiment with so many settings, all methods and modes alike."""
    cells = [(method, mode) for method in MEASURES for mode in MODES]
    grid = [
        {"method": cells[k % len(cells)][0], "mode": cells[k % len(cells)][1], "weight": 0.01 * (k + 1)}
        for k in range(n_settings)
    ]
    experiment = AutoTransfer("simulated", out=out, preset=grid, training=_TRAINING, top=3)
    experiment._recording = make_recording(n_people, n_trials)
    return experiment


def write_results(experiment):
    """Write what ``autotransfer run`` leaves behind before it selects: trainings, index and scores."""
    recording, rng = experiment.recording, np.random.default_rng(1)
    open_experiment(experiment.out, experiment.identity())
    few = np.flatnonzero(recording.subjects <= 4)
    clf = CensoredEEGClassifier(penalty=None, **_TRAINING, valid_subject=2)
    clf.fit(recording.X[few], recording.y[few], subjects=recording.subjects[few])
    model = pack(clf, {"params": {}, "versions": {}, "seconds": 1.0})

    def write(job):
        mine = recording.y[recording.subjects == job.test_subject]
        answers = rng.dirichlet([2, 1], len(mine))
        answers = np.where(mine[:, None] == np.arange(2), answers, answers[:, ::-1])
        record = {**model.record, "valid_score": rng.uniform(0.5, 0.8)}
        record["valid_subject"] = recording.successor(job.test_subject)
        done = model._replace(record=record, heldout={"probabilities": answers})
        return experiment.cache.write(job.key(recording, experiment.training), done)

    with mock.patch("os.fsync"):  # a power cut would do no harm here
        searched = plan.search_jobs(experiment.preset.grid, recording, experiment.seeds[0])
        settings = [BASELINE, *experiment.keep_best({job: write(job) for job in searched})]
        jobs = plan.cross_validation_jobs(settings, recording, experiment.seeds)
        for job in set(jobs) - set(searched):
            write(job)
    write_table(experiment.out, INDEX, index_of(jobs, recording, experiment.training))


def make_scores(experiment):
    """Return test scores of all settings of the grid, not only of those that the search keeps."""
    recording, rng = experiment.recording, np.random.default_rng(2)
    settings = [BASELINE, *experiment.preset.grid]
    people = np.asarray(recording.all_subjects)
    frames = [
        pd.DataFrame({"method": s.method, "mode": s.mode, "setting": s.name, "seed": 0, "subject": people})
        for s in settings
    ]
    scores = pd.concat(frames, ignore_index=True)
    scores["valid_subject"] = np.tile(np.roll(people, -1), len(settings))
    scores["score"], scores["score_valid"] = rng.uniform(0.5, 0.9, (2, len(scores)))
    return scores


def do_plan(experiment, scores):
    """Say what there is to do, with half of the cross-validation finished."""
    return experiment.plan()["text"]


def do_selection(experiment, scores):
    """Apply all rules to all settings, and write the table."""
    return finish(experiment.out, scores, report=False).selected


def do_report(experiment, scores):
    """Probe the decoders, draw the figures and write the page."""
    kept = [
        BASELINE.name,
        *experiment.keep_best(
            experiment._finished(
                plan.search_jobs(experiment.preset.grid, experiment.recording, experiment.seeds[0])
            ),
            write=False,
        ),
    ]
    names = {getattr(setting, "name", setting) for setting in kept}
    scores = scores[scores["setting"].isin(names)].reset_index(drop=True)
    return str(finish(experiment.out, scores, recording=experiment.recording).report)


def do_pairs(n_people, n_trials, n_candidates):
    """Choose weights and nested scores from stored probabilities of pairs, four partners each."""
    rng, pairs = np.random.default_rng(3), make_pairs(n_people)
    labels = [np.arange(n_trials) % 2 for _ in range(n_people)]
    heldout = HeldOut(labels, pairs)
    names = [f"candidate {k}" for k in range(n_candidates)]
    for name in names:
        found = rng.dirichlet([2, 1], (len(pairs), 2, n_trials))
        found = np.where(labels[0][:, None] == np.arange(2), found, found[..., ::-1])
        for position, (first, second) in enumerate(found):
            heldout.add(name, position, first, second)
    result = SearchResult(heldout, finalists=names)
    result.candidates = {name: Candidate(name, {"network": "EEGNet"}) for name in names}
    started = time.perf_counter(), time.process_time()
    best = min(names, key=result.loss)
    weights = choose_weights(*heldout.of_population(names))
    board = make_leaderboard(result, dict(zip(names, weights.tolist())))
    expectation = expect(list(range(n_people)), heldout.nested_scores(names), ("plain", heldout.scores(best)))
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    return seconds, f"{len(board)} rows; {expectation.mean:.3f} expected"


class Steps(Callback):
    """Notes the processor time at the end of every step."""

    def on_train_begin(self, net, **kwargs):
        """Begin anew."""
        self.ends = []

    def on_batch_end(self, net, training=False, **kwargs):
        """Note the time."""
        if training:
            self.ends.append(time.process_time())


def time_step(method, mode, n_people, n_trials=10_000, steps=24, shape=(8, 128)):
    """Return milliseconds of a censored step of a whole ``fit``: batch 64, latent code of 16 features or so."""
    X = np.random.default_rng(0).standard_normal((n_trials, *shape), dtype=np.float32)
    y = np.arange(n_trials) // 7 % 2
    options = {"module__F1": 2, "module__D": 2, "augment": None, "normalize": "none", "batch_size": 64}
    clf = CensoredEEGClassifier(
        penalty=method, censoring=mode, max_steps=steps, callbacks=[("steps", Steps())], **options
    )
    clf.fit(X, y, subjects=np.arange(n_trials) * n_people // n_trials)
    return 1e3 * np.median(np.diff(dict(clf.callbacks_)["steps"].ends[4:]))


def do_steps(n_people, few=16, repeats=2):
    """Print what a step with many people costs against one with few, for every method and mode."""
    torch.set_num_threads(1)
    worst = 0.0
    for method in MEASURES:
        for mode in MODES:
            times = [[time_step(method, mode, n) for n in (few, n_people)] for _ in range(repeats)]
            little, much = np.min(times, axis=0)
            worst = max(worst, much / little)
            print(
                f"{method:8} {mode:14} {little:7.1f} ms {much:7.1f} ms   ratio {much / little:.2f}",
                flush=True,
            )
    print(f"worst ratio of a step with {n_people} people to one with {few}: {worst:.2f}")


@contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run_part(name, args):
    """Do one part in this process and print its seconds and its peak of memory."""
    if name == "steps":
        do_steps(args.people)
        return
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == "pairs":
        seconds, said = do_pairs(args.people, args.trials, args.settings)
    else:
        experiment = make_experiment(args.folder, args.people, args.trials, args.settings)
        scores = make_scores(experiment)
        started = time.perf_counter(), time.process_time()
        said = globals()[f"do_{name}"](experiment, scores)
        seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = f"peak {most / 1e6:.2f} GB ({(most - before) / 1e6:.2f} above imports)"
    print(
        f"{name:10} {seconds[0]:6.1f} s by the wall, {seconds[1]:6.1f} s of processor   {memory}   {said}",
        flush=True,
    )


def main():
    """Write the folder, and do each part in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--trials", type=int, default=20, help="trials of a person")
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--folder", type=Path, default=None, help="(used by the processes of the parts)")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.people, args.settings = 24, 10
    parts = args.only or PARTS
    with _quiet():
        if args.folder is not None:
            run_part(parts[0], args)
            return
        with tempfile.TemporaryDirectory() as folder:
            if set(parts) & {"plan", "selection", "report"}:
                write_results(make_experiment(Path(folder), args.people, args.trials, args.settings))
            sizes = [f"--people={args.people}", f"--trials={args.trials}", f"--settings={args.settings}"]
            for name in parts:
                command = [sys.executable, __file__, *sizes, "--folder", folder, "--only", name]
                subprocess.run(command, check=True, timeout=3600)


if __name__ == "__main__":
    main()
