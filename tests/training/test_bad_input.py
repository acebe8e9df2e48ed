"""Every invalid input gives a clear error or a defined result."""

import numpy as np
import pytest
from braindecode.augmentation import AugmentedDataLoader
from sklearn.model_selection import cross_val_score

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.training.leakage import subject_leakage


def _bad(data, **changes):
    x, y, subjects = data
    return {"X": x, "y": y, "subjects": subjects, **changes}


def _spoil(x, value):
    x = x.copy()
    x[7, 2, 5] = value
    return x


CASES = {
    "no subjects": (
        lambda d: {"subjects": None},
        "subjects=None: .* need the subject of every trial.*CrossSubjectEvaluation",
    ),
    "nan": (
        lambda d: {"X": _spoil(d[0], np.nan)},
        "NaN or infinite values in 1 of 160.*trial 7",
    ),
    "inf": (lambda d: {"X": _spoil(d[0], -np.inf)}, "NaN or infinite values"),
    "one subject": (
        lambda d: {"subjects": np.ones(160, int)},
        "0 to train on beside the validation subject 1",
    ),
    "two subjects": (lambda d: {"subjects": d[2] % 2}, "1 to train on beside.*censoring needs 2"),
    "one class": (lambda d: {"y": np.zeros(160, int)}, r"y holds one class, \[0\]"),
    "class of one": (
        lambda d: {"y": np.where((d[2] == 1) & (d[1] == 1), 2, d[1])},
        r"class \[2\] occurs only in",
    ),
    "short subjects": (
        lambda d: {"subjects": d[2][:-1]},
        r"subjects has shape \(159,\) and X has 160",
    ),
    "short y": (lambda d: {"y": d[1][:-1]}, r"y has shape \(159,\) and X has 160 trials"),
    "no y": (lambda d: {"y": None}, "y=None: pass one class per trial"),
    "missing label": (
        lambda d: {"subjects": np.where(d[2] == 2, np.nan, d[2])},
        "subjects has missing values",
    ),
    "missing label as None": (
        lambda d: {"subjects": np.where(d[2] == 2, None, d[2].astype(object))},
        "subjects has missing values, first in trial 3[02]",
    ),
    "names and numbers": (
        lambda d: {"subjects": np.where(d[2] == 2, "two", d[2].astype(object))},
        "subjects mixes int and str: give all labels one type",
    ),
    "two dimensions": (lambda d: {"X": d[0][:, 0]}, r"X has shape \(160, 96\): expected.*X\[:, None, :\]"),
    "nothing varies": (lambda d: {"X": np.full_like(d[0], 3.0)}, "all channels are constant in all trials"),
    "no trials": (lambda d: {"X": d[0][:0]}, r"X has shape \(0, 4, 96\)"),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_data(data, paper, case):
    change, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        CensoredEEGClassifier(**paper).fit(**_bad(data, **change(data)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"module": "EEGnet"}, "module='EEGnet' is unknown.*Did you mean 'EEGNet'"),
        ({"penalty": "mnd"}, "Did you mean 'mmd'"),
        ({"censoring": "marginall"}, "Did you mean 'marginal'"),
        ({"weight": float("nan")}, "weight=nan must be a finite number"),
        ({"sampling": "random"}, "sampling='random' is unknown"),
        ({"patience": 0}, "patience=0 must be"),
        ({"valid_subject": 17}, "valid_subject=17 has no trials"),
        ({"all_subjects": [1, 2]}, r"all_subjects=\[1, 2\] lacks the subjects"),
        ({"batch_norm_momentum": 1.5}, "batch_norm_momentum=1.5 must be in"),
        ({"batch_size": 1}, "batch_size=1 must be an integer of at least 2"),
        ({"layer": "head"}, "layer='head' is not in FastEEGNet"),
        ({"train_split": print}, "train_split is not used here"),
        ({"lr": 1e30, "penalty": None}, "validation loss was never finite"),
        ({"lr": "abc"}, "lr='abc' must be a positive number or zero"),
        ({"normalize": "subjet"}, "normalize='subjet' is unknown.*Did you mean 'subject'"),
        ({"augment": "GausianNoise"}, "augment='GausianNoise' is unknown.*Did you mean 'GaussianNoise'"),
        ({"augment": ["Mixup"]}, "Mixup' mixes trials of several"),
        ({"schedule": "onecycle"}, "schedule='onecycle' is unknown.*Did you mean 'one_cycle'"),
        ({"max_epochs": 1.5}, "max_epochs=1.5 must be an integer"),
        ({"max_epochs": None}, "max_epochs=None and max_steps=None: pass at least one"),
        ({"prior": -1}, "prior=-1 must be a positive number or zero"),
        ({"valid_subject": None}, "keep='best' needs a validation subject"),
        ({"valid_subject": None, "keep": "last", "patience": 2}, "patience=2 needs a validation subject"),
        ({"valid_subject": []}, r"valid_subject=\[\] is empty"),
        ({"optimizer": "Adamw"}, "optimizer='Adamw' is unknown.*Did you mean 'AdamW'"),
        ({"criterion": "NLLLoss"}, "criterion='NLLLoss' must be a class, not a name"),
        ({"iterator_train": AugmentedDataLoader}, r"Pass the transforms as augment=\["),
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"module__n_chans": 3}, "module__n_chans=3, but in the data n_chans is 4: leave it out"),
        ({"optimizer": 3}, "optimizer=3 cannot be made"),
        ({"optimizer__momentm": 3}, "optimizer=.*AdamW.*cannot be made.*momentm"),
        (
            {"criterion__label_smoothin": 0.1},
            "no option of criterion=.*FoldCrossEntropy.*Did you mean 'label_smoothing'",
        ),
        (
            {"iterator_train__num_worker": 1},
            "no option of iterator_train=.*TrialLoader.*Did you mean 'num_workers'",
        ),
        (
            {"penalty": "mmd", "penalty__lenghtscale": 1},
            r"penalty__lenghtscale=1 is no option of penalty='mmd'; its options are \['critic_lr.*mean 'lengthscale'",
        ),
        ({"penalty": "mmd", "penalty__reg": 1.0}, "penalty__reg=1.0 is no option of penalty='mmd'"),
        ({"module__F9": 3}, "module__F9=3 is no argument of FastEEGNet.*Did you mean 'module__F"),
    ],
    ids=str,
)
def test_invalid_options(data, paper, options, message):
    with pytest.raises(ValueError, match=message):
        CensoredEEGClassifier(**{**paper, **options}).fit(*data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mmd"}, "does not know method='mmd': pass penalty"),
        ({"score_estimator": "stein"}, "pass penalty__score"),
        ({"lengthscale": 1.0}, "does not know lengthscale=1.0: pass penalty__lengthscale"),
        ({"max_epoch": 3}, "does not know max_epoch=3. Did you mean 'max_epochs'"),
        ({"optimiser": "SGD"}, "Did you mean 'optimizer'"),
        ({"hiden": 3}, "Did you mean 'hidden'"),
    ],
    ids=str,
)
def test_unknown_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        CensoredEEGClassifier(**options)
    with pytest.raises(ValueError, match=message):
        CensoredEEGClassifier().set_params(**options)


@pytest.mark.parametrize("module", ["ShallowFBCSPNet"])
def test_short_trials(data, module):
    x, y, subjects = data
    with pytest.raises(
        ValueError, match=f"module='{module}' cannot be built for .*'n_times': 10.*longer trials"
    ):
        CensoredEEGClassifier(module, max_steps=1).fit(x[..., :10], y, subjects)


def test_layer_that_is_never_called(data):
    """`ATCNet` has a list of last layers, and calls those in it, so there is no latent code."""
    x, y, subjects = (part[:64] for part in data)
    x = np.tile(x, 4)[..., :256]
    options = {"max_steps": 1, "augment": None, "module__sfreq": 64}
    message = r"layer='final_layer' of ATCNet .* never called.*Pass layer= one of"
    with pytest.raises(ValueError, match=message):
        CensoredEEGClassifier("ATCNet", penalty="mmd", **options).fit(x, y, subjects=subjects)
    clf = CensoredEEGClassifier("ATCNet", penalty=None, **options).fit(x, y, subjects=subjects)
    for read in (lambda: clf.features(x), lambda: clf.subject_leakage(x, y, subjects)):
        with pytest.raises(ValueError, match=message):
            read()


def test_missing_subjects(data, quick, paper):
    x, y, _ = data
    for options in ({**paper, "penalty": None}, quick):  # Validation needs subjects, and so does censoring.
        with pytest.raises(ValueError, match="subjects=None"):
            CensoredEEGClassifier(**options).fit(x, y)
    with pytest.raises(ValueError, match="subjects=None"):
        cross_val_score(CensoredEEGClassifier(**quick), x, y, error_score="raise")


def test_plain_network_needs_no_subjects(data, quick):
    """As in MOABB's evaluation within a session, which passes no subjects."""
    x, y, _ = data
    clf = CensoredEEGClassifier(penalty=None, **quick).fit(x, y)
    one = CensoredEEGClassifier(penalty=None, **quick).fit(x, y, subjects=np.full(160, "one"))
    assert np.array_equal(clf.predict_proba(x), one.predict_proba(x))


def test_prediction_rejects_what_the_fit_did_not_see(data, quick):
    clf = CensoredEEGClassifier(**quick).fit(*data)
    with pytest.raises(ValueError, match=r"X has \(2, 96\) channels and samples.*fit had \(4, 96\)"):
        clf.predict(data[0][:, :2])
    with pytest.raises(ValueError, match="NaN or infinite"):
        clf.predict_proba(_spoil(data[0], np.nan))


def test_similar_class_names_warn(data, quick):
    names = np.array(["Left", "left "])[data[1]]
    with pytest.warns(UserWarning, match="the classes 'Left', 'left ' differ in case or spaces only"):
        clf = CensoredEEGClassifier(**quick).fit(data[0], names, data[2])
    assert clf.classes_.tolist() == ["Left", "left "]


def test_constant_channels_become_zeros(data, quick):
    x, y, subjects = data
    flat, zero = x.copy(), x.copy()
    flat[:, 1] = 123.4
    zero[:, 1] = 0.0
    one, two = (CensoredEEGClassifier(**quick).fit(data, y, subjects) for data in (flat, zero))
    assert np.isfinite(one.predict_proba(flat)).all()
    assert np.array_equal(one.predict_proba(flat), two.predict_proba(zero))


@pytest.mark.parametrize("sampling", ["balanced", "shuffle"])
def test_batch_larger_than_the_data(data, quick, sampling):
    """Braindecode would drop the only batch and train nothing."""
    clf = CensoredEEGClassifier(**{**quick, "batch_size": 10_000}, sampling=sampling).fit(*data)
    assert clf.history[-1, "train_batch_count"] == 1
    assert clf.history[-1, "batches", 0, "train_batch_size"] == 160


def test_invalid_leakage_arguments():
    z, s = np.zeros((4, 2)), [0, 0, 1, 1]
    with pytest.raises(ValueError, match="z has shape"):
        subject_leakage(z[0], s, s)
    with pytest.raises(ValueError, match=r"subjects has shape \(3,\) and z has 4 trials"):
        subject_leakage(z, s, s[:3])
    with pytest.raises(ValueError, match="needs at least two"):
        subject_leakage(z, s, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="no class has two subjects with two trials"):
        subject_leakage(z, [0, 1, 0, 1], s)
