"""Subject leakage against test accuracy.

autotransfer report --out DIR                       # probes the decoders, where this is not done
python paper_figures/plot_leakage.py --results DIR
"""

import pandas as pd

from braindecode_censor.figures.folder import BASELINE
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import (
    COLUMN,
    colour_of,
    draw_chance,
    label_of,
    legend_above,
    marker_of,
    new_figure,
)
from braindecode_censor.penalties.measures import MEASURES


def numbers(results):
    """Return leakage and test accuracy of every decoder and fold."""
    probed = results.probed("leakage")
    probed = probed[(probed["part"] == "all") & (probed["view"] == "marginal")]
    keys = ["setting", "seed", "subject"]
    rows = probed.merge(results.scores[[*keys, "mode", "score"]], on=keys)
    names = {results.decoders[name]: name for name in (BASELINE, *MEASURES) if name in results.decoders}
    rows.insert(0, "decoder", rows["setting"].map(names))
    rows = rows.rename(columns={"accuracy": "leakage"}).dropna(subset="decoder")
    frame = rows[["decoder", "mode", "subject", "leakage", "chance", "score"]]
    return frame.assign(chance_of_score=results.chance)


def draw(frame):
    """Draw folds as small and means as large markers."""
    figure, axis = new_figure(COLUMN, 2.6)
    draw_chance(axis, frame["chance_of_score"].iloc[0])
    handles, labels = [], []
    for decoder in dict.fromkeys(frame["decoder"]):
        rows = frame[frame["decoder"] == decoder]
        look = {"color": colour_of(decoder), "marker": marker_of(decoder), "linestyle": "none"}
        axis.plot(rows["leakage"], rows["score"], markersize=2.5, alpha=0.45, markeredgewidth=0, **look)
        centre = rows[["leakage", "score"]].mean()
        handles += axis.plot(
            [centre["leakage"]],
            [centre["score"]],
            markersize=5.5,
            markeredgecolor="black",
            markeredgewidth=0.6,
            **look,
        )
        mode = rows["mode"].iloc[0]
        labels.append(label_of(decoder) + ("" if pd.isna(mode) else f" ({mode})"))
    chance, low, high = frame["chance"].mean(), frame["leakage"].min(), frame["leakage"].max()
    if low - chance < high - low:  # farther away it would compress the points
        handles.append(axis.axvline(chance, color="#595959", linewidth=0.8, linestyle="--"))
        labels.append("chance of the probe")
    axis.set_xlabel(f"subject accuracy of a fresh probe (chance: {chance:.2f})")
    axis.set_ylabel("balanced test accuracy")
    legend_above(figure, handles, labels, columns=2)
    return figure


PLOT = Plot(
    "leakage",
    "Subject leakage against accuracy",
    "Small markers are folds, large ones their means; further left is better hidden, further up decodes better "
    "(dotted is chance). The probe is a logistic regression, cross-validated over trials of all subjects on "
    "the whole latent code. Complementary censoring hides the subject in the first half of the code alone and "
    "reveals it in the second.",
    numbers,
    draw,
    "Subject leakage",
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
