"""Memory of a training on trials in a file, and duration of its steps relative to trials in memory.

    python benchmarks/memory.py            # 100,000 trials of 64 channels and 256 samples: 6.5 GB on disk
    python benchmarks/memory.py --quick    # 60 MB
    python benchmarks/memory.py --experiment    # AutoTransfer on 20 subjects (131 MB), trials in a file and in memory

The peak is that of anonymous memory (RssAnon and RssShmem of /proc/self/status). The resident set beside it also counts
the pages of the mapped file, which the system takes back when it needs them. Steps have wall time and processor time;
with one thread, other processes lengthen the latter less.
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
    """Peak memory of the process, read by a thread 50 times a second."""

    def __enter__(self):
        gc.collect()
        self.before, self.peak, self.is_over = memory(), memory(), threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while not self.is_over.wait(0.02):
            self.peak = tuple(map(max, self.peak, memory()))

    def __exit__(self, *exception):
        self.is_over.set()
        self.thread.join()
        self.anonymous, self.resident = (b - a for a, b in zip(self.before, self.peak))


class Steps(Callback):
    """Record the end of every step."""

    def on_train_begin(self, net, **kwargs):
        """Reset."""
        self.ends = []

    def on_batch_end(self, net, training=False, **kwargs):
        """Record the times."""
        if training:
            self.ends.append((time.perf_counter(), time.process_time()))


def write_file(path, shape, block=1000):
    """Write noise of seven scales."""
    file, rng = np.memmap(path, np.float32, "w+", shape=shape), np.random.default_rng(0)
    for start in range(0, len(file), block):
        rows = file[start : start + block]
        rows[:] = (1 + start % 7) * rng.standard_normal(rows.shape, dtype=np.float32)
    file.flush()


def train(X, y, subjects, steps, **options):
    """Return peak memory, milliseconds per step (medians of wall and processor time) and seconds of the fit."""
    clf = CensoredEEGClassifier(max_steps=steps, callbacks=[("steps", Steps())], **options)
    began = time.perf_counter()
    with Peak() as peak:
        clf.fit(X, y, subjects=subjects)
    seconds = time.perf_counter() - began
    ends = dict(clf.callbacks_)["steps"].ends
    return peak, 1e3 * np.median(np.diff(ends[len(ends) // 10 :], axis=0), axis=0), seconds


def run_experiment(out, largest):
    """Return size of the trials, peak memory and seconds of an experiment that keeps larger trials in a file."""
    stored.LARGEST_COPY = largest
    data = {"n_subjects": 20, "n_trials": 100, "n_chans": 32, "sfreq": 256.0, "duration": 1.0}
    training = {"max_steps": 10, "batch_size": 64, "module__F1": 2, "module__D": 1}
    grid = [{"method": "mmd", "mode": "marginal", "weight": 0.1}]
    experiment = AutoTransfer("simulated", out, grid, dataset_options=data, training=training)
    began = time.perf_counter()
    with Peak() as peak:
        experiment.run(report=False)
    return experiment.data.X.nbytes, peak, time.perf_counter() - began


def compare_experiments(folder):
    """Print the peaks of an experiment on a file and of one in memory, and compare their scores."""
    options = {"dataset_options": {"n_subjects": 4, "n_trials": 8}, "training": {"max_steps": 1}}
    AutoTransfer("simulated", Path(folder, "first"), "quick", **options).plan()  # for its imports
    # The file comes first, because memory is not always given back.
    for name, largest in {"file": 0, "memory": stored.LARGEST_COPY}.items():
        size, peak, seconds = run_experiment(Path(folder, name), largest)
        print(
            f"trials of {size / 1e6:.0f} MB in {name}: peak {peak.anonymous / 1e6:.0f} MB, {seconds:.0f} s",
            flush=True,
        )
    scores = [Path(folder, name, "scores.csv").read_bytes() for name in ("file", "memory")]
    print(f"scores are {'the same bytes' if scores[0] == scores[1] else 'DIFFERENT'}")


def main():
    """Train on a file and on trials in memory, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--in-memory", type=int, default=8000, help="trials of the training in memory")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", default=None, help="folder of the file, which is deleted at the end")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--experiment", action="store_true", help="an experiment instead of one training")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.experiment:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            compare_experiments(folder)
        return
    if args.quick:
        args.trials, args.channels, args.samples, args.steps, args.subjects = 7500, 16, 128, 20, 10
    shape = args.trials, args.channels, args.samples
    size = 4 * np.prod(shape)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if shutil.disk_usage(folder).free < 1.2 * size:
            raise SystemExit(f"{folder} has no room for {size / 1e9:.1f} GB: pass another --folder.")
        path = Path(folder, "X.f32")
        write_file(path, shape)
        X = np.memmap(path, np.float32, "r", shape=shape)
        y = np.arange(args.trials) % 2
        subjects = np.arange(args.trials) * args.subjects // args.trials
        idx = np.sort(
            np.random.default_rng(1).choice(args.trials, min(args.in_memory, args.trials), replace=False)
        )
        train(X[:1000], y[:1000], subjects[:1000] + y[:1000], 5, device=args.device)  # loads libraries
        # Both sides take two turns, because the machine may be busy otherwise.
        in_memory = (np.array(X[idx]), y[idx], subjects[idx])
        runs = {"file": [], "memory": []}
        for _ in range(2):
            runs["memory"].append(train(*in_memory, args.steps, device=args.device))
            runs["file"].append(train(X, y, subjects, args.steps, device=args.device))
    best = {name: np.min([ms for _, ms, _ in results], axis=0) for name, results in runs.items()}
    anonymous, resident = (
        max(getattr(peak, name) for peak, *_ in runs["file"]) for name in ("anonymous", "resident")
    )
    print(f"file: {args.trials} x {args.channels} x {args.samples} float32, {size / 1e9:.2f} GB")
    print(
        f"peak above start: {anonymous / 1e9:.3f} GB anonymous, {resident / 1e9:.3f} GB resident with file pages"
    )
    for clock, file, memory_ms in zip(("wall", "processor"), best["file"], best["memory"]):
        ratio = file / memory_ms
        print(
            f"step, {clock} time: {file:.1f} ms from the file, {memory_ms:.1f} ms from memory, ratio {ratio:.2f}"
        )
    print(f"whole fit of {args.steps} steps from the file: {min(s for *_, s in runs['file']):.1f} s")


if __name__ == "__main__":
    main()
