"""
AutoTransfer in ten lines
=========================

The best censoring method, mode and penalty weight depend on the data. The paper trains all of them and selects by the
accuracy on validation subjects.
"""

# %%
# The ten lines
# -------------
# The grid of this example is small. ``preset="quick"`` has 30 configurations, ``preset="paper"`` 360. A second call
# with the same folder continues where the first one stopped.

import tempfile

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects

experiment = bc.AutoTransfer(
    dataset=SimulatedSubjects(4, 40, n_chans=8, preset="easy", seed=2),
    out=tempfile.mkdtemp(),
    preset=[{"method": ["mmd", "adv"], "mode": ["marginal", "conditional"], "weight": 0.3}],
    training={"max_epochs": 8, "lr": 1e-2, "batch_size": 32},
    n_top=1,
)
result = experiment.run()
print(result.selected)

# %%
# The table
# ---------
# The rows are the uncensored baseline, the best configuration of each method and the selection rules. ``paper``
# selects the configuration with the highest lower quartile of *validation* accuracy over folds. ``oracle`` selects by
# the test scores and is an upper bound, not a method.

columns = ["setting", "mean", "lower_quartile", "gain", "low", "high"]
print(result.table[columns].round(3).to_string())

# %%
# ``paper`` selects by these values:

folds = result.scores.groupby(["setting", "subject"])["score_valid"].mean()
print(folds.groupby("setting").quantile(0.25).sort_values(ascending=False).round(3).to_string())

# %%
# The uncertainty of the gain
# ---------------------------
# ``low`` and ``high`` enclose the mean gain over the baseline with 95 % confidence over subjects. With four
# subjects and one seed the interval is wide. ``n_seeds=5`` repeats the cross-validation, which separates the variance
# of seeds from that of subjects.

row = result.table.loc["AutoTransfer (paper)"]
print(f"gain {row['gain']:+.3f}, interval {row['low']:+.3f} to {row['high']:+.3f}")

# %%
# The folder of results
# ---------------------
# The folder contains trained weights, MOABB's result file, tables as CSV and a report. :doc:`plot_winning_model` uses
# the selected configuration.

print(sorted(path.name for path in result.out.iterdir()))
print(result.scores.head(3).to_string(index=False))
