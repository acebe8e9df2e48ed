"""The computation that all members of a group share: encoders, penalty and validation of a whole stack."""

import math

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from braindecode_censor.fleet.cuda_graphs import Recorder
from braindecode_censor.fleet.masks import decide_places
from braindecode_censor.fleet.network import Network
from braindecode_censor.fleet.stack import Layout, adam_step, under_prefix

__all__ = ["Graph"]

_MAX_SHAPES = 64  # that are compiled in a process; networks beyond run uncompiled


class Graph:
    """Training step and evaluation of any number of members at once."""

    def __init__(self, member, vectorise, compile=False):
        clf, censor = member.clf, member.censor
        self.vectorise = vectorise
        sizes = (clf.signal_args_[name] for name in ("n_chans", "n_times"))
        self.network = Network(clf.module_, clf.layer, *sizes)
        self.layout = self.network.layout
        self.options = clf.optimizer_.defaults
        self.penalty = None
        if censor is not None:
            self.penalty = censor.penalty
            self.critic = _Method(self.penalty, "critic_loss")
            self.diagnostics = _Method(self.penalty, "diagnostics")
            self.critic_layout = Layout(self.penalty)
            self.critic_steps = censor.critic_steps if censor.optimizer is not None else 0
            self.critic_options = censor.optimizer.defaults if self.critic_steps else None
            able = not self.penalty.waits
            self.recorded_push = Recorder(self.push, able)
            self.recorded_diagnose = Recorder(self.diagnose, able)
        self.compiled_encode, self.compiled_adam, self.compiled_decide = self.encode, adam_step, None
        if compile:
            # Left alone, torch compiles the second network that differs for sizes of any kind, which fails under vmap,
            # and from the ninth on it compiles nothing.
            options = {"dynamic": False} | ({"backend": compile} if isinstance(compile, str) else {})
            limits = torch._dynamo.config
            limits.recompile_limit = max(limits.recompile_limit, _MAX_SHAPES)
            self.compiled_encode = torch.compile(self.encode, **options)
            self.compiled_adam = torch.compile(adam_step, **options)
            self.compiled_decide = torch.compile(decide_places, **options)

    def initial_state(self, member):
        """Return the state of a member that has not begun."""
        theta, rest = self.network.member_state(member.clf.module_)
        state = {"theta": theta, "first": torch.zeros_like(theta), "second": torch.zeros_like(theta)}
        state |= {f"buffer.{name}": tensor for name, tensor in rest.items()}
        if self.penalty is not None:
            phi = self.critic_layout.pack(member.censor.penalty).to(theta)
            state |= {"phi": phi, "phi_first": torch.zeros_like(phi), "phi_second": torch.zeros_like(phi)}
            state |= {f"control.{name}": b.clone() for name, b in member.censor.penalty.named_buffers()}
        return state

    def encode(self, theta, buffers, x, moments, y, class_weight, masks):
        """Run the encoders in training mode."""
        known = {} if moments is None else {"moments": moments}
        inputs = x, known, y, class_weight, masks
        if self.vectorise:
            return vmap(self._encode_one)(self.layout.unpack(theta), buffers, *inputs)
        # unbind, not indexing: its backward pass is one stack, not one zero matrix per member
        rows = [
            self._encode_one(self.layout.unpack(row), _row(buffers, i), *_row(inputs, i))
            for i, row in enumerate(theta.unbind())
        ]
        z, loss, updated = zip(*rows)
        return torch.stack(z), torch.stack(loss), {k: torch.stack([u[k] for u in updated]) for k in buffers}

    def _encode_one(self, parameters, buffers, x, known, y, class_weight, masks):
        buffers = {name: tensor.clone() for name, tensor in buffers.items()}
        z, logits = self.network({**parameters, **buffers}, x, masks, **known)
        weight = class_weight[y]
        loss = -(F.log_softmax(logits, -1).gather(1, y.unsqueeze(1)).squeeze(1) * weight).sum() / weight.sum()
        return z, loss, buffers

    def forget_recordings(self):
        """Give up what was recorded, with its memory; for a group whose members have changed."""
        if self.penalty is not None:
            self.recorded_push.clear()
            self.recorded_diagnose.clear()

    def push(self, inputs):
        """Ask what the penalty does to z, and train the critics.

        As alone: what the penalty says is said by the critics before their last step.
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
        tensors = {f"penalty.{name}": tensor for name, tensor in {**parameters, **control}.items()}
        return functional_call(self.critic, tensors, (z, s, y)), control

    def _penalty_value(self, parameters, control, z, s, y, noise):
        return functional_call(self.penalty, {**parameters, **control}, (z, s, y, noise))

    @torch.no_grad()
    def diagnose(self, inputs):
        """Return the penalty's diagnostics."""
        parameters, control = self.critic_layout.unpack(inputs["phi"]), under_prefix(inputs, "control.")
        return vmap(self._diagnose_one)(parameters, control, inputs["z"], inputs["s"], inputs["y"])

    def _diagnose_one(self, parameters, control, z, s, y):
        tensors = {f"penalty.{name}": tensor for name, tensor in {**parameters, **control}.items()}
        return functional_call(self.diagnostics, tensors, (z, s, y))

    @torch.no_grad()
    def evaluate(self, state, x):
        """Return the class scores in evaluation mode."""
        self.network.module.eval()
        parameters, buffers = self.layout.unpack(state["theta"]), under_prefix(state, "buffer.")
        if self.vectorise:
            return vmap(self._scores)(parameters, buffers, x)
        return torch.stack([self._scores(_row(parameters, i), _row(buffers, i), x[i]) for i in range(len(x))])

    def _scores(self, parameters, buffers, x):
        return self.network({**parameters, **buffers}, x)[1]

    def module_state(self, state):
        """Return one member's parameters and buffers under the names of its module."""
        return self.network.state_dict(state["theta"], under_prefix(state, "buffer."))


class _Method(nn.Module):
    """A method of the penalty as a forward pass, which is all that ``functional_call`` can call."""

    def __init__(self, penalty, name):
        super().__init__()
        self.penalty, self.name = penalty, name

    def forward(self, *args):
        return getattr(self.penalty, self.name)(*args)


def _row(tensors, i):
    """Row of every tensor in nested dicts and tuples."""
    return tree_map(lambda tensor: tensor[i], tensors)
