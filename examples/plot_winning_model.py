"""
The selected decoder
====================

AutoTransfer selects a configuration. This example trains the configuration on all source subjects, saves the decoder
and applies it to a new subject.
"""

# %%
# The selection
# -------------
# As in :doc:`plot_autotransfer`, with a smaller grid. Subject 6 is the new subject, which neither the search nor the
# training uses.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects, default_paradigm
from braindecode_censor.paper.grid import get_preset

# The decoder is not adapted to the new subject, of which the normaliser warns.
warnings.filterwarnings("ignore", message=".*no trials of the new subject")
out = Path(tempfile.mkdtemp())
grid = [{"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.3}]
training = {"max_epochs": 10, "lr": 1e-2, "batch_size": 32}
study = {"n_trials": 40, "n_chans": 8, "preset": "easy", "seed": 4}
source = SimulatedSubjects(5, **study)
result = bc.AutoTransfer(source, out=out, preset=grid, training=training, n_top=1).run(report=False)
print(result.selected)

# %%
# The decoder
# -----------
# The cross-validation trained one decoder per fold, each without its test subject. The final decoder is trained on all
# source subjects. By default there is no validation subject, and the weights of the last epoch are used.

paradigm = default_paradigm(source)
X, y, metadata = paradigm.get_data(source)
config = {config.name: config for config in get_preset(grid).grid}[result.selected]
clf = bc.CensoredEEGClassifier(**training, **config.parameters())
clf.fit(X, y, subjects=metadata["subject"].to_numpy())
clf.save(out / "decoder.safetensors")
print(f"{(out / 'decoder.safetensors').stat().st_size / 1000:.0f} kB")

# %%
# A new subject
# -------------
# The file contains tensors and numbers but no code, so loading it is safe. Prediction needs neither subject labels nor
# the critic. Trials must be preprocessed as in training, here by the same paradigm.

decoder = bc.CensoredEEGClassifier.load(out / "decoder.safetensors")
all_subjects = SimulatedSubjects(6, **study)
X_new, y_new, _ = paradigm.get_data(all_subjects, subjects=[6])
predicted = decoder.predict(X_new)
print(f"balanced accuracy on subject 6: {balanced_accuracy_score(y_new, predicted):.2f}")
assert (decoder.predict_proba(X) == clf.predict_proba(X)).all()

# %%
# Accuracy by confidence
# ----------------------
# A speller can wait for another trial if the confidence is low. The figure shows the accuracy of the most confident
# trials. One subject is not enough to assess the calibration of probabilities.

probability = decoder.predict_proba(X_new).max(axis=1)
order = np.argsort(-probability)
correct = (predicted == y_new)[order]
n_decided = np.arange(1, len(correct) + 1)
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
axes.plot(n_decided / len(correct), np.cumsum(correct) / n_decided)
axes.set(xlabel="fraction of trials, most confident first", ylabel="accuracy", ylim=(0.4, 1.02))
axes.axhline(0.5, color="k", ls=":", lw=1)
halves = np.array_split(correct, 2)
print(f"more confident half {halves[0].mean():.2f}, less confident half {halves[1].mean():.2f}")
plt.show()
