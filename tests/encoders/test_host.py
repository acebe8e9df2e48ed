"""FastEEGNet is used as Braindecode's own models are."""

import numpy as np
import pytest
import torch
from braindecode import EEGClassifier
from braindecode.models import EEGNet
from encoders.pairs import batch, pair

from braindecode_censor.encoders.eegnet import FastEEGNet


def test_classifier_infers_the_signal_and_scores_like_stock():
    x, y = batch(4, 100, n_trials=12)
    probabilities = []
    for module in (EEGNet, FastEEGNet):
        torch.manual_seed(0)
        options = {"max_epochs": 2, "train_split": None, "verbose": 0, "batch_size": 6, "classes": [0, 1, 2]}
        options |= {"module__final_layer_with_constraint": True, "optimizer": torch.optim.SGD}
        classifier = EEGClassifier(module, **options)
        classifier.fit(x.numpy(), y.numpy())
        assert isinstance(classifier.module_, module)
        probabilities.append(classifier.predict_proba(x.numpy()))
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-5)


def test_config_round_trip():
    model = FastEEGNet(n_chans=4, n_outputs=2, n_times=100, F1=3, activation=torch.nn.GELU)
    again = FastEEGNet.from_config(model.get_config())
    assert again.F1 == 3 and isinstance(again.elu_1, torch.nn.GELU)
    assert again.get_output_shape() == (1, 2)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", ["elu_1", "pool_1", "bnorm_2", "elu_2", "drop_2", "final_layer"])
def test_hook_receives_the_tensors_of_stock(layer, training):
    x, _ = batch(4, 100)
    calls = []
    for model in pair(4, 100):
        torch.manual_seed(0)
        submodule = model.train(training).get_submodule(layer)
        submodule.register_forward_hook(lambda _, *tensors: calls.append(tensors))
        model(x)
    torch.testing.assert_close(calls[1], calls[0], rtol=0, atol=1e-5)
    if layer == "final_layer":
        assert calls[0][0][0].shape == (6, 16, 1, 3) and calls[1][0][0].is_contiguous()


def test_hook_on_a_reordered_layer_is_called_in_stock_order():
    stock, fast = pair(4, 100)
    x, _ = batch(4, 100)
    outputs = []
    handle = fast.conv_temporal.register_forward_hook(lambda _, __, output: outputs.append(output))
    torch.testing.assert_close(fast.eval()(x), stock.eval()(x), rtol=0, atol=0)
    torch.testing.assert_close(fast(x[..., None]), stock(x), rtol=0, atol=0)  # a trailing axis of one
    assert outputs[0].shape == (6, 8, 4, 101)
    handle.remove()
    fast.conv_temporal.forward = lambda _: pytest.fail("stock order")
    fast(x)


def test_dense_prediction_model_equals_stock():
    models = pair(4, 100, final_layer_with_constraint=False)
    x, _ = batch(4, 200)
    outputs = []
    for model in models:
        model.eval().to_dense_prediction_model()
        outputs.append(model(x))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 65), (5, 64, 65), (64, 65)])
def test_moments_of_another_batch_are_refused(shape):
    _, fast = pair(4, 100)
    x, _ = batch(4, 100)
    with pytest.raises(ValueError, match=r"moments has shape .* expected \(6, 64, 65\)"):
        fast(x, moments=torch.zeros(shape))
