"""The command ``autotransfer``: one function per subcommand, each thin over the library."""

import argparse
import sys

from braindecode_censor._version import __version__
from braindecode_censor.autotransfer import cli_datasets


def build_parser():
    """Return the argument parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="autotransfer", description="Make a decoder work on people it has never seen."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    cli_datasets.add_command(commands)
    return parser


def main(argv=None):
    """Run one subcommand.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process when omitted.

    Returns
    -------
    code : int
        Exit code.
    """
    args = build_parser().parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
