"""How far it is, how long it still takes, and what is best so far; silent when nobody watches."""

import sys
from contextlib import contextmanager

from tqdm import tqdm

__all__ = ["Progress"]


class Progress:
    """A bar per stage on a terminal.

    Parameters
    ----------
    quiet : bool or None
        Whether to show nothing; None is quiet unless standard error is a terminal.
    """

    def __init__(self, quiet=None):
        self.quiet = not sys.stderr.isatty() if quiet is None else quiet
        self._bar = None

    @contextmanager
    def stage(self, name, total):
        """Show a bar for a number of trainings.

        Parameters
        ----------
        name : str
            What is going on.
        total : int
            Number of trainings.

        Yields
        ------
        report : callable
            To be called with every job and its record.
        """
        best = (0.0, "")
        with tqdm(total=total, desc=name, unit="training", disable=self.quiet, file=sys.stderr) as self._bar:

            def report(job, record):
                nonlocal best
                best = max(best, (record.get("valid_score", 0.0), job.setting.name))
                self._bar.set_postfix_str(f"best so far {best[1]} ({best[0]:.3f})", refresh=False)
                self._bar.update()

            yield report

    def say(self, text):
        """Print a line to standard error without tearing the bar.

        Parameters
        ----------
        text : str
            The line.
        """
        tqdm.write(text, file=sys.stderr)

    def close(self):
        """End the bar, also after an error."""
        if self._bar is not None:
            self._bar.close()
