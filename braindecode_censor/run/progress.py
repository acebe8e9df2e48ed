"""Progress of some work: a bar on a terminal, elsewhere a plain line about once a minute."""

import sys
import time

from tqdm import tqdm

__all__ = ["Progress"]

_INTERVAL = 60.0  # seconds between two lines where there is no terminal


class Progress:
    """Show how much of some work is done, and a note such as the best result so far.

    Parameters
    ----------
    total : float or None
        All of the work, or None.
    unit : str
        What is counted, such as "training" or "s".
    description : str
        Name of the work.
    quiet : bool
        Show nothing.
    """

    def __init__(self, total=None, unit="training", description="", quiet=False):
        terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=total, unit=unit, desc=description, disable=quiet or not terminal, file=sys.stderr
        )
        self._with_lines = not quiet and not terminal
        self._text = f"{description}: {{}}{'' if total is None else f' of {total}'} {unit}"
        self._last, self._done = time.monotonic(), 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._bar.close()

    def update(self, done, note=""):
        """Show how much is done so far (not since the last call), and a note."""
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        if self._with_lines and time.monotonic() - self._last >= _INTERVAL:
            self._last = time.monotonic()
            print(self._text.format(done) + (f", {note}" if note else ""), file=sys.stderr, flush=True)
