"""The paper's figures and tables, drawn from a folder of results. Nothing is trained here.

python paper_figures/plot_all.py --results DIR     # everything, to DIR/figures
python paper_figures/plot_results.py --results DIR # one of them

Every figure is written as PDF and PNG with its numbers as CSV; every table as CSV and LaTeX.
"""
