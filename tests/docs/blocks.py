"""The code blocks of a Markdown page as one script.

Python runs as it is. A block whose first line names a YAML or Python file is written to that file. Commands of this
package are called in the same process. A comment ``<!-- not run: ... -->`` in front of a block has its commands only
checked.
"""

import re
import shlex
from pathlib import Path

from braindecode_censor.cli.main import build_parser

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(<!-- not run.*?-->\n\n?)?^```(python|sh|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_HEAD = """
from pathlib import Path
from braindecode_censor.cli.main import main
"""


def has_code(path):
    """Return whether a page has blocks of code."""
    return _BLOCK.search(path.read_text()) is not None


def page_script(path, changes=None):
    """Return a script of all blocks; `changes` replaces texts of the page, to make it quicker."""
    text, lines = path.read_text(), [_HEAD]
    for old, new in (changes or {}).items():
        assert old in text, f"{path.name} has no {old!r}"
        text = text.replace(old, new)
    for not_run, language, block in _BLOCK.findall(text):
        if language == "yaml" or re.match(r"# \w+\.py\n", block):
            name = re.match(r"# (\S+\.(?:ya?ml|py))\n", block)[1]
            lines.append(f"Path({name!r}).parent.mkdir(exist_ok=True); Path({name!r}).write_text({block!r})")
        elif language == "sh":
            lines += [_call(line, bool(not_run)) for line in block.replace("\\\n", " ").splitlines()]
        elif not_run:
            compile(block, path.name, "exec")
        else:
            lines.append(block)
    return "\n".join(lines)


def _call(line, not_run):
    """Check a command, and return Python that runs it."""
    command, *arguments = shlex.split(line, comments=True) or [""]
    if command == "autotransfer":
        build_parser().parse_args(arguments)
        return "" if not_run else f"assert main({arguments!r}) == 0"
    if command == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert re.search(rf"^{arguments[0]}:", makefile, re.MULTILINE), line
    elif command == "python":
        source = (ROOT / arguments[0]).read_text()
        assert all(word in source for word in arguments[1:] if word.startswith("--")), line
    else:
        assert command in ("", "git", "pip", "kaggle", "dask", "export", "for", "srun"), (
            f"unknown command: {line}"
        )
    return ""
