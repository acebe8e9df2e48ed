"""Simulated subjects: reproducible, shifted as configured, with the right Bayes accuracy."""

import hashlib
from pathlib import Path

import mne
import numpy as np
import pytest
from scipy.linalg import circulant
from scipy.stats import multivariate_normal

from braindecode_censor.datasets import ERP, EMGGestures, SimulatedSubjects, default_paradigm
from braindecode_censor.datasets._head import ECCENTRICITY, EEG_NAMES, RADIUS, electrode_positions, leadfield
from braindecode_censor.datasets.simulated import linear_features
from braindecode_censor.datasets.simulated_design import EFFECTS, PRESETS
from studies import linear_reference as linear

KINDS = ("erp", "emg")


def only(kind, **sizes):
    return dict.fromkeys(EFFECTS[kind], 0.0) | sizes


def digest(dataset):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in dataset.arrays())).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bytes(kind):
    make = lambda seed: SimulatedSubjects(3, 20, kind=kind, seed=seed)  # noqa: E731
    assert digest(make(7)) == digest(make(7)) != digest(make(8))
    few, many = (SimulatedSubjects(n, 20, kind=kind).trials(2)[0][0] for n in (2, 30))
    np.testing.assert_array_equal(few, many)
    first, again = (make(7).get_data([2])[2]["0"]["0"].get_data() for _ in range(2))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize(
    ("kind", "paradigm", "ch_types"), [("erp", ERP, ["eeg"] * 16), ("emg", EMGGestures, ["emg"] * 8)]
)
def test_moabb_sees_the_same_trials(kind, paradigm, ch_types):
    dataset = SimulatedSubjects(3, 20, kind=kind, n_sessions=2)
    raw = dataset.get_data([1])[1]["0"]["0"]
    assert isinstance(default_paradigm(dataset), paradigm) and raw.get_channel_types() == ch_types
    assert kind == "emg" or 1e-6 < raw.get_data().std() < 5e-5
    assert dataset.data_path(1) == [] and dataset.metadata is None
    X, y, subjects = dataset.arrays()
    X2, labels, metadata = default_paradigm(dataset).get_data(dataset)
    np.testing.assert_allclose(X2, X, atol=1e-4)
    np.testing.assert_array_equal(labels, np.array(dataset.class_names)[y])
    np.testing.assert_array_equal(metadata["subject"], subjects)
    assert set(metadata["session"]) == {"0", "1"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_tells_simulations_apart(kind):
    """MOABB keeps data and results under the code alone."""
    changes = ({}, {"seed": 1}, {"shift": 0.3}, {"drift": 1})
    codes = [SimulatedSubjects(kind=kind, **change).code for change in changes]
    assert len(set(codes)) == 4 and SimulatedSubjects(kind=kind).code == codes[0]


@pytest.mark.parametrize(("kind", "accuracy", "drop"), [("erp", 0.8, 0.2), ("emg", 0.9, 0.15)])
def test_a_linear_model_transfers_without_shift_and_suffers_from_it(kind, accuracy, drop):
    """Without it, leave-one-subject-out equals within-subject accuracy, on as many training trials."""
    scores = []
    for shift in (0.0, 0.5, 1.0):
        X, y, s = SimulatedSubjects(kind=kind, shift=shift, n_trials=120, n_chans=8).arrays()
        F = linear_features(X, kind)
        scores.append(linear.across(F, y, s))
        if shift == 0:
            inside, outside = linear.within(F, y, s), linear.across(F, y, s, n_train=96, repeats=4)
    without, half, full = scores
    assert abs(inside - outside) < 0.03 and inside > accuracy
    assert without > inside - 0.01  # and more subjects do not hurt
    assert without > half > full and without - full > drop
    assert linear.within(F, y, s) - full > 0.1  # within the subjects the task is as before


def test_subject_invariant_features_help_when_the_shift_is_strong():
    """Without the directions in which subjects disagree about the classes, a stranger is decoded better."""
    gain = []
    for seed in range(3):
        X, y, s = SimulatedSubjects(seed=seed, n_chans=8).arrays()
        F = linear_features(X, "erp")
        gain.append(linear.across_invariant(F, y, s) - linear.across(F, y, s))
    assert np.mean(gain) > 0.005


def test_erp_bayes_accuracy_is_that_of_the_likelihood():
    """The closed form against the decoder it describes, on fresh trials; and against a wrong subject's."""
    dataset = SimulatedSubjects(4, snr=0.5)
    y = np.arange(2000) % 2
    for subject in (1, 2):
        model = dataset.model(subject)
        X = model.sample(y, np.random.default_rng(subject))
        reached = np.mean(model.log_likelihood(X).argmax(axis=1) == y)
        assert reached == pytest.approx(model.bayes_accuracy(), abs=0.02)
        stranger = np.mean(dataset.model(3).log_likelihood(X).argmax(axis=1) == y)
        assert stranger < reached


def test_the_likelihood_is_the_gaussian_density():
    """Against scipy, with the covariance written out, for both kinds."""
    dataset = SimulatedSubjects(1, 8, n_chans=2, sfreq=64.0, duration=0.5)
    model = dataset.model(1)
    X = model.sample(np.array([0, 1, 1]), np.random.default_rng(0))
    time = circulant(np.fft.irfft(model.spectrum, n=32))
    dense = np.kron(model.covariance, time)
    expected = np.array(
        [multivariate_normal(m.ravel(), dense).logpdf(X.reshape(3, -1)) for m in model.means]
    ).T
    density = model.log_likelihood(X)
    np.testing.assert_allclose(density[:, 1] - density[:, 0], expected[:, 1] - expected[:, 0], rtol=1e-6)
    emg = SimulatedSubjects(1, 20, kind="emg", n_chans=2, duration=0.5).model(1)
    X = emg.sample(np.array([0, 3]), np.random.default_rng(0))
    for c in (1, 4):
        expected = 0
        for t, e in enumerate(emg.envelope):
            expected = expected + _pair_density(emg, c, e, X[:, :, t]) - _pair_density(emg, 0, e, X[:, :, t])
        density = emg.log_likelihood(X)
        np.testing.assert_allclose(density[:, c] - density[:, 0], expected, rtol=1e-6)


def _pair_density(model, c, envelope, x):
    return multivariate_normal(np.zeros(2), envelope**2 * model.signal[c] + np.diag(model.noise)).logpdf(x)


@pytest.mark.parametrize("kind", KINDS)
def test_no_decoder_beats_the_oracle_and_strangers_are_harder(kind):
    dataset = SimulatedSubjects(4, 200, kind=kind, snr=0.5)
    X, y, s = dataset.arrays()
    F = linear_features(X, kind)
    best = dataset.oracle_accuracy()
    unknown = dataset.oracle_accuracy(subject_known=False, n_draws=20, n_strangers=30)
    assert linear.within(F, y, s) < best + 0.03
    assert linear.across(F, y, s) < best
    assert 1.3 / dataset.design.n_classes < unknown < best


def test_without_shift_knowing_the_subject_is_worth_nothing():
    dataset = SimulatedSubjects(3, shift=0.0, snr=0.5)
    unknown = dataset.oracle_accuracy(subject_known=False, n_draws=400, n_strangers=3)
    assert unknown == pytest.approx(dataset.oracle_accuracy(), abs=0.03)


def test_covariances_differ_as_configured():
    """The trials' sample covariance is the model's; equal for two subjects without the shift, unequal with it."""
    dataset = SimulatedSubjects(2, 400, shift=1.0)
    samples = []
    for subject in (1, 2):
        (X, y) = dataset.trials(subject)[0]
        model = dataset.model(subject)
        noise = X - model.means[y]
        sample = np.einsum("nct,ndt->cd", noise, noise) / (len(y) * X.shape[-1])
        np.testing.assert_allclose(sample, model.covariance, atol=0.05 * np.trace(model.covariance) / 16)
        samples.append(sample)
    between = np.linalg.norm(samples[0] - samples[1]) / np.linalg.norm(samples[0])
    assert between > 0.3
    same = [SimulatedSubjects(2, shift=0.0).model(k).covariance for k in (1, 2)]
    np.testing.assert_array_equal(*same)


def test_latencies_differ_as_configured():
    """The peak of the late response, from the averages of two subjects, is where the parameters put it."""
    dataset = SimulatedSubjects(2, 600, shift=1.0, snr=6.0, effects=only("erp", latency=0.04))
    peaks = []
    for subject in (1, 2):
        X, y = dataset.trials(subject)[0]
        wave = (X[y == 1].mean(0) - X[y == 0].mean(0))[EEG_NAMES.index("Pz")]
        t = np.arange(len(wave)) / 128
        grid = np.arange(-0.15, 0.15, 0.001)  # slide the response's own shape along the average
        shapes = np.exp(-0.5 * ((t[t > 0.26] - 0.38 - grid[:, None]) / 0.07) ** 2)
        match = shapes @ wave[t > 0.26] / np.linalg.norm(shapes, axis=1)
        peaks.append(0.38 + grid[np.argmax(match)])
        assert peaks[-1] == pytest.approx(0.38 + dataset.parameters(subject)["latency"][0], abs=0.012)
    assert abs(peaks[0] - peaks[1]) > 0.02


def test_emg_onset_rotation_and_gain():
    dataset = SimulatedSubjects(2, 20, kind="emg", shift=1.0, effects=only("emg", latency=0.08))
    onsets = [np.argmax(dataset.model(k).envelope > 0.5) / 200 for k in (1, 2)]
    expected = [0.2 + dataset.parameters(k)["latency"][0] for k in (1, 2)]
    np.testing.assert_allclose(onsets, expected, atol=0.006)
    turned = SimulatedSubjects(2, 20, kind="emg", shift=1.0, effects=only("emg", rotation=40.0))
    straight = SimulatedSubjects(2, 20, kind="emg", shift=0.0)
    assert np.linalg.norm(turned.model(1).signal - straight.model(1).signal) > 0.2 * np.linalg.norm(
        straight.model(1).signal
    )
    louder = SimulatedSubjects(2, 20, kind="emg", shift=1.0, effects=only("emg", gain=0.5))
    ratio = np.log(louder.model(1).noise / straight.model(1).noise) / 2
    gain = louder.parameters(1)["gain"]
    np.testing.assert_allclose(ratio, gain[0] + gain[1:] / 3)


def test_drift_moves_sessions_and_leaves_the_first_alone():
    steady, drifting = (SimulatedSubjects(1, 40, n_sessions=2, drift=d) for d in (0.0, 1.0))
    np.testing.assert_array_equal(steady.model(1, 0).means, steady.model(1, 1).means)
    np.testing.assert_array_equal(steady.model(1, 0).means, drifting.model(1, 0).means)
    assert np.abs(drifting.model(1, 1).means - drifting.model(1, 0).means).max() > 1
    assert drifting.n_sessions == 2 and [len(y) for _, y in drifting.trials(1)] == [20, 20]


def test_imbalance_and_label_shift():
    _, y, s = SimulatedSubjects(6, 100).arrays()
    assert all(np.mean(y[s == k]) == 0.5 for k in range(1, 7))
    _, y, _ = SimulatedSubjects(6, 100, imbalance=4.0).arrays()
    assert np.mean(y) == pytest.approx(0.2, abs=0.01)
    _, y, s = SimulatedSubjects(12, 100, label_shift=1.0).arrays()
    fractions = [np.mean(y[s == k]) for k in range(1, 13)]
    assert np.std(fractions) > 0.1 and min(fractions) > 0 and max(fractions) < 1
    _, y, s = SimulatedSubjects(5, 40, kind="emg", label_shift=50.0).arrays()
    assert all(np.bincount(y[s == k], minlength=5).min() >= 2 for k in range(1, 6))


def test_background_is_pink():
    model = SimulatedSubjects(1, 4, duration=4.0).model(1)
    X = model.sample(np.zeros(200, int), np.random.default_rng(0)) - model.means[0]
    power = (np.abs(np.fft.rfft(X)) ** 2).mean(axis=(0, 1))
    f = np.fft.rfftfreq(X.shape[-1], 1 / 128)
    slope = np.polyfit(np.log(f[(f > 2) & (f < 50)]), np.log(power[(f > 2) & (f < 50)]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)


def test_the_head_is_mnes_sphere():
    """The closed form against MNE's homogeneous sphere, and its shrunken dipole against MNE's head of four shells."""
    names, centre = ["Fz", "Cz", "Pz", "C3", "C4", "O1", "O2", "F3", "F4", "P3"], np.array([0.0, 0.0, 0.04])
    cap = electrode_positions(16)
    cap = cap[[EEG_NAMES.index(name) for name in names]]
    info = mne.create_info(names, 100.0, "eeg").set_montage("colin27_1005")
    for channel, position in zip(info["chs"], cap):
        channel["loc"][:3] = position + centre
    plain = mne.make_sphere_model(
        centre, RADIUS, relative_radii=(0.999, 1.0), sigmas=(0.33, 0.33), verbose="ERROR"
    )
    shells = mne.make_sphere_model(centre, RADIUS, verbose="ERROR")
    for where, moment in (([0.0, -0.03, 0.05], [0.0, -0.5, 0.8]), ([0.03, 0.0, 0.05], [0.0, 1.0, 0.0])):
        moment = np.array(moment) / np.linalg.norm(moment)
        dipole = mne.Dipole([0], [where + centre], [1.0], [moment], [1.0])
        exact, head = (_forward(dipole, sphere, info) for sphere in (plain, shells))
        ours = leadfield(cap, np.array([where]))[:, 0] @ moment
        np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
        shrunk = leadfield(cap, ECCENTRICITY * np.array([where]))[:, 0] @ moment
        assert np.corrcoef(shrunk, head)[0, 1] > 0.98


def _forward(dipole, sphere, info):
    field = mne.make_forward_dipole(dipole, sphere, info, verbose="ERROR")[0]["sol"]["data"][:, 0]
    return field - field.mean()


@pytest.mark.parametrize("kind", KINDS)
def test_presets_go_from_easy_to_hard(kind):
    assert list(PRESETS[kind]) == ["easy", "medium", "hard"]
    scores = []
    for preset in PRESETS[kind]:
        dataset = SimulatedSubjects(kind=kind, preset=preset)
        X, y, s = dataset.arrays()
        scores.append((dataset.oracle_accuracy(subjects=[1]), linear.across(linear_features(X, kind), y, s)))
    assert scores == sorted(scores, key=lambda pair: -pair[1]) and min(scores)[0] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "meg"}, "kind='meg' is unknown; choose one of erp, emg, mixed. Did you mean 'emg'"),
        ({"preset": "hrd"}, "preset='hrd' is unknown.*Did you mean 'hard'"),
        ({"effects": {"rotate": 1}}, "effect='rotate' is unknown; choose one of rotation, .*mean 'rotation'"),
        ({"shift": -1.0}, "shift=-1.0 is too small; it must be at least 0"),
        ({"snr": float("nan")}, "snr=nan is too small"),
        ({"duration": float("inf")}, "duration=inf must be a positive number"),
        ({"n_trials": 3}, "n_trials=3 leaves fewer than two trials per class"),
        ({"n_trials": 20.5}, "n_trials=20.5 must be an integer"),
        ({"n_classes": 3}, "kind='erp' has two classes"),
        ({"n_chans": 100}, "at most 60 channels"),
        ({"duration": 0.1}, "duration=0.1 s at sfreq=128.0 Hz cannot hold"),
        ({"kind": "mixed", "n_classes": 9}, "kind='mixed' has at least as many channels as classes"),
        ({"kind": "mixed", "n_chans": 100}, "kind='mixed' has at least as many channels as classes"),
    ],
)
def test_impossible_designs_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SimulatedSubjects(**options)


def test_the_documented_presets_are_those_of_the_code():
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for kind, presets in PRESETS.items():
        for preset, values in presets.items():
            assert f"| {kind} | {preset} | {values['snr']} | {values['shift']} |" in text
