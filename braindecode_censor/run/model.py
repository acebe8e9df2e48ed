"""Fitted estimators as bytes, as they travel from workers and are kept, and the device they compute on."""

import torch

from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.storage.tensors import format_of
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["find_device", "is_network", "is_storable", "pack_model", "unpack_model"]

_CLASSES = (CensoredEEGClassifier, TangentSpaceClassifier)


def is_network(estimator):
    """Return whether an estimator trains a network on a device."""
    return isinstance(estimator, CensoredEEGClassifier)


def is_storable(estimator):
    """Return whether an estimator can be written without code."""
    return isinstance(estimator, _CLASSES)


def pack_model(estimator):
    """Return the bytes of a fitted estimator; a user's own one as it is."""
    return estimator.to_bytes() if is_storable(estimator) else estimator


def unpack_model(model, device="cpu", **params):
    """Return the fitted estimator again; networks compute on the device."""
    if not isinstance(model, bytes):
        return model
    if TangentSpaceClassifier.__name__ in format_of(model):
        return TangentSpaceClassifier.from_bytes(model)
    return CensoredEEGClassifier.from_bytes(model, device=device, **params)


def find_device(device):
    """Return the device to compute on."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device_type = torch.device(device).type
    except (RuntimeError, TypeError):
        device_type = None
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is unknown; use 'auto', 'cpu' or 'cuda'.")
    if device_type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: torch finds no GPU on this machine; use device='auto'.")
    return device
