"""``autotransfer fit``, ``predict`` and ``leaderboard``: thin over :class:`AutoTransferClassifier`."""

import csv
import inspect
import json
import sys
import textwrap
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path

import yaml

from braindecode_censor.cli.help import NUMBER, add_command


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    title = "fit a decoder for new subjects to a folder of recordings"
    description = "Search for the decoder that works best on held-out subjects, and write it to a folder."
    epilog = (
        f"Default candidates: {', '.join(_default_candidates())}; subject+mmd-conditional is one with censoring, and "
        "censored is the best network with each method and mode."
    )
    add = add_command(commands, run_fit, "fit", title, description, epilog)
    # Options are stored under the names of AutoTransferClassifier's arguments, so that run_fit can pass them on.
    add("--data", required=True, metavar="DIR", help="folder of subject_XX.npz or subject_XX-epo.fif")
    add("--out", required=True, metavar="DIR", help="folder to write the decoder to")
    add("--overwrite", action="store_true", help="replace an older decoder in that folder")
    target = "trials that will be available of a new subject before it is decoded"
    add("--target", choices=("none", "unlabeled", "labeled"), default="unlabeled", help=target)
    add("--time", dest="time_limit", default="10m", metavar="T", help="such as 90s, 10m, 1.5h, or none")
    add("--trainings", dest="max_trainings", **NUMBER, help="number of trainings instead of a time limit")
    add("--candidates", nargs="+", metavar="NAME", help="candidates to search (default: all of those below)")
    add("--jobs", dest="n_jobs", default=1, **NUMBER, help="number of trainings at a time")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--seed", dest="random_state", default=0, **NUMBER, help="random seed")
    add("--folder", metavar="DIR", help="store finished trainings here, to continue after a crash")
    add("--quiet", action="store_true", help="show no progress")
    add = add_command(commands, run_predict, "predict", "decode the trials of one subject")
    add("--decoder", required=True, metavar="DIR", help="folder written by `autotransfer fit`")
    add("--data", required=True, metavar="FILE", help="subject_XX.npz or subject_XX-epo.fif of one subject")
    add("--out", metavar="FILE", help="CSV file for predictions and probabilities (default: the terminal)")
    add("--adapt", action="store_true", help="adapt to the subject first, by all trials without their labels")
    add("--stream", action="store_true", help="adapt trial by trial, by earlier trials only")
    add("--labels", metavar="FILE", help="adapt by a file of labelled trials of the same subject")
    title = "show the candidates and the expected score of a decoder"
    add = add_command(commands, run_leaderboard, "leaderboard", title)
    add("--decoder", required=True, metavar="DIR", help="folder written by `autotransfer fit`")
    add("--json", action="store_true", help="print one JSON object")


def _default_candidates():
    # The file is read without the module beside it, whose import of Braindecode takes seconds.
    return yaml.safe_load(files("braindecode_censor.search").joinpath("family.yml").read_text())["candidates"]


def run_fit(args):
    """Fit a decoder."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_folder
    from braindecode_censor.decoder.folder import check_free

    check_free(args.out, args.overwrite)
    data = read_folder(args.data)
    names = inspect.signature(AutoTransferClassifier).parameters
    arguments = {name: value for name, value in vars(args).items() if name in names}
    if args.time_limit.lower() == "none":
        arguments["time_limit"] = None
    clf = AutoTransferClassifier(
        **arguments, sfreq=data.sfreq, ch_names=data.ch_names, verbose=int(not args.quiet)
    )
    clf.fit(data.X, data.y, subjects=data.subjects).save(args.out, args.overwrite)
    report = Path(args.out) / "report.html"
    clf.report(report)
    _show(clf)
    print(f"\nDecoder: {args.out} (its report: {report})")
    return 0


def run_predict(args):
    """Decode the trials of one subject."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_file

    if args.adapt + args.stream + (args.labels is not None) > 1:
        raise ValueError(
            "--adapt takes all trials, --stream earlier ones, --labels those of a file: choose one."
        )
    if args.out is not None:
        _check_output(args.out, args.data, args.decoder, args.labels)
    clf = AutoTransferClassifier.load(args.decoder)
    X, _ = read_file(args.data, clf.input_)
    if args.labels is not None:
        classes = {str(name): name for name in clf.classes_.tolist()}  # Files hold classes as text.
        X_labeled, y = read_file(args.labels, clf.input_)
        decoder = clf.adapt(X_labeled, [classes.get(str(name), str(name)) for name in y])
    else:
        decoder = clf.adapt(X) if args.adapt else clf.stream() if args.stream else clf
    probabilities = decoder.predict_proba(X)
    with nullcontext(sys.stdout) if args.out is None else open(args.out, "w", newline="") as file:
        writer = csv.writer(file)
        classes = [_escape(name) for name in clf.classes_.tolist()]
        writer.writerow(["trial", "prediction", *(f"p_{name}" for name in classes)])
        for k, row in enumerate(probabilities):
            writer.writerow([k, classes[row.argmax()], *(f"{p:.6f}" for p in row)])
    return 0


def _check_output(out, *inputs):
    """Raise, before anything is computed, for a file that must not be overwritten."""
    path = Path(out).resolve()
    if not {Path(name).resolve() for name in inputs if name}.isdisjoint((path, *path.parents)):
        raise ValueError(f"--out {out} would overwrite the data or the decoder: choose another file.")


def _escape(name):
    """Return a name that neither controls a terminal nor is a formula in a spreadsheet."""
    text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(name))
    return f"'{text}" if isinstance(name, str) and text.startswith(tuple("=+-@")) else text


def run_leaderboard(args):
    """Show the candidates and the expected score of a decoder."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier

    clf = AutoTransferClassifier.load(args.decoder, device="cpu")
    if args.json:
        heldout = vars(clf.heldout_) | {"scores": {str(k): v for k, v in clf.heldout_.scores.items()}}
        board = json.loads(clf.leaderboard_.to_json(orient="records"))
        print(json.dumps({"leaderboard": board, "heldout": heldout}))
    else:
        _show(clf)
    return 0


def _show(clf):
    print(textwrap.fill(_escape(f"Held-out subjects: {clf.heldout_}."), 100) + "\n")
    formats = {name: "{:.3f}".format for name in ("mean", "lower_quartile")} | {"weight": "{:.2f}".format}
    formats |= {"seconds": "{:.0f}".format, "trainings": "{:.0f}".format}
    print(_escape(clf.leaderboard_.to_string(index=False, formatters=formats, na_rep="")))
