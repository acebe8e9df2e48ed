"""Resolution of the `module` argument: names, the fast EEGNet, constructor arguments, batch-norm momentum."""

import inspect
from difflib import get_close_matches

import torch
from braindecode.models import EEGNet
from braindecode.models.util import models_dict
from torch import nn

from braindecode_censor._check import check_choice
from braindecode_censor.encoders.eegnet import FastEEGNet

__all__ = ["module_options", "resolve_module", "set_momentum", "whole_module"]

# Braindecode removed the old names; published code and pipelines still use them.
_ALIASES = {"EEGNetv4": "EEGNet"}


def resolve_module(module, fast=True):
    """Return the class or instance behind the `module` argument."""
    if not isinstance(module, str):
        return module
    module = _ALIASES.get(module, module)
    if module == "EEGNet" and fast:
        return FastEEGNet
    return models_dict[check_choice("module", module, models_dict)]


def module_options(module, signal, options, momentum=None):
    """Collect the constructor arguments of a module."""
    if isinstance(module, nn.Module):  # Built by the user for these data.
        return options
    defaults = {}
    if isinstance(module, type) and issubclass(module, EEGNet):
        # The paper's classifier is one linear layer; Braindecode's default, a convolution, is deprecated.
        defaults["final_layer_with_constraint"] = True
        # The constructor runs a forward pass that updates the statistics, so set_momentum alone is too late.
        defaults |= {} if momentum is None else {"batch_norm_momentum": momentum}
    parameters = inspect.signature(module).parameters
    _check_options(module, options, parameters)
    for name in options.keys() & signal.keys() & {"n_chans", "n_times", "n_outputs"}:
        if options[name] != signal[name]:
            raise ValueError(
                f"module__{name}={options[name]!r}, but in the data {name} is {signal[name]}: leave it out."
            )
    sizes = {name: value for name, value in signal.items() if name in parameters}
    return {**defaults, **sizes, **options}


def _check_options(module, options, parameters):
    """Raise for an option that the constructor of a module does not have."""
    if isinstance(module, type) and issubclass(module, EEGNet):  # FastEEGNet passes its options to EEGNet.
        parameters = {**parameters, **inspect.signature(EEGNet).parameters}
    elif any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name, value in options.items():
        if name not in parameters:
            near = get_close_matches(name, parameters, n=1, cutoff=0.5)
            hint = f" Did you mean 'module__{near[0]}'?" if near else ""
            raise ValueError(f"module__{name}={value!r} is no argument of {module.__name__}.{hint}")


def set_momentum(module, momentum):
    """Set the momentum of every batch norm."""
    if momentum is None:
        return
    if not 0 < momentum <= 1:
        raise ValueError(f"batch_norm_momentum={momentum!r} must be in (0, 1], or None for the module's own.")
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.momentum = momentum


def whole_module(module):
    """Return the module behind a compiled one, for hooks and for state dicts with plain names."""
    return getattr(module, "_orig_mod", module)
