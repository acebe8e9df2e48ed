"""The paper's figures and tables, drawn from a folder of results. Nothing is trained here.

python paper_figures/plot_all.py --results DIR     # everything, to DIR/figures
python paper_figures/plot_results.py --results DIR # one of them

Every figure comes as PDF and PNG with the numbers drawn as CSV beside it; every table as CSV and LaTeX. ``run_*``
compute, ``plot_*`` draw.
"""
