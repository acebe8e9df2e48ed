"""Learning rates, the length of a training, and the average of weights: all against torch or a formula."""

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score
from torch import nn

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.training.rules import average_share, has_waited
from braindecode_censor.training.schedule import count_epochs, count_steps, learning_rate
from braindecode_censor.trials.normalize import normalize_people


@pytest.mark.parametrize("n_steps", [2, 3, 10, 97])
def test_one_cycle_is_torchs(n_steps):
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


def test_the_papers_rate_and_a_constant_one():
    assert learning_rate("inverse_sqrt", 2.0, step=99, n_steps=None, epoch=3) == 1.0
    assert learning_rate("constant", 2.0, step=99, n_steps=None, epoch=3) == 2.0


@pytest.mark.parametrize(
    ("max_steps", "max_epochs", "steps", "epochs"),
    [(10, 2, 8, 2), (7, 2, 7, 2), (7, None, 7, 2), (None, 3, 12, 3)],
)
def test_whichever_limit_comes_first(max_steps, max_epochs, steps, epochs):
    assert count_steps(max_steps, max_epochs, steps_per_epoch=4) == steps
    assert count_epochs(steps, 4) == epochs


def test_the_average_is_plain_at_first_and_exponential_later():
    weights = np.random.default_rng(0).normal(size=300)
    average, plain = 0.0, []
    for step, weight in enumerate(weights, 1):
        average += average_share(step, decay=0.9) * (weight - average)
        plain.append(average)
    assert plain[6] == pytest.approx(weights[:7].mean())
    ages = np.arange(290)
    expected = 0.1 * (0.9**ages) @ weights[::-1][:290] + 0.9**290 * weights[:10].mean()
    assert average == pytest.approx(expected)


def test_patience():
    assert not has_waited(5, 3, None)
    assert not has_waited(5, 3, 3)
    assert has_waited(6, 3, 3)
    assert has_waited(3, None, 3)
    assert not has_waited(7, 1, 3, first_epoch=5)


# --- in the estimator -------------------------------------------------------------------------------------


class Recorded(CensoredEEGClassifier):
    """Notes the weights after every step, and the rate that it was taken with."""

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


def test_every_step_has_its_own_rate_and_the_last_epoch_is_cut_short(recorded):
    rates = [rate for rate, _ in recorded.notes_]
    np.testing.assert_allclose(rates, [learning_rate("one_cycle", 3e-3, k, 10, 0) for k in range(10)])
    assert max(rates) == pytest.approx(3e-3)
    assert recorded.history[:, "train_batch_count"] == [3, 3, 3, 1]
    assert recorded.history[:, "event_lr"] == [rates[2], rates[5], rates[8], rates[9]]
    assert recorded.complete_


def test_what_is_kept_is_the_average_of_parameters_and_statistics(recorded):
    states = [state for _, state in recorded.notes_]
    for name, kept in recorded.module_.state_dict().items():
        if kept.is_floating_point():  # ten steps are so few that the average is the plain mean
            torch.testing.assert_close(kept, torch.stack([state[name] for state in states]).mean(0))
        else:
            assert torch.equal(kept, states[-1][name])


def test_several_people_validate_the_weights_that_were_kept(data, recorded):
    x, y, subjects = data
    assert recorded.valid_subject_ == [1, 3]
    assert recorded.best_epoch_ is None
    mine = np.isin(subjects, [1, 3])
    signals = torch.as_tensor(normalize_people(x[mine], subjects[mine], "subject"))
    with torch.no_grad():
        found = recorded.module_.eval()(signals).argmax(1).numpy()
    assert recorded.valid_score_ == pytest.approx(balanced_accuracy_score(y[mine], found))


def test_last_keeps_the_last(data, quick):
    clf = Recorded(**{**quick, "max_steps": 5, "max_epochs": None}).fit(*data)
    state = clf.module_.state_dict()
    assert all(torch.equal(tensor, clf.notes_[-1][1][name]) for name, tensor in state.items())
    assert np.isnan(clf.valid_score_)


def test_the_same_seed_augments_alike_and_another_does_not(data, quick):
    one, two, other = (
        CensoredEEGClassifier(random_state=seed, sampling="shuffle", **quick).fit(*data) for seed in (0, 0, 1)
    )
    assert one.history[:, "train_loss"] == two.history[:, "train_loss"] != other.history[:, "train_loss"]
    plain = CensoredEEGClassifier(augment=None, sampling="shuffle", **quick).fit(*data)
    assert plain.history[:, "train_loss"] != one.history[:, "train_loss"]


def test_augmentation_sees_training_batches_only(data, quick):
    """Signals that validation and prediction see are those that were given."""
    seen = []

    class Look(CensoredEEGClassifier):
        def infer(self, x, **fit_params):
            seen.append((self.module_.training, x.clone()))
            return super().infer(x, **fit_params)

    clf = Look(**{**quick, "max_epochs": 1}, valid_subject=2, normalize="none", penalty=None).fit(*data)
    known = {row.numpy().tobytes() for row in torch.as_tensor(data[0])}
    for training, x in seen:
        assert all((row.numpy().tobytes() in known) != training for row in x)
    assert {training for training, _ in seen} == {True, False}
    clf.predict(data[0][:5])


def test_a_training_that_diverges_says_so(data, quick):
    for keep in ("last", "ema"):
        with pytest.raises(ValueError, match="Training ended with a loss or weights that are not finite"):
            CensoredEEGClassifier(**{**quick, "lr": 1e30, "penalty": None, "keep": keep}).fit(*data)


def test_optimisers_by_name(data, quick):
    clf = CensoredEEGClassifier(optimizer="SGD", **quick).fit(*data)
    assert type(clf.optimizer_) is torch.optim.SGD


def test_the_papers_keyword_arguments(data, quick):
    clf = CensoredEEGClassifier(**{**PAPER, **quick, "max_epochs": 3}).fit(*data)
    assert clf.valid_subject_ == 1
    assert 1 <= clf.best_epoch_ <= 3
    np.testing.assert_allclose(clf.history[:, "event_lr"], 1e-3 / np.sqrt([1, 2, 3]))
