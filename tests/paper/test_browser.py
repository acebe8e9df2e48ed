"""The report in a browser without network: no error, no request, tables sort, images load.

Needs Chromium: the system's (``apt install chromium``), or Playwright's own (``playwright install chromium``).
"""

import pytest
from browser import CLIPPED, FITS


@pytest.fixture(scope="module")
def page(opened, folder):
    return opened(folder / "report.html")


def column(page, table, number):
    cells = page.locator(f"#{table} tbody tr td:nth-child({number + 1})")
    return cells.all_text_contents()


def test_no_error_and_no_request(page, folder):
    assert page.complaints == []
    outside = [url for url in page.requests if not url.startswith("data:")]
    assert outside == [(folder / "report.html").as_uri()]


def test_tables_sort_by_number_and_by_name(page):
    heads = page.locator("#results thead th").all_text_contents()
    for name, kind in (("mean", float), ("decoder", str)):
        position = heads.index(name)
        button = page.locator("#results thead button").nth(position)
        before = column(page, "results", position)
        button.click()
        up = [kind(value) for value in column(page, "results", position)]
        button.click()
        down = [kind(value) for value in column(page, "results", position)]
        if kind is float:
            assert up == sorted(up) and down == sorted(up, reverse=True)
        else:
            assert up == sorted(up, key=str.lower) and down == up[::-1]
        assert up != down and sorted(before) == sorted(column(page, "results", position))


@pytest.mark.parametrize("width", [390, 1280])
def test_page_does_not_scroll_sideways(opened, folder, width):
    page = opened(folder / "report.html", width, "light" if width == 390 else "dark")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(CLIPPED, "table, pre, img, p, li, h1, h2, h3") == []
    assert page.evaluate(FITS)
    lines = page.locator("p, li").evaluate_all(
        "items => Math.min(...items.map(i => i.getBoundingClientRect().width))"
    )
    assert lines > 250, "one column, with room for words"


def test_heads_stand_over_their_numbers(page):
    """Of every column of numbers: the right edges of the head's words and of the numbers are the same."""
    edges = """
    rows => rows.map(row => [...row.cells].map(cell => {
      const range = document.createRange(); range.selectNodeContents(cell);
      return [cell.classList.contains("number"), range.getBoundingClientRect().right];
    }))"""
    for name in ("results", "subjects", "leakage", "search"):
        head, *rows = page.locator(f"#{name} tr").evaluate_all(edges)
        for position, (is_number, edge) in enumerate(head):
            numbers = [row[position][1] for row in rows if row[position][0]]
            assert is_number == bool(numbers), (name, position)
            assert not numbers or abs(max(numbers) - edge) < 2, (name, position)
