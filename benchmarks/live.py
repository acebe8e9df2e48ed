"""Time of a decision: the models' own streams against live decoding.

Decoders of about 20 and 32 models, both paths over the same trials, taking turns trial by trial in one process. The
old path averages the models' streams; the new one is all of live decoding from a trial's last samples to the decision
in its outlet, except for the network. Printed are milliseconds of processor time per decision (medians), their
ratio, the last quarter of the trials against the first, milliseconds by the clock (median and 99th percentile), and
the largest difference of probabilities, for one thread.

    python benchmarks/live.py                                  # three sizes, two decoders, 1,000 trials
    python benchmarks/live.py --trials 60 --old 20 --case ssvep  # quick
"""

import argparse
import os
import time
import warnings

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.decoder.ensemble import Ensemble, Model
from braindecode_censor.decoder.input import InputFormat
from braindecode_censor.live.engine import Engine
from braindecode_censor.live.source import LslOutlet
from braindecode_censor.run.decode import quiet
from braindecode_censor.search.family import find_candidates

CHUNK = 8  # samples
#: Name -> channels, samples, samples per second, classes.
CASES = {"erp": (61, 128, 128, 2), "ssvep": (8, 1024, 256, 4), "emg": (8, 700, 200, 7)}
#: Candidates and folds of each, as searches on these data choose them: the best networks and the classical ones.
NETWORKS = ["subject", "euclidean", "subject-wide", "euclidean-wide", "subject-fast", "trial"]
CLASSICAL = ["waveform", "power", "hjorth", "riemann", "hjorth-riemann", "riemann-bands", "xdawn"]
DECODERS = {20: ((NETWORKS[:3], 2), (CLASSICAL, 2)), 32: ((NETWORKS, 2), ([*CLASSICAL, *CLASSICAL[:3]], 2))}


def make_trials(shape, n_trials, n_classes, rng):
    """Return trials whose channels are mixed, as those of a recording are, and their classes."""
    y = np.arange(n_trials) % n_classes
    sources = rng.standard_normal((n_trials, *shape), dtype="float32")
    sources[np.arange(n_trials), y % shape[0]] *= 3
    return (np.eye(shape[0]) + 0.3 * rng.standard_normal((shape[0], shape[0]))).astype("float32") @ sources, y


def make_decoder(case, n_models, seed=0):
    """Return an ensemble of quickly trained models: their cost does not depend on what they have learned."""
    n_chans, n_times, sfreq, n_classes = CASES[case]
    rng, models = np.random.default_rng(seed), []
    blocks = [make_trials((n_chans, n_times), 4 * n_classes, n_classes, rng) for _ in range(4)]
    X, y = (np.concatenate(arrays) for arrays in zip(*blocks))
    subjects = np.repeat(np.arange(4), len(y) // 4)
    for names, n_folds in DECODERS[n_models]:
        for k, name in enumerate(names):
            for fold in range(n_folds):
                rows = subjects != (fold + 2 * (k >= len(CLASSICAL))) % 4
                (candidate,), _ = find_candidates([name])
                steps = 2 if candidate.kind == "network" else None
                estimator = candidate.make((n_chans, n_times), sfreq, seed=fold, steps=steps)
                models.append(
                    Model(name, fold, 1.0, estimator.fit(X[rows], y[rows], subjects=subjects[rows]))
                )
    for model in models:
        model.weight = 1 / len(models)
    return Ensemble(models, n_classes)


def make_engine(ensemble, case):
    """Return live decoding by an ensemble."""
    n_chans, n_times, sfreq, n_classes = CASES[case]
    clf = AutoTransferClassifier(device="cpu")
    clf.input_ = InputFormat(n_chans, n_times, sfreq=sfreq)
    clf.input_.preparation.phase = "causal"
    clf.classes_, clf.adapted_, clf.teacher_, clf.stream_prior_ = np.arange(n_classes), False, None, 1.0
    clf.ensemble_ = clf.general_ = ensemble
    return Engine(clf, "uV", sure=0.0)


def measure(case, n_models, n_trials, n_old):
    """Return milliseconds of the old path, the new path, and the new path by the clock, and the largest difference."""
    ensemble = make_decoder(case, n_models)
    old, engine, outlet = ensemble.stream(), make_engine(ensemble, case), LslOutlet("benchmark", [])
    n_chans, n_times, sfreq, n_classes = CASES[case]
    trials, _ = make_trials((n_chans, n_times), n_trials, n_classes, np.random.default_rng(1))
    times, difference = ([], [], []), 0.0
    for k, trial in enumerate(trials):
        stamps = (k * n_times + np.arange(n_times)) / sfreq
        engine.mark(stamps[0], "")
        engine.add(trial.T[:-CHUNK], stamps[:-CHUNK])
        began = time.process_time(), time.perf_counter()
        engine.add(trial.T[-CHUNK:], stamps[-CHUNK:])
        (decision,) = engine.decisions()
        outlet.push(decision)
        times[1].append(time.process_time() - began[0])
        times[2].append(time.perf_counter() - began[1])
        if k < n_old:
            start = time.process_time()
            expected = old.predict_proba(trial[None])
            times[0].append(time.process_time() - start)
            difference = max(difference, abs(decision.probabilities - expected).max())
    return (*(1e3 * np.array(row[2:]) for row in times), difference)  # The first trials design filters.


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--models", type=int, choices=DECODERS, action="append")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument(
        "--old", type=int, default=200, metavar="N", help="trials that the old path decodes too"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    warnings.simplefilter("ignore")
    print(
        "| case | models | old, ms | new, ms | old/new | last/first quarter | clock, ms | p99 | difference |\n|"
        + "---|" * 9
    )
    with threadpool_limits(1), quiet():
        for case in arguments.case or CASES:
            for n_models in arguments.models or DECODERS:
                old, new, clock, difference = measure(case, n_models, arguments.trials, arguments.old)
                n = len(new) // 4
                flat = np.median(new[-n:]) / np.median(new[:n])
                cells = [f"{np.median(old):.1f}", f"{np.median(new):.1f}"]
                cells += [f"{np.median(old) / np.median(new):.1f}", f"{flat:.2f}", f"{np.median(clock):.1f}"]
                cells += [f"{np.quantile(clock, 0.99):.1f}", f"{difference:.0e}"]
                print(f"| {case} | {n_models} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
