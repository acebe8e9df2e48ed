"""How far it is, how long it still takes, and what is best so far; silent when nobody watches."""

import sys
from contextlib import contextmanager

from tqdm import tqdm

__all__ = ["Progress", "best_so_far"]


class Progress:
    """A bar per stage on a terminal."""

    def __init__(self, quiet=None):
        self.quiet = not sys.stderr.isatty() if quiet is None else quiet
        self._bar = None

    @contextmanager
    def stage(self, name, total):
        """Show a bar for a number of trainings."""
        found = {}
        with tqdm(total=total, desc=name, unit="training", disable=self.quiet, file=sys.stderr) as self._bar:

            def report(job, record):
                if "valid_score" in record:
                    found.setdefault(job.setting.name, []).append(record["valid_score"])
                self._bar.set_postfix_str(best_so_far(found), refresh=False)
                self._bar.update()

            yield report

    def say(self, text):
        """Print a line to standard error without tearing the bar."""
        tqdm.write(text, file=sys.stderr)

    def close(self):
        """End the bar, also after an error."""
        if self._bar is not None:
            self._bar.close()


def best_so_far(found):
    """Say which setting is best on average."""
    if not found:
        return ""
    most = max(map(len, found.values()))
    means = {name: sum(scores) / most for name, scores in found.items() if len(scores) == most}
    best = max(means, key=means.get)
    return f"best so far {best} ({means[best]:.3f} over {most} fold{'s' if most > 1 else ''})"
