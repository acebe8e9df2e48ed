"""Censor works on an unmodified EEGClassifier with any data, and explains invalid use."""

from functools import partial

import mne
import numpy as np
import pandas as pd
import pytest
import torch
from braindecode import EEGClassifier
from braindecode.augmentation import (
    AugmentedDataLoader,
    Compose,
    GaussianNoise,
    Mixup,
    SegmentationReconstruction,
    SignFlip,
)
from braindecode.datasets import create_from_X_y
from sklearn.base import clone
from skorch.callbacks import Callback
from torch import nn

from braindecode_censor import Censor, make_penalty
from braindecode_censor.training.layers import code_of

SMALL = {"max_epochs": 2, "batch_size": 32, "verbose": 0, "module__final_layer_with_constraint": True}
SMALL_OWN = {name: value for name, value in SMALL.items() if not name.startswith("module__")}


class CheckLabels(Callback):
    """Compare the delivered labels with the subject in the first sample of every trial."""

    def __init__(self, censor):
        self.censor = censor
        self.subjects_ = []

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        if training:
            written = batch[0][:, 0, 0].round().long().cpu().numpy()
            assert np.array_equal(self.censor.labels_[self.censor.s_.cpu().numpy()], written)
            self.subjects_.extend(written.tolist())


@pytest.fixture(scope="module")
def marked(data):
    x, y, subjects = data
    x = x.copy()
    x[:, 0, 0] = subjects
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order], subjects[order]


def _fit(inputs, censor, **options):
    check = CheckLabels(censor)
    net = EEGClassifier("EEGNet", callbacks=[censor, check], **{**SMALL, **options})
    net.fit(*inputs)
    assert len(check.subjects_) > 0
    return net, check


@pytest.mark.parametrize("workers", [0, 1])
def test_arrays(marked, workers):
    x, y, subjects = marked
    net, check = _fit(
        (x, y), Censor("adv", weight=0.1, subjects=subjects), iterator_train__num_workers=workers
    )
    assert len(check.subjects_) == 2 * net.history[0, "train_batch_count"] * 32


def test_epochs(marked):
    x, y, subjects = marked
    info = mne.create_info(4, sfreq=96.0, ch_types="eeg")
    metadata = pd.DataFrame({"subject": subjects})
    epochs = mne.EpochsArray(x * 1e-6, info, metadata=metadata, verbose="error")
    _fit((epochs, y), Censor("mmd"))


def test_braindecode_dataset(marked):
    x, y, subjects = marked
    dataset = _concat(x, y, subjects)
    assert set(dataset.description["subject"]) == set(subjects)
    _, check = _fit((dataset, None), Censor("mmd", mode="conditional"), train_split=None)
    assert set(check.subjects_) == set(subjects)


def _concat(x, y, subjects):
    """One dataset per trial, as Braindecode makes them, each described by its subject."""
    dataset = create_from_X_y(x.astype("float64"), y, drop_last_window=False, sfreq=96)
    dataset.set_description({"subject": subjects.tolist()})
    return dataset


def test_split_of_a_user(marked):
    x, y, subjects = marked

    def backwards(dataset, y=None, **kwargs):
        half = torch.utils.data.Subset(dataset, np.arange(len(dataset))[::-2])
        return torch.utils.data.Subset(half, np.arange(10, len(half))), None

    _fit((x, y), Censor("pairmmd", subjects=subjects), train_split=backwards)


def test_subset_with_labels_of_the_subset_or_of_the_dataset(marked):
    x, y, subjects = marked
    some = np.arange(150, 10, -1)
    part = torch.utils.data.Subset(create_from_X_y(x, y, drop_last_window=False, sfreq=64), some)
    options = {"module__n_chans": 4, "module__n_times": 96, "module__n_outputs": 2, "classes": [0, 1]}
    for labels in (subjects[some], subjects):
        _fit((part, None), Censor("mmd", subjects=labels), train_split=None, **options)
    order = np.random.default_rng(1).permutation(len(y))  # as the whole
    _fit(
        (torch.utils.data.Subset(part.dataset, order), None),
        Censor("mmd", subjects=subjects[order]),
        train_split=None,
        **options,
    )


def test_subject_and_session(data):
    x, y, subjects = data
    sessions = np.arange(len(y)) // 8 % 2
    callbacks = [
        ("subject", Censor("mmd", weight=1.0, subjects=subjects)),
        ("session", Censor("adv", weight=0.1, key="session", subjects=sessions)),
    ]
    net = EEGClassifier("EEGNet", callbacks=callbacks, **SMALL).fit(x, y)
    assert {"subject_penalty", "session_penalty", "session_accuracy"} <= set(net.history[-1])
    assert dict(net.callbacks_)["session"].labels_.tolist() == [0, 1]
    assert net.history[-1, "session_chance"] == pytest.approx(0.5, abs=0.1)


def test_warmup_raises_the_weight_linearly(data):
    x, y, subjects = data

    class Weights(Callback):
        def on_batch_end(self, net, training=None, **kwargs):
            self.weights_ = [*getattr(self, "weights_", []), dict(net.callbacks_)["Censor"].weight_]

    weights = Weights()
    censor = Censor("mmd", weight=8.0, warmup=4, subjects=subjects)
    options = {**SMALL, "max_epochs": 6, "batch_size": 64, "train_split": None}
    EEGClassifier("EEGNet", callbacks=[censor, weights], **options).fit(x, y)
    assert weights.weights_[::2] == [0.0, 2.0, 4.0, 6.0, 8.0, 8.0]


def test_repr_differs_between_configurations():
    """MOABB's results are stored under a hash of this text."""
    base = Censor("mmd", subjects=[1, 2, 3])
    assert repr(base) == repr(clone(base)) == repr(Censor("mmd", subjects=np.array([1, 2, 3])))
    assert "weight=0.3" in repr(base)
    assert " at 0x" not in repr(base)
    others = [
        Censor("adv", subjects=[1, 2, 3]),
        Censor("mmd", subjects=[1, 2, 4]),
        Censor("mmd", weight=2.0, subjects=[1, 2, 3]),
        Censor("mmd", "marginal", subjects=[1, 2, 3]),
        Censor("mmd", subjects=[1, 2, 3], lengthscale="median"),
        Censor(make_penalty("mmd", n_subjects=2), subjects=[1, 2, 3]),
    ]
    assert len({repr(censor) for censor in [base, *others]}) == 7


def test_set_params_through_the_net():
    net = EEGClassifier("EEGNet", callbacks=[Censor("mige")])
    net.set_params(callbacks__Censor__weight=7.0, callbacks__Censor__score="stein")
    net.initialize_callbacks()
    censor = dict(net.callbacks_)["Censor"]
    assert (censor.weight, censor.options) == (7.0, {"score": "stein"})
    assert clone(censor).get_params() == censor.get_params()


def test_failed_split_leaves_the_net_unchanged(marked):
    x, y, subjects = marked

    def fail(dataset, y=None, **kwargs):
        raise RuntimeError("no split")

    censors = [Censor("mmd", subjects=subjects % 2), Censor("mmd", subjects=subjects, name="other")]
    net = EEGClassifier("EEGNet", callbacks=censors, train_split=fail, **SMALL)
    with pytest.raises(RuntimeError, match="no split"):
        net.fit(x, y)
    assert clone(net).iterator_train is torch.utils.data.DataLoader
    net.set_params(train_split=None)
    censors[0].subjects = subjects  # with more subjects than before
    net.fit(x, y)
    assert net.iterator_train is torch.utils.data.DataLoader
    assert [len(censor.labels_) for censor in censors] == [5, 5]
    net.set_params(train_split=fail)
    with pytest.raises(RuntimeError, match="no split"):
        net.fit(x, y)
    net.set_params(callbacks=None, train_split=None).fit(x[:90], y[:90])  # a tap whose callback is gone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "found no subject labels in the data.*subjects=labels"),
        ({"subjects": [1, 2, 3]}, "subjects: 3 labels for 160 trials"),
        ({"subjects": np.ones(160)}, r"all 128 training trials belong to \[1.0\].*at least two subjects"),
        ({"subjects": np.where(np.arange(160) % 3, 1.0, np.nan)}, "subjects has missing values"),
        ({"subjects": np.array([1, "b"] * 80, dtype=object)}, "subjects mixes int and str"),
        ({"subjects": np.arange(160) % 2, "layer": "head"}, "layer='head' is not in EEGNet; it has"),
        ({"subjects": np.arange(160) % 2, "weight": float("nan")}, "weight=nan must be a finite number"),
        ({"subjects": np.arange(160) % 2, "warmup": -1}, "warmup=-1 must be an integer of at least 0"),
        ({"subjects": np.arange(160) % 2, "critic_steps": 0}, "critic_steps=0 must be"),
        ({"subjects": np.arange(160) % 2, "method": "mdm"}, "Did you mean 'mmd'"),
        ({"subjects": np.arange(160) % 2, "mode": "Conditional"}, "Did you mean 'conditional'"),
        (
            {"subjects": np.arange(160) % 2, "lenghtscale": 1},
            "Censor does not know lenghtscale=1.*Did you mean",
        ),
    ],
)
def test_invalid_arguments(data, options, message):
    x, y, _ = data
    with pytest.raises(ValueError, match=message):
        EEGClassifier("EEGNet", callbacks=[Censor(**options)], **SMALL).fit(x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "adv"}, "Censor does not know penalty='adv': the word is method='adv'"),
        ({"censoring": "conditional"}, "the word is mode='conditional'"),
        ({"score_estimator": "nu"}, "the word is score='nu'"),
    ],
)
def test_argument_names_of_the_estimator(options, message):
    with pytest.raises(ValueError, match=message):
        Censor(**options)
    with pytest.raises(ValueError, match=message):
        Censor().set_params(**options)


def test_augmented_trials_keep_their_subjects(marked):
    """The mark of the subject is in the first sample; the noise is too weak to change it."""
    censor = Censor("mmd", "conditional", subjects=marked[2])
    transforms = [GaussianNoise(0.5, std=1e-3), GaussianNoise(1.0, std=1e-3)]
    net, check = _fit(
        marked[:2], censor, iterator_train=AugmentedDataLoader, iterator_train__transforms=transforms
    )
    assert set(check.subjects_) == set(marked[2])
    assert np.isfinite(net.history[:, "subject_penalty"]).all()


@pytest.mark.parametrize(
    "transforms",
    [
        Mixup(alpha=0.4),
        [SignFlip(0.5), SegmentationReconstruction(1.0)],
        Compose([SignFlip(0.5), Mixup(alpha=0.4)]),
    ],
)
def test_mixing_transforms_are_refused(data, transforms):
    x, y, subjects = data
    censor = Censor("mmd", "conditional", weight=1.0, subjects=subjects)
    options = {"iterator_train": AugmentedDataLoader, "iterator_train__transforms": transforms}
    with pytest.raises(
        ValueError, match=r"mixed from those of several subjects has no subject.*Remove Mixup"
    ):
        EEGClassifier("EEGNet", callbacks=[censor], **options, **SMALL).fit(x, y)


def test_mixed_targets_are_refused(data):
    """The loader's transforms are hidden here, the targets are not."""
    x, y, subjects = data
    censor = Censor("mmd", subjects=subjects)
    loader = partial(AugmentedDataLoader, transforms=Mixup(alpha=0.4))
    with pytest.raises(ValueError, match=r"classes are mixed targets.*Remove Mixup"):
        EEGClassifier("EEGNet", callbacks=[censor], iterator_train=loader, **SMALL).fit(x, y)


class TwoHeads(nn.Module):
    """Calls the layers of a list, never the list; and one layer with a row per channel."""

    def __init__(self, n_chans, n_outputs, n_times):
        super().__init__()
        self.n_outputs = n_outputs
        self.per_channel = nn.Linear(n_times, 6)
        self.heads = nn.ModuleList([nn.Linear(6 * n_chans, n_outputs)])
        self.scores = nn.Identity()

    def forward(self, x):
        h = self.per_channel(x.flatten(0, 1)).view(len(x), -1).relu()
        return self.scores(self.heads[0](h))


@pytest.mark.parametrize("layer", ["heads", "per_channel"])
def test_layer_without_latent_code(data, layer):
    x, y, subjects = data
    net = EEGClassifier(TwoHeads, callbacks=[Censor("mmd", layer=layer, subjects=subjects)], **SMALL_OWN)
    with pytest.raises(
        ValueError, match=rf"layer='{layer}' of TwoHeads.*Pass layer=.*\['heads.0'\]"
    ) as error:
        net.fit(x, y)
    assert "per_channel" not in str(error.value).split("Pass layer=")[1]
    assert not any(part._forward_pre_hooks for part in net.module_.modules())
    with pytest.raises(ValueError, match=f"layer='{layer}' of TwoHeads"):
        code_of(net.module_, layer, torch.as_tensor(x[:5]))
    assert code_of(net.module_, "heads.0", torch.as_tensor(x[:5])).shape == (5, 24)
    net.set_params(callbacks=[Censor("mmd", layer="heads.0", subjects=subjects)]).fit(x, y)
    assert np.isfinite(net.history[-1, "subject_penalty"])


def test_two_callbacks_need_two_names(data):
    x, y, subjects = data
    callbacks = [Censor("mmd", subjects=subjects), Censor("adv", subjects=subjects)]
    with pytest.raises(ValueError, match="two Censor callbacks write to the history as 'subject'"):
        EEGClassifier("EEGNet", callbacks=callbacks, **SMALL).fit(x, y)
