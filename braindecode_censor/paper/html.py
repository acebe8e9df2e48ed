"""Pieces of the report's HTML. Whatever comes from data is escaped here and nowhere else."""

import html
import math
from numbers import Number

from pandas.api.types import is_bool_dtype, is_numeric_dtype

__all__ = ["code", "facts", "folded", "items", "paragraph", "table"]


def text(value):
    """Return a value as HTML text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{round(value, 3) + 0.0:.3f}"  # no minus before a zero
    return html.escape(str(value))


def paragraph(words):
    """Return a paragraph."""
    return f"<p>{text(words)}</p>"


def items(lines, kind="list"):
    """Return a list."""
    return f'<ul class="{kind}">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>'


def code(lines):
    """Return a block of code."""
    return f'<pre class="border p-2 bg-light"><code>{html.escape(lines)}</code></pre>'


def facts(values, name):
    """Return a table of names and values."""
    rows = "".join(f"<tr><th>{text(key)}</th><td>{text(value)}</td></tr>" for key, value in values.items())
    return f'<table id="{name}" class="table table-sm w-auto">{rows}</table>'


def table(frame, name):
    """Return a table that is sorted by a click on a column's head."""
    frame = frame.dropna(axis="columns", how="all")
    head = "".join(
        f'<th{_class_of(frame[column])}><button type="button" class="sort">{text(_title(column))}</button></th>'
        for column in frame.columns
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in frame.itertuples(index=False))
    return (
        f'<div class="table-responsive"><table id="{name}" class="table table-sm table-hover sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _title(column):
    return str(column).replace("_", " ")


def _class_of(column):
    """Heads of numbers stand over their numbers."""
    return ' class="number"' if is_numeric_dtype(column) and not is_bool_dtype(column) else ""


def _cell(value):
    if isinstance(value, Number) and not isinstance(value, bool):
        exact = "" if math.isnan(value) else repr(float(value))
        return f'<td class="number" data-value="{exact}">{text(value)}</td>'
    return f"<td>{text(value)}</td>"


def folded(title, content):
    """Return something that a click on its title unfolds."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"


#: Sorts a table by the column whose head was clicked; again turns it round. Empty cells stay at the end.
SORTING = """
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("table.sortable button.sort")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), body = button.closest("table").tBodies[0];
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => {
        const cell = row.cells[head.cellIndex];
        const number = cell.classList.contains("number");
        return number ? (cell.dataset.value === "" ? NaN : Number(cell.dataset.value)) : cell.textContent;
      };
      const compare = (a, b) => {
        if (typeof a !== "number" || typeof b !== "number") return String(a).localeCompare(String(b));
        if (Number.isNaN(a) || Number.isNaN(b)) return 0;
        return a - b;
      };
      const empty = value => value === "" || Number.isNaN(value);
      const rows = [...body.rows].map(row => [key(row), row]);
      rows.sort(([a], [b]) => empty(a) - empty(b) || (down ? compare(b, a) : compare(a, b)));
      for (const [, row] of rows) body.append(row);
    });
  }
});
"""

STYLE = """
table.sortable button.sort { all: unset; cursor: pointer; font-weight: bold; }
table.sortable button.sort:focus-visible { outline: 2px solid; }
table.sortable th[aria-sort=ascending] button::after { content: " \\2191"; }
table.sortable th[aria-sort=descending] button::after { content: " \\2193"; }
table.sortable td, table.sortable th { padding: 0.15rem 0.4rem; vertical-align: top; }
table.sortable td.number, table.sortable th.number { text-align: right; white-space: nowrap; }
table.sortable { width: auto; max-width: 100%; font-size: 0.85rem; }
table td, table th, pre code { overflow-wrap: anywhere; }
pre, pre code { white-space: pre-wrap; }
figure img.figure-img { max-height: 30rem; max-width: 100%; width: auto; }
details table { margin-left: 1rem; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
ul.warnings li { color: #8a3800; }
"""
