"""Subcommands of the shell and their help."""

import argparse

#: Arguments of an option that is a number.
NUMBER = {"type": int, "metavar": "N"}


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show defaults where there are any."""

    def _get_help_string(self, action):
        has_default = isinstance(action.default, str | int) and not isinstance(action.default, bool)
        return super()._get_help_string(action) if has_default else action.help


def add_command(commands, run, name, help, description=None, epilog=None):
    """Add a subcommand that calls `run`; return the function that adds options to it."""
    description = description or f"{help[0].upper()}{help[1:]}."
    texts = {"help": help, "description": description, "epilog": epilog}
    parser = commands.add_parser(name, formatter_class=HelpFormatter, **texts)
    parser.set_defaults(run=run)
    return parser.add_argument
