"""What the README tells people to type, with the few words that a user would change."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "README.md").read_text()


def block(kind, word, **changes):
    """Return the one block of a kind that holds a word; every key of `changes` must be in it and is replaced."""
    (found,) = [text for text in re.findall(rf"```{kind}\n(.*?)```", TEXT, flags=re.DOTALL) if word in text]
    for old, new in changes.items():
        assert old in found, f"the README no longer says {old!r}"
        found = found.replace(old, new)
    return found


def run(text):
    """Run Python and return its names."""
    names = {}
    exec(compile(text, "README.md", "exec"), names)
    return names
