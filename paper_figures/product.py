"""Figures with their numbers, and tables. The same results give the same bytes."""

import argparse
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from braindecode_censor.figures.folder import Missing, read_results
from braindecode_censor.figures.style import style
from braindecode_censor.storage.files import write_atomically

__all__ = ["Plot", "Table", "make", "render", "run_script"]


def render(figure):
    """Return the bytes of a figure as PDF and as PNG; call it within the style that the figure was drawn in."""
    # The layout takes most of the time, so it is computed once for both files.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    # Without dates and versions the same results give the same bytes.
    metadata = {"pdf": {"CreationDate": None, "Producer": None}, "png": {"Software": None}}
    files = {}
    for ending, fields in metadata.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, metadata=fields)
        files[ending] = buffer.getvalue()
    return files


@dataclass(frozen=True)
class Plot:
    """A figure."""

    name: str
    title: str
    caption: str
    numbers: Callable  # results -> frame or None
    draw: Callable  # frame -> figure
    section: str = "Results"  # of the report

    def figure(self, results):
        """Return the figure."""
        with style():
            return self.draw(self.numbers(results))

    def write(self, results, folder):
        """Write PDF, PNG and, if there are any, the numbers."""
        numbers = self.numbers(results)
        files = {} if numbers is None else {"csv": numbers.to_csv(index=False).encode()}
        with style():
            files |= render(self.draw(numbers))
        return _write(files, folder, self.name)


@dataclass(frozen=True)
class Table:
    """A table."""

    name: str
    title: str
    caption: str
    rows: Callable  # results -> frame
    latex: Callable  # frame -> text

    def write(self, results, folder):
        """Write CSV and LaTeX."""
        rows = self.rows(results)
        files = {"csv": rows.to_csv(index=False).encode(), "tex": self.latex(rows).encode()}
        return _write(files, folder, self.name)


def _write(files, folder, name):
    for ending, content in files.items():
        write_atomically(folder / f"{name}.{ending}", content)
    return [folder / f"{name}.{ending}" for ending in files]


def make(products, results, folder):
    """Write the figures and tables whose data exist; return the paths, and the reasons of the others by name."""
    written, missing = [], {}
    for product in products:
        try:
            written += product.write(results, folder)
        except Missing as reason:
            missing[product.name] = str(reason)
            for ending in ("pdf", "png", "csv", "tex"):
                (folder / f"{product.name}.{ending}").unlink(missing_ok=True)
    return written, missing


def run_script(description, *products):
    """Run the command line of a script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("demo_results"), help="folder of results")
    parser.add_argument("--out", type=Path, help="folder for figures; RESULTS/figures if not given")
    args = parser.parse_args()
    try:
        results = read_results(args.results)
    except Missing as reason:
        sys.exit(f"{parser.prog}: {reason}")
    for note in results.notes:
        print(f"note: {note}")
    written, missing = make(products, results, args.out or args.results / "figures")
    for path in written:
        print(path)
    for name, reason in missing.items():
        print(f"{name}: not drawn: {reason}")
