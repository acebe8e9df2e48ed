"""Recipes of the page on extending: the files that it shows, the lines that register them, the code that uses them."""

import re

import pytest
from docs.runner import ROOT, run_script

PAGE = (ROOT / "docs" / "extending.md").read_text()
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:]}
RECIPES = ["A candidate", "A score estimator", "A measure", "A dataset", "Other registries"]
# Whether what was registered goes through training, and not only through the factory, is asked after the page's code.
AFTERWARDS = {
    "A candidate": "assert set(clf.leaderboard_['candidate']) >= {'waveform', 'log-power'}",
    "A score estimator": """
import numpy as np
X, y = np.random.default_rng(0).normal(size=(36, 4, 64)).astype("float32"), np.arange(36) % 2
clf.set_params(max_steps=2, random_state=0).fit(X, y, subjects=np.arange(36) // 12)
penalty = clf.history[-1, "subject_penalty"]
assert np.isfinite(penalty) and penalty != 0
""",
    "A measure": """
assert z.grad.abs().sum() > 0
data = {"n_subjects": 4, "n_trials": 16, "n_chans": 4, "sfreq": 64.0, "duration": 1.0}
training = {"max_epochs": 1, "batch_size": 16, "module__F1": 2, "module__D": 1}
experiment = bc.AutoTransfer("simulated", "out", grid, dataset_options=data, training=training, n_top=1)
result = experiment.run(report=False, verbose=0)
assert result.selected.startswith("mean-distance-") and "mean-distance" in result.table.index
""",
    "A dataset": "assert X.shape[:2] == (4 * 28, 2) and experiment.plan()['trainings']['total'] > 0",
    "Other registries": "",
}


@pytest.mark.parametrize("title", RECIPES)
def test_recipe_runs_as_printed(title, tmp_path):
    code = []
    for block in re.findall(r"```python\n(.*?)```", SECTIONS[title], re.DOTALL):
        if name := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / name[1]).write_text(block)
        else:
            code.append(block)
    script = tmp_path / "main.py"
    script.write_text("\n".join([*code, AFTERWARDS[title]]))
    run = run_script(script, tmp_path)
    assert run.code == 0, run.output[-3000:]


def test_every_section_with_code_is_a_recipe():
    assert [title for title, text in SECTIONS.items() if "```python" in text] == RECIPES
