"""The encoder gets the gradient of task loss + weight * penalty, the critic that of its own loss."""

import copy

import pytest
import torch
from braindecode import EEGClassifier
from braindecode.models import EEGNet
from rhythms import IDS, METHODS_AND_MODES
from skorch.callbacks import Callback

from braindecode_censor import Censor
from braindecode_censor.training.censoring import CensoringStep, build_penalty

WEIGHT = 3.0


class DoubleEEGNet(EEGNet):
    """EEGNet in double precision, without dropout so that a second forward pass gives the same code."""

    def __init__(self, n_chans, n_outputs, n_times):
        super().__init__(n_chans, n_outputs, n_times, F1=4, drop_prob=0.0, final_layer_with_constraint=True)
        self.double()

    def forward(self, x):
        return super().forward(x.to(self.conv_temporal.weight.dtype))


class Compare(Callback):
    """Recompute every batch's gradients by autograd on the sum of task loss and penalty.

    The penalty is that of the critic before it learns from the batch.
    """

    def __init__(self, censor, weight=WEIGHT):
        self.censor, self.weight = censor, weight
        self.errors_ = []

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        step = self.censor.step_
        self.penalty_ = None if step is None else copy.deepcopy(step.penalty)

    def on_grad_computed(self, net, named_parameters, batch=None, **kwargs):
        module = getattr(net.module_, "_orig_mod", net.module_)
        codes, x = [], batch[0]
        self.censor.armed_ = False
        hook = module.final_layer.register_forward_pre_hook(lambda layer, inputs: codes.append(inputs[0]))
        task = torch.nn.functional.cross_entropy(module(x), batch[1])
        hook.remove()
        step = self.censor.step_
        z = codes[0].flatten(1)
        if self.penalty_ is None:  # before the first batch
            self.penalty_ = self.censor._build(z.detach()).penalty
        total = task + self.weight * self.penalty_(z, self.censor.s_, self.censor.y_, noise=step.noise)
        expected = torch.autograd.grad(total, list(module.parameters()), retain_graph=True)
        plain = torch.autograd.grad(task, list(module.parameters()))
        got = [parameter.grad for parameter in module.parameters()]
        self.errors_.append(max((a - b).abs().max().item() for a, b in zip(got, expected)))
        self.differs_ = max((a - b).abs().max().item() for a, b in zip(plain, expected)) > 1e-5


def _fit(data, method, mode, weight=WEIGHT, **kwargs):
    x, y, subjects = data
    censor = Censor(method, mode, weight=weight, subjects=subjects)
    compare = Compare(censor, weight)
    net = EEGClassifier(
        DoubleEEGNet, callbacks=[censor, compare], max_epochs=1, batch_size=32, verbose=0, lr=1e-3, **kwargs
    )
    return net.fit(x, y), censor, compare


@pytest.mark.parametrize(("method", "mode"), METHODS_AND_MODES, ids=IDS)
def test_gradient_of_the_sum(data, method, mode):
    _, _, compare = _fit(data, method, mode)
    assert len(compare.errors_) >= 4
    assert max(compare.errors_) < 1e-6
    assert compare.differs_, "the penalty had no gradient, so this showed nothing"


def test_gradient_of_the_sum_in_a_compiled_network(data):
    """With the graph captured and not lowered, which loses hooks; the penalty is not part of the graph."""
    torch.compiler.reset()
    _, _, compare = _fit(data, "adv", "complementary", compile=True, compile__backend="aot_eager")
    assert max(compare.errors_) < 1e-6
    assert compare.differs_


@pytest.mark.parametrize("method", ["adv", "began"])
def test_optimizer_holds_no_critic_parameter(data, method):
    net, censor, _ = _fit(data, method, "marginal")
    critic = {id(parameter) for parameter in censor.step_.penalty.parameters()}
    encoder = {id(parameter) for group in net.optimizer_.param_groups for parameter in group["params"]}
    assert critic
    assert not critic & encoder
    assert encoder == {id(parameter) for parameter in net.module_.parameters()}


class Record(Callback):
    def __init__(self, censor):
        self.censor = censor
        self.batches_ = []

    def on_batch_end(self, net, training=None, **kwargs):
        if training:
            z, s, y = (tensor.clone() for tensor in self.censor.monitor_.batches[-1])
            self.batches_.append((z, s, y))


@pytest.mark.parametrize("method", ["adv", "began"])
def test_critic_is_trained_by_its_own_loss(data, method):
    """Replay the critic's steps on the recorded codes: bit for bit the same critic."""
    x, y, subjects = data
    censor = Censor(method, "marginal", weight=10.0, subjects=subjects)
    record = Record(censor)
    net = EEGClassifier(
        DoubleEEGNet, callbacks=[censor, record], max_epochs=1, batch_size=32, verbose=0, lr=1e-2
    ).fit(x, y)
    z = record.batches_[0][0]
    sizes = {"n_features": z.shape[1], "n_subjects": len(censor.labels_), "n_classes": 2}
    penalty = build_penalty(method, z, 0, mode="marginal", **sizes)
    fresh = copy.deepcopy(penalty.state_dict())
    replay = CensoringStep(penalty)
    for batch in record.batches_:
        replay(*batch)
    trained = censor.step_.penalty.state_dict()
    assert net.history[-1, "train_batch_count"] == len(record.batches_) == 4
    assert any(not torch.equal(fresh[name], trained[name]) for name in trained)
    assert all(torch.equal(replay.penalty.state_dict()[name], trained[name]) for name in trained)
