"""The network of a fleet: one module through which all replicas are computed, whatever its architecture."""

import copy
from contextlib import nullcontext

import torch
from braindecode.modules.parametrization import MaxNormParametrize
from torch.func import functional_call

from braindecode_censor.encoders.eegnet import FastEEGNet, MaxNorm
from braindecode_censor.fleet.convolution import ConvolveByProducts
from braindecode_censor.fleet.masks import ExternalMasks, find_dropout_sites
from braindecode_censor.fleet.stack import Layout
from braindecode_censor.training.layers import is_code

__all__ = ["Network"]


class Network:
    """A pure function from the tensors of one replica and a batch to latent code and class scores.

    The fleet knows nothing else of an architecture. ``vmap`` makes it the function of a whole stack, so parameters,
    batch statistics and dropout masks are arguments and nothing is stored.
    """

    def __init__(self, module, layer, n_chans, n_times):
        self.module = copy.deepcopy(module).train()
        self.module.requires_grad_(True).zero_grad()
        frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
        self._persistent = set(module.state_dict())
        self._inputs = []  # of the layer, call by call
        for name, submodule in list(self.module.named_modules()):
            if type(submodule) is MaxNormParametrize:
                self.module.set_submodule(name, MaxNorm(submodule.max_norm))
        layers = dict(self.module.named_modules())
        if layer in layers:  # Without a penalty it need not exist.
            layers[layer].register_forward_pre_hook(lambda _, inputs: self._inputs.append(inputs))
        weight = next(self.module.parameters())
        batches = [
            torch.arange(n * n_chans * n_times, device=weight.device).to(weight).sin().view(n, n_chans, -1)
            for n in (2, 3)
        ]
        # The fast EEGNet gets its masks as an argument, because interception would prevent its compilation.
        self._takes_masks = isinstance(self.module, FastEEGNet) and self.module.takes_masks()
        self.sites = find_dropout_sites(self.module, batches)
        self.n_codes = len(self._inputs) // len(batches)  # calls of the layer per forward pass
        self.layout = Layout(self.module, self._used_parameters(batches[0]) - frozen)

    def _used_parameters(self, x):
        """Return the names of the parameters on which the class scores depend."""
        named = dict(self.module.named_parameters())
        with ExternalMasks():
            scores = self.module(x)
        gradients = torch.autograd.grad(scores.sum(), list(named.values()), allow_unused=True)
        self._inputs.clear()
        return {name for name, gradient in zip(named, gradients) if gradient is not None}

    def __call__(self, tensors, x, masks=(), **options):
        """Return the latent code and the class scores of one replica, in the mode of the module."""
        context = ExternalMasks(masks)
        if self._takes_masks and masks is not None:
            options, context = {**options, "masks": masks}, nullcontext()
        # The fast EEGNet has no convolutions left.
        with context, nullcontext() if self._takes_masks else ConvolveByProducts():
            logits = functional_call(self.module, tensors, (x,), options)
        z = x.new_zeros(len(x), 0)
        if self.n_codes == 1 and self._inputs:
            inputs = self._inputs.pop()
            z = inputs[0].flatten(1) if is_code(inputs, len(x)) else z
        self._inputs.clear()
        return z, logits

    def replica_state(self, module):
        """Return the row of one replica in the stack, and its other tensors by name."""
        trained = set(self.layout.names)
        tensors = {name: p.detach().clone() for name, p in module.named_parameters() if name not in trained}
        return self.layout.pack(module), tensors | {name: b.clone() for name, b in module.named_buffers()}

    def state_dict(self, theta, tensors):
        """Return a state dict for the network of a replica."""
        state = {**self.layout.unpack(theta), **tensors}
        return {name: tensor for name, tensor in state.items() if name in self._persistent}
