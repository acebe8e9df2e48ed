"""The network of a fleet: one module through which all members are computed, whatever its architecture."""

import copy
from contextlib import nullcontext

import torch
from braindecode.modules.parametrization import MaxNormParametrize
from torch.func import functional_call

from braindecode_censor.encoders.eegnet import FastEEGNet, MaxNorm
from braindecode_censor.encoders.norm import under_vmap
from braindecode_censor.fleet.convolution import ConvolveByProducts
from braindecode_censor.fleet.masks import GivenMasks, find_places
from braindecode_censor.fleet.stack import Layout
from braindecode_censor.training.layers import is_code

__all__ = ["Network"]


class Network:
    """A pure function from one member's tensors and a batch to codes and class scores.

    It is all that the fleet knows of an architecture, and it works one member at a time: ``vmap`` makes it the function
    of a whole stack. So parameters, batch statistics and dropout masks come from outside, and nothing is remembered.
    """

    def __init__(self, module, layer, n_chans, n_times):
        self.module = copy.deepcopy(module).train()
        self.module.requires_grad_(True).zero_grad()
        frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
        self._persistent = set(module.state_dict())
        self._caught = []
        for name, part in list(self.module.named_modules()):
            if type(part) is MaxNormParametrize:
                self.module.set_submodule(name, MaxNorm(part.max_norm))
        layers = dict(self.module.named_modules())
        if layer in layers:  # without a penalty nobody needs it
            layers[layer].register_forward_pre_hook(self._catch)
        weight = next(self.module.parameters())
        batches = [
            torch.arange(n * n_chans * n_times, device=weight.device).to(weight).sin().view(n, n_chans, -1)
            for n in (2, 3)
        ]
        # The fast EEGNet is told its masks, because interception would get in the way of compiling it.
        self._takes_masks = isinstance(self.module, FastEEGNet) and self.module.takes_masks()
        self.places = find_places(self.module, batches)
        self.n_codes = len(self._caught) // len(batches)  # how often a forward pass calls the layer
        self.layout = Layout(self.module, self._trained(batches[0]) - frozen)

    def _catch(self, _, inputs):
        self._caught.append(inputs)

    def _trained(self, x):
        """Names of the parameters on which the class scores depend."""
        named = dict(self.module.named_parameters())
        self._caught.clear()
        with GivenMasks():
            scores = self.module(x)
        found = torch.autograd.grad(scores.sum(), list(named.values()), allow_unused=True)
        self._caught.clear()
        return {name for name, gradient in zip(named, found) if gradient is not None}

    def __call__(self, tensors, x, masks=(), **known):
        """Return codes and class scores of one member, in the mode in which the module is."""
        if self._takes_masks and masks is not None:
            known, given = {**known, "masks": masks}, nullcontext()
        else:
            given = GivenMasks(masks)
        by_products = under_vmap() and not self._takes_masks  # EEGNet has no convolutions left
        with given, ConvolveByProducts() if by_products else nullcontext():
            logits = functional_call(self.module, tensors, (x,), known)
        z = x.new_zeros(len(x), 0)
        if self.n_codes == 1 and self._caught:
            inputs = self._caught.pop()
            z = inputs[0].flatten(1) if is_code(inputs, len(x)) else z
        self._caught.clear()
        return z, logits

    def member_state(self, module):
        """Return one member's row of the stack."""
        trained = set(self.layout.names)
        rest = {name: p.detach().clone() for name, p in module.named_parameters() if name not in trained}
        rest |= {name: buffer.clone() for name, buffer in module.named_buffers()}
        return self.layout.pack(module), rest

    def state_dict(self, theta, rest):
        """Return what the member's own network can load."""
        state = {**self.layout.unpack(theta), **rest}
        return {name: tensor for name, tensor in state.items() if name in self._persistent}
