"""A Braindecode user adds one callback: to arrays, to a dataset of windows, and to a network without a final layer."""

import mne
import numpy as np
import torch
from braindecode import EEGClassifier
from braindecode.datasets import BaseConcatDataset, create_from_X_y
from braindecode.models import ATCNet, ShallowFBCSPNet
from journeys.readme import block, run
from torch.utils.data import Subset

from braindecode_censor import Censor

changes = {"(5, 40)": '(4, 40, n_chans=8, preset="easy", seed=6)', "max_epochs=3": "max_epochs=20, verbose=0"}
names = run(block("python", "EEGClassifier(", changes))
X, y, subjects, net = (names[name] for name in ("X", "y", "subjects", "net"))
X = X.astype("float32")
assert np.mean(net.predict(X) == y) > 0.6
assert all(np.isfinite(net.history[:, "subject_penalty"]))

# A dataset of windows holds its subjects; one subject is not trained on.
mne.set_log_level("ERROR")
datasets = [
    create_from_X_y(X[subjects == k], y[subjects == k], drop_last_window=False, sfreq=128.0)
    for k in range(1, 5)
]
for k, windows in enumerate(datasets, start=1):
    windows.set_description({"subject": [k] * len(windows.datasets)})
windows = BaseConcatDataset(datasets)
train = Subset(windows, np.flatnonzero(subjects < 4).tolist())
test = Subset(windows, np.flatnonzero(subjects == 4).tolist())


def train_net(weight, model):
    torch.manual_seed(0)
    module = model(n_chans=8, n_outputs=2, n_times=X.shape[2], sfreq=128)
    censor = Censor("adv", mode="conditional", weight=weight)
    options = {"max_epochs": 2, "batch_size": 32, "train_split": None, "verbose": 0, "classes": [0, 1]}
    return EEGClassifier(module, callbacks=[censor], **options).fit(train, y=None)


monitored, censored = train_net(0.0, ShallowFBCSPNet), train_net(1.0, ShallowFBCSPNet)
assert monitored.history[-1, "subject_chance"] == censored.history[-1, "subject_chance"]
weights = [torch.cat([p.flatten() for p in net.module_.parameters()]) for net in (monitored, censored)]
assert not torch.allclose(*weights)
assert censored.predict(test).shape == (40,)

# The last layer of this network is never called as such: an error, not a training without censoring.
try:
    train_net(1.0, ATCNet)
except ValueError as error:
    assert "final_layer" in str(error) and "layer=" in str(error)
else:
    raise AssertionError("ATCNet was trained without censoring")
