r"""Does censoring help on top of a decoder that is trained well? Every method and mode, small weights, many seeds.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``; "simulated" is a recording, too. For
every recording, every uncensored recipe (``--base``) and every seed, people are shared out to a few folds. Without each
fold a network is trained uncensored, and with five methods in three modes at several weights. People of the fold are
decoded with their own unlabelled trials, by the paper's protocol with nothing but the trial. Fresh probes say how well
the codes of the training people still tell who is who. Controls: batches without a penalty, a negative weight, which
reveals the person instead, and people whose labels were shuffled, so that there is nothing to censor.

    python paper_figures/run_censoring.py --data DIR --out results/censoring --device cuda --jobs 3 --time-limit 400
    python paper_figures/run_censoring.py --out /tmp/check --quick                   # seconds, on a CPU
    python paper_figures/plot_censoring.py --results results/censoring

Interrupt and start again at will, also with more weights, methods or seeds: what is finished is not repeated. Seeds
come in turn over all recordings and recipes, so that whatever the time allows is a study with fewer seeds. Every method
is a job of its own, and ``--jobs`` of them share the device; let NVIDIA's multi-process service (MPS) run there. One
that fails, for want of memory say, does not stop the others.
"""

import argparse
import time
from pathlib import Path

import joblib
import numpy as np
import torch

from braindecode_censor.paper.grid import METHODS
from braindecode_censor.search.family import BASELINE
from braindecode_censor.storage.files import clean, locked
from studies.censoring.runs import (
    RECORDINGS,
    SIMULATED,
    check_same_penalties,
    collect,
    run_method,
)
from studies.censoring.study import MODES


def main(argv=None):
    """Run the study, or what is left of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder that holds the recordings' folders")
    add("--out", type=Path, default=Path("results/censoring"), help="folder for results")
    add("--recording", action="append", help="folder under --data, or simulated; all four if not given")
    add("--base", action="append", help="uncensored recipe; person, euclidean and paper if not given")
    add("--seeds", type=int, default=8, help="number of seeds")
    add("--at-once", type=int, default=2, help="seeds that are trained in one fleet")
    add("--folds", type=int, default=4, help="folds of people")
    add("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="censoring methods")
    add(
        "--levels",
        type=float,
        nargs="*",
        default=[0.1, 0.3, 1, 3, 10],
        help="multiples of the usual weights; none, and only controls are trained",
    )
    add(
        "--control-modes",
        nargs="*",
        default=["conditional"],
        choices=MODES,
        help="where to reveal and to shuffle",
    )
    add(
        "--calibrate",
        action="store_true",
        help="calibrated scores for MIGE; such a study needs an --out of its own",
    )
    add("--max-steps", type=int, help="steps of a training; the recipe's own if not given")
    add("--group-size", type=int, help="networks that train side by side at most")
    add(
        "--compile",
        action="store_true",
        help="compile the networks, which takes a while and makes steps faster",
    )
    add("--jobs", type=int, default=1, help="processes, which share the device")
    add("--time-limit", type=float, default=np.inf, help="seconds after which nothing new is begun")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--quick", action="store_true", help="a check: few simulated people, one seed, few steps")
    args = parser.parse_args(argv)
    args.deadline = time.time() + args.time_limit
    if args.quick:
        args.recording, args.base = [SIMULATED], args.base or ["subject", BASELINE]
        args.seeds, args.folds, args.methods, args.levels = 1, 2, ["mmd"], [1, 10]
        args.max_steps = args.max_steps or 10
    names = args.recording or [*RECORDINGS, SIMULATED]
    if args.data is None and names != [SIMULATED]:
        parser.error(f"--data is needed for {names}: the folder that holds them.")
    of_study = (
        "folds",
        "methods",
        "levels",
        "control_modes",
        "calibrate",
        "max_steps",
        "group_size",
        "compile",
    )
    options = {name: getattr(args, name) for name in (*of_study, "device")}
    blocks = [list(range(args.seeds))[k : k + args.at_once] for k in range(0, args.seeds, args.at_once)]
    todo = [
        (name, base, seeds, method)
        for seeds in blocks
        for base in args.base or ["subject", "euclidean", BASELINE]
        for name in names
        for method in ["none", *args.methods]
    ]
    with locked(args.out):
        clean(args.out)
        try:
            check_same_penalties(args.out, args.calibrate)
        except ValueError as error:
            parser.error(f"--out {error}")
        pool = joblib.Parallel(
            n_jobs=args.jobs, return_as="generator_unordered", pre_dispatch=args.jobs, batch_size=1
        )
        try:
            failed = 0
            for told, well in pool(joblib.delayed(run_method)(args, options, *what) for what in todo):
                print(told, flush=True)
                failed += not well
        finally:
            collect(args.out)
    if failed:
        remedy = "start again to train them; with fewer --jobs or --at-once, if memory was short."
        parser.exit(1, f"{failed} of {len(todo)} failed: {remedy}\n")


if __name__ == "__main__":
    main()
