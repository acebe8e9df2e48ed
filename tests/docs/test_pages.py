"""The built pages: public names, no server, a readable layout on wide and narrow screens. Sphinx checks links."""

import re
import zlib

import pytest
from browser import CLIPPED, FITS
from docs.runner import ROOT

import braindecode_censor
import braindecode_censor.datasets

WIDTHS = (1280, 390)
CONTENT = "article p, article li, article h1, article h2, article h3, article pre, article img, article table"
WIDE_CODE = """
[...document.querySelectorAll("article pre")]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 40))
"""


def test_every_public_name_is_documented(html):
    content = (html / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = zlib.decompress(content).decode().splitlines()
    documented = {entry.split()[0].rpartition(".")[2] for entry in entries if " py:" in entry}
    listed = set(
        re.findall(r"^   ~?braindecode_censor\.([\w.]+)$", (ROOT / "docs" / "api.rst").read_text(), re.M)
    )
    assert {name.rpartition(".")[2] for name in listed} <= documented
    for module in (braindecode_censor, braindecode_censor.datasets):
        public = {name for name in module.__all__ if not name.startswith("_")}
        assert public <= {name.rpartition(".")[2] for name in listed}


def test_pages_load_nothing_from_a_server(html):
    for page in html.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]*)"', text)
        loaded += re.findall(r'<link\b[^>]*\brel="(?:stylesheet|preload)"[^>]*\bhref="([^"]*)"', text)
        assert not [link for link in loaded if re.match(r"(https?:)?//", link)], page.name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_clipped_and_no_page_scrolls_sideways(html, opened, scheme):
    clipped, page = [], opened(html / "index.html", scheme=scheme)
    for path in [*html.glob("*.html"), html / "gallery" / "plot_torch_loop.html"]:
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            elements = page.evaluate(CLIPPED, CONTENT) + page.evaluate(WIDE_CODE)
            if elements or not page.evaluate(FITS):
                clipped.append((path.name, width, elements[:3]))
    assert clipped == []
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3)")
    brightness = sum(map(float, colour)) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60
