"""Probe the stored decoders for the figures of leakage, codes and gains. Nothing is trained.

    python paper_figures/run_probes.py --results DIR

`autotransfer run` does this at its end; this script is for folders that lack ``probes/``.
"""

import argparse
import sys
from pathlib import Path

from braindecode_censor.paper.probing import probe
from braindecode_censor.paper.tables import read_table
from braindecode_censor.storage.files import locked


def main():
    """Probe the decoders of a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("demo_results"), help="folder of results")
    args = parser.parse_args()
    table = args.results / "table.csv"
    try:
        if not table.is_file():
            raise ValueError(f"{args.results} holds no table.csv: call `autotransfer run` or `report` first.")
        with locked(args.results):
            print(probe(args.results, read_table(args.results, "table.csv").set_index("decoder")))
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
