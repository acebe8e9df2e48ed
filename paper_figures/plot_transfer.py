"""What the family gains for the next person: leaderboard, people, tiers, weights, and the learning curve if trained.

python paper_figures/plot_transfer.py --results DIR     # a folder of run_transfer.py or of the preset "transfer"
"""

import argparse
from pathlib import Path

from braindecode_censor.report.tiers import as_markdown
from braindecode_censor.report.transfer_folder import draw_folder, read_folder

__all__ = ["main"]


def main(argv=None):
    """Draw all figures as PDF and PNG beside the scores, and write the table of tiers.

    Parameters
    ----------
    argv : list of str or None
        Arguments; those of the process when omitted.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    args = parser.parse_args(argv)
    found = read_folder(args.results)
    draw_folder(found)
    print(as_markdown(found.table))


if __name__ == "__main__":
    main()
