"""The layer whose input is the latent code."""

import torch

__all__ = ["code_of", "find_layer", "layers_with_code", "no_code_error"]

# Layers near the end of the network that an error names.
_N_LISTED = 6


def find_layer(module, name):
    """Return a layer by its name."""
    try:
        return module.get_submodule(name)
    except AttributeError:
        names = [child for child, _ in module.named_children()]
        raise ValueError(f"layer={name!r} is not in {type(module).__name__}; it has {names}.") from None


def code_of(module, name, x):
    """Return the input of a layer of shape (n_trials, n_features)."""
    calls = []
    hook = find_layer(module, name).register_forward_pre_hook(lambda _, inputs: calls.append(inputs))
    try:
        with torch.no_grad():
            module(x)
    finally:
        hook.remove()
    if not calls or not is_code(calls[-1], len(x)):
        raise no_code_error(module, name, x)
    return calls[-1][0].detach().flatten(1)


def is_code(inputs, n):
    """Return whether the inputs of a layer are a latent code of n trials."""
    z = inputs[0] if inputs else None
    return isinstance(z, torch.Tensor) and z.is_floating_point() and z.ndim > 1 and len(z) == n


def layers_with_code(module, x):
    """Return the names of the layers, near the end of the network, whose input is a latent code."""
    widths, training = {}, module.training  # widths of the latent codes, in the order of the calls

    def record(name, inputs):
        if is_code(inputs, len(x)):
            widths[name] = inputs[0][0].numel()

    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs, name=name: record(name, inputs))
        for name, layer in module.named_modules()
        if name
    ]
    try:
        with torch.no_grad():
            output = module.eval()(x)
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    # An input as wide as the output holds the scores of the classes.
    return [name for name, width in widths.items() if width != output[0].numel()][::-1][:_N_LISTED]


def no_code_error(module, name, x):
    """Return the error for a layer without latent code, which lists layers that have one."""
    module = getattr(module, "_orig_mod", module)  # A compiled network would ignore new hooks.
    layer, names = find_layer(module, name), layers_with_code(module, x)
    return ValueError(
        f"layer={name!r} of {type(module).__name__} (a {type(layer).__name__}) is never called with one row per trial, "
        f"so there is no latent code to censor or to read. Pass layer= one of these, the last first: {names}."
    )
