"""Learning rates, length of a training and average of weights equal torch or a formula."""

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score
from torch import nn

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.training.rules import average_share
from braindecode_censor.training.schedule import count_epochs, count_steps, learning_rate
from braindecode_censor.trials.normalizations import normalize_subjects


@pytest.mark.parametrize("n_steps", [2, 3, 10, 97])
def test_one_cycle_equals_torch(n_steps):
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=n_steps, cycle_momentum=False
    )
    for step in range(n_steps):
        ours = learning_rate("one_cycle", 3e-3, step, n_steps, epoch=0)
        assert ours == pytest.approx(theirs.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        if step < n_steps - 1:
            theirs.step()


def test_inverse_sqrt_and_constant_rates():
    assert learning_rate("inverse_sqrt", 2.0, step=99, n_steps=None, epoch=3) == 1.0
    assert learning_rate("constant", 2.0, step=99, n_steps=None, epoch=3) == 2.0


@pytest.mark.parametrize(
    ("max_steps", "max_epochs", "steps", "epochs"),
    [(10, 2, 8, 2), (7, 2, 7, 2), (7, None, 7, 2), (None, 3, 12, 3)],
)
def test_first_limit_counts(max_steps, max_epochs, steps, epochs):
    assert count_steps(max_steps, max_epochs, steps_per_epoch=4) == steps
    assert count_epochs(steps, 4) == epochs


def test_average_is_plain_then_exponential():
    weights = np.random.default_rng(0).normal(size=300)
    average, plain = 0.0, []
    for step, weight in enumerate(weights, 1):
        average += average_share(step, decay=0.9) * (weight - average)
        plain.append(average)
    assert plain[6] == pytest.approx(weights[:7].mean())
    ages = np.arange(290)
    expected = 0.1 * (0.9**ages) @ weights[::-1][:290] + 0.9**290 * weights[:10].mean()
    assert average == pytest.approx(expected)


class Recorded(CensoredEEGClassifier):
    def train_step(self, batch, **fit_params):
        step = super().train_step(batch, **fit_params)
        state = {name: tensor.clone() for name, tensor in self.module_.state_dict().items()}
        self.__dict__.setdefault("notes_", []).append((self.optimizer_.param_groups[0]["lr"], state))
        return step


@pytest.fixture(scope="module")
def recorded(data):
    """Ten steps, four to an epoch, whose average is kept."""
    options = {"batch_size": 32, "module__F1": 4, "module__D": 1, "penalty": None, "keep": "ema"}
    return Recorded(max_steps=10, valid_subject=[1, 3], **options).fit(*data)


def test_rate_of_every_step(recorded):
    rates = [rate for rate, _ in recorded.notes_]
    np.testing.assert_allclose(rates, [learning_rate("one_cycle", 3e-3, k, 10, 0) for k in range(10)])
    assert max(rates) == pytest.approx(3e-3)
    assert recorded.history[:, "train_batch_count"] == [3, 3, 3, 1]
    assert recorded.history[:, "event_lr"] == [rates[2], rates[5], rates[8], rates[9]]
    assert recorded.complete_


def test_ema_averages_parameters_and_statistics(recorded):
    states = [state for _, state in recorded.notes_]
    for name, average in recorded.module_.state_dict().items():
        if average.is_floating_point():  # ten steps are so few that the average is the plain mean
            torch.testing.assert_close(average, torch.stack([state[name] for state in states]).mean(0))
        else:
            assert torch.equal(average, states[-1][name])


def test_several_validation_subjects_score_the_final_weights(data, recorded):
    x, y, subjects = data
    assert recorded.valid_subject_ == [1, 3]
    assert recorded.best_epoch_ is None
    idx = np.isin(subjects, [1, 3])
    signals = torch.as_tensor(normalize_subjects(x[idx], subjects[idx], "subject"))
    with torch.no_grad():
        y_pred = recorded.module_.eval()(signals).argmax(1).numpy()
    assert recorded.valid_score_ == pytest.approx(balanced_accuracy_score(y[idx], y_pred))


def test_seed_of_the_augmentation(data, quick):
    one, two, other = (
        CensoredEEGClassifier(random_state=seed, sampling="shuffle", **quick).fit(*data) for seed in (0, 0, 1)
    )
    assert one.history[:, "train_loss"] == two.history[:, "train_loss"] != other.history[:, "train_loss"]
    plain = CensoredEEGClassifier(augment=None, sampling="shuffle", **quick).fit(*data)
    assert plain.history[:, "train_loss"] != one.history[:, "train_loss"]


def test_augmentation_of_training_batches_only(data, quick):
    batches = []

    class Record(CensoredEEGClassifier):
        def infer(self, x, **fit_params):
            batches.append((self.module_.training, x.clone()))
            return super().infer(x, **fit_params)

    clf = Record(**{**quick, "max_epochs": 1}, valid_subject=2, normalize="none", penalty=None).fit(*data)
    originals = {row.numpy().tobytes() for row in torch.as_tensor(data[0])}
    for training, x in batches:
        assert all((row.numpy().tobytes() in originals) != training for row in x)
    assert {training for training, _ in batches} == {True, False}
    clf.predict(data[0][:5])


def test_diverged_training_raises(data, quick):
    for keep in ("last", "ema"):
        with pytest.raises(ValueError, match="Training ended with a loss or weights that are not finite"):
            CensoredEEGClassifier(**{**quick, "lr": 1e30, "penalty": None, "keep": keep}).fit(*data)
