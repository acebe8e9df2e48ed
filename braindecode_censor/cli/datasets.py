"""``autotransfer datasets``: what can be loaded, and whether it is on this disk."""

import json


def add_command(commands):
    """Add the subcommand to the parser's subcommands."""
    parser = commands.add_parser("datasets", help="list the datasets, their licences and where to get them")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


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
    # True == 1, so only booleans and None are translated
    lines += [
        [words[v] if v is None or isinstance(v, bool) else str(v) for v in row.values()] for row in rows
    ]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in lines)
