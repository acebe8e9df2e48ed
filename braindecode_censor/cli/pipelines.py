"""``autotransfer pipelines``: the YAML pipelines for ``moabb.benchmark``."""

import json
import shutil
from pathlib import Path

import braindecode_censor
from braindecode_censor.cli.help import add_command


def add_commands(commands):
    """Add the subcommand to the parser's subcommands."""
    description = (
        "Without --out, list the installed pipelines. With --out, copy them to a folder in which "
        "moabb.benchmark(pipelines=DIR) can write its lock files."
    )
    title = "list the YAML pipelines for MOABB, or copy them to a folder"
    add = add_command(commands, run, "pipelines", title, description)
    add("--out", metavar="DIR", help="folder to copy the pipelines to")
    add("--json", action="store_true", help="print one JSON object")


def run(args):
    """List or copy the pipelines."""
    package = Path(braindecode_censor.__file__).parent
    # A wheel has the folder inside the package, a checkout beside it.
    parent = package if (package / "moabb_pipelines").is_dir() else package.parent
    paths = sorted((parent / "moabb_pipelines").glob("*.yml"))
    if args.out:
        Path(args.out).mkdir(parents=True, exist_ok=True)
        paths = [shutil.copy(path, args.out) for path in paths]
    paths = [str(path) for path in paths]
    print(json.dumps({"pipelines": paths}, indent=1) if args.json else "\n".join(paths))
    return 0
