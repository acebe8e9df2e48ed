"""Do the pages look right in a browser: wide and on a telephone, by day and by night?"""

import pytest
from browser import CLIPPED, FITS

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "quickstart", "method"])
def test_the_same_by_night(html, opened, name):
    light, dark = (opened(html / f"{name}.html", scheme=scheme) for scheme in ("light", "dark"))
    assert background(light) > 200 and background(dark) < 60
    for width in WIDTHS:
        dark.set_viewport_size({"width": width, "height": 900})
        assert dark.evaluate(CLIPPED, PARTS) == [] and dark.evaluate(FITS)


@pytest.mark.slow
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
