"""Can a registered measure go all the way: search, cross-validation, selection, report?"""

import pytest

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.penalties.batch import cell_rows
from braindecode_censor.penalties.measures import MEASURES, Measure


class MeanDistance(Measure):
    def censor(self, z, batch):
        _, cells = cell_rows(batch, z.dtype)
        means = cells @ z / cells.sum(-1, keepdim=True).clamp_min(1)
        return ((means - z.mean(0)) ** 2).mean()


@pytest.mark.filterwarnings("ignore")
def test_autotransfer_chooses_a_registered_measure(tmp_path, monkeypatch):
    monkeypatch.setitem(MEASURES, "mean-distance", MeanDistance)
    result = bc.AutoTransfer(
        SimulatedSubjects(4, 20, n_channels=4, seed=0),
        out=tmp_path,
        preset=[{"method": "mean-distance", "weight": [0.1, 0.2]}],
        training={"max_epochs": 1},
        top=1,
    ).run()
    assert result.selected.startswith("mean-distance-marginal-0.")
    assert "mean-distance" in result.table.index
