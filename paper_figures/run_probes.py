"""Compute what the figures of leakage, codes and gains need from the stored weights. Nothing is trained.

    python paper_figures/run_probes.py --results DIR

`autotransfer run` does this at its end; this script is for folders that lack ``probes/``.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

from braindecode_censor.report.probing import probe


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
        print(probe(args.results, pd.read_csv(table, index_col="decoder")))
    except ValueError as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
