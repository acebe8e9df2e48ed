"""All figures and tables from one folder of results.

python paper_figures/plot_all.py --results DIR      # the same as `make figures RESULTS=DIR`
"""

from braindecode_censor.figures import (
    plot_codes,
    plot_gains,
    plot_leakage,
    plot_ranks,
    plot_results,
    plot_schematic,
    plot_tables,
    plot_training,
    plot_weights,
)
from braindecode_censor.figures.product import run_script

#: In the order of the report.
PLOTS = tuple(
    module.PLOT
    for module in (
        plot_results,
        plot_gains,
        plot_ranks,
        plot_leakage,
        plot_codes,
        plot_weights,
        plot_training,
        plot_schematic,
    )
)
TABLES = (plot_tables.SUMMARY, plot_tables.PAIRS, plot_tables.HYPERPARAMETERS, plot_tables.PENALTIES)

if __name__ == "__main__":
    run_script(__doc__, *PLOTS, *TABLES)
