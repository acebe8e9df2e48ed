"""The layer whose input is the latent code: find it, read the code, and say which layers would do."""

import torch

__all__ = ["code_of", "find_layer", "layers_that_would_do", "no_code_error"]

# Layers near the end of the network that an error names.
_N_NAMED = 6


def find_layer(module, name):
    """Return a layer by its name."""
    try:
        return module.get_submodule(name)
    except AttributeError:
        names = [child for child, _ in module.named_children()]
        raise ValueError(f"layer={name!r} is not in {type(module).__name__}; it has {names}.") from None


def code_of(module, name, x):
    """Return what enters a layer, one row per trial."""
    found = []
    hook = find_layer(module, name).register_forward_pre_hook(lambda _, inputs: found.append(inputs))
    try:
        with torch.no_grad():
            module(x)
    finally:
        hook.remove()
    if not found or not is_code(found[-1], len(x)):
        raise no_code_error(module, name, x)
    return found[-1][0].detach().flatten(1)


def is_code(inputs, n):
    """Tell whether what a layer is called with is a latent code."""
    z = inputs[0] if inputs else None
    return isinstance(z, torch.Tensor) and z.is_floating_point() and z.ndim > 1 and len(z) == n


def layers_that_would_do(module, x):
    """Return the names of the layers, near the end of the network, whose input is a latent code."""
    widths, training = {}, module.training  # of the codes, in the order of the calls

    def note(name, inputs):
        if is_code(inputs, len(x)):
            widths[name] = inputs[0][0].numel()

    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs, name=name: note(name, inputs))
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
    # What is as the output is the classes' scores already.
    return [name for name, width in widths.items() if width != output[0].numel()][::-1][:_N_NAMED]


def no_code_error(module, name, x):
    """Return the error that says why a layer has no latent code."""
    module = getattr(module, "_orig_mod", module)  # a compiled network would not notice new hooks
    layer, names = find_layer(module, name), layers_that_would_do(module, x)
    return ValueError(
        f"layer={name!r} of {type(module).__name__} (a {type(layer).__name__}) is never called with one row per trial, "
        f"so there is no latent code to censor or to read. Pass layer= one of these, the last first: {names}."
    )
