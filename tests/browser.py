"""Chromium for tests that look at pages: the system's, or Playwright's own (``playwright install chromium``)."""

import os
import shutil

import pytest

#: Is there a bar to scroll the page sideways?
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
#: Elements that reach beyond the window, or beyond what holds them without a way to scroll there.
CLIPPED = """
selector => [...document.querySelectorAll(selector)]
  .filter(e => e.offsetParent !== null)
  .filter(e => {
    for (let box = e.parentElement; box; box = box.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    return e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
           || e.parentElement.scrollWidth > e.parentElement.clientWidth + 1;
  })
  .map(e => e.tagName + "#" + e.id + " " + e.textContent.trim().slice(0, 40))
"""

#: Text that is broken into lines of fewer than eight characters, by the width of a zero.
NARROW = """
() => [...document.querySelectorAll("p, li, td, th, figcaption, h1, h2, h3")]
  .filter(e => e.offsetParent !== null && e.textContent.trim())
  .filter(e => {
    const range = document.createRange(); range.selectNodeContents(e);
    const lines = new Set([...range.getClientRects()].map(r => Math.round(r.bottom / 4)));
    const size = parseFloat(getComputedStyle(e).fontSize);
    return lines.size > 1 && e.clientWidth < 8 * size / 2;
  })
  .map(e => e.tagName + " " + e.textContent.trim().slice(0, 40))
"""


@pytest.fixture(scope="module")
def browser():
    """Chromium, or a skipped test."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_api.sync_playwright() as playwright:
        try:
            # Chromium refuses its sandbox to root, as in containers
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium to open pages with: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser):
    """Return a function that opens a page and notes its complaints and requests."""
    contexts = []

    def open_page(path, width=1280, scheme="light"):
        viewport = {"width": width, "height": 900}
        context = browser.new_context(offline=True, viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: message.type == "error" and page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(path.as_uri(), wait_until="load")
        page.wait_for_timeout(300)
        return page

    yield open_page
    for context in contexts:
        context.close()
