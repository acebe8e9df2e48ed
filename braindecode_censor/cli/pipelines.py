"""``autotransfer pipelines``: the YAML pipelines for ``moabb.benchmark``."""

import json


def add_command(commands):
    """Add the subcommand to the parser's subcommands."""
    parser = commands.add_parser(
        "pipelines",
        help="list MOABB's YAML pipelines, or write them to a folder",
        description="Without --out, list the pipelines that are installed. With --out, write them there, "
        "where moabb.benchmark(pipelines=DIR) can put its lock files.",
    )
    parser.add_argument("--out", help="folder to write to")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args):
    """List or write the pipelines."""
    from braindecode_censor.paper.pipelines import pipelines_folder, write_pipelines

    paths = write_pipelines(args.out) if args.out else sorted(pipelines_folder().glob("*.yml"))
    paths = [str(path) for path in paths]
    print(json.dumps({"pipelines": paths}, indent=1) if args.json else "\n".join(paths))
    return 0
