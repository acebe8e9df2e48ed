"""Do the pages build without a warning, document every public name, link to what exists, and need no server?"""

import re
import zlib
from functools import cache

import pytest
from project.validate_docstrings import modules, public_names


@pytest.mark.slow
def test_builds_without_a_warning(html):
    code, _, log = (html.parent / "log").read_text().partition("\n")
    assert (code, log.strip()) == ("0", "")


def documented_names(html):
    """Names of Python objects in the inventory that other projects' links use."""
    content = (html / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = zlib.decompress(content).decode().splitlines()
    return {entry.split()[0] for entry in entries if " py:" in entry}


def offered_names(module):
    """Full names of what a module offers: its ``__all__`` where it has one, and the methods of those classes."""
    defined = set(public_names(module))
    if not hasattr(module, "__all__"):
        return defined
    found = set()
    for name in module.__all__:
        # a name may be documented where it is defined rather than where it is offered
        home = getattr(getattr(module, name), "__module__", None) or module.__name__
        full = f"{home if home.startswith('braindecode_censor') else module.__name__}.{name}"
        found |= {full, *(other for other in defined if other.startswith(f"{full}."))}
    return found


@pytest.mark.slow
def test_every_public_name_is_documented(html):
    offered = set().union(*(offered_names(module) for module in modules()))
    assert len(offered) > 200
    assert (
        offered - documented_names(html) - {"braindecode_censor.__version__", "braindecode_censor.PAPER"}
        == set()
    )


@cache
def anchors(path):
    return set(re.findall(r'\bid="([^"]+)"', path.read_text()))


@pytest.mark.slow
def test_links_inside_resolve(html):
    broken, checked = set(), 0
    for page in html.rglob("*.html"):
        for link in set(re.findall(r'<a\b[^>]*\bhref="([^"]*)"', page.read_text())):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            checked += 1
            if not target.is_file() or (
                anchor and target.suffix == ".html" and anchor not in anchors(target)
            ):
                broken.add((page.name, link))
    assert broken == set()
    assert checked > 1000


@pytest.mark.slow
def test_pages_need_no_server(html):
    for page in html.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]*)"', text)
        loaded += re.findall(r'<link\b[^>]*\brel="(?:stylesheet|preload)"[^>]*\bhref="([^"]*)"', text)
        assert not [link for link in loaded if re.match(r"(https?:)?//", link)], page.name


@pytest.mark.slow
def test_formulas_are_drawn(html):
    text = (html / "method.html").read_text()
    assert text.count("<math") > 10
    assert "$" not in re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
