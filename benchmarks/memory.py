"""How much memory a training on a file takes, and how much longer its steps are than those in memory.

    python benchmarks/memory.py            # 100,000 trials of 64 channels and 256 samples: 6.5 GB on disk
    python benchmarks/memory.py --quick    # 60 MB
    python benchmarks/memory.py --experiment    # AutoTransfer on 20 people (131 MB), trials in a file and in memory

The peak is that of anonymous memory (RssAnon and RssShmem of /proc/self/status). The resident set is printed beside it:
it counts the pages of the mapped file too, which are the page cache's and are given up whenever somebody needs them.
Steps are timed by the wall and, with one thread, by the processor, which other processes lengthen less.
"""

import argparse
import gc
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from skorch.callbacks import Callback

from braindecode_censor import AutoTransfer, CensoredEEGClassifier
from braindecode_censor.trials import stored


def memory():
    """Return anonymous memory and resident set of this process in bytes."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    kilobytes = {name: int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmRSS")}
    return (kilobytes["RssAnon"] + kilobytes["RssShmem"]) * 1024, kilobytes["VmRSS"] * 1024


class Peak:
    """Watches the memory of the process from a thread, 50 times a second."""

    def __enter__(self):
        gc.collect()
        self.before, self.most, self.over = memory(), memory(), threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while not self.over.wait(0.02):
            self.most = tuple(map(max, self.most, memory()))

    def __exit__(self, *exception):
        self.over.set()
        self.thread.join()
        self.anonymous, self.resident = (b - a for a, b in zip(self.before, self.most))


class Steps(Callback):
    """Notes when every step ends."""

    def on_train_begin(self, net, **kwargs):
        """Begin anew."""
        self.ends = []

    def on_batch_end(self, net, training=False, **kwargs):
        """Note the time."""
        if training:
            self.ends.append((time.perf_counter(), time.process_time()))


def write_file(path, shape, block=1000):
    """Write noise with a different scale for every person."""
    file, rng = np.memmap(path, np.float32, "w+", shape=shape), np.random.default_rng(0)
    for start in range(0, len(file), block):
        part = file[start : start + block]
        part[:] = (1 + start % 7) * rng.standard_normal(part.shape, dtype=np.float32)
    file.flush()


def train(X, y, subjects, steps, **options):
    """Return peak memory, milliseconds per step (medians, by the wall and the processor) and seconds of the fit."""
    clf = CensoredEEGClassifier(max_steps=steps, callbacks=[("steps", Steps())], **options)
    started = time.perf_counter()
    with Peak() as peak:
        clf.fit(X, y, subjects=subjects)
    taken = time.perf_counter() - started
    ends = dict(clf.callbacks_)["steps"].ends
    return peak, 1e3 * np.median(np.diff(ends[len(ends) // 10 :], axis=0), axis=0), taken


def run_experiment(out, largest):
    """Return size of the trials, peak memory and seconds of an experiment that holds at most so many bytes of them."""
    stored.LARGEST_COPY = largest
    data = {"n_subjects": 20, "n_trials": 100, "n_chans": 32, "sfreq": 256.0, "duration": 1.0}
    training = {"max_steps": 10, "batch_size": 64, "module__F1": 2, "module__D": 1}
    grid = [{"method": "mmd", "mode": "marginal", "weight": 0.1}]
    experiment = AutoTransfer("simulated", out, grid, dataset_options=data, training=training)
    started = time.perf_counter()
    with Peak() as peak:
        experiment.run(report=False)
    return experiment.recording.X.nbytes, peak, time.perf_counter() - started


def compare_experiments(folder):
    """Print the peaks of an experiment on a file and of one in memory, and whether their scores are the same bytes."""
    options = {"dataset_options": {"n_subjects": 4, "n_trials": 8}, "training": {"max_steps": 1}}
    AutoTransfer("simulated", Path(folder, "first"), "quick", **options).plan()  # for its imports
    # the file comes first, because what memory took is not always given back
    for name, largest in {"file": 0, "memory": stored.LARGEST_COPY}.items():
        size, peak, seconds = run_experiment(Path(folder, name), largest)
        told = f"peak {peak.anonymous / 1e6:.0f} MB, {seconds:.0f} s"
        print(f"trials of {size / 1e6:.0f} MB in {name}: {told}", flush=True)
    scores = [Path(folder, name, "scores.csv").read_bytes() for name in ("file", "memory")]
    print(f"scores are {'the same bytes' if scores[0] == scores[1] else 'DIFFERENT'}")


def main():
    """Write the file, train on it and on what is in memory, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--resident", type=int, default=8000, help="trials of the training in memory")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", default=None, help="where the file is written, and deleted again")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--experiment", action="store_true", help="an experiment instead of one training")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.experiment:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            compare_experiments(folder)
        return
    if args.quick:
        args.trials, args.channels, args.samples, args.steps, args.people = 7500, 16, 128, 20, 10
    shape = args.trials, args.channels, args.samples
    size = 4 * np.prod(shape)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if shutil.disk_usage(folder).free < 1.2 * size:
            raise SystemExit(f"{folder} has no room for {size / 1e9:.1f} GB: name another --folder.")
        path = Path(folder, "X.f32")
        write_file(path, shape)
        X = np.memmap(path, np.float32, "r", shape=shape)
        y = np.arange(args.trials) % 2
        subjects = np.arange(args.trials) * args.people // args.trials
        some = np.sort(
            np.random.default_rng(1).choice(args.trials, min(args.resident, args.trials), replace=False)
        )
        train(X[:1000], y[:1000], subjects[:1000] + y[:1000], 5, device=args.device)  # what is loaded once
        # Both sides twice and in turns, because the machine may be busy with something else.
        held = (np.array(X[some]), y[some], subjects[some])
        runs = {"file": [], "memory": []}
        for _ in range(2):
            runs["memory"].append(train(*held, args.steps, device=args.device))
            runs["file"].append(train(X, y, subjects, args.steps, device=args.device))
    best = {name: np.min([run[1] for run in found], axis=0) for name, found in runs.items()}
    anonymous = max(run[0].anonymous for run in runs["file"])
    resident = max(run[0].resident for run in runs["file"])
    print(f"file: {args.trials} x {args.channels} x {args.samples} float32, {size / 1e9:.2f} GB")
    print(
        f"peak above start: {anonymous / 1e9:.3f} GB anonymous, {resident / 1e9:.3f} GB resident with file pages"
    )
    for clock, (file, held) in zip(("wall", "processor"), zip(best["file"], best["memory"])):
        print(
            f"step by the {clock}: {file:.1f} ms from the file, {held:.1f} ms from memory, ratio {file / held:.2f}"
        )
    print(f"whole fit of {args.steps} steps from the file: {min(run[2] for run in runs['file']):.1f} s")


if __name__ == "__main__":
    main()
