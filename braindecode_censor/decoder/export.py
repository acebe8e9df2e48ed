"""The networks of a decoder, with their normalisation inside, for use without this package."""

import contextlib
import copy
import importlib.util
import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from braindecode.models import EEGNet
from torch import nn

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.storage.files import write_atomically

__all__ = ["NetworkAverage", "example_trials", "export_network", "write_onnx"]

_TOLERANCE = 1e-4


class _Normalise(nn.Module):
    """The normalisation of one network, for the subject it is adapted to or for all training subjects."""

    def __init__(self, normalizer):
        super().__init__()
        self.strategy, affine = normalizer.strategy, normalizer.affine
        if affine is not None:
            self.register_buffer("offset", torch.as_tensor(affine.offset, dtype=torch.float64)[:, None])
            self.register_buffer("weight", torch.as_tensor(affine.weight, dtype=torch.float64))

    def forward(self, x):
        """Normalise trials."""
        if hasattr(self, "weight"):
            return self.weight @ (x - self.offset)
        if self.strategy == "none":
            return x
        x = x - x.mean(dim=-1, keepdim=True)
        common = (-1,) if self.strategy == "trial_channel" else (-2, -1)
        scale = x.square().mean(dim=common, keepdim=True).sqrt()
        return x / torch.where(scale > 0, scale, torch.ones_like(scale))


class NetworkAverage(nn.Module):
    """The average of several networks' probabilities, from raw signals."""

    def __init__(self, ensemble):
        super().__init__()
        if not ensemble.models:
            raise ValueError("The decoder has no network: its classical models cannot be exported.")
        if any(model.estimator.head_ is not None for model in ensemble.models):
            raise ValueError(
                "A decoder that was adapted with labels cannot be exported: adapt it without them, adapt(X)."
            )
        estimators = [model.estimator for model in ensemble.models]
        self.normalise = nn.ModuleList([_Normalise(e.normalizer_) for e in estimators])
        self.networks = nn.ModuleList([_plain_network(e.module_) for e in estimators])
        self.weights = [model.weight for model in ensemble.models]
        self.columns = [np.asarray(e.classes_, dtype=int).tolist() for e in estimators]
        self.n_classes = ensemble.n_classes
        self.eval()

    def forward(self, x):
        """Return probabilities."""
        total = 0.0
        x = x.double()
        for normalise, network, weight, columns in zip(
            self.normalise, self.networks, self.weights, self.columns
        ):
            probabilities = network(normalise(x).float()).softmax(dim=-1)
            # Classes that a network does not know get probability zero.
            total = total + weight * probabilities @ torch.eye(self.n_classes)[columns]
        return total


def _plain_network(module):
    module = copy.deepcopy(whole_module(module)).cpu().eval()
    return _Stock(module) if isinstance(module, FastEEGNet) else module


class _Stock(nn.Module):
    """EEGNet layer by layer, as Braindecode runs it, for exporters."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        """Return logits."""
        return EEGNet.forward(self.module, x)


def example_trials(input_format, n_trials=3):
    """Return trials to try a decoder with: no channel is constant, and no two are equal."""
    scale = np.linspace(1, 2, input_format.n_chans, dtype=np.float32)[:, None]
    shape = n_trials, input_format.n_chans, input_format.n_times
    return scale * np.random.default_rng(0).normal(size=shape).astype(np.float32)


def export_network(ensemble, input_format):
    """Return the networks of an ensemble as one exported program."""
    average, example = NetworkAverage(ensemble), torch.as_tensor(example_trials(input_format))
    batch = torch.export.Dim("n_trials", min=1, max=4096)
    program = torch.export.export(average, (example,), dynamic_shapes=({0: batch},))
    probabilities = program.module()(example).detach().numpy()
    _check(probabilities, ensemble.predict_proba(example.numpy()), "torch.export")
    return program


def write_onnx(ensemble, input_format, path):
    """Write the networks of an ensemble as one ONNX file, after ONNX Runtime gives the same probabilities."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"to_onnx needs the package {package}: pip install 'braindecode-censor[onnx]', or use to_torch."
            )
    program, example = export_network(ensemble, input_format), torch.as_tensor(example_trials(input_format))
    with _quiet():
        written = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=["signals"], output_names=["probabilities"]
        )
    content = written.model_proto.SerializeToString()  # Includes the weights: one file is all.
    _check(_run_onnx(content, example.numpy()), ensemble.predict_proba(example.numpy()), "ONNX Runtime")
    write_atomically(Path(path), content)


def _run_onnx(content, signals):
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {"signals": signals})[0]


@contextlib.contextmanager
def _quiet():
    """Silence the exporter's remarks about packages that are not needed, such as torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _check(probabilities, expected, exporter):
    difference = np.abs(probabilities - expected).max()
    if difference > _TOLERANCE:
        raise RuntimeError(
            f"{exporter} gives other probabilities than predict_proba: they differ by {difference:.1e}."
        )
