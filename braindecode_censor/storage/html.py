"""An HTML page in one file that fetches nothing. Values from data are escaped here and nowhere else."""

import base64
import html
import math
from importlib.resources import files
from string import Template

import pandas as pd

from braindecode_censor.storage.files import write_atomically

__all__ = ["Page", "code", "facts", "folded", "items", "paragraph", "table"]

_HEADS = {
    "setting": "configuration",
    "valid_subject": "validation subject",
    "score": "test score",
    "score_valid": "validation score",
}


class Page:
    """A page of one column whose items are grouped by section."""

    def __init__(self, title):
        self.title, self._sections = title, {}

    def add(self, section, title, *content):
        """Add pieces of HTML under a title."""
        pieces = self._sections.setdefault(section, [])
        pieces += [f"<h3>{text(title)}</h3>", *content]

    def add_figure(self, section, title, caption, content, alt=None):
        """Add the bytes of a PNG file with a text alternative, by default its title."""
        width = int.from_bytes(content[16:20], "big") // 2  # two pixels of the file per pixel of the page
        data = base64.b64encode(content).decode()
        image = f'<img alt="{text(alt or title)}" width="{width}" src="data:image/png;base64,{data}">'
        caption = f"<figcaption>{text(caption)}</figcaption>"
        self.add(section, title, f'<figure><div class="scroll">{image}</div>{caption}</figure>')

    def write(self, path):
        """Write the page in full or not at all, and return its path."""
        anchors = {section: f"section-{number}" for number, section in enumerate(self._sections)}
        links = [f'<a href="#{anchor}">{text(section)}</a>' for section, anchor in anchors.items()]
        content = []
        for section, pieces in self._sections.items():
            content += [f'<section id="{anchors[section]}"><h2>{text(section)}</h2>', *pieces, "</section>"]
        template = Template(files("braindecode_censor.storage").joinpath("page.html").read_text("utf-8"))
        page = template.substitute(title=text(self.title), links="\n".join(links), content="\n".join(content))
        write_atomically(path, page.encode())
        return path


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


def items(lines, name="list"):
    """Return a list with a class name."""
    return f'<ul class="{name}">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>'


def code(lines):
    """Return a block of code."""
    return f"<pre><code>{html.escape(lines)}</code></pre>"


def facts(values, name):
    """Return a table of names and values."""
    rows = "".join(f"<tr><th>{text(key)}</th><td>{text(value)}</td></tr>" for key, value in values.items())
    return f'<div class="scroll"><table id="{name}" class="facts">{rows}</table></div>'


def folded(title, content):
    """Return content that a click on its title unfolds."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"


def table(frame, name):
    """Return a table that the page's script sorts by the column whose head is clicked."""
    frame = frame.dropna(axis="columns", how="all")
    frame = frame.rename(columns=lambda column: _HEADS.get(column, column.replace("_", " ")))
    frame = frame.astype(object).where(frame.notna(), "")
    with pd.option_context("display.max_colwidth", None):
        content = frame.to_html(index=False, border=0, table_id=name, classes="sortable", float_format=text)
    return f'<div class="scroll">{content}</div>'
