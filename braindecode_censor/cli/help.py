"""The help of the shell."""

import argparse


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show defaults where there are any."""

    def _get_help_string(self, action):
        has_default = isinstance(action.default, str | int) and not isinstance(action.default, bool)
        return super()._get_help_string(action) if has_default else action.help
