"""Do the pages look right in a browser: wide and on a telephone, by day and by night?"""

import re

import pytest
from browser import CLIPPED, FITS
from docs.runner import ROOT

WIDTHS = (1280, 390)
#: Code that has to be scrolled.
CUT = """
[...document.querySelectorAll("article pre")]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 40))
"""
PARTS = "article p, article li, article h1, article h2, article h3, article pre, article img, article table"


def background(page):
    """Return the mean of the background's red, green and blue."""
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3)")
    return sum(map(float, shade)) / 3


def test_nothing_is_clipped_and_nothing_scrolls_sideways(html, opened):
    wrong = []
    page = opened(html / "index.html")
    for path in [*html.glob("*.html"), html / "gallery" / "plot_torch_loop.html"]:
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate(CLIPPED, PARTS) + page.evaluate(CUT)
            if found or not page.evaluate(FITS):
                wrong.append((path.name, width, found[:3]))
    assert wrong == []


@pytest.mark.parametrize("name", ["index", "quickstart", "method"])
def test_the_same_by_night(html, opened, name):
    light, dark = (opened(html / f"{name}.html", scheme=scheme) for scheme in ("light", "dark"))
    assert background(light) > 200 and background(dark) < 60
    for width in WIDTHS:
        dark.set_viewport_size({"width": width, "height": 900})
        assert dark.evaluate(CLIPPED, PARTS) == [] and dark.evaluate(FITS)


def test_one_row_in_the_header_and_a_sidebar_on_every_page(html, opened):
    page = opened(html / "index.html")
    tops = "[...document.querySelectorAll('.bd-header .nav-link')].filter(e => e.offsetParent !== null)"
    places = page.evaluate(
        f"{tops}.map(e => [e.getBoundingClientRect().top, e.getBoundingClientRect().height])"
    )
    assert len(places) > 3
    assert len({round(top) for top, _ in places}) == 1 and max(height for _, height in places) < 60
    for path in html.glob("*.html"):
        if path.stem not in ("genindex", "py-modindex", "search"):
            assert "bd-sidebar-primary" in path.read_text() and "hide-on-wide" not in path.read_text(), (
                path.name
            )


def test_four_doors(html):
    text = (html / "index.html").read_text()
    for door in ("new_person", "quickstart", "moabb", "reproduce"):
        assert f'href="{door}.html"' in text


def test_pages_that_say_how_hold_no_tables_of_results():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = re.search(r":caption: Using it\n:hidden:\n\n(.*?)```", index, re.DOTALL)[1].split()
    assert {"new_person", "quickstart", "moabb", "front", "autotransfer"} <= set(pages)
    for page in pages:
        text = "" if page == "gallery/index" else (ROOT / "docs" / f"{page}.md").read_text()
        assert re.findall(r"^\|.*\b0\.\d{3}\b.*$", text, re.MULTILINE) == [], page
        assert "{include} results/" not in text, page


def test_installing_needs_no_word_that_only_we_know():
    """What stands there can be typed as it stands: no name of a repository to be filled in, targets that exist."""
    text = (ROOT / "docs" / "quickstart.md").read_text()
    first = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1]
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", first, re.MULTILINE)
    assert targets == ["setup", "demo"] and all(f"\n{target}:" in makefile for target in targets)
    assert "pip install --constraint constraints.txt ." in text and (ROOT / "constraints.txt").is_file()
