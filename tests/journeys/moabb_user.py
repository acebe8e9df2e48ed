"""A MOABB user has recordings of their own and wants them in a benchmark, beside a classical pipeline."""

import warnings
from pathlib import Path

import numpy as np
from journeys.readme import block, run
from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
from moabb.pipelines.utils import parse_pipelines_from_directory
from subjects import mixed_subjects

from braindecode_censor.datasets import EpochsFolder, EpochsParadigm, save_subject

warnings.filterwarnings("error", message=".*abbreviation")  # MOABB's complaint about names of datasets

# Left and right differ by the power of two sources: whoever standardises every trial loses them.
X, y, subjects = mixed_subjects(4, 24, n_times=64, mixing=0.1)
Path("recordings").mkdir()
for k in range(1, 5):
    mine = subjects == k
    options = {"label_names": ["left", "right"], "sfreq": 64.0, "ch_names": ["C3", "C4", "Cz", "Pz"]}
    save_subject(f"recordings/subject_{k:02}.npz", 1e-6 * X[mine], y[mine], ch_types="eeg", **options)

Path("pipelines").mkdir()
short = {"[ERP]": "[EpochsParadigm]", "max_steps: 1500": "max_steps: 60, batch_size: 32"}
Path("pipelines/ours.yml").write_text(block("yaml", "CensoredEEGClassifier", **short))
Path("pipelines/csp.yml").write_text("""
name: CSP + LDA
paradigms: [EpochsParadigm]
pipeline:
  - {name: Covariances, from: pyriemann.estimation, parameters: {estimator: oas}}
  - {name: CSP, from: pyriemann.spatialfilters, parameters: {nfilter: 4}}
  - {name: LinearDiscriminantAnalysis, from: sklearn.discriminant_analysis}
""")

mine = {
    "import SimulatedSubjects": "import EpochsFolder",
    "bc.register() ": 'data = EpochsFolder("recordings", code="Left-Right"); bc.register(data) ',
    "[SimulatedSubjects()]": "[data]",
    '["ERP"]': '["EpochsParadigm"]',
}
results = run(block("python", "moabb.benchmark(", **mine))["results"]
assert set(results["dataset"]) == {"Left-Right"}  # the name that was given, and no digest
scores = results.groupby("pipeline")["score"].agg(["mean", "count"])
print(scores)
assert scores["count"].tolist() == [4, 4]
assert scores.loc["CSP + LDA", "mean"] > 0.9  # nobody normalised the signals before it
assert scores.loc["EEGNet + MMD", "mean"] > 0.7

# The same pipeline where the new person's trials are known without their classes, and trial by trial.
(config,) = [c for c in parse_pipelines_from_directory("pipelines") if c["name"] == "EEGNet + MMD"]
for mode in (CrossSubjectMode.TRAIN_TRIALWISE, CrossSubjectMode.TRAIN_AND_TARGET_UNLABELED_50P):
    data = EpochsFolder("recordings", code="Left-Right", selected_subjects=[1, 2, 3])
    clf = config["pipeline"].set_params(censoredeegclassifier__max_steps=5)
    evaluation = CrossSubjectEvaluation(EpochsParadigm(), [data], cs_mode=mode, hdf5_path=mode.value)
    scores = evaluation.process({config["name"]: clf})["score"].to_numpy(float)
    assert len(scores) == 3 and np.isfinite(scores).all(), mode
