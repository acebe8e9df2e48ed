"""``autotransfer run``, ``resume``, ``demo`` and ``report``: thin over :class:`AutoTransfer`."""

import inspect
import json
import sys
import textwrap
from pathlib import Path

import yaml

from braindecode_censor.cli.help import NUMBER, add_command


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    description = (
        "Train the grid on one split, cross-validate the best configurations of each method with MOABB, and select "
        "one. Every finished training is stored at once: after a crash, the same command or "
        "`autotransfer resume --out DIR` continues."
    )
    add = add_command(commands, run_experiment, "run", "run the paper's experiment on a dataset", description)
    _add_experiment(add)
    _add_machine(add)
    title = "continue an experiment, or add seeds and configurations to it"
    description = "Continue an experiment, or add to a finished one. Finished trainings are not repeated."
    add = add_command(commands, resume_experiment, "resume", title, description)
    add("--seeds", dest="n_seeds", **NUMBER, help="total number of seeds")
    add("--preset", help="configurations to add: quick, paper, or a YAML file")
    _add_machine(add)
    title = "run everything on simulated subjects, in minutes"
    description = "Run the paper's experiment on simulated subjects, then decode new subjects in four ways."
    add = add_command(commands, run_demo, "demo", title, description)
    add("--seed", dest="random_state", default=0, **NUMBER, help="random seed")
    _add_machine(add, "demo_results")
    title = "write the tables and the report of a finished experiment again"
    add = add_command(commands, report_experiment, "report", title)
    add("--out", required=True, metavar="DIR", help="folder of the experiment")
    add("--json", action="store_true", help="print one JSON object")


# Options are stored under the names of AutoTransfer's arguments, so that _run can pass them on.
def _add_experiment(add):
    add("--dataset", default="simulated", help="name (see `autotransfer datasets`) or folder of epochs")
    add("--dataset-option", action="append", default=[], metavar="KEY=VALUE", help="option of the dataset")
    add("--preset", default="quick", help="quick, paper, or a YAML file: grid and training options")
    add("--seed", dest="random_state", default=0, **NUMBER, help="first random seed")
    add("--seeds", dest="n_seeds", default=1, **NUMBER, help="number of seeds; one cannot show a gain")
    add("--search", choices=["grid", "optuna"], default="grid", help="all configurations, or those of Optuna")
    add("--optuna-trials", dest="n_optuna_trials", default=20, **NUMBER, help="Optuna's trials per method")
    add("--top", dest="n_top", default=3, **NUMBER, help="configurations of each method to cross-validate")
    add("--epochs", **NUMBER, help="maximum number of epochs")
    add("--patience", **NUMBER, help="epochs without progress before a training stops")
    add("--normalize", help="normalisation of the trials")
    add("--device", default="cpu", help="cpu or cuda; on a GPU many trainings run as one")
    add("--paradigm", help="MOABB paradigm, such as P300 (default: the dataset's)")
    add("--others", action="append", choices=["riemann"], help="also evaluate this classical pipeline")
    add("--dry-run", action="store_true", help="print the plan and its duration, and train nothing")


def _add_machine(add, out=None):
    add("--out", required=out is None, default=out, metavar="DIR", help="folder of results")
    add("--jobs", dest="n_jobs", default=1, **NUMBER, help="trainings at a time on this machine")
    add("--scheduler", metavar="ADDRESS", help="Dask scheduler to train on, such as tcp://10.0.0.1:8786")
    add("--storage", metavar="ADDRESS", help="database for Optuna, such as postgresql://host/name")
    add("--json", action="store_true", help="print one JSON object and nothing else to standard output")
    add("--quiet", action="store_true", help="show no progress")
    add("--no-report", action="store_true", help="write tables only; `autotransfer report` adds the report")


def run_experiment(args):
    """Run an experiment."""
    training = {"max_epochs": args.epochs, "patience": args.patience, "normalize": args.normalize}
    training = {name: value for name, value in training.items() if value is not None}
    if args.device != "cpu":
        training["device"] = args.device
    _run(args, dataset_options=_parse_options(args.dataset_option), training=training)
    return 0


def resume_experiment(args):
    """Continue an experiment."""
    from braindecode_censor.paper.grid import Preset, expand, get_preset
    from braindecode_censor.paper.identity import read_experiment

    identity = read_experiment(args.out)["identity"]
    if identity["dataset"] is None or set(identity["others"]) - {"riemann"}:
        raise ValueError(
            f"out={args.out!r} was made with a dataset object or with your own pipelines: resume it in Python by "
            "calling AutoTransfer with the same arguments."
        )
    new_configs = get_preset(args.preset).grid if args.preset else ()
    grid = expand([*identity["grid"], *(config.as_dict() for config in new_configs)])
    names = ("dataset", "dataset_options", "paradigm", "search", "n_top", "others")
    arguments = {name: identity[name] for name in names}
    _run(
        args,
        **arguments,
        preset=Preset(grid, identity["training"]),
        random_state=identity["first_seed"],
        n_seeds=args.n_seeds or len(identity["seeds"]),
        n_optuna_trials=identity["n_optuna_trials"] or 20,
    )
    return 0


def run_demo(args):
    """Run the experiment and the search on simulated subjects."""
    from braindecode_censor.live.demo import decode_on_loopback
    from braindecode_censor.paper import demo

    result, parameters = _run(
        args,
        extra_seconds=demo.estimate_seconds(not args.no_report, args.json),
        dataset="simulated",
        dataset_options={**demo.RECORDED, "seed": args.random_state},
        training=demo.TRAINING,
        n_top=1,
    )
    if args.json:  # One object, of the experiment.
        return 0
    print("\nNow subjects who were not in the training data ...", flush=True)
    arguments = parameters[result.selected]
    scores, best, live = demo.compare_on_new_subjects(arguments, args.random_state, int(not args.quiet))
    sentence, _, numbers = demo.describe_new_subjects(scores, best).partition("\n\n")
    print(f"\n{textwrap.fill(sentence, 100)}\n\n{numbers}")
    print("\nNow the last of them live, from trials that arrive over Lab Streaming Layer ...", flush=True)
    decode_on_loopback(*live)
    return 0


def report_experiment(args):
    """Write the tables and the report of a finished experiment again, from its scores."""
    from braindecode_censor.paper.result import read_result

    _show(args, read_result(Path(args.out)))
    return 0


def _run(args, extra_seconds=None, **arguments):
    """Run an experiment; return its result and the arguments of the classifier by configuration."""
    from braindecode_censor.paper.experiment import AutoTransfer
    from braindecode_censor.paper.plan import format_seconds

    names = inspect.signature(AutoTransfer).parameters
    arguments = {name: value for name, value in vars(args).items() if name in names} | arguments
    experiment = AutoTransfer(**arguments | ({"search": args.storage} if args.storage else {}))
    # With --json, standard output is for the one object.
    stream = sys.stderr if args.json else sys.stdout
    if extra_seconds is not None:
        print("Simulating subjects, and timing an epoch of every method ...", file=stream, flush=True)
    plan = experiment.plan()
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
