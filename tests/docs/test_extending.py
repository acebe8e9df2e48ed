"""The recipes of the page on extending, as printed, and what they registered in a training."""

from docs.blocks import ROOT, page_script
from docs.runner import run_script

AFTERWARDS = """
import numpy as np

X, y, groups = np.random.default_rng(0).normal(size=(36, 4, 64)), np.arange(36) % 2, np.arange(36) // 12
mige = CensoredEEGClassifier(penalty="mige", penalty__score="gaussian", max_steps=2, random_state=0)
mige.fit(X.astype("float32"), y, subjects=groups)
assert np.isfinite(mige.history[-1, "subject_penalty"]) and mige.history[-1, "subject_penalty"] != 0

options = {"n_subjects": 4, "n_trials": 16, "n_chans": 4, "sfreq": 64.0, "duration": 1.0}
training = {"max_epochs": 1, "batch_size": 16, "module__F1": 2, "module__D": 1}
small = bc.AutoTransfer("simulated", "out", grid, dataset_options=options, training=training, n_top=1)
result = small.run(report=False, verbose=0)
assert result.selected.startswith("mean-distance-") and "mean-distance" in result.table.index
assert experiment.plan()["trainings"]["total"] > 0 and dataset.code == "ToneStudy"
assert "log-power" in set(clf.leaderboard_["candidate"])
"""


def test_recipes_run_as_printed_and_take_part_in_trainings(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(page_script(ROOT / "docs" / "extending.md") + AFTERWARDS)
    run = run_script(script, tmp_path)
    assert run.code == 0, run.output[-3000:]
