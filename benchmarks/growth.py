"""How costs grow: with people, trials, channels, samples, settings and workers, each with its fitted exponent.

    python benchmarks/growth.py              # a few minutes on one core
    python benchmarks/growth.py --quick      # seconds, for a test of the script
    python benchmarks/growth.py --cluster 1 2    # a fleet on local Dask clusters of one and two processes, by the wall
    python benchmarks/growth.py --people 10000 --trials 1000 --channels 19 --samples 500   # says what these would take

Every cost is measured at several sizes with everything else held, and ``log cost = a + b log size`` is fitted by least
squares; b is the exponent. Processor time of one thread, so that other processes do little harm. What a large study
would take is computed from these costs, not measured.
"""

import argparse
import json
import tempfile
import time
import warnings
from contextlib import contextmanager

import numpy as np
import torch
from skorch.callbacks import Callback

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.search.candidates import Setting
from braindecode_censor.search.dask_fleet import make_shares, train_on_cluster
from braindecode_censor.search.ensemble import choose_weights
from braindecode_censor.search.jobs import Job
from braindecode_censor.search.recording import Recording
from braindecode_censor.storage.keys import subject_digests
from braindecode_censor.trials.normalize import people_statistics

# What everything is held at while one size grows.
BASE = {"people": 16, "trials": 40, "channels": 16, "samples": 128, "settings": 16, "workers": 1}
SIZES = {
    "people": (16, 64, 256),
    "trials": (20, 80, 320),
    "channels": (8, 16, 32, 64),
    "samples": (64, 128, 256, 512),
    "settings": (16, 64, 256),
    "workers": (1, 4, 16),
}
# Seconds of a step of one of 256 members on one H200 at 56 x 260, measured by fleet.py (80 microseconds).
GPU_STEP, GPU_SAMPLES = 80e-6, 260
QUICK = {name: (sizes[0], 2 * sizes[0]) for name, sizes in SIZES.items()}


class Steps(Callback):
    """Notes the processor time at the end of every step."""

    def on_train_begin(self, net, **kwargs):
        """Begin anew."""
        self.ends = []

    def on_batch_end(self, net, training=False, **kwargs):
        """Note the time."""
        if training:
            self.ends.append(time.process_time())


def make_data(people, trials, channels, samples):
    """Return noise of so many people."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((people * trials, channels, samples), dtype=np.float32)
    return X, np.arange(len(X)) // 3 % 2, np.repeat(np.arange(people), trials)


def time_step(people, trials, channels, samples, steps=14, **_):
    """Return seconds of a censored training step of batch 64."""
    X, y, subjects = make_data(people, trials, channels, samples)
    clf = CensoredEEGClassifier(max_steps=steps, callbacks=[("steps", Steps())], normalize="none")
    clf.fit(X, y, subjects=subjects)
    return np.median(np.diff(dict(clf.callbacks_)["steps"].ends[2:]))


def time_statistics(people, trials, channels, samples, **_):
    """Return seconds of one pass for everybody's statistics."""
    X, _, subjects = make_data(people, trials, channels, samples)
    return clock(lambda: people_statistics(X, subjects, "person"))


def time_keys(people, trials, settings, n_keys=8, **_):
    """Return seconds of the keys of a cross-validation: settings times people, from a few of them."""
    recording = Recording.__new__(Recording)
    recording.X, recording.y, recording.subjects = make_data(people, trials, 1, 2)
    recording.all_subjects = list(range(people))
    recording.digests = subject_digests(recording.X, recording.y, recording.subjects)
    jobs = [Job(Setting("mmd", "marginal", 0.1 * (k + 1)), 0, k % people) for k in range(n_keys)]
    return clock(lambda: [job.key(recording, {}) for job in jobs]) / n_keys * settings * people


def time_choice(people, trials, settings, **_):
    """Return seconds of choosing weights from held-out probabilities."""
    rng = np.random.default_rng(0)
    found = rng.dirichlet([1, 1], (settings, people * trials))
    y, owners = np.arange(people * trials) % 2, np.repeat(np.arange(people), trials)
    return clock(lambda: choose_weights(found, y, owners))


def count_rounds(people, settings, workers, folder="/nonexistent", **_):
    """Return trainings that the busiest worker does when settings times people are shared out."""
    from unittest import mock

    tasks = [
        ((s, p), CensoredEEGClassifier(weight=0.01 * (s + 1)), None)
        for s in range(settings)
        for p in range(people)
    ]
    tasks = [(str(key), clf, seen) for key, clf, seen in tasks]
    with mock.patch("braindecode_censor.search.dask_fleet.write_atomically"):
        sizes = sorted((len(share.left) for share in make_shares(tasks, workers, folder)), reverse=True)
    busy = [0] * workers
    for size in sizes:
        busy[busy.index(min(busy))] += size
    return float(max(busy))


def time_cluster(workers, epochs=10, repeats=2):
    """Return seconds by the wall of a fleet of 16 members on a local Dask cluster of so many processes."""
    from dask.distributed import Client, LocalCluster

    X, y, subjects = make_data(8, 40, 16, 128)
    options = {"max_epochs": epochs, "batch_size": 32, "augment": None}
    times = []
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        for repeat in range(repeats + 1):  # the first one imports everything
            tasks = [
                (
                    f"{repeat}-{k}",
                    CensoredEEGClassifier(random_state=k, **options),
                    np.flatnonzero(subjects != k % 8),
                )
                for k in range(16)
            ]
            started = time.perf_counter()
            list(train_on_cluster(client, tasks, (X, y, subjects), folder))
            times.append(time.perf_counter() - started)
    return min(times[1:])


def clock(function, least=0.05):
    """Return processor seconds of a call, of several if one is short."""
    function()
    started, calls = time.process_time(), 0
    while time.process_time() - started < least or not calls:
        function()
        calls += 1
    return (time.process_time() - started) / calls


# Cost -> how it is measured, and with what it may grow.
COSTS = {
    "training step": (time_step, ("people", "trials", "channels", "samples")),
    "statistics": (time_statistics, ("people", "trials", "channels", "samples")),
    "plan (keys)": (time_keys, ("people", "trials", "settings")),
    "choice of weights": (time_choice, ("people", "trials", "settings")),
    "trainings of the busiest worker": (count_rounds, ("people", "settings", "workers")),
}


def fit_exponent(sizes, costs):
    """Return slope of log cost over log size by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def measure(sizes, costs=COSTS):
    """Return rows of cost, size that grows, sizes, costs and exponent."""
    rows = []
    for cost, (function, names) in costs.items():
        for name in names:
            found = [float(function(**{**BASE, name: size})) for size in sizes[name]]
            rows.append((cost, name, sizes[name], found, fit_exponent(sizes[name], found)))
            numbers = "  ".join(f"{size}: {number:.3g}" for size, number in zip(sizes[name], found))
            print(f"{cost:32} {name:9} exponent {rows[-1][-1]:5.2f}   {numbers}", flush=True)
    return rows


def extrapolate(rows, study):
    """Return what a study would take, from costs at the base and fitted exponents."""

    def cost(name):
        mine = [row for row in rows if row[0] == name]
        at_base = (
            mine[0][3][mine[0][2].index(BASE[mine[0][1]])]
            if BASE[mine[0][1]] in mine[0][2]
            else mine[0][3][0]
        )
        return at_base * np.prod([(study[row[1]] / BASE[row[1]]) ** row[4] for row in mine])

    n_trials = study["people"] * study["trials"]
    size = 4 * n_trials * study["channels"] * study["samples"]
    trainings = study["people"] * study["partners"] / 2 * study["settings"]
    step = cost("training step")
    samples = next(row for row in rows if row[:2] == ("training step", "samples"))
    on_gpu = GPU_STEP * (study["samples"] / GPU_SAMPLES) ** samples[4]
    steps = trainings * study["steps"]
    batch = 64 * 4 * study["channels"] * study["samples"]
    seconds = steps * on_gpu / study["workers"]
    return {
        "signals, float32, TB": size / 1e12,
        "signals, float16, TB": size / 2e12,
        "one pass over the signals, core hours": cost("statistics") / 3600,
        "one pass over the file at 1 GB/s, minutes": size / 1e9 / 60,
        "people's statistics in memory, MB": study["people"] * 2 * study["channels"] * 8 / 1e6,
        "a batch of 64, MB": batch / 1e6,
        "one training step, core ms": 1e3 * step,
        "one training step as one of 256 in a fleet, GPU ms": 1e3 * on_gpu,
        "trainings (people x partners / 2 x settings)": trainings,
        "all trainings, core hours": steps * step / 3600,
        "all trainings, GPU hours": steps * on_gpu / 3600,
        f"all trainings, hours on {study['workers']} GPUs": seconds / 3600,
        "read in all trainings, TB": steps * batch / 1e12,
        f"reading them, hours at 1 GB/s for each of {study['workers']}": steps
        * batch
        / 1e9
        / study["workers"]
        / 3600,
        "reading rate that keeps one GPU busy, GB/s": batch / on_gpu / 1e9,
        "held-out probabilities of all trainings, GB": 8 * trainings * 2 * study["trials"] * 2 / 1e9,
        "models of all trainings, GB": trainings * study["model_bytes"] / 1e9,
        "choice of weights, hours": cost("choice of weights") / 3600,
        "keys of a cross-validated grid, hours": cost("plan (keys)") / 3600,
        "network: signals sent to every worker, TB": size / 1e12 * study["workers"],
    }


@contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def main():
    """Measure, print exponents, and say what a large study would take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--cluster", type=int, nargs="+", help="numbers of workers to time a fleet on, and no more"
    )
    parser.add_argument("--json", default=None, help="file for the numbers")
    study = {"people": 10_000, "trials": 2600, "channels": 19, "samples": 500, "settings": 20, "workers": 8}
    study |= {"partners": 4, "steps": 1500, "model_bytes": 20_000}
    for name, value in study.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    args = vars(parser.parse_args())
    torch.set_num_threads(1)
    if args["cluster"]:
        size = {"epochs": 1, "repeats": 1} if args["quick"] else {}
        for workers in args["cluster"]:
            seconds = time_cluster(workers, **size)
            print(f"16 trainings as fleets on {workers} workers: {seconds:.1f} s by the wall", flush=True)
        return
    with _quiet():
        rows = measure(QUICK if args["quick"] else SIZES)
        asked = {name: args[name] for name in study}
        found = extrapolate(rows, asked)
    print("\nwhat this would take: " + ", ".join(f"{name} {value}" for name, value in asked.items()))
    for name, value in found.items():
        print(f"  {name:60} {value:12.4g}")
    if args["json"]:
        with open(args["json"], "w") as file:
            json.dump({"rows": rows, "study": asked, "found": found}, file, indent=1)


if __name__ == "__main__":
    main()
