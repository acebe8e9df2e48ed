"""``autotransfer fit``, ``predict`` and ``leaderboard``: thin over :class:`AutoTransferClassifier`."""

import csv
import json
import sys
import textwrap
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path

import yaml

from braindecode_censor.cli.help import HelpFormatter


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    fit = commands.add_parser(
        "fit",
        help="fit a decoder for new subjects to a folder of recordings",
        description="Search for the decoder that works best on held-out subjects, and write it to a folder.",
        epilog=f"Default candidates: {', '.join(_default_candidates())}; subject+mmd-conditional is one with "
        "censoring, and censored is the best network with each method and mode.",
        formatter_class=HelpFormatter,
    )
    add = fit.add_argument
    add("--data", required=True, help="folder with one subject_XX.npz or subject_XX-epo.fif per subject")
    add("--out", required=True, help="folder for the decoder")
    add(
        "--target",
        choices=("none", "unlabeled", "labeled"),
        default="unlabeled",
        help="trials that will be available of a new subject before it is decoded",
    )
    add("--time", default="10m", help="time limit, such as 90s, 10m or 1.5h, or none")
    add(
        "--trainings", type=int, help="maximum number of trainings instead of a time limit, for equal results"
    )
    add("--candidates", nargs="+", metavar="NAME", help="candidates to search (default: all of those below)")
    add("--jobs", type=int, default=1, help="number of trainings at a time")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--seed", type=int, default=0, help="random seed")
    add("--folder", help="folder for finished trainings, from which the same command continues after a crash")
    add("--quiet", action="store_true", help="show no progress")
    fit.set_defaults(run=run_fit)
    predict = commands.add_parser("predict", help="decode the trials of one subject")
    add = predict.add_argument
    add("--decoder", required=True, help="folder written by `autotransfer fit`")
    add("--data", required=True, help="file of one subject, subject_XX.npz or subject_XX-epo.fif")
    add("--out", help="CSV file for predictions and probabilities (default: the terminal)")
    add(
        "--adapt",
        action="store_true",
        help="adapt to the subject first, using all trials without their labels",
    )
    add("--stream", action="store_true", help="adapt trial by trial, using earlier trials only")
    predict.set_defaults(run=run_predict)
    board = commands.add_parser("leaderboard", help="show the candidates and the expected score of a decoder")
    board.add_argument("--decoder", required=True, help="folder written by `autotransfer fit`")
    board.add_argument("--json", action="store_true", help="print one JSON object")
    board.set_defaults(run=run_leaderboard)


def _default_candidates():
    # The file is read without the module beside it, whose import of Braindecode takes seconds.
    return yaml.safe_load(files("braindecode_censor.search").joinpath("family.yml").read_text())["candidates"]


def run_fit(args):
    """Fit a decoder."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_folder
    from braindecode_censor.decoder.folder import check_free

    check_free(args.out)
    data = read_folder(args.data)
    clf = AutoTransferClassifier(
        target=args.target,
        time_limit=None if args.time.lower() == "none" else args.time,
        device=args.device,
        random_state=args.seed,
        candidates=args.candidates,
        n_jobs=args.jobs,
        max_trainings=args.trainings,
        folder=args.folder,
        sfreq=data.sfreq,
        ch_names=data.ch_names,
        verbose=int(not args.quiet),
    )
    clf.fit(data.X, data.y, subjects=data.subjects).save(args.out)
    _show(clf)
    print(f"\nDecoder: {args.out} (its model card: {Path(args.out) / 'model_card.md'})")
    return 0


def run_predict(args):
    """Decode the trials of one subject."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_file

    if args.adapt and args.stream:
        raise ValueError("--adapt uses all trials at once, --stream earlier trials only: choose one.")
    clf = AutoTransferClassifier.load(args.decoder)
    X, _ = read_file(args.data, clf.input_)
    decoder = clf.adapt(X) if args.adapt else clf.stream() if args.stream else clf
    probabilities = decoder.predict_proba(X)
    with nullcontext(sys.stdout) if args.out is None else open(args.out, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "prediction", *(f"p_{name}" for name in clf.classes_)])
        for k, row in enumerate(probabilities):
            writer.writerow([k, clf.classes_[row.argmax()], *(f"{p:.6f}" for p in row)])
    return 0


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
    print(textwrap.fill(f"Held-out subjects: {clf.heldout_}.", 100) + "\n")
    formats = {name: "{:.3f}".format for name in ("mean", "lower_quartile")} | {"weight": "{:.2f}".format}
    formats |= {"seconds": "{:.0f}".format, "trainings": "{:.0f}".format}
    print(clf.leaderboard_.to_string(index=False, formatters=formats, na_rep=""))
