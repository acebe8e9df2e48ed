"""The command ``autotransfer``: one function per subcommand, each thin over the library."""

import argparse
import os
import sys
import warnings
from contextlib import contextmanager

from braindecode_censor._version import __version__
from braindecode_censor.cli import datasets, decoder, experiment, live, pipelines


def build_parser():
    """Return the argument parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="autotransfer", description="Decode subjects who were not in the training data."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (decoder, live, experiment, datasets, pipelines):
        module.add_commands(commands)
    return parser


def main(argv=None):
    """Run one subcommand."""
    args = build_parser().parse_args(argv)
    try:
        with hide_foreign_warnings():
            return args.run(args)
    except (ValueError, OSError) as error:
        print(f"autotransfer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        remedy = "the same command continues, except for `fit` without --folder, which starts again"
        print(f"autotransfer: interrupted; {remedy}", file=sys.stderr)
        return 130


@contextmanager
def hide_foreign_warnings():
    """Show the warnings of this package as sentences, and hide those that a user of the shell cannot act on."""
    # Worker processes start with these; MNE reads its own when it is imported.
    wanted = {"PYTHONWARNINGS": "ignore", "MNE_LOGGING_LEVEL": "ERROR"}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("default", module="braindecode_censor")
            warnings.showwarning = lambda message, *_: print(f"autotransfer: {message}", file=sys.stderr)
            yield
    finally:
        for name in added:
            del os.environ[name]


if __name__ == "__main__":
    sys.exit(main())
