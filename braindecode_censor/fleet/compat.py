"""Test of a network for fleets, once per architecture."""

import copy

import numpy as np
import torch
from sklearn.base import clone
from torch.func import vmap
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import resolve_module
from braindecode_censor.fleet.masks import ExternalMasks
from braindecode_censor.fleet.network import Network
from braindecode_censor.training.arguments import check_arguments, find_optimizer
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.dataset import TrialLoader

__all__ = ["sequential_reason"]

_N_REPLICAS, _N_TRIALS = 2, 4
# Relative to the largest number: two roundings of one step differ by less, two different steps by more.
_TOLERANCE = 1e-3
_REASONS = {}  # by architecture


def sequential_reason(clf, X, y):
    """Return why an estimator cannot be trained in a fleet on trials like `X` with labels `y`, or None.

    A step of two replicas together is compared with the steps of both by themselves, on a CPU with a few trials.
    Recurrent layers, control flow that depends on values and random numbers other than dropout's raise an error there.
    The comparison notices silent errors, such as buffers that are replaced instead of changed.
    """
    try:
        check_arguments(clf)
        arguments = _unsupported_arguments(clf)
    except ValueError as error:
        return str(error)
    if arguments:
        return (
            f"{', '.join(arguments)}. A fleet builds every network itself and trains it by the estimator's own "
            "protocol with a seed: leave these arguments at their defaults."
        )
    sizes = {"n_chans": X.shape[1], "n_times": X.shape[2], "n_outputs": len(np.unique(y))}
    options = {k: v for k, v in clf.get_params(deep=False).items() if k.startswith("module")}
    options |= {name: getattr(clf, name) for name in ("fast", "batch_norm_momentum")}
    layer = None if clf.penalty is None else clf.layer
    key = repr((type(clf).__name__, sorted(options.items(), key=str), sizes, layer))
    if key not in _REASONS:
        _REASONS[key] = _try(clf, sizes)
    return _REASONS[key]


def _unsupported_arguments(clf):
    module = resolve_module(clf.module, clf.fast)
    supported = {
        "module": isinstance(module, type),  # All replicas would share a network that is built already.
        "optimizer": find_optimizer(clf.optimizer) is torch.optim.AdamW,
        "criterion": clf.criterion is FoldCrossEntropy,
        "iterator_train": clf.iterator_train is TrialLoader,
        "iterator_valid": clf.iterator_valid is TrialLoader,
        "callbacks": not clf.callbacks,
        "compile": not clf.compile,
        "penalty": clf.penalty is None or isinstance(clf.penalty, str),
        "random_state": clf.random_state is not None,
    }
    return [f"{name}={getattr(clf, name)!r}" for name, fits in supported.items() if not fits]


def _try(clf, sizes):
    try:
        built = clone(clf).set_params(device="cpu", compile=False)
        built.signal_args_ = sizes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = built.initialize().module_
            if type(module) is FastEEGNet:
                return None
            network = Network(module, clf.layer, sizes["n_chans"], sizes["n_times"])
            if clf.penalty is not None and network.n_codes != 1:
                return f"A step calls layer={clf.layer!r} {network.n_codes} times instead of once."
            return _compare(network, module, sizes)
    except Exception as error:  # The networks of users may raise anything.
        return f"{type(error).__name__}: {error}".strip().splitlines()[0]


def _compare(network, module, sizes):
    """Compare a step of two replicas together with the steps of each; return their difference in words."""
    replicas = [copy.deepcopy(module) for _ in range(_N_REPLICAS)]
    with torch.no_grad():
        for parameter in replicas[1].parameters():
            parameter.mul_(0.9)
    states = [network.replica_state(replica) for replica in replicas]
    theta = torch.stack([theta for theta, _ in states]).requires_grad_()
    tensors = {name: torch.stack([one[name] for _, one in states]) for name in states[0][1]}
    x = theta.new_empty(_N_REPLICAS, _N_TRIALS, sizes["n_chans"], sizes["n_times"]).normal_()
    y = torch.arange(_N_TRIALS, device=x.device) % sizes["n_outputs"]
    logits, updated = vmap(lambda *row: _step(network, *row))(network.layout.unpack(theta), tensors, x)
    if logits.shape != (_N_REPLICAS, _N_TRIALS, sizes["n_outputs"]):
        return f"Its output has shape {tuple(logits.shape[1:])} instead of one row of class scores per trial."
    (gradient,) = torch.autograd.grad(sum(F.cross_entropy(one, y) for one in logits), theta)
    for k, replica in enumerate(replicas):
        with ExternalMasks():
            expected_logits = replica.train()(x[k])
        F.cross_entropy(expected_logits, y).backward()
        named = dict(replica.named_parameters())
        expected_gradient = torch.cat([named[name].grad.flatten() for name in network.layout.names])
        pairs = {"class scores": (logits[k], expected_logits), "gradient": (gradient[k], expected_gradient)}
        pairs |= {f"buffer {name}": (updated[name][k], b) for name, b in replica.named_buffers()}
        for name, (actual, expected) in pairs.items():
            if not _is_close(actual.detach(), expected.detach()):
                return f"A step of several replicas together has another {name} than a step of each."
    return None


def _step(network, parameters, tensors, x):
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    _, logits = network({**parameters, **tensors}, x, masks=None)
    return logits, tensors


def _is_close(actual, expected):
    largest = expected.abs().max() if expected.numel() else 0.0
    return bool(((actual - expected).abs() <= _TOLERANCE * (1 + largest)).all())
