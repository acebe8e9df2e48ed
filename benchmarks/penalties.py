"""What the penalties cost, as ratios from one interleaved run.

Prints, in Markdown:

1. the cost of a censored training step of Braindecode's EEGNet (16 channels x 128 samples, batch 128, 8 subjects)
   relative to a plain step, for every method and mode;
2. how many times faster each penalty is than the naive loops of ``tests/literal.py`` at 32 subjects, and than
   sensible loops (one vectorised fit per subject, class or pair), where such loops make sense;
3. how the cost of MMD and pairwise MMD grows from 4 to 64 subjects at batch 256;
4. the memory that MMD adds at 1024 trials of 256 features.

Run it on an idle machine: ``python benchmarks/penalties.py``.
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import braindecode_censor as bc

METHODS = ("mmd", "pairmmd", "adv", "began", "mige")
MODES = ("marginal", "conditional", "complementary")
TARGETS = {"mige": 2.0}


def labels(n, n_subjects, n_classes=2):
    """Return balanced labels in random order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    return (torch.arange(n) % n_subjects)[order], (torch.arange(n) // n_subjects % n_classes)[order]


def make_step(method, mode, n_subjects=8, batch=128, shape=(16, 128)):
    """Return a function that trains EEGNet by one step, plain for method None."""
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
            critic = torch.optim.AdamW(penalty.critic_parameters(), lr=1e-3)

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


def interleaved(functions, repeats):
    """Return the median seconds of every function, taking turns so that all see the same machine."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def print_table(header, rows):
    """Print a Markdown table."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def step_costs(repeats):
    """Print the cost of a censored step relative to a plain one."""
    functions = {("plain", ""): make_step(None, None)}
    for method in METHODS:
        for mode in MODES:
            functions[method, mode] = make_step(method, mode)
    medians = interleaved(functions, repeats)
    plain = medians["plain", ""]
    rows = []
    for (method, mode), seconds in medians.items():
        target = "" if method == "plain" else f"{TARGETS.get(method, 1.3):.1f}"
        rows.append([method, mode, f"{1e3 * seconds:.1f}", f"{seconds / plain:.2f}", target])
    print("### A censored step against a plain step\n")
    print_table(["method", "mode", "ms per step", "ratio", "target"], rows)


def value_and_gradient(penalty, z, s, y):
    """Return a function that evaluates a penalty and its gradient in z."""

    def run():
        leaf = z.detach().requires_grad_()
        torch.autograd.grad(penalty(leaf, s, y), leaf)

    return run


def loop_speed(repeats):
    """Print the speed against loops at 32 subjects."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import literal

    n, n_subjects = 128, 32
    z = torch.randn(n, 64)
    s, y = labels(n, n_subjects)
    rows = []
    for method in METHODS:
        for mode in MODES:
            penalty = bc.make_penalty(method, mode=mode, n_features=64, n_subjects=n_subjects, n_classes=2)
            critics = [getattr(measure, "critic", None) for measure in penalty.measures] + [None]

            def naive(z, s, y, method=method, mode=mode, critics=critics):
                return literal.penalty(method, mode, z, s, y, critics[:2])

            functions = {
                "ours": value_and_gradient(penalty, z, s, y),
                "subset loop": value_and_gradient(subset_loop(method, mode, penalty), z, s, y),
            }
            medians = interleaved(functions, repeats)
            start = time.perf_counter()
            value_and_gradient(naive, z, s, y)()
            loop = time.perf_counter() - start
            ours = medians["ours"]
            rows.append(
                [
                    method,
                    mode,
                    f"{1e3 * ours:.2f}",
                    f"{loop / ours:.0f}",
                    "20",
                    f"{medians['subset loop'] / ours:.1f}",
                ]
            )
    print(f"### Against loops, {n_subjects} subjects, batch {n}, 64 features\n")
    header = ["method", "mode", "ms", "naive loop, times slower", "target", "subset loop, times slower"]
    print_table(header, rows)


def subset_loop(method, mode, penalty):
    """Return a penalty that applies the package's own measure to one subset at a time."""

    def two_at_a_time(measure, z, s, subsets):
        values = [measure.censor(z[rows], _batch(s[rows])) for rows in subsets]
        return torch.stack(values).mean()

    def run(z, s, y):
        halves = z.chunk(2, 1) if mode == "complementary" else (z,)
        total = 0
        for measure, half, sign in zip(penalty.measures, halves, (1, -1)):
            strata = [y == c for c in range(2)] if mode == "conditional" else [torch.ones_like(y) > 0]
            for stratum in strata:
                total = total + sign * one_stratum(measure, half, s, y, stratum)
        return total

    def one_stratum(measure, z, s, y, stratum):
        subjects = range(32)
        if method == "pairmmd":
            subsets = [stratum & ((s == a) | (s == b)) for a in subjects for b in subjects if a < b]
            return two_at_a_time(measure, z, s, subsets)
        if method == "mmd":
            # one subject against everybody: a batch whose labels say "this one" or "another"
            values = [measure.censor(z[stratum], _batch((s[stratum] == m).long())) for m in subjects]
            return torch.stack(values).mean()
        if method == "mige":
            value = -(bc.make_score("ssge").fit(z[stratum]).at_samples() * z[stratum]).sum()
            for m in subjects:
                own = z[stratum & (s == m)]
                value = value + (bc.make_score("ssge").fit(own).at_samples() * own).sum()
            return value / len(z)
        losses = [subject_loss(measure, z, y, stratum & (s == m), m) for m in subjects]
        return torch.stack(losses).mean()

    def subject_loss(measure, z, y, rows, m):
        own = z[rows]
        subject = torch.full((len(own),), m)
        labels = (y[rows],) if mode == "conditional" else ()
        if method == "adv":
            return torch.nn.functional.cross_entropy(measure.critic(own, *labels), subject)
        return (own - measure.critic(own, subject, *labels)).abs().mean()

    return run


def _batch(s):
    from braindecode_censor.weights import Batch

    return Batch(s, n_subjects=32)


def subject_growth(repeats):
    """Print how the cost grows with the number of subjects."""
    z = torch.randn(256, 64)
    functions = {}
    for method in ("mmd", "pairmmd"):
        for mode in MODES:
            for n_subjects in (4, 64):
                s, y = labels(256, n_subjects)
                penalty = bc.make_penalty(method, mode=mode, n_subjects=n_subjects, n_classes=2)
                functions[method, mode, n_subjects] = value_and_gradient(penalty, z, s, y)
    medians = interleaved(functions, repeats)
    rows = []
    for method in ("mmd", "pairmmd"):
        for mode in MODES:
            few, many = medians[method, mode, 4], medians[method, mode, 64]
            rows.append([method, mode, f"{1e3 * few:.2f}", f"{1e3 * many:.2f}", f"{many / few:.2f}", "1.3"])
    print("### From 4 to 64 subjects, batch 256, 64 features\n")
    print_table(["method", "mode", "ms, 4 subjects", "ms, 64 subjects", "ratio", "target"], rows)


def added_memory():
    """Print the growth of this process when MMD runs on 1024 trials of 256 features."""
    s, y = labels(1024, 16)
    penalty = bc.make_penalty("mmd", mode="conditional", n_subjects=16, n_classes=2)
    value_and_gradient(penalty, torch.randn(64, 256), s[:64], y[:64])()  # libraries' own buffers
    z = torch.randn(1024, 256)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value_and_gradient(penalty, z, s, y)()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{(after - before) / 1024:.0f}")


def main():
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30, help="turns that every function gets (30)")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        added_memory()
        return
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    step_costs(arguments.repeats)
    subject_growth(2 * arguments.repeats)
    loop_speed(arguments.repeats)
    command = [sys.executable, __file__, "--memory"]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"MMD on 1024 trials of 256 features adds {grown} MB (target: under 64).")


if __name__ == "__main__":
    main()
