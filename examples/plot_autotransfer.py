"""
AutoTransfer in ten lines
=========================

Which of the fifteen ways to censor suits your data, and with what weight? Nobody can tell beforehand; the paper's
answer is to try them, and to choose by how well they do on people who were held out for validation.
"""

# %%
# The ten lines
# -------------
# The grid here is tiny. ``preset="quick"`` tries 30 settings, ``preset="paper"`` 360. Call it again with the same
# folder and it goes on where it stopped.

import tempfile

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects

experiment = bc.AutoTransfer(
    dataset=SimulatedSubjects(4, 40, n_chans=8, preset="easy", seed=2),
    out=tempfile.mkdtemp(),
    preset=[{"method": ["mmd", "adv"], "mode": ["marginal", "conditional"], "weight": 0.3}],
    training={"max_epochs": 8, "lr": 1e-2, "batch_size": 32},
    top=1,
)
result = experiment.run()
print(result.selected)

# %%
# The table
# ---------
# First the baseline, then the best setting of each method, then the selection rules. ``paper`` takes
# the setting whose lower quartile of *validation* accuracy over folds is highest. ``oracle`` looks at the test scores
# and is therefore no method but a ceiling.

columns = ["setting", "mean", "lower_quartile", "gain", "low", "high"]
print(result.table[columns].round(3).to_string())

# %%
# What ``paper`` looked at:

folds = result.scores.groupby(["setting", "subject"])["score_valid"].mean()
print(folds.groupby("setting").quantile(0.25).sort_values(ascending=False).round(3).to_string())

# %%
# Is the gain real?
# -----------------
# ``low`` and ``high`` enclose the mean gain over the baseline with 95 % confidence over subjects. With four
# subjects and one seed the interval is wide: do not publish this one. ``seeds=5`` repeats the
# cross-validation and tells the chance of the seed from that of the subjects; ``nested=True`` adds a rule for
# which no test subject has had any influence on its own decoder.

gained = result.table.loc["AutoTransfer (paper)"]
print(f"gain {gained['gain']:+.3f}, interval {gained['low']:+.3f} to {gained['high']:+.3f}")

# %%
# Everything is on disk
# ---------------------
# Trained weights, MOABB's own result file, tables as CSV, and a report to send to a colleague.
# :doc:`plot_winning_model` puts the winner to use.

print(sorted(path.name for path in result.out.iterdir()))
print(result.scores.head(3).to_string(index=False))
