"""``autotransfer fit``, ``predict`` and ``leaderboard``: thin over :class:`AutoTransferClassifier`."""

import argparse
import csv
import json
import sys
from pathlib import Path

_TARGETS = ("none", "unlabeled", "labeled")


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    defaults = argparse.ArgumentDefaultsHelpFormatter
    fit = commands.add_parser(
        "fit",
        help="make a decoder for the next person from a folder of recordings",
        description="Search for the decoder that works best for people it has not seen, and write it to a folder.",
        formatter_class=defaults,
    )
    add = fit.add_argument
    add("--data", required=True, help="folder with one subject_XX.npz or subject_XX-epo.fif per person")
    add("--out", required=True, help="folder for the decoder")
    add("--target", choices=_TARGETS, default="unlabeled", help="what will be known of the person to decode")
    add("--time", default="10m", help="time limit, such as 90s, 10m or 1.5h, or none")
    add(
        "--trainings", type=int, help="number of trainings instead of a time limit; equal runs are then equal"
    )
    add("--candidates", nargs="+", help="names of candidates instead of the whole family")
    add("--jobs", type=int, default=1, help="trainings at a time")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--seed", type=int, default=0, help="seed")
    add("--folder", help="where finished trainings are kept, to go on after a crash")
    add("--quiet", action="store_true", help="no progress bar")
    fit.set_defaults(run=run_fit)
    predict = commands.add_parser("predict", help="decode one person's trials")
    add = predict.add_argument
    add("--decoder", required=True, help="folder that `autotransfer fit` wrote")
    add("--data", required=True, help="file of one person, subject_XX.npz or subject_XX-epo.fif")
    add("--out", help="CSV file for classes and probabilities; the terminal if not given")
    add(
        "--adapt",
        action="store_true",
        help="adapt to the person first, by these trials without their classes",
    )
    add(
        "--stream",
        action="store_true",
        help="adapt trial by trial, as if the trials arrived one after the other",
    )
    predict.set_defaults(run=run_predict)
    board = commands.add_parser("leaderboard", help="what a decoder is made of and what to expect of it")
    board.add_argument("--decoder", required=True, help="folder that `autotransfer fit` wrote")
    board.add_argument("--json", action="store_true", help="print one JSON object")
    board.set_defaults(run=run_leaderboard)


def run_fit(args):
    """Make a decoder."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_people
    from braindecode_censor.decoder.folder import check_free

    check_free(args.out)
    people = read_people(args.data)
    clf = AutoTransferClassifier(
        args.target,
        None if args.time.lower() == "none" else args.time,
        args.device,
        args.seed,
        args.candidates,
        args.jobs,
        args.trainings,
        args.folder,
        sfreq=people.sfreq,
        ch_names=people.ch_names,
        verbose=int(not args.quiet),
    )
    clf.fit(people.X, people.y, subjects=people.subjects).save(args.out)
    _show(clf)
    print(f"\nDecoder: {args.out} (its model card: {Path(args.out) / 'model_card.md'})")
    return 0


def run_predict(args):
    """Decode one person's trials."""
    from braindecode_censor.decoder.classifier import AutoTransferClassifier
    from braindecode_censor.decoder.files import read_person

    if args.adapt and args.stream:
        raise ValueError("--adapt looks at all trials first, --stream at none before its time: choose one.")
    clf = AutoTransferClassifier.load(args.decoder)
    X, _ = read_person(args.data, clf.input_)
    decoder = clf.adapt(X) if args.adapt else clf.stream() if args.stream else clf
    probabilities = decoder.predict_proba(X)
    file = sys.stdout if args.out is None else open(args.out, "w", newline="")  # noqa: SIM115
    try:
        writer = csv.writer(file)
        writer.writerow(["trial", "y", *(f"p_{name}" for name in clf.classes_)])
        for k, row in enumerate(probabilities):
            writer.writerow([k, clf.classes_[row.argmax()], *(f"{p:.6f}" for p in row)])
    finally:
        if args.out is not None:
            file.close()
    return 0


def run_leaderboard(args):
    """Show what a decoder is made of."""
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
    print(f"Expected of the next person: {clf.heldout_}.\n")
    formats = {name: "{:.3f}".format for name in ("mean", "lower_quartile")} | {"weight": "{:.2f}".format}
    formats |= {"seconds": "{:.0f}".format, "trainings": "{:.0f}".format}
    print(clf.leaderboard_.to_string(index=False, formatters=formats, na_rep=""))
