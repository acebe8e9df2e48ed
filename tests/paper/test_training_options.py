"""Training options of a file reach the trials."""

import numpy as np
import pytest
from tiny import DATA, ONE_EPOCH

from braindecode_censor import AutoTransfer
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.paper.stored import read_training
from braindecode_censor.paper.tables import read_index


@pytest.mark.filterwarnings("ignore")
def test_normalize_of_a_file_is_that_of_the_trials(tmp_path):
    options = {**DATA, "n_trials": 16}
    grid, out = tmp_path / "grid.yml", tmp_path / "out"
    training = {**ONE_EPOCH, "normalize": "none"}
    grid.write_text(f"grid: [{{method: mmd, weight: 0.1}}]\ntraining: {training}\n")
    AutoTransfer("simulated", out, str(grid), dataset_options=options).run(report=False)
    clf = read_training(out, read_index(out)["key"][0]).estimator()
    assert clf.normalize == "none"
    X = SimulatedSubjects(**options).arrays()[0]
    # With the preset's z-score of every trial, a louder signal would be the same signal.
    assert not np.allclose(clf.predict_proba(X), clf.predict_proba(3 * X), atol=1e-4)
