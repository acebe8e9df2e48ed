"""
The winner at test time
=======================

AutoTransfer has chosen a way to train. What remains is to train that decoder once on everybody you have, save it,
and use it on somebody new.
"""

# %%
# The choice
# ----------
# As in :doc:`plot_autotransfer`, with an even smaller grid. Subject 6 is the person who walks in next month; neither
# the search nor the training knows about them.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects, default_paradigm
from braindecode_censor.paper.grid import get_preset

# Nothing is known of the person who is decoded here, and the decoder says so.
warnings.filterwarnings("ignore", message=".*no trials of the new person")
out = Path(tempfile.mkdtemp())
grid = [{"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.3}]
training = {"max_epochs": 10, "lr": 1e-2, "batch_size": 32}
study = {"n_trials": 40, "n_chans": 8, "preset": "easy", "seed": 4}
known = SimulatedSubjects(5, **study)
result = bc.AutoTransfer(known, out=out, preset=grid, training=training, top=1).run(report=False)
print(result.selected)

# %%
# The decoder
# -----------
# The cross-validation trained one decoder per fold, each without its test subject. The one to take home uses
# everybody: by default nobody validates, and the last weights of a schedule of fixed length are kept.

paradigm = default_paradigm(known)
X, y, metadata = paradigm.get_data(known)
setting = {setting.name: setting for setting in get_preset(grid).grid}[result.selected]
clf = bc.CensoredEEGClassifier(**training, **setting.parameters())
clf.fit(X, y, subjects=metadata["subject"].to_numpy())
clf.save(out / "decoder.safetensors")
print(f"{(out / 'decoder.safetensors').stat().st_size / 1000:.0f} kB")

# %%
# Months later, elsewhere
# -----------------------
# The file holds tensors and plain numbers, no code, so it is safe to open a stranger's. Prediction needs neither
# subject labels nor the critic. Trials must be cut as they were in training: the paradigm is the recipe.

decoder = bc.CensoredEEGClassifier.load(out / "decoder.safetensors")
everybody = SimulatedSubjects(6, **study)
X_new, y_new, _ = paradigm.get_data(everybody, subjects=[6])
predicted = decoder.predict(X_new)
print(f"balanced accuracy on subject 6: {balanced_accuracy_score(y_new, predicted):.2f}")
assert (decoder.predict_proba(X) == clf.predict_proba(X)).all()

# %%
# How sure is it?
# ---------------
# A speller can wait for another flash if the decoder is unsure. Sorted by confidence, are the sure trials
# right more often? With one person this is an observation, not a calibration.

probability = decoder.predict_proba(X_new).max(axis=1)
order = np.argsort(-probability)
right = (predicted == y_new)[order]
share = np.arange(1, len(right) + 1)
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
axes.plot(share / len(right), np.cumsum(right) / share)
axes.set(xlabel="share of trials decided, surest first", ylabel="accuracy among them", ylim=(0.4, 1.02))
axes.axhline(0.5, color="k", ls=":", lw=1)
print(f"surest half {right[: len(right) // 2].mean():.2f}, other half {right[len(right) // 2 :].mean():.2f}")
plt.show()
