"""A Braindecode user trains a network on windows of several people and adds one callback."""

import mne
import numpy as np
import torch
from braindecode import EEGClassifier
from braindecode.datasets import BaseConcatDataset, create_from_X_y
from braindecode.models import ATCNet, ShallowFBCSPNet
from journeys.readme import block, run
from torch.utils.data import Subset

from braindecode_censor import Censor
from braindecode_censor.datasets import SimulatedSubjects

X, y, subjects = SimulatedSubjects(4, 40, n_chans=8, preset="easy", seed=6).arrays()
X = X.astype("float32")
for name, array in {"X": X, "y": y, "subjects": subjects}.items():
    np.save(f"{name}.npy", array)
clf = run(block("python", "EEGClassifier("))["clf"]  # word by word
assert np.mean(clf.predict(X) == y) > 0.6
assert all(np.isfinite(clf.history[:, "subject_penalty"]))

# Their own way: a dataset of windows that knows whose they are, and a subset of it for training.

mne.set_log_level("ERROR")
people = [
    create_from_X_y(X[subjects == k], y[subjects == k], drop_last_window=False, sfreq=100.0)
    for k in range(1, 5)
]
for k, windows in enumerate(people, start=1):
    windows.set_description({"subject": [k] * len(windows.datasets)})
windows = BaseConcatDataset(people)
train = Subset(windows, np.flatnonzero(subjects < 4).tolist())


def trained(weight, model):
    torch.manual_seed(0)
    module = model(n_chans=8, n_outputs=2, n_times=X.shape[2], sfreq=100)
    censor = Censor("adv", mode="conditional", weight=weight)
    options = {"max_epochs": 2, "batch_size": 32, "train_split": None, "verbose": 0, "classes": [0, 1]}
    return EEGClassifier(module, callbacks=[censor], **options).fit(train, y=None)


watched, censored = trained(0.0, ShallowFBCSPNet), trained(1.0, ShallowFBCSPNet)
assert watched.history[-1, "subject_chance"] == censored.history[-1, "subject_chance"]
first, second = (torch.cat([p.flatten() for p in clf.module_.parameters()]) for clf in (watched, censored))
assert not torch.allclose(first, second)  # the weight does something
assert censored.predict(Subset(windows, np.flatnonzero(subjects == 4).tolist())).shape == (40,)

# A network whose last layer is never called as such is refused with a way out, not trained without censoring.
try:
    trained(1.0, ATCNet)
except ValueError as error:
    print(error)
    assert "final_layer" in str(error) and "layer=" in str(error)
else:
    raise AssertionError("ATCNet was trained without a word")
