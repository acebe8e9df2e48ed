"""The command ``autotransfer``: one function per subcommand, each thin over the library."""

import argparse
import os
import sys
import warnings
from contextlib import contextmanager

from braindecode_censor._version import __version__
from braindecode_censor.cli import cli_fit, cli_pipelines, cli_run
from braindecode_censor.cli import datasets as cli_datasets


def build_parser():
    """Return the argument parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="autotransfer", description="Make a decoder work on people it has never seen."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    cli_fit.add_commands(commands)
    cli_run.add_commands(commands)
    cli_datasets.add_command(commands)
    cli_pipelines.add_command(commands)
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
        print(f"autotransfer: interrupted; {_how_to_go_on(args.command)}", file=sys.stderr)
        return 130


def _how_to_go_on(command):
    if command in ("fit", "predict", "leaderboard"):
        return "run the same command again; `fit --folder DIR` keeps finished trainings"
    return "`autotransfer resume` goes on with what is left"


@contextmanager
def hide_foreign_warnings():
    """Show this package's warnings, as sentences, and nobody else's: a user of the shell can do nothing about those."""
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
