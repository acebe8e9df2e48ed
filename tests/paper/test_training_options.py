"""Do the training options of a file reach the trials, and does switching the normalisation off once switch it off?"""

import numpy as np
import pytest
from tiny import DATA, TRAINING

from braindecode_censor import AutoTransfer, CensoredEEGClassifier
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.paper.tables import read_index


@pytest.mark.filterwarnings("ignore")
def test_the_normalisation_of_a_file_is_that_of_the_trials(tmp_path):
    options = {**DATA, "n_trials": 16}
    training = {**TRAINING, "max_epochs": 1, "normalize": "none"}
    grid, out = tmp_path / "grid.yml", tmp_path / "out"
    grid.write_text(f"grid: [{{method: mmd, weight: 0.1}}]\ntraining: {training}\n")
    AutoTransfer("simulated", out, str(grid), dataset_options=options).run(report=False)
    clf = CensoredEEGClassifier.load(out / "trainings" / f"{read_index(out)['key'][0]}.safetensors")
    assert clf.normalize == "none"
    X = SimulatedSubjects(**options).arrays()[0]
    # with the preset's z-score of every trial a louder signal would be the same signal
    assert not np.allclose(clf.predict_proba(X), clf.predict_proba(3 * X), atol=1e-4)
