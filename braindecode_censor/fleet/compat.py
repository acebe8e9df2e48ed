"""Whether a network can be in a fleet: tried out, once for every architecture."""

import copy

import numpy as np
import torch
from sklearn.base import clone
from torch.func import vmap
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import resolve_module
from braindecode_censor.fleet.masks import GivenMasks
from braindecode_censor.fleet.network import Network
from braindecode_censor.training.arguments import check_arguments, find_optimizer
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.dataset import TrialLoader

__all__ = ["check_estimator", "sizes_of", "why_alone"]

_N_MEMBERS, _N_TRIALS = 2, 4
# Two roundings of one step differ by less than this, relative to the largest number; two different steps by more.
_TOLERANCE = 1e-3
_KNOWN = {}  # architecture to reason


def check_estimator(clf):
    """Raise for an estimator that the fleet would not train as its own ``fit`` does."""
    check_arguments(clf)
    module = resolve_module(clf.module, clf.fast)
    found = {
        "module": isinstance(module, type),  # a network that is built already would be everybody's
        "optimizer": find_optimizer(clf.optimizer) is torch.optim.AdamW,
        "criterion": clf.criterion is FoldCrossEntropy,
        "iterator_train": clf.iterator_train is TrialLoader,
        "iterator_valid": clf.iterator_valid is TrialLoader,
        "callbacks": not clf.callbacks,
        "compile": not clf.compile,
        "penalty": clf.penalty is None or isinstance(clf.penalty, str),
        "random_state": clf.random_state is not None,
    }
    for name, fits in found.items():
        if not fits:
            raise ValueError(
                f"{name}={getattr(clf, name)!r} is not for the fleet, which builds every network itself and trains it "
                "by the estimator's own protocol with a seed: leave it at its default, or use engine='sequential'."
            )


def sizes_of(X, y):
    """Return what an architecture depends on in the data."""
    return {"n_chans": X.shape[1], "n_times": X.shape[2], "n_outputs": len(np.unique(y))}


def why_alone(clf, sizes):
    """Return why a network has to be trained by itself, if it has to.

    A step of two members is taken as one and compared with the steps that both take by themselves, on a CPU, with a few
    trials. What cannot be batched (recurrent layers, control flow that depends on values, random numbers that are not a
    dropout layer's) raises an error there, and what a fleet would get wrong silently, such as buffers that are replaced
    and not changed, shows in the comparison.
    """
    censored = clf.penalty is not None
    options = {k: v for k, v in clf.get_params(deep=False).items() if k.startswith("module")}
    options |= {name: getattr(clf, name) for name in ("fast", "batch_norm_momentum")}
    key = repr((type(clf).__name__, sorted(options.items(), key=str), sorted(sizes.items())))
    key += f", layer={clf.layer!r}" if censored else ""
    if key not in _KNOWN:
        built = clone(clf).set_params(device="cpu", compile=False)
        built.signal_args_ = sizes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = built.initialize().module_
            _KNOWN[key] = None if type(module) is FastEEGNet else _try(module, clf.layer, censored, sizes)
    return _KNOWN[key]


def _try(module, layer, censored, sizes):
    try:
        network = Network(module, layer, sizes["n_chans"], sizes["n_times"])
        if censored and network.n_codes != 1:
            return (
                f"a step calls layer {layer!r} {network.n_codes} times, and the fleet needs one latent code"
            )
        return _compare(network, module, sizes)
    except Exception as error:  # anything may go wrong in a network that somebody else has written
        told = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {told[0]}"


def _compare(network, module, sizes):
    """Take a step of two members as one and one by one; return where they differ."""
    members = [copy.deepcopy(module) for _ in range(_N_MEMBERS)]
    with torch.no_grad():
        for parameter in members[1].parameters():
            parameter.mul_(0.9)
    states = [network.member_state(member) for member in members]
    theta = torch.stack([theta for theta, _ in states]).requires_grad_()
    rest = {name: torch.stack([rest[name] for _, rest in states]) for name in states[0][1]}
    x = theta.new_empty(_N_MEMBERS, _N_TRIALS, sizes["n_chans"], sizes["n_times"]).normal_()
    y = torch.arange(_N_TRIALS, device=x.device) % sizes["n_outputs"]
    logits, updated = vmap(lambda *given: _step_one(network, *given))(network.layout.unpack(theta), rest, x)
    if logits.shape != (_N_MEMBERS, _N_TRIALS, sizes["n_outputs"]):
        return f"it gives scores of shape {tuple(logits.shape[1:])} and not one row of class scores per trial"
    loss = sum(F.cross_entropy(one, y) for one in logits)
    (gradient,) = torch.autograd.grad(loss, theta)
    for k, member in enumerate(members):
        with GivenMasks():
            alone = member.train()(x[k])
        F.cross_entropy(alone, y).backward()
        named = dict(member.named_parameters())
        expected = torch.cat([named[name].grad.flatten() for name in network.layout.names])
        pairs = {"class scores": (logits[k], alone), "gradient": (gradient[k], expected)}
        pairs |= {f"buffer {name}": (updated[name][k], b) for name, b in member.named_buffers()}
        for name, (found, wanted) in pairs.items():
            if not _is_close(found.detach(), wanted.detach()):
                return f"a step of several members at once has another {name} than a step of each"
    return None


def _step_one(network, parameters, rest, x):
    rest = {name: tensor.clone() for name, tensor in rest.items()}
    _, logits = network({**parameters, **rest}, x, masks=None)
    return logits, rest


def _is_close(found, wanted):
    largest = wanted.abs().max() if wanted.numel() else 0.0
    return bool(((found - wanted).abs() <= _TOLERANCE * (1 + largest)).all())
