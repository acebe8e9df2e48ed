"""``autotransfer run``, ``resume``, ``demo`` and ``report``: thin over :class:`AutoTransfer`."""

import json
import sys
import textwrap
from pathlib import Path

import yaml

from braindecode_censor.cli.help import HelpFormatter


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    run = commands.add_parser(
        "run",
        help="run the paper's experiment on a dataset",
        description="Train the grid on one split, cross-validate the best three configurations of each method with "
        "MOABB, and select one. Every finished training is stored at once: after a crash, the same command or "
        "`autotransfer resume --out DIR` continues.",
        formatter_class=HelpFormatter,
    )
    _add_experiment(run)
    _add_machine(run)
    run.set_defaults(run=run_experiment)
    resume = commands.add_parser(
        "resume",
        help="continue an experiment, or add seeds and configurations to it",
        description="Continue an experiment. --seeds and --preset add to it, finished or not: only new trainings "
        "are done.",
    )
    resume.add_argument("--seeds", type=int, help="total number of seeds")
    resume.add_argument("--preset", help="quick, paper, or a YAML file: configurations to add")
    _add_machine(resume)
    resume.set_defaults(run=resume_experiment)
    demo = commands.add_parser("demo", help="run everything on simulated subjects, in minutes")
    demo.add_argument("--seed", type=int, default=0, help="random seed")
    _add_machine(demo, "demo_results")
    demo.set_defaults(run=run_demo)
    report = commands.add_parser(
        "report", help="write the table and the report of a finished experiment again"
    )
    report.add_argument("--out", required=True, help="folder of the experiment")
    report.add_argument("--json", action="store_true", help="print one JSON object")
    report.set_defaults(run=report_experiment)


def _add_experiment(parser):
    add = parser.add_argument
    add("--dataset", default="simulated", help="name (see `autotransfer datasets`) or folder of epochs")
    add("--dataset-option", action="append", default=[], metavar="KEY=VALUE", help="option of the dataset")
    add("--preset", default="quick", help="quick, paper, or a YAML file with a grid of your own")
    add("--seed", type=int, default=0, help="first random seed")
    add("--seeds", type=int, default=1, help="number of seeds; one seed cannot separate a gain from chance")
    add(
        "--search",
        choices=["grid", "optuna"],
        default="grid",
        help="all configurations, or Optuna's proposals",
    )
    add("--optuna-trials", type=int, default=20, help="Optuna's trials per method")
    add("--top", type=int, default=3, help="configurations of each method that are cross-validated")
    add("--epochs", type=int, help="maximum number of epochs (default: the preset's)")
    add(
        "--patience", type=int, help="epochs without progress before a training stops (default: the preset's)"
    )
    add("--device", default="cpu", help="cpu or cuda; on a GPU many trainings run as one")
    add("--paradigm", help="MOABB paradigm, e.g. P300 (default: from the dataset)")
    add("--normalize", help="normalisation of the trials, see CensoredEEGClassifier (default: the preset's)")
    add(
        "--others",
        action="append",
        default=[],
        choices=["riemann"],
        help="also evaluate this classical pipeline",
    )
    add("--dry-run", action="store_true", help="print the plan and the time it takes, and train nothing")


def _add_machine(parser, out=None):
    add = parser.add_argument
    add("--out", required=out is None, default=out, help="folder for results")
    add("--jobs", type=int, default=1, help="number of trainings at a time on this machine")
    add("--scheduler", help="address of a Dask scheduler to train on, such as tcp://10.0.0.1:8786")
    add("--storage", help="database of Optuna's search for several machines, such as postgresql://host/name")
    add("--json", action="store_true", help="print one JSON object to standard output and nothing else")
    add("--quiet", action="store_true", help="show no progress")
    add("--no-report", action="store_true", help="write tables only; `autotransfer report` adds the report")


def run_experiment(args):
    """Run an experiment."""
    training = {"max_epochs": args.epochs, "patience": args.patience, "normalize": args.normalize}
    training = {name: value for name, value in training.items() if value is not None}
    if args.device != "cpu":
        training["device"] = args.device
    _run(
        args,
        dataset=args.dataset,
        dataset_options=_parse_options(args.dataset_option),
        preset=args.preset,
        random_state=args.seed,
        n_seeds=args.seeds,
        search=args.search,
        n_optuna_trials=args.optuna_trials,
        n_top=args.top,
        paradigm=args.paradigm,
        training=training,
        others=args.others,
    )
    return 0


def resume_experiment(args):
    """Continue an experiment."""
    from braindecode_censor.paper.grid import Preset, expand, get_preset
    from braindecode_censor.paper.identity import read_experiment

    identity = read_experiment(args.out)["identity"]
    other_names = [name for name in identity["others"] if name != "riemann"]
    if identity["dataset"] is None or other_names:
        objects = f"pipelines of your own, {', '.join(other_names)}" if other_names else "a dataset object"
        raise ValueError(
            f"out={args.out!r} was made with {objects}: resume it in Python by calling AutoTransfer with the same "
            "arguments."
        )
    new_configs = get_preset(args.preset).grid if args.preset else ()
    grid = expand([*identity["grid"], *(config.as_dict() for config in new_configs)])
    _run(
        args,
        dataset=identity["dataset"],
        dataset_options=identity["dataset_options"],
        paradigm=identity["paradigm"],
        preset=Preset(grid, identity["training"]),
        random_state=identity["first_seed"],
        n_seeds=args.seeds or len(identity["seeds"]),
        search=identity["search"],
        n_optuna_trials=identity["n_optuna_trials"] or 20,
        n_top=identity["n_top"],
        others=identity["others"],
    )
    return 0


def run_demo(args):
    """Run the experiment and the search on simulated subjects."""
    from braindecode_censor.paper import demo

    result, parameters = _run(
        args,
        extra_seconds=demo.estimate_seconds(not args.no_report, args.json),
        dataset="simulated",
        dataset_options={**demo.RECORDED, "seed": args.seed},
        training=demo.TRAINING,
        random_state=args.seed,
        n_top=1,
    )
    if args.json:  # One object, of the experiment.
        return 0
    print("\nNow subjects who were not in the training data ...", flush=True)
    verbose = int(not args.quiet)
    scores, best = demo.compare_on_new_subjects(parameters[result.selected], args.seed, verbose=verbose)
    sentence, _, numbers = demo.describe_new_subjects(scores, best).partition("\n\n")
    print(f"\n{textwrap.fill(sentence, 100)}\n\n{numbers}")
    return 0


def report_experiment(args):
    """Write table and report of a finished experiment again, from its scores."""
    from braindecode_censor.paper.result import read_result

    _show(args, read_result(Path(args.out)))
    return 0


def _run(args, extra_seconds=None, **arguments):
    """Run an experiment; return its result and the arguments of the classifier by configuration."""
    from braindecode_censor.paper.experiment import AutoTransfer
    from braindecode_censor.paper.plan import format_seconds

    if args.storage:
        arguments["search"] = args.storage
    experiment = AutoTransfer(out=args.out, n_jobs=args.jobs, scheduler=args.scheduler, **arguments)
    plan = experiment.plan()
    # With --json, standard output is for the one object.
    stream = sys.stderr if args.json else sys.stdout
    if extra_seconds is not None:
        total = format_seconds(plan["seconds"] + extra_seconds)
        print(f"The demonstration takes about {total} on this machine.", file=stream)
    print(plan["text"], file=stream, flush=True)
    if getattr(args, "dry_run", False):
        if args.json:
            print(json.dumps({"plan": {key: value for key, value in plan.items() if key != "text"}}))
        return None, None
    result = experiment.run(report=not args.no_report, verbose=int(not args.quiet))
    _show(args, result)
    return result, {config.name: config.parameters() for config in experiment.preset.grid}


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
