"""The code of README, with the few words that a user would change."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "README.md").read_text()


def block(language, word, changes=None):
    """Return the one block of a language that holds a word, with every key of `changes` replaced."""
    (text,) = [text for text in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if word in text]
    for old, new in (changes or {}).items():
        assert old in text, f"README has no {old!r}"
        text = text.replace(old, new)
    return text


def run(text):
    """Run Python and return its names."""
    names = {}
    exec(compile(text, "README.md", "exec"), names)
    return names
