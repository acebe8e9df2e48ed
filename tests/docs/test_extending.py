"""Can what a user registers go all the way: search, cross-validation, selection, figures, fleets, files?"""

import numpy as np
import pytest
from matplotlib.text import Text
from subjects import mixed_subjects
from tiny import TRAINING, run

import braindecode_censor as bc
from braindecode_censor.figures import plot_ranks, plot_results, plot_training, plot_weights
from braindecode_censor.figures.folder import read_results
from braindecode_censor.fleet import train_fleet
from braindecode_censor.paper import selection
from braindecode_censor.penalties.batch import cell_rows
from braindecode_censor.penalties.measures import MEASURES, Measure
from braindecode_censor.trials.people import TRIALWISE


class MeanDistance(Measure):
    def censor(self, z, batch):
        _, cells = cell_rows(batch, z.dtype)
        means = cells @ z / cells.sum(-1, keepdim=True).clamp_min(1)
        return ((means - z.mean(0)) ** 2).mean()


@pytest.mark.filterwarnings("ignore")
def test_autotransfer_chooses_a_registered_measure(tmp_path, monkeypatch):
    monkeypatch.setitem(MEASURES, "mean-distance", MeanDistance)
    rule = "score_valid", np.min, False, "highest validation accuracy of the worst"
    monkeypatch.setitem(selection.SELECTION_RULES, "worst", rule)
    grid = [{"method": "mean-distance", "weight": [0.1, 0.2]}]
    result = run(tmp_path, grid, training={**TRAINING, "max_epochs": 1})
    assert result.selected.startswith("mean-distance-marginal-0.")
    assert "mean-distance" in result.table.index
    assert "AutoTransfer (worst)" in result.table.index
    drawn = read_results(tmp_path)
    for module in (plot_results, plot_weights, plot_ranks, plot_training):
        figure = module.PLOT.figure(drawn)
        words = [text.get_text() for text in figure.findobj(Text)]
        assert any("mean-distance" in word for word in words), module.__name__


@pytest.mark.filterwarnings("ignore")
def test_a_registered_normalisation_trains_in_a_fleet_and_comes_back_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setitem(TRIALWISE, "halved", lambda X: X / 2)
    X, y, people = mixed_subjects(3, 12)
    options = {"penalty": None, "normalize": "halved", "max_steps": 2, "module__F1": 2, "module__D": 1}
    alone = bc.CensoredEEGClassifier(**options).fit(X, y, subjects=people)
    assert np.array_equal(alone.normalizer_.transform(X), X / 2)
    (member,) = train_fleet([(0, bc.CensoredEEGClassifier(**options), np.arange(len(y)))], X, y, people)
    assert np.allclose(member.clf.predict_proba(X), alone.predict_proba(X), atol=1e-5)
    alone.save(tmp_path / "clf")
    loaded = bc.CensoredEEGClassifier.load(tmp_path / "clf")
    assert np.array_equal(loaded.predict_proba(X), alone.predict_proba(X))
    assert np.array_equal(loaded.adapt(X[:6]).normalizer_.transform(X), X / 2)
