"""Cost of the penalties: one table, measured in turns in one run.

For every method and mode:

* a training step of Braindecode's EEGNet (16 channels x 128 samples, batch 128, 8 subjects) with the penalty, and
  its ratio to a plain step;
* value and gradient of the penalty alone at 32 subjects (batch 128, 64 features), and how many times slower the
  naive loops of ``tests/literal.py`` over trials, subjects, classes and pairs are, which give the same numbers;
* for MMD and pairwise MMD, the ratio of the cost at 64 subjects to that at 4 (batch 256, 64 features).

Below it, the memory that MMD adds at 1024 trials of 256 features, in a separate process. The functions take turns, so
that other work of the machine slows down all alike; medians are compared. ``--check`` makes a missed goal an error.
Run it on an idle machine:

    python benchmarks/penalties.py
"""

import argparse
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import braindecode_censor as bc

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # of the loops

METHODS = ("mmd", "pairmmd", "adv", "began", "mige")
MODES = ("marginal", "conditional", "complementary")
GROWING = ("mmd", "pairmmd")
STEP_GOALS = {"mige": 2.0}  # 1.3 for the others


def labels(n, n_subjects, n_classes=2):
    """Return balanced labels in random order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    return (torch.arange(n) % n_subjects)[order], (torch.arange(n) // n_subjects % n_classes)[order]


def make_step(method, mode, n_subjects=8, batch=128, shape=(16, 128)):
    """Return a function that trains EEGNet by one step, plain for method None.

    It is a plain torch loop; front.py measures the callback's step.
    """
    from braindecode.models import EEGNet

    torch.manual_seed(0)
    model = EEGNet(n_chans=shape[0], n_times=shape[1], n_outputs=2, final_layer_with_constraint=True)
    x = torch.randn(batch, *shape)
    s, y = labels(batch, n_subjects)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    captured = {}
    model.final_layer.register_forward_pre_hook(lambda _, inputs: captured.update(z=inputs[0]))
    model(x)
    n_features = captured["z"].flatten(1).shape[1]
    penalty = critic = None
    if method is not None:
        penalty = bc.make_penalty(
            method, mode=mode, n_features=n_features, n_subjects=n_subjects, n_classes=2
        )
        if penalty.has_critic:
            critic = torch.optim.AdamW(penalty.critic_parameters(), lr=1e-3, fused=True)

    def step():
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        if penalty is not None:
            z = captured["z"].flatten(1)
            if critic is not None:
                critic.zero_grad()
                penalty.critic_loss(z.detach(), s, y).backward()
                critic.step()
            loss = loss + 0.1 * penalty(z, s, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def interleaved(functions, repeats, pause=None):
    """Return the median seconds of every function, taking turns so that all see the same machine."""
    # Other processes lengthen the processor time of a single thread less.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = {name: [] for name in functions}
    medians = {}
    for turn in range(-1, repeats):  # turn -1 warms up
        if pause is not None and turn == repeats // 2:
            medians = pause()
        for name, function in functions.items():
            start = clock()
            function()
            if turn >= 0 or repeats == 1:
                times[name].append(clock() - start)
        if repeats == 1:
            break
    return medians | {name: float(np.median(values)) for name, values in times.items()}


def value_and_gradient(penalty, z, s, y):
    """Return a function that evaluates a penalty and its gradient in z."""

    def run():
        leaf = z.detach().requires_grad_()
        value = penalty(leaf, s, y)
        torch.autograd.grad(value, leaf)
        run.value = value.detach()

    return run


def naive_and_ours(method, mode, n_subjects=32, n=128, n_features=64):
    """Return functions for the value and gradient of our penalty and of the naive loops."""
    import literal
    from cases import critics

    torch.manual_seed(1)
    s, y = labels(n, n_subjects)
    z = torch.randn(n, n_features, dtype=torch.float64)
    sizes = {"n_features": n_features, "n_subjects": n_subjects, "n_classes": 2}
    penalty = bc.make_penalty(method, mode=mode, **sizes).double()

    def naive(z, s, y):
        return literal.penalty(method, mode, z, s, y, critics(penalty))

    return value_and_gradient(penalty, z, s, y), value_and_gradient(naive, z, s, y)


def functions_to_time():
    """Return everything that is timed, by name."""
    functions = {"plain": make_step(None, None)}
    loops = {}
    for method in METHODS:
        for mode in MODES:
            functions["step", method, mode] = make_step(method, mode)
            ours, loops["naive", method, mode] = naive_and_ours(method, mode)
            functions["alone", method, mode] = ours
    z = torch.randn(256, 64)
    for method in GROWING:
        for mode in MODES:
            for n_subjects in (4, 64):
                s, y = labels(256, n_subjects)
                penalty = bc.make_penalty(method, mode=mode, n_subjects=n_subjects, n_classes=2)
                functions[n_subjects, method, mode] = value_and_gradient(penalty, z, s, y)
    return functions, loops


def print_table(medians):
    """Print the table and return the missed goals."""
    print(
        "| method | mode | step, ms | ratio to plain | goal | alone, ms | naive loops | goal | 64/4 | goal |"
    )
    print("|" + "---|" * 10)
    missed = []
    for method in METHODS:
        for mode in MODES:
            step, alone = medians["step", method, mode], medians["alone", method, mode]
            ratio, loops = step / medians["plain"], medians["naive", method, mode] / alone
            growth = medians[64, method, mode] / medians[4, method, mode] if method in GROWING else None
            limit = STEP_GOALS.get(method, 1.3)
            missed += [f"{method} {mode}: step {ratio:.2f}"] * (ratio > limit)
            missed += [f"{method} {mode}: loops {loops:.0f}"] * (loops < 20)
            if growth is not None and growth > 1.3:
                missed.append(f"{method} {mode}: growth {growth:.2f}")
            last = ["", ""] if growth is None else [f"{growth:.2f}", "1.3"]
            cells = [method, mode, f"{1e3 * step:.1f}", f"{ratio:.2f}", f"{limit}", f"{1e3 * alone:.2f}"]
            print("| " + " | ".join([*cells, f"{loops:.0f}x slower", "20", *last]) + " |")
    return missed


def added_memory(n_classes):
    """Print the growth of this process, in MB, when MMD runs on 1024 trials of 256 features."""
    s, y = labels(1024, 16, n_classes)
    penalty = bc.make_penalty("mmd", mode="conditional", n_subjects=16, n_classes=n_classes)
    value_and_gradient(penalty, torch.randn(64, 256), s[:64], y[:64])()  # buffers of the libraries
    z = torch.randn(1024, 256)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _peak()
    value_and_gradient(penalty, z, s, y)()
    print(f"{(_peak() - before) / 1024:.0f}")


def _peak():
    """Return the largest resident size so far, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def main():
    """Print the table and return the number of missed goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30, help="turns that every function gets (30)")
    parser.add_argument("--threads", type=int, help="torch threads; 1 measures processor time")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.memory:
        return added_memory(arguments.memory)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    functions, loops = functions_to_time()
    # The loops take seconds each, so they get one round, between two halves of the others' turns.
    medians = interleaved(functions, arguments.repeats, pause=lambda: interleaved(loops, 1))
    for _, method, mode in loops:
        ours, naive = functions["alone", method, mode], loops["naive", method, mode]
        torch.testing.assert_close(ours.value, naive.value, rtol=1e-8, atol=1e-8)
    missed = print_table(medians)
    for n_classes in (2, 33):
        command = [sys.executable, __file__, "--memory", str(n_classes)]
        grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"\nMMD on 1024 trials of 256 features, {n_classes} classes, adds {grown} MB (at most 64).")
        missed += [f"memory {grown} MB"] * (grown > 64)
    print("\nMissed: " + ("; ".join(missed) or "nothing"))
    return len(missed) if arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
