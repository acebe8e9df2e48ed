"""Computation that all replicas of a group share: encoders, penalty and validation of a whole stack."""

import math

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from braindecode_censor.fleet.cuda_graphs import CapturedFunction
from braindecode_censor.fleet.masks import mask_elements
from braindecode_censor.fleet.network import Network
from braindecode_censor.fleet.stack import Layout, adam_step, under_prefix

__all__ = ["Graph"]

_MAX_SHAPES = 64  # compiled per process; further networks run uncompiled


class Graph:
    """Training step and evaluation of any number of replicas at once."""

    def __init__(self, replica, compile=False):
        clf, censor = replica.clf, replica.censor
        sizes = (clf.signal_args_[name] for name in ("n_chans", "n_times"))
        self.network = Network(clf.module_, clf.layer, *sizes)
        self.layout = self.network.layout
        self.options = clf.optimizer_.defaults
        self.penalty, self.critic_steps = None, 0
        if censor is not None:
            self.penalty = censor.penalty
            self.critic = _Method(self.penalty, "critic_loss")
            self.diagnostics = _Method(self.penalty, "diagnostics")
            self.critic_layout = Layout(self.penalty)
            if censor.optimizer is not None:
                self.critic_steps, self.critic_options = censor.critic_steps, censor.optimizer.defaults
            enabled = not self.penalty.waits
            self.captured_push = CapturedFunction(self.push, enabled)
            self.captured_diagnose = CapturedFunction(self.diagnose, enabled)
        self.compiled_encode, self.compiled_adam, self.compiled_mask = self.encode, adam_step, None
        if compile:
            # By default torch compiles the second network of other sizes for all sizes, which fails under vmap, and
            # compiles nothing from the ninth on.
            options = {"dynamic": False} | ({"backend": compile} if isinstance(compile, str) else {})
            limits = torch._dynamo.config
            limits.recompile_limit = max(limits.recompile_limit, _MAX_SHAPES)
            self.compiled_encode = torch.compile(self.encode, **options)
            self.compiled_adam = torch.compile(adam_step, **options)
            self.compiled_mask = torch.compile(mask_elements, **options)

    def initial_state(self, replica):
        """Return the state of a replica before its first step."""
        theta, tensors = self.network.replica_state(replica.clf.module_)
        state = {"theta": theta, "first": torch.zeros_like(theta), "second": torch.zeros_like(theta)}
        state |= {f"buffer.{name}": tensor for name, tensor in tensors.items()}
        if self.penalty is not None:
            phi = self.critic_layout.pack(replica.censor.penalty).to(theta)
            state |= {"phi": phi, "phi_first": torch.zeros_like(phi), "phi_second": torch.zeros_like(phi)}
            state |= {f"control.{name}": b.clone() for name, b in replica.censor.penalty.named_buffers()}
        return state

    def encode(self, theta, buffers, x, moments, y, class_weight, masks):
        """Run the encoders in training mode; return latent codes, losses and buffers."""
        options = {} if moments is None else {"moments": moments}
        parameters = self.layout.unpack(theta)
        return vmap(self._encode_one)(parameters, buffers, x, options, y, class_weight, masks)

    def _encode_one(self, parameters, buffers, x, options, y, class_weight, masks):
        buffers = {name: tensor.clone() for name, tensor in buffers.items()}
        z, logits = self.network({**parameters, **buffers}, x, masks, **options)
        weight = class_weight[y]
        loss = -(F.log_softmax(logits, -1).gather(1, y.unsqueeze(1)).squeeze(1) * weight).sum() / weight.sum()
        return z, loss, buffers

    def clear_captures(self):
        """Free the CUDA graphs and their memory, because the replicas of the group change."""
        if self.penalty is not None:
            self.captured_push.clear()
            self.captured_diagnose.clear()

    def push(self, inputs):
        """Return the penalty's gradient in z, and train the critics.

        As in a single training, the penalty comes from the critics before their last step.
        """
        z, s, y, coefficients, noise = (inputs.get(k) for k in ("z", "s", "y", "coefficients", "noise"))
        control, losses = under_prefix(inputs, "control."), z.new_full((len(z),), math.nan)
        for k in range(self.critic_steps - 1):
            losses, control = self._train_critics(inputs, control, k)
        leaf = z.clone().requires_grad_()
        values = vmap(self._penalty_value, in_dims=(0, 0, 0, 0, 0, None if noise is None else 0))(
            self.critic_layout.unpack(inputs["phi"]), control, leaf, s, y, noise
        )
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
        if self.critic_steps:
            losses, control = self._train_critics(inputs, control, self.critic_steps - 1)
        weight = coefficients[:, 3].view(-1, 1, 1)
        results = {"push": torch.where(weight != 0, weight * gradient, 0.0)}
        results |= {"values": values.detach(), "critic_losses": losses.detach()}
        results |= {name: inputs[name] for name in ("phi", "phi_first", "phi_second")}
        return results | {f"control.{name}": tensor.detach() for name, tensor in control.items()}

    def _train_critics(self, inputs, control, k):
        """Take the k-th step of the critics, in place; return their losses and controls."""
        phi, labels = inputs["phi"], (inputs["s"], inputs["y"])
        leaf = phi.detach().requires_grad_()
        losses, control = vmap(self._critic_loss)(
            self.critic_layout.unpack(leaf), control, inputs["z"], *labels
        )
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        options, steps = self.critic_options, inputs["coefficients"].T[4 + 3 * k : 7 + 3 * k]
        moments = inputs["phi_first"], inputs["phi_second"]
        with torch.no_grad():
            self.compiled_adam(phi, gradient, *moments, steps, options["betas"], options["eps"])
        return losses, control

    def _critic_loss(self, parameters, control, z, s, y):
        control = {name: tensor.clone() for name, tensor in control.items()}
        return self.critic.call(parameters, control, z, s, y), control

    def _penalty_value(self, parameters, control, z, s, y, noise):
        return functional_call(self.penalty, {**parameters, **control}, (z, s, y, noise))

    @torch.no_grad()
    def diagnose(self, inputs):
        """Return the penalty's diagnostics."""
        parameters, control = self.critic_layout.unpack(inputs["phi"]), under_prefix(inputs, "control.")
        return vmap(self.diagnostics.call)(parameters, control, inputs["z"], inputs["s"], inputs["y"])

    @torch.no_grad()
    def evaluate(self, state, x):
        """Return the class scores in evaluation mode."""
        self.network.module.eval()
        parameters, buffers = self.layout.unpack(state["theta"]), under_prefix(state, "buffer.")
        return vmap(lambda theta, tensors, x: self.network({**theta, **tensors}, x)[1])(
            parameters, buffers, x
        )

    def module_state(self, state):
        """Return the parameters and buffers of one replica under the names of its module."""
        return self.network.state_dict(state["theta"], under_prefix(state, "buffer."))


class _Method(nn.Module):
    """A method of the penalty as a forward pass, because ``functional_call`` calls nothing else."""

    def __init__(self, penalty, name):
        super().__init__()
        self.penalty, self.name = penalty, name

    def forward(self, *args):
        return getattr(self.penalty, self.name)(*args)

    def call(self, parameters, control, *args):
        """Call the method with other parameters and buffers."""
        tensors = {f"penalty.{name}": tensor for name, tensor in {**parameters, **control}.items()}
        return functional_call(self, tensors, args)
