"""``autotransfer datasets``: the datasets, their licences, and those on this disk."""

import json

from braindecode_censor.cli.help import add_command


def add_commands(commands):
    """Add the subcommand to the parser's subcommands."""
    add = add_command(commands, run, "datasets", "list the datasets, their licences and where to get them")
    add("--json", action="store_true", help="print one JSON object instead of a table")


def run(args):
    """Print the list and return 0."""
    from braindecode_censor.datasets import describe  # imports MOABB, which takes seconds

    rows = describe()
    print(json.dumps({"datasets": rows}, indent=2) if args.json else format_table(rows))
    return 0


def format_table(rows):
    """Lay rows out in columns."""
    words = {None: "-", True: "yes", False: "no"}
    lines = [[key.replace("_", " ") for key in rows[0]]]
    # True equals 1, so only booleans and None are translated.
    lines += [
        [words[v] if v is None or isinstance(v, bool) else str(v) for v in row.values()] for row in rows
    ]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in lines)
