"""Formulas as MathML, which browsers draw without scripts, fonts or network.

Docutils has a converter from LaTeX; Sphinx's own renderers need MathJax from a server or a TeX installation.
"""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
# The converter does not know these; browsers set the size of parentheses themselves.
FIXED_SIZES = re.compile(r"\\[bB]igg?[lrm]?(?![a-zA-Z])")


def convert(node, *, as_block):
    """Return the MathML of a formula."""
    source = FIXED_SIZES.sub("", node.astext()).strip()
    source = source.replace(r"\begin{align*}", r"\begin{aligned}").replace(r"\end{align*}", r"\end{aligned}")
    if as_block and ("\\\\" in source or "&" in source) and "\\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as error:
        LOGGER.warning("formula cannot be drawn: %s\n%s", error, source, location=node)
        return f"<code>{escape(source)}</code>"


def visit_inline(self, node):
    """Write an inline formula."""
    self.body.append(convert(node, as_block=False))
    raise nodes.SkipNode


def visit_block(self, node):
    """Write a displayed formula."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(convert(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register with Sphinx."""
    app.add_html_math_renderer("native", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
