"""Augmented batches follow their options, are reproducible, and are equal alone and in a fleet."""

import braindecode.augmentation as A
import numpy as np
import pytest
import torch
from scipy import stats

from braindecode_censor.trials.augment import AUGMENTATIONS, STANDARD, make_transforms
from braindecode_censor.trials.random_numbers import _quantile, mix, noise, normal, uniform
from braindecode_censor.trials.transforms import ChannelGains, CircularTimeShift

NAMES = ["C3", "C4", "O1", "O2", "Cz", "Pz"]
NEEDS = {
    **{name: {"ordered_ch_names": NAMES} for name in ("ChannelsSymmetry", "SensorsXRotation")},
    **{name: {"ordered_ch_names": NAMES} for name in ("SensorsYRotation", "SensorsZRotation")},
    "SensorsRotation": {"sensors_positions_matrix": np.random.default_rng(0).normal(size=(3, 6))},
    "BandRotation": {"electrodes_per_band": 3},
}


@pytest.fixture
def batch():
    return torch.randn(16, 6, 100, generator=torch.Generator().manual_seed(1))


def make(name, **options):
    return make_transforms({name: {**NEEDS.get(name, {}), **options}}, sfreq=100.0, random_state=3)


def test_random_numbers_are_uniform_normal_and_independent():
    stream = mix(torch.arange(50), 7)
    u = uniform(stream, (400,)).double().numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 0.01
    n = normal(stream, (400,)).double().numpy()
    assert np.isfinite(n).all()
    assert stats.kstest(n.ravel(), "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(u) - np.eye(50)).max() < 0.25, "streams of neighbouring numbers are unrelated"


def test_noise_is_white():
    x = noise(mix(torch.arange(2), 0), (30, 4), 200)
    assert x.shape == (2, 30, 4, 200)
    assert stats.kstest(x.flatten()[::7].numpy(), "norm").pvalue > 0.01
    assert abs(float((x[..., 1:] * x[..., :-1]).mean())) < 0.02
    assert abs(float((x[:, :, 0] * x[:, :, 1]).mean())) < 0.05


def test_circular_time_shift(batch):
    changed = make("CircularTimeShift", max_shift=0.04).apply(batch, 0)
    shifts = set()
    for old, new in zip(batch, changed):
        (shift,) = [k for k in range(-4, 5) if torch.equal(old.roll(k, -1), new)]
        shifts.add(shift)
    assert len(shifts) > 4
    assert min(shifts) < 0 < max(shifts)


def test_quantiles_of_the_extremes_are_finite():
    """One draw in 2**24 is the last step below one, and a training draws as many."""
    ends = _quantile(torch.tensor([0.0, 1 - 2.0**-24]))
    torch.testing.assert_close(ends, torch.tensor([-5.42, 5.42]), atol=0.01, rtol=0)


def test_channel_gains_are_log_normal(batch):
    gains = make("ChannelGains", std=0.1).apply(batch, 0) / batch
    torch.testing.assert_close(gains, gains[..., :1].expand_as(gains), rtol=1e-4, atol=1e-4)
    logs = gains[..., 0].log()
    assert 0.07 < logs.std() < 0.13
    assert abs(logs.mean()) < 0.03


def test_channels_dropout(batch):
    many = batch.repeat(20, 1, 1)
    changed = make("ChannelsDropout", p_drop=0.1).apply(many, 1)
    dropped = (changed == 0).all(-1)
    assert 0.08 < dropped.float().mean() < 0.12
    assert torch.equal(changed[~dropped], many[~dropped])


def test_gaussian_noise(batch):
    added = make("GaussianNoise", std=0.3).apply(batch, 0) - batch
    assert 0.29 < added.std() < 0.31
    assert abs(added.mean()) < 0.01


def test_probability_is_the_fraction_of_changed_trials(batch):
    many = batch.repeat(20, 1, 1)
    changed = (make("GaussianNoise", probability=0.25).apply(many, 0) != many).any(-1).any(-1)
    assert 0.18 < changed.float().mean() < 0.32
    assert torch.equal(make("GaussianNoise", probability=0.0).apply(many, 0), many)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_every_name_is_reproducible_alone_and_in_a_fleet(batch, name):
    augmentation, batch = make(name, probability=1.0), batch[:8]
    one = augmentation.apply(batch, step=5)
    assert one.shape == batch.shape
    assert one.dtype == torch.float32
    assert torch.isfinite(one).all()
    assert not torch.equal(one, batch)
    assert torch.equal(augmentation.apply(batch, step=5), one), "no hidden state"
    assert torch.equal(make(name, probability=1.0).apply(batch, step=5), one)
    replicas = torch.stack([batch.flip(0), batch, batch])
    seeds, steps = torch.tensor([8, 3, 3]), torch.tensor([0, 5, 6])
    fleet = augmentation.apply_replicas(replicas, seeds, steps)
    torch.testing.assert_close(fleet[1], one, rtol=0, atol=1e-6)
    deterministic = {"TimeReverse", "SignFlip", "ChannelsSymmetry"}
    if name not in deterministic:
        later = (augmentation.apply(batch, step) for step in range(6, 12))
        assert any(not torch.equal(other, one) for other in later), "another step draws other numbers"


def test_every_transform_of_braindecode_has_a_name():
    theirs = {name for name in A.__all__ if isinstance(getattr(A, name), type)}
    left_out = {"Transform", "IdentityTransform", "Compose", "AugmentedDataLoader"}
    assert theirs - left_out - {"Mixup", "SegmentationReconstruction"} <= set(AUGMENTATIONS)


def test_names_options_and_objects_are_equivalent(batch):
    expected = make_transforms(["ChannelGains", "CircularTimeShift"], random_state=2).apply(batch, 1)
    same = [
        {"ChannelGains": None, "CircularTimeShift": {}},
        [{"ChannelGains": {}}, CircularTimeShift()],
        [ChannelGains(), {"CircularTimeShift": {"max_shift": 0.05}}],
        A.Compose([ChannelGains(), CircularTimeShift()]),
    ]
    for augment in same:
        assert torch.equal(make_transforms(augment, random_state=2).apply(batch, 1), expected)
    assert not torch.equal(make_transforms(same[0], random_state=3).apply(batch, 1), expected)


def test_standard(batch):
    assert make_transforms([]) is make_transforms(None) is None
    standard = make_transforms("standard", random_state=0)
    assert [type(transform).__name__ for transform in standard.transforms] == list(STANDARD)
    assert torch.equal(
        standard.apply(batch, 0), make_transforms(list(STANDARD), random_state=0).apply(batch, 0)
    )


def test_loader_of_braindecode(batch):
    dataset = torch.utils.data.TensorDataset(batch, torch.arange(16))
    for transform in (make_transforms("standard"), ChannelGains(random_state=0)):
        loader = A.AugmentedDataLoader(dataset, transforms=transform, batch_size=8)
        x, y = next(iter(loader))
        assert y.tolist() == list(range(8))
        assert not torch.equal(x, batch[:8])
    first, second = (ChannelGains(random_state=0) for _ in range(2))
    assert torch.equal(first(batch), second(batch))
    assert not torch.equal(first(batch), second(batch)[0])


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("channelsdropout", r"augment='channelsdropout' is unknown; choose from .*'ChannelGains'"),
        (
            {"GaussianNoise": {"sd": 1}},
            r"option of GaussianNoise='sd' is unknown; .*'probability', 'std'",
        ),
        ({"GaussianNoise": 0.1}, r"augment=\{'GaussianNoise': 0.1\}: options must be a dict"),
        ({"GaussianNoise": {"std": -1}}, "std=-1 must be a positive number or zero"),
        ({"CircularTimeShift": {"max_shift": 3}}, r"max_shift=3 must be a number in \(0, 1\]"),
        ({"SignFlip": {"probability": 3}}, r"augment=\{'SignFlip': .*probability should be between 0 and 1"),
        (
            "FrequencyShift",
            r"augment='FrequencyShift' needs sfreq: pass \{'FrequencyShift': \{'sfreq': \.\.\.\}\}",
        ),
        ("ChannelsSymmetry", "augment='ChannelsSymmetry' needs ordered_ch_names"),
        ("Mixup", "augment='Mixup' mixes trials of several subjects"),
        (A.Mixup(0.5), "augment='Mixup' mixes trials of several subjects"),
        ([["Mixup"]], "iterator_train=AugmentedDataLoader"),
        (0.1, r"augment=0.1: pass a name, \{name: options\}"),
    ],
)
def test_invalid_augmentations(augment, message):
    with pytest.raises(ValueError, match=message):
        make_transforms(augment)
