"""Does the page work in a browser, off line: no error, no request, tables sort, images load?

Needs Chromium: the system's (``apt install chromium``), or Playwright's own (``playwright install chromium``).
"""

import pandas as pd
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
    assert len(images) == 9 and all(width for _, width in images)


def test_the_selected_method_and_its_numbers_are_the_stores(page, folder):
    row = pd.read_csv(folder / "table.csv", index_col="decoder").loc["AutoTransfer (paper)"]
    said = page.locator("ul.summary li").all_inner_texts()
    assert said[0] == f"Selected: {row['setting']}." and f"accuracy of {row['mean']:.3f}" in said[1]
    heads = page.locator("#results thead th").all_text_contents()
    exact = page.locator("#results tbody tr").evaluate_all(
        "(rows, k) => rows.map(r => [r.cells[0].innerText, r.cells[k].dataset.value])", heads.index("mean")
    )
    table = pd.read_csv(folder / "table.csv")
    assert {name: float(value) for name, value in exact} == dict(zip(table["decoder"], table["mean"]))


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


PARTS = "table, pre, img, p, li, h1, h2, h5"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_clipped_and_nothing_scrolls_sideways(opened, folder, scheme):
    page = opened(folder / "report.html", 1280, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in (1280, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CLIPPED, PARTS) == [], width
        assert page.evaluate(FITS), width
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate(FITS)  # a telephone scrolls single tables, not the page


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
