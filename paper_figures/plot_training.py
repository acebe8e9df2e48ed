"""The course of training: task loss, penalty, and subject accuracy of the critic.

python paper_figures/plot_training.py --results DIR
"""

import pandas as pd

from braindecode_censor.figures.folder import BASELINE, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import PAGE, colour_of, label_of, new_figure
from braindecode_censor.penalties.measures import MEASURES

COLUMNS = {
    "train_loss": "train_loss",
    "valid_loss": "valid_loss",
    "subject_penalty": "penalty",
    "subject_accuracy": "subject_accuracy",
    "subject_chance": "subject_chance",
}
ROWS = {
    "task loss": ("train_loss", "valid_loss"),
    "penalty": ("penalty",),
    "subject accuracy": ("subject_accuracy",),
}


def numbers(results):
    """Return every epoch of every decoder's trainings."""
    frames = []
    for decoder in (BASELINE, *MEASURES):
        if decoder not in results.decoders:
            continue
        for subject, history in results.histories(decoder).items():
            frame = history.reindex(columns=list(COLUMNS)).rename(columns=COLUMNS).astype(float)
            frame.insert(0, "epoch", range(1, len(frame) + 1))
            frame.insert(0, "subject", subject)
            frame.insert(0, "decoder", decoder)
            frames.append(frame)
    if not frames:
        raise Missing(
            f"{results.folder} holds no trainings that trainings/index.csv names: call `autotransfer resume` once"
        )
    return pd.concat(frames, ignore_index=True)


def draw(frame):
    """Draw one column per decoder."""
    decoders = list(dict.fromkeys(frame["decoder"]))
    rows = {
        name: quantities
        for name, quantities in ROWS.items()
        if frame[list(quantities)].notna().any(axis=None)
    }
    figure, axes = new_figure(PAGE, 0.3 + len(rows), len(rows), len(decoders), sharex=True, squeeze=False)
    for column, decoder in enumerate(decoders):
        curves = frame[frame["decoder"] == decoder]
        axes[0, column].set_title(label_of(decoder))
        for axis, quantities in zip(axes[:, column], rows.values()):
            for quantity, line in zip(quantities, ("-", ":")):
                _draw_folds(axis, curves, quantity, colour_of(decoder), line)
            if curves[quantities[0]].isna().all():  # a method without this quantity needs no panel
                axis.set_visible(False)
    for line, name in zip(axes, rows):
        visible = [axis for axis in line if axis.get_visible()]
        visible[0].set_ylabel(name)
        if name == "task loss":
            _share_height(visible, frame[list(ROWS[name])])
        if name == "subject accuracy":
            _share_height(visible, frame[["subject_accuracy", "subject_chance"]])
    for decoder, column in zip(decoders, axes.T):
        lowest = [axis for axis in column if axis.get_visible()][-1]
        lowest.tick_params(labelbottom=True)
        chance = frame.loc[frame["decoder"] == decoder, "subject_chance"].mean()
        if chance == chance:
            lowest.axhline(chance, color="#595959", linewidth=0.8, linestyle="--")
    figure.supxlabel("epoch", fontsize=7)
    return figure


def _draw_folds(axis, curves, quantity, colour, line):
    """Draw every fold as a thin line, and the mean up to the epoch at which the first fold stops."""
    wide = curves.pivot(index="epoch", columns="subject", values=quantity)
    if wide.isna().all(axis=None):
        return
    axis.plot(wide.index, wide, color=colour, linewidth=0.4, alpha=0.35, linestyle=line)
    mean = wide.dropna().mean(axis=1)
    axis.plot(mean.index, mean, color=colour, linewidth=1.3, linestyle=line)


def _share_height(axes, values):
    low, high = values.min(axis=None), values.max(axis=None)
    if not low < high:
        return
    room = 0.05 * (high - low)
    for number, axis in enumerate(axes):
        axis.set_ylim(low - room, high + room)
        if number:
            axis.tick_params(labelleft=False)


PLOT = Plot(
    "training",
    "Course of training",
    "Trainings of the cross-validation with the first seed: thin lines are folds, thick ones their mean up to the "
    "epoch at which the first fold stops. Top: task loss of the training subjects (solid) and of the validation "
    "subject (dotted). Middle: the penalty, in its own unit. Bottom: accuracy at which the adversary names the "
    "training subject; dashed is chance. Methods without a penalty or such a critic have no panel there; see "
    "subject leakage.",
    numbers,
    draw,
    "Search",
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
