"""The argument ``augment`` as one transform of training batches, reproducible by seed and step."""

import inspect
from collections.abc import Mapping

import braindecode.augmentation
import numpy as np
import torch
from braindecode.augmentation import Compose, Transform

from braindecode_censor._check import check_choice
from braindecode_censor.trials import transforms
from braindecode_censor.trials.random_numbers import mix

__all__ = ["AUGMENTATIONS", "STANDARD", "Augmentation", "make_transforms"]

#: The transforms of ``augment="standard"``: four small changes that helped on three of four kinds of data.
STANDARD = ("CircularTimeShift", "ChannelsDropout", "GaussianNoise", "ChannelGains")

_COUNTED = {name: getattr(transforms, name) for name in transforms.__all__ if name != "CountedTransform"}
_NO_AUGMENTATION = {"Transform", "IdentityTransform", "Compose", "AugmentedDataLoader", "functional"}
# These mix trials of several subjects into one, which has no subject.
_MIXING = ("Mixup", "SegmentationReconstruction")
#: Valid names of ``augment``: Braindecode's, two of them with counted random numbers, and two more.
AUGMENTATIONS = sorted(
    set(_COUNTED) | (set(braindecode.augmentation.__all__) - _NO_AUGMENTATION - set(_MIXING))
)


def make_transforms(augment, sfreq=None, random_state=0):
    """Return one transform of training batches, or None."""
    resolved = list(_resolve(augment, sfreq))
    if not resolved:
        return None
    seed = int(torch.randint(2**31 - 1, ())) if random_state is None else int(random_state)
    return Augmentation(resolved, seed)


def _resolve(augment, sfreq):
    """Yield the transforms of an argument."""
    if isinstance(augment, str):
        augment = STANDARD if augment == "standard" else {augment: {}}
    if isinstance(augment, Compose):
        augment = augment.transforms
    if augment is None:
        return
    if isinstance(augment, Transform):
        _check_not_mixing(type(augment).__name__)
        yield augment
    elif isinstance(augment, Mapping):
        for name, options in augment.items():
            yield _make(name, options or {}, sfreq)
    elif isinstance(augment, list | tuple):
        for entry in augment:
            yield from _resolve(entry, sfreq)
    else:
        raise ValueError(
            f"augment={augment!r}: pass a name, {{name: options}}, a Transform of braindecode.augmentation, or a "
            f"list of these. Names: {AUGMENTATIONS}."
        )


def _make(name, options, sfreq):
    _check_not_mixing(name)
    check_choice("augment", name, [*AUGMENTATIONS, "standard"])
    if not isinstance(options, Mapping):
        raise ValueError(
            f"augment={{{name!r}: {options!r}}}: options must be a dict, such as {{'std': 0.1}}."
        )
    cls = _COUNTED.get(name) or getattr(braindecode.augmentation, name)
    params = {key: value for key, value in inspect.signature(cls).parameters.items() if key != "random_state"}
    for option in options:
        check_choice(f"option of {name}", option, params)
    options = {**_defaults(name, params, sfreq), **options}
    missing = [key for key, value in params.items() if value.default is value.empty and key not in options]
    if missing:
        raise ValueError(
            f"augment={name!r} needs {' and '.join(missing)}: pass {{{name!r}: {{{missing[0]!r}: ...}}}}."
        )
    try:
        return cls(**options)
    except (AssertionError, TypeError) as error:  # These come from Braindecode's checks.
        raise ValueError(f"augment={{{name!r}: {options}}}: {error}") from error


def _defaults(name, params, sfreq):
    defaults = {} if name in _COUNTED else {"probability": 0.5}
    if sfreq is not None:
        defaults |= {"sfreq": float(sfreq), "max_freq": sfreq / 2}
    # Braindecode's 100 samples may be the whole trial.
    defaults["mask_len_samples"] = 10 if sfreq is None else max(1, round(0.1 * sfreq))
    return {key: value for key, value in defaults.items() if key in params}


def _check_not_mixing(name):
    if name in _MIXING:
        raise ValueError(
            f"augment={name!r} mixes trials of several subjects into one, which has no subject to censor. Use one of "
            f"{AUGMENTATIONS}; or train Braindecode's own EEGClassifier with iterator_train=AugmentedDataLoader."
        )


class Augmentation(Transform):
    """Several transforms one after the other, whose random numbers are a function of seed and step alone.

    Notes
    -----
    The object keeps no random state: the same step gives the same numbers, in any order of steps and on any device.
    :meth:`apply_replicas` gives each replica of a fleet what :meth:`apply` gives it alone. Counted transforms do so
    at once for all replicas, Braindecode's replica by replica.
    """

    def __init__(self, transforms, random_state=0):
        super().__init__(random_state=random_state)
        self.transforms = transforms
        self.seed = random_state
        self._n_calls = 0

    @property
    def is_counted(self):
        """True if all transforms are counted: they take all replicas at once and never wait for the device."""
        return all(isinstance(transform, transforms.CountedTransform) for transform in self.transforms)

    def forward(self, X, y=None):
        """Transform the next batch; the calls are counted as steps."""
        changed = self.apply(X, self._n_calls)
        self._n_calls += 1
        return changed if y is None else (changed, y)

    def apply(self, X, step):
        """Transform the batch of a step."""
        seeds, steps = (torch.tensor([number], device=X.device) for number in (self.seed, step))
        return self.apply_replicas(X.unsqueeze(0), seeds, steps).squeeze(0)

    def apply_replicas(self, X, seeds, steps):
        """Transform the batches of all replicas of a fleet."""
        for k, transform in enumerate(self.transforms):
            stream = mix(seeds, steps, k)
            if isinstance(transform, transforms.CountedTransform):
                X = transform.change_some(X, stream)
            else:
                X = _apply_uncounted(transform, X, stream)
        return X


def _apply_uncounted(transform, X, stream):
    """Apply a transform of Braindecode's replica by replica, with a new generator for this step."""
    changed = []
    for batch, seed in zip(X, stream.tolist()):
        transform.rng = np.random.RandomState(seed % 2**32)
        changed.append(transform(batch))
    return torch.stack(changed).to(X.dtype)
