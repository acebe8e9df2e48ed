"""The paper's tables of penalties and hyper-parameters, and tables of results, as CSV and LaTeX.

python paper_figures/plot_tables.py --results DIR
"""

import pandas as pd

from braindecode_censor.figures import plot_ranks
from braindecode_censor.figures.folder import Missing
from braindecode_censor.figures.product import Table, run_script
from braindecode_censor.figures.style import label_of
from braindecode_censor.paper.grid import METHODS, PAPER_GRID, expand
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES

# Key of a grid -> name in plain text and in LaTeX.
PARAMETERS = {
    "mode": ("censoring mode", "Censoring mode"),
    "weight": ("penalty weight λ", r"Regularization coefficient $\lambda$"),
    "score": ("score estimator", "Score function estimator"),
    "reg": ("regularisation γ of the score estimator", r"Score estimator's regularization $\gamma$"),
    "lengthscale": ("length scale", "Adaptive length scale"),
    "pairs": ("pairs of subjects", "Pairs of subjects"),
    "fraction": ("fraction b of pairs", "Fraction $b$ of pairs"),
    "size": ("size d of the clique", "Size $d$ of the clique"),
}
# Estimated quantity: the mutual information of code and subject, or a divergence between distributions.
FAMILIES = {
    "adv": "information",
    "mige": "information",
    "mmd": "divergence",
    "pairmmd": "divergence",
    "began": "divergence",
}


def hyperparameters(results):
    """Return the values that the grid explores; the paper's grid if the folder has none."""
    values = {}
    try:
        grid = expand(results.identity.get("grid") or PAPER_GRID)
    except ValueError as reason:  # This process may not know a user's measure.
        raise Missing(f"the grid cannot be read: {reason}") from None
    for config in grid:
        for key, value in config.as_dict().items():
            if key != "method":
                values.setdefault((config.method, key), {})[value] = None
    methods_of = {}
    for (method, key), explored in values.items():
        text = ", ".join(value if isinstance(value, str) else f"{value:g}" for value in explored)
        methods_of.setdefault((key, text), []).append(label_of(method))
    order = list(PARAMETERS)
    rows = [(", ".join(methods), key, text) for (key, text), methods in methods_of.items()]
    rows.sort(key=lambda row: order.index(row[1]) if row[1] in order else len(order))
    frame = pd.DataFrame(rows, columns=["methods", "parameter", "values"])
    frame["parameter"] = [PARAMETERS.get(key, (key,))[0] for key in frame["parameter"]]
    return frame


def penalties(results=None):
    """Return the form of the penalty by mode, and its estimators."""
    rows = []
    for name, mode in MODES.items():
        condition = "|y" if mode.conditions_on_y else ""
        if mode.halves:
            effect = "z⁽¹⁾ ⊥ s, max I(z⁽²⁾;s)"
            information = "I(z⁽¹⁾;s) − I(z⁽²⁾;s)"
            divergence = "D(q(z⁽¹⁾) ‖ q(z⁽¹⁾|s)) − D(q(z⁽²⁾) ‖ q(z⁽²⁾|s))"
        else:
            both = "s,y" if condition else "s"
            effect, information = f"z ⊥ s{condition and ' | y'}", f"I(z;s{condition})"
            divergence = f"D(q(z{condition}) ‖ q(z|{both}))"
        rows.append((name, effect, information, divergence))
    methods = [
        ", ".join(label_of(method) for method in MEASURES if FAMILIES.get(method) == family)
        for family in ("information", "divergence")
    ]
    rows.append(("estimated by", "", *methods))
    return pd.DataFrame(rows, columns=["mode", "effect", "information", "divergence"])


def summary(results):
    """Return mean, lower quartile, and gain of every decoder and rule."""
    table = results.require("table.csv", "call `autotransfer report` once")
    return table[["decoder", "setting", "mean", "lower_quartile", "worst", "gain", "low", "high", "p"]]


def _booktabs(frame, columns, escape=True):
    numbers = frame.select_dtypes("float").round(3) + 0.0  # no minus before a zero
    frame = frame.assign(**numbers)
    text = frame.to_latex(index=False, escape=escape, float_format="%.3f", na_rep="--", header=columns)
    return "% needs \\usepackage{booktabs}\n" + text


_TEX = {
    "⊥": r"\perp ", "⁽¹⁾": "^{(1)}", "⁽²⁾": "^{(2)}", "‖": r" \,\|\, ", "−": "-", "I(": r"I(", "max": r"\max",
    "D(": r"\mathcal{D}(", "q(": r"q_\theta(",
}  # fmt: skip


def _penalties_latex(frame):
    def formula(text):
        for plain, tex in _TEX.items():
            text = text.replace(plain, tex)
        return f"${text}$"

    frame = frame.copy()
    modes = frame.index[:-1]
    for column in ("effect", "information", "divergence"):
        frame.loc[modes, column] = [formula(text) for text in frame.loc[modes, column]]
    frame["mode"] = frame["mode"].str.capitalize()
    header = ["Censoring mode", "Desired effect", "Mutual information form", "Divergence form"]
    return _booktabs(frame, header, escape=False)


def _hyperparameters_latex(frame):
    frame = frame.copy()
    tex = dict(PARAMETERS.values())
    frame["parameter"] = [tex.get(name, name) for name in frame["parameter"]]
    frame["values"] = frame["values"].str.replace("_", r"\_")
    return _booktabs(frame, ["Censoring method", "Parameter", "Values explored"], escape=False)


def _summary_latex(frame):
    frame = frame.assign(decoder=[label_of(name) if name in METHODS else name for name in frame["decoder"]])
    header = [
        "Decoder",
        "Configuration",
        "Mean",
        "Lower quartile",
        "Worst",
        "Gain",
        r"2.5\,\%",
        r"97.5\,\%",
        "p",
    ]
    return _booktabs(frame, header)


def _pairs_latex(frame):
    frame = frame.assign(
        **{side: [label_of(name) for name in frame[side]] for side in ("decoder", "reference")}
    )
    return _booktabs(frame, ["Decoder", "Reference", "Gain", r"2.5\,\%", r"97.5\,\%", "p", "p (Holm)"])


PENALTIES = Table("penalties", "Penalties", "Form of the penalty by mode.", penalties, _penalties_latex)
HYPERPARAMETERS = Table(
    "hyperparameters",
    "Hyper-parameters",
    "Values that the grid explores.",
    hyperparameters,
    _hyperparameters_latex,
)
SUMMARY = Table("summary", "Results", "Scores of every decoder and rule.", summary, _summary_latex)
PAIRS = Table(
    "pairs",
    "Pairs of decoders",
    "Paired comparison over subjects, Wilcoxon's test.",
    plot_ranks.pairs,
    _pairs_latex,
)

if __name__ == "__main__":
    run_script(__doc__, PENALTIES, HYPERPARAMETERS, SUMMARY, PAIRS)
