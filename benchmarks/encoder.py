"""Time of a training step of FastEEGNet against one of Braindecode's EEGNet, and a check that both are the same step.

    python benchmarks/encoder.py --threads 2 --repeats 30                # one training on two cores
    python benchmarks/encoder.py --threads 1 --processes 2 --repeats 30  # two trainings at a time, a core each

Every round times one step (forward, backward, fused AdamW, as in CensoredEEGClassifier) of stock EEGNet, of
FastEEGNet, and of FastEEGNet with lag moments computed beforehand, one after the other on the same batch. Medians of
all rounds are printed as a Markdown table, divided by the number of processes that take such steps side by side. The
last columns are the largest differences between steps with equal weights and dropout seeds.
"""

import argparse
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from braindecode.models import EEGNet
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet

SHAPES = ((56, 260), (16, 128), (31, 400), (16, 1000))
COLUMNS = (
    "channels × samples",
    "stock ms",
    "fast ms",
    "with moments ms",
    "ratio",
    "ratio with moments",
    "Δ loss",
    "Δ gradient",
    "Δ buffers",
)


def models(n_chans, n_times, device):
    """Return stock and fast model with equal weights."""
    torch.manual_seed(0)
    size = {"n_chans": n_chans, "n_outputs": 2, "n_times": n_times, "final_layer_with_constraint": True}
    stock, fast = EEGNet(**size), FastEEGNet(**size)
    fast.load_state_dict(stock.state_dict())
    return stock.to(device), fast.to(device)


def differences(stock, fast, x, y, moments):
    """Return the largest differences of loss, gradients and buffers after a step without an optimiser."""
    losses = []
    for model, kwargs in ((stock, {}), (fast, {"moments": moments})):
        torch.manual_seed(1)
        losses.append(F.cross_entropy(model(x, **kwargs), y))
        losses[-1].backward()
    gradients = max(
        (p.grad - q.grad).abs().max().item() for p, q in zip(stock.parameters(), fast.parameters())
    )
    buffers = max((p - q).abs().max().item() for p, q in zip(stock.buffers(), fast.buffers()))
    return abs(losses[0] - losses[1]).item(), gradients, buffers


def step_timer(model, x, y, **kwargs):
    """Return a function that takes one training step and returns its seconds."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(x, **kwargs), y).backward()
        optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return step


def measure(n_chans, n_times, args):
    """Return the medians of the three steps, and the largest differences between stock and fast."""
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore")
    stock, fast = models(n_chans, n_times, args.device)
    x = torch.randn(args.batch, n_chans, n_times, device=args.device)
    y = torch.randint(0, 2, (args.batch,), device=args.device)
    moments = fast.lag_moments(x)
    exact = differences(stock, fast, x, y, moments)
    timers = [step_timer(stock, x, y), step_timer(fast, x, y), step_timer(fast, x, y, moments=moments)]
    for timer in timers * 3:
        timer()
    rounds = [[timer() * 1e3 for timer in timers] for _ in range(args.repeats)]
    return [statistics.median(column) for column in zip(*rounds)], exact


def row(n_chans, n_times, args):
    """Return a row of the table."""
    if args.processes == 1:
        results = [measure(n_chans, n_times, args)]
    else:
        with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
            futures = [pool.submit(measure, n_chans, n_times, args) for _ in range(args.processes)]
            results = [future.result() for future in futures]
    exact = results[0][1]
    medians = [statistics.mean(column) / args.processes for column in zip(*(times for times, _ in results))]
    ratios = [medians[0] / medians[1], medians[0] / medians[2]]
    cells = [
        f"{n_chans} × {n_times}",
        *(f"{ms:.1f}" for ms in medians),
        *(f"{ratio:.1f}" for ratio in ratios),
    ]
    return [*cells, *(f"{value:.0e}" for value in exact)]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1, help="trainings at a time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    cores = f"{args.processes} processes with {args.threads} threads each"
    print(f"torch {torch.__version__}, {args.device}, {cores}, batch {args.batch}, medians\n")
    print("| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS), sep="\n")
    for n_chans, n_times in SHAPES:
        print("| " + " | ".join(row(n_chans, n_times, args)) + " |", flush=True)


if __name__ == "__main__":
    main()
