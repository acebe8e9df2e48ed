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


def test_images_load(page):
    images = page.evaluate("[...document.images].map(i => [i.alt, i.complete && i.naturalWidth])")
    assert len(images) == 8 and all(width for _, width in images)


def test_tables_sort_by_number_and_by_name(page):
    heads = page.locator("#results thead th").all_text_contents()
    for name, kind in (("mean", float), ("decoder", str)):
        place = heads.index(name)
        button = page.locator("#results thead button").nth(place)
        before = column(page, "results", place)
        button.click()
        up = [kind(value) for value in column(page, "results", place)]
        button.click()
        down = [kind(value) for value in column(page, "results", place)]
        if kind is float:
            assert up == sorted(up) and down == sorted(up, reverse=True)
        else:
            assert up == sorted(up, key=str.lower) and down == up[::-1]
        assert up != down and sorted(before) == sorted(column(page, "results", place))


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
        for place, (is_number, edge) in enumerate(head):
            numbers = [row[place][1] for row in rows if row[place][0]]
            assert is_number == bool(numbers), (name, place)
            assert not numbers or abs(max(numbers) - edge) < 2, (name, place)


def test_subjects_unfold(page):
    page.locator("details summary", has_text="Subject").first.click()
    assert page.locator("#subject-0").is_visible()


def test_names_that_are_scripts_are_text(opened, evil):
    page = opened(evil / "report.html")
    assert page.complaints == [] and "owned" not in page.evaluate("document.title").split("<")[0]
    assert page.title() == "AutoTransfer on <script>document.title='owned'</script>"
    assert "<script>document.title='owned'</script>" in column(page, "subjects", 0)
    assert page.locator("summary", has_text="<script>").count() == 1
