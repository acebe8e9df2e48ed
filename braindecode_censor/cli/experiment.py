"""``autotransfer run``, ``resume``, ``demo`` and ``report``: thin over :class:`AutoTransfer`."""

import argparse
import json
import sys
import textwrap
from pathlib import Path

import yaml


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    run = commands.add_parser(
        "run",
        help="search, cross-validate and select on a dataset",
        description="Try the grid on one split, cross-validate the best three settings of each method with "
        "MOABB, and select. Every finished training is on disk at once: after a crash, the same command or "
        "`autotransfer resume --out DIR` goes on where it stopped.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_experiment(run)
    _add_machine(run)
    run.add_argument("--out", required=True, help="folder for results")
    run.set_defaults(run=run_experiment)
    resume = commands.add_parser(
        "resume",
        help="go on with an experiment, or add seeds and settings to it",
        description="Go on with what is left. With --seeds, --preset or --nested, add to an experiment, "
        "whether it is finished or not: only the new trainings are done.",
    )
    resume.add_argument("--out", required=True, help="folder of the experiment")
    resume.add_argument("--seeds", type=int, help="number of seeds altogether")
    resume.add_argument("--preset", help="quick, paper, or a YAML file: settings to add")
    resume.add_argument("--nested", action="store_true", help="add the nested rule")
    _add_machine(resume)
    resume.set_defaults(run=resume_experiment)
    demo = commands.add_parser("demo", help="the whole method on simulated subjects, in minutes")
    demo.add_argument("--out", default="demo_results", help="folder for results")
    demo.add_argument("--seed", type=int, default=0, help="seed")
    _add_machine(demo)
    demo.set_defaults(run=run_demo)
    report = commands.add_parser("report", help="write table and report of a finished experiment anew")
    report.add_argument("--out", required=True, help="folder of the experiment")
    report.add_argument("--json", action="store_true", help="print one JSON object")
    report.set_defaults(run=report_experiment)


def _add_experiment(parser):
    add = parser.add_argument
    add("--dataset", default="simulated", help="name (see `autotransfer datasets`) or folder of epochs")
    add("--dataset-option", action="append", default=[], metavar="KEY=VALUE", help="option of the dataset")
    add(
        "--preset",
        default="quick",
        help="quick, paper, or a YAML file of yours",
    )
    add("--seed", type=int, default=0, help="first seed")
    add("--seeds", type=int, default=1, help="number of seeds; one seed cannot tell a gain from chance")
    add("--search", choices=["grid", "optuna"], default="grid", help="how to search")
    add("--trials", type=int, default=20, help="Optuna's trials per method")
    add("--top", type=int, default=3, help="settings of each method that are cross-validated")
    add("--nested", action="store_true", help="also select without ever seeing the test subject; costly")
    add("--epochs", type=int, help="epochs at most, instead of the preset's")
    add("--patience", type=int, help="epochs without progress before stopping, instead of the preset's")
    add("--device", default="cpu", help="cpu or cuda")
    add(
        "--paradigm",
        help="how trials are cut, such as MotorImagery or P300; what fits the dataset if not given",
    )
    add("--normalize", help="how trials are normalised, instead of the preset's; see CensoredEEGClassifier")
    add("--others", action="append", default=[], choices=["riemann"], help="a classical pipeline beside ours")
    add(
        "--engine",
        choices=["sequential", "fleet"],
        default="sequential",
        help="train one by one, or many as one",
    )
    add("--dry-run", action="store_true", help="only say what would be done and how long it takes")


def _add_machine(parser):
    add = parser.add_argument
    add("--jobs", type=int, default=1, help="trainings at a time on this machine")
    add("--backend", choices=["local", "dask"], default="local", help="where to train")
    add("--scheduler", help="address of a Dask scheduler, such as tcp://10.0.0.1:8786")
    add("--storage", help="database of Optuna's studies for several machines, such as postgresql://host/name")
    add("--json", action="store_true", help="print one JSON object to standard output and nothing else")
    add("--quiet", action="store_true", help="no progress bar")
    add(
        "--no-report",
        action="store_true",
        help="tables only; `autotransfer report` draws figures and page later",
    )


def run_experiment(args):
    """Run an experiment."""
    training = {"max_epochs": args.epochs, "patience": args.patience, "normalize": args.normalize}
    training = {name: value for name, value in training.items() if value is not None}
    if args.device != "cpu":
        training["device"] = args.device
    options = _parse_options(args.dataset_option)
    names = (
        "dataset",
        "preset",
        "seed",
        "seeds",
        "search",
        "trials",
        "top",
        "nested",
        "engine",
        "paradigm",
        "others",
    )
    arguments = {name: getattr(args, name) for name in names}
    _run(args, training=training, dataset_options=options, **arguments)
    return 0


def resume_experiment(args):
    """Go on with an experiment."""
    from braindecode_censor.paper.grid import Preset, expand, get_preset
    from braindecode_censor.paper.identity import read_experiment

    known = read_experiment(args.out)["identity"]
    unknown = [name for name in known["others"] if name != "riemann"]
    if known["dataset"] is None or unknown:
        made = (
            "a dataset object" if known["dataset"] is None else f"pipelines of your own, {', '.join(unknown)}"
        )
        raise ValueError(
            f"out={args.out!r} was made with {made}: resume it in Python by calling AutoTransfer with the same "
            "arguments."
        )
    more = get_preset(args.preset).grid if args.preset else ()
    grid = expand([*known["grid"], *(setting.as_dict() for setting in more)])
    _run(
        args,
        dataset=known["dataset"],
        dataset_options=known["dataset_options"],
        paradigm=known["paradigm"],
        preset=Preset(grid, known["training"]),
        seed=known["first_seed"],
        seeds=args.seeds or len(known["seeds"]),
        search=known["search"],
        trials=known["trials"] or 20,
        top=known["top"],
        nested=known["nested"] or args.nested,
        others=known["others"],
        engine=known["engine"],
    )
    return 0


def run_demo(args):
    """Run the whole method on simulated subjects."""
    from braindecode_censor.paper.demo import (
        RECORDED,
        TRAINING,
        compare_on_new_people,
        describe_new_people,
    )
    from braindecode_censor.paper.grid import BASELINE, get_preset

    options = {**RECORDED, "seed": args.seed}
    result = _run(
        args, dataset="simulated", dataset_options=options, training=TRAINING, seed=args.seed, top=1
    )
    if args.json:  # one object, of the experiment
        return 0
    print("\nNow people whom nobody has recorded before ...", flush=True)
    chosen = next((s for s in get_preset("quick").grid if s.name == result.selected), BASELINE)
    scores, best = compare_on_new_people(chosen.parameters(), args.seed, verbose=0 if args.quiet else 1)
    sentence, _, numbers = describe_new_people(scores, best).partition("\n\n")
    print(f"\n{textwrap.fill(sentence, 100)}\n\n{numbers}")
    return 0


def report_experiment(args):
    """Write table and report of a finished experiment anew, from its scores."""
    from braindecode_censor.paper.result import read_result

    _show(args, read_result(Path(args.out)))
    return 0


def _run(args, **arguments):
    from braindecode_censor.paper.experiment import AutoTransfer
    from braindecode_censor.paper.progress import Progress

    names = ("jobs", "backend", "scheduler", "storage")
    machine = {name: getattr(args, name) for name in names}
    experiment = AutoTransfer(out=args.out, **machine, **arguments)
    plan = experiment.plan()
    # With --json, standard output is for the one object.
    print(plan["text"], file=sys.stderr if args.json else sys.stdout, flush=True)
    if getattr(args, "dry_run", False):
        if args.json:
            print(json.dumps({"plan": {k: v for k, v in plan.items() if k != "text"}}))
        return None
    result = experiment.run(Progress(True if args.quiet else None), report=not args.no_report)
    _show(args, result)
    return result


def _show(args, result):
    for note in result.notes:
        print(f"autotransfer: {note}", file=sys.stderr)
    print(json.dumps(result.as_json()) if args.json else result.describe())


def _parse_options(texts):
    options = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ValueError(f"--dataset-option={text!r} must look like key=value.")
        try:
            options[key] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise ValueError(f"--dataset-option={text!r}: {value!r} is no number, word or list.") from None
    return options
