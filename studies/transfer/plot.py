"""What the family gains for the next person: leaderboard, people, tiers, weights, and the learning curve if trained.

python paper_figures/plot_transfer.py --results DIR               # of run_transfer.py or of the preset "transfer"
python paper_figures/plot_transfer.py --results DIR --docs docs   # the table and figures of the documentation instead
"""

import argparse
from pathlib import Path

from studies.transfer.folder import draw_folder, read_folder, write_docs
from studies.transfer.tiers_table import as_markdown

__all__ = ["main"]


def main(argv=None):
    """Draw all figures as PDF and PNG beside the scores, or for the documentation, and write the table of tiers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--docs", type=Path, help="folder of the documentation")
    args = parser.parse_args(argv)
    found = read_folder(args.results)
    if args.docs is None:
        draw_folder(found)
    else:
        write_docs(found, args.docs)
    print(as_markdown(found.table))
    print(found.censored)


if __name__ == "__main__":
    main()
