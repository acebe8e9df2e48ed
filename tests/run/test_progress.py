"""Progress: a bar on a terminal, a line a minute elsewhere, or nothing."""

import sys

import pytest

from braindecode_censor.run import progress
from braindecode_censor.run.progress import Progress


def show(**options):
    with Progress(2, "training", "search", **options) as shown:
        shown.update(1)
        shown.update(2, "best so far a (0.900)")


def test_progress_on_a_terminal_is_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show()
    text = capsys.readouterr().err
    assert "search: 100%" in text and "best so far a (0.900)" in text
    show(quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("interval", "quiet", "n_lines"), [(0, False, 2), (60, False, 0), (0, True, 0)])
def test_progress_without_a_terminal_is_lines(monkeypatch, capsys, interval, quiet, n_lines):
    monkeypatch.setattr(progress, "_INTERVAL", interval)
    show(quiet=quiet)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == n_lines
    assert not lines or lines[-1] == "search: 2 of 2 training, best so far a (0.900)"
