"""Turn ``augment=`` (names, options, objects) into one transform of training batches, reproducible by seed and step."""

import inspect
from collections.abc import Mapping

import braindecode.augmentation
import numpy as np
import torch
from braindecode.augmentation import Compose, Transform

from braindecode_censor._check import check_choice
from braindecode_censor.trials import transforms as own
from braindecode_censor.trials.random_numbers import mix

__all__ = ["AUGMENTATIONS", "STANDARD", "Augmentation", "make_transforms"]

#: What ``augment="standard"`` means: four small changes that helped on three of four kinds of recordings.
STANDARD = ("CircularTimeShift", "ChannelsDropout", "GaussianNoise", "ChannelGains")

_OWN = {name: getattr(own, name) for name in own.__all__ if name != "CountedTransform"}
_NO_AUGMENTATION = {"Transform", "IdentityTransform", "Compose", "AugmentedDataLoader", "functional"}
# These join trials of several people into one, whose person nobody could tell.
_JOINING = ("Mixup", "SegmentationReconstruction")
#: Names that ``augment=`` takes: Braindecode's, of which two are computed in our own way, and two of our own.
AUGMENTATIONS = sorted(set(_OWN) | (set(braindecode.augmentation.__all__) - _NO_AUGMENTATION - set(_JOINING)))


def make_transforms(augment, sfreq=None, random_state=0):
    """Make one transform of training batches."""
    found = list(_resolve(augment, sfreq))
    if not found:
        return None
    seed = int(torch.randint(2**31 - 1, ())) if random_state is None else int(random_state)
    return Augmentation(found, seed)


def _resolve(augment, sfreq):
    """Yield the transforms that `augment` asks for."""
    if augment is None:
        return
    if isinstance(augment, Compose):
        augment = augment.transforms
    if isinstance(augment, str):
        augment = STANDARD if augment == "standard" else {augment: {}}
    if isinstance(augment, Transform):
        _refuse_joining(type(augment).__name__)
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
    _refuse_joining(name)
    check_choice("augment", name, [*AUGMENTATIONS, "standard"])
    if not isinstance(options, Mapping):
        raise ValueError(
            f"augment={{{name!r}: {options!r}}}: options must be a dict, such as {{'std': 0.1}}."
        )
    kind = _OWN.get(name) or getattr(braindecode.augmentation, name)
    known = {key: value for key, value in inspect.signature(kind).parameters.items() if key != "random_state"}
    for option in options:
        check_choice(f"option of {name}", option, known)
    options = {**_defaults(name, known, sfreq), **options}
    missing = [key for key, value in known.items() if value.default is value.empty and key not in options]
    if missing:
        raise ValueError(
            f"augment={name!r} needs {' and '.join(missing)}: pass {{{name!r}: {{{missing[0]!r}: ...}}}}."
        )
    try:
        return kind(**options)
    except (AssertionError, TypeError) as error:  # Braindecode's own checks
        raise ValueError(f"augment={{{name!r}: {options}}}: {error}") from error


def _defaults(name, known, sfreq):
    defaults = {} if name in _OWN else {"probability": 0.5}
    if sfreq is not None:
        defaults |= {"sfreq": float(sfreq), "max_freq": sfreq / 2}
    # Braindecode's 100 samples may be the whole trial.
    defaults["mask_len_samples"] = 10 if sfreq is None else max(1, round(0.1 * sfreq))
    return {key: value for key, value in defaults.items() if key in known}


def _refuse_joining(name):
    if name in _JOINING:
        raise ValueError(
            f"augment={name!r} joins trials of several people into one, so that nobody could say whose it is, which "
            f"censoring and batches by people must know. Use one of {AUGMENTATIONS}; or train Braindecode's own "
            "EEGClassifier with iterator_train=AugmentedDataLoader."
        )


class Augmentation(Transform):
    """Several transforms one after the other, whose random numbers follow from the seed and the step alone.

    Notes
    -----
    The object keeps no random state of its own: the same step gives the same numbers, in any order of steps and
    on any device. :meth:`apply_members` gives each member of a fleet what :meth:`apply` gives it alone. Our own
    transforms do so in one go for all members, Braindecode's member by member.
    """

    def __init__(self, transforms, random_state=0):
        super().__init__(random_state=random_state)
        self.transforms = transforms
        self.seed = random_state
        self._n_calls = 0

    @property
    def is_counted(self):
        """Whether all transforms are our own, which change all members at once and never wait for the device."""
        return all(isinstance(transform, own.CountedTransform) for transform in self.transforms)

    def forward(self, X, y=None):
        """Change the next batch; the calls are counted as steps."""
        changed = self.apply(X, self._n_calls)
        self._n_calls += 1
        return changed if y is None else (changed, y)

    def apply(self, X, step):
        """Change the batch of a step."""
        seeds, steps = (torch.tensor([number], device=X.device) for number in (self.seed, step))
        return self.apply_members(X.unsqueeze(0), seeds, steps).squeeze(0)

    def apply_members(self, X, seeds, steps):
        """Change the batches of all members of a fleet."""
        for place, transform in enumerate(self.transforms):
            stream = mix(seeds, steps, place)
            if isinstance(transform, own.CountedTransform):
                X = transform.change_some(X, stream)
            else:
                X = _apply_foreign(transform, X, stream)
        return X


def _apply_foreign(transform, X, stream):
    """Apply a transform of Braindecode's member by member, with a generator made for this step."""
    changed = []
    for batch, seed in zip(X, stream.tolist()):
        transform.rng = np.random.RandomState(seed % 2**32)
        changed.append(transform(batch))
    return torch.stack(changed).to(X.dtype)
