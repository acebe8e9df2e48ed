"""
A MOABB benchmark from YAML
===========================

MOABB runs pipelines from YAML files. The estimator takes only numbers and strings as parameters, so a comparison is a
folder of text files.
"""

# %%
# The pipelines
# -------------
# ``autotransfer pipelines --out FOLDER`` writes one file for every method and mode, with 500 epochs as in the paper.
# These two have ten epochs.

import tempfile
from pathlib import Path

import moabb
import seaborn

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects

moabb.set_log_level("error")
folder = Path(tempfile.mkdtemp())
(folder / "pipelines").mkdir()

TEMPLATE = """
name: EEGNet, {name}
paradigms: [ERP]
pipeline:
  - name: CensoredEEGClassifier
    from: braindecode_censor
    parameters: {{penalty: {penalty}, censoring: marginal, weight: 0.3, max_epochs: 10, lr: 0.01, batch_size: 32,
                 normalize: trial, keep: best, valid_subject: rotate}}
"""
for name, penalty in {"plain": "null", "adversary": "adv"}.items():
    (folder / "pipelines" / f"{name}.yml").write_text(TEMPLATE.format(name=name, penalty=penalty))

# %%
# The benchmark
# -------------
# MOABB evaluates registered datasets. :func:`braindecode_censor.register` registers those of this package, or a class
# of your own; MOABB's datasets need no registration. Only ``CrossSubject`` trains on several subjects, which censoring
# needs; in other evaluations the estimator raises an error.


class SmallStudy(SimulatedSubjects):
    def __init__(self):
        super().__init__(5, 40, n_chans=8, preset="easy", seed=1)


bc.register(SmallStudy)
results = moabb.benchmark(
    pipelines=str(folder / "pipelines"),
    evaluations=["CrossSubject"],
    paradigms=["ERP"],
    include_datasets=[SmallStudy()],
    results=str(folder / "results"),
    output=str(folder / "output"),
    n_jobs=1,
)
columns = ["pipeline", "subject", "score", "score_valid", "samples", "time"]
print(results[columns].round(3).to_string(index=False))

# %%
# There is one row per pipeline and test subject. ``score_valid`` is the balanced accuracy on the validation subject,
# which selection rules use. ``samples`` includes the trials of the validation subject. MOABB stores the results and
# reads them when the same benchmark runs again.

grid = seaborn.catplot(results, x="subject", y="score", hue="pipeline", height=3.5, aspect=1.6)
grid.refline(y=0.5)
print(results.groupby("pipeline")["score"].agg(["mean", "min"]).round(3))
