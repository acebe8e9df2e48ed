"""A MOABB user benchmarks own recordings beside a classical pipeline, without and with target data."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import yaml
from journeys.readme import block, run
from moabb.analysis.meta_analysis import compute_dataset_statistics, find_significant_differences
from moabb.analysis.plotting import summary_plot
from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
from moabb.pipelines.utils import parse_pipelines_from_directory
from subjects import mixed_subjects

from braindecode_censor.datasets import EpochsFolder, EpochsParadigm, save_subject

matplotlib.use("agg")
SHIPPED = Path(__file__).parents[2] / "moabb_pipelines"
warnings.filterwarnings("error", message=".*abbreviation")  # MOABB's warning about names of datasets

# Left and right differ by the power of two sources, which a normalisation of every trial would remove.
X, y, subjects = mixed_subjects(4, 24, n_times=64, mixing=0.1)
options = {"label_names": ["left", "right"], "sfreq": 64.0, "ch_names": ["C3", "C4", "Cz", "Pz"]}
for k in range(1, 5):
    rows = subjects == k
    save_subject(f"recordings/subject_{k:02}.npz", 1e-6 * X[rows], y[rows], ch_types="eeg", **options)

Path("pipelines").mkdir()
short = {"[ERP]": "[EpochsParadigm]", "population}": "subject, max_steps: 60, batch_size: 32}"}
Path("pipelines/ours.yml").write_text(block("yaml", "CensoredEEGClassifier", short))
Path("pipelines/csp.yml").write_text("""
name: CSP + LDA
paradigms: [EpochsParadigm]
pipeline:
  - {name: Covariances, from: pyriemann.estimation, parameters: {estimator: oas}}
  - {name: CSP, from: pyriemann.spatialfilters, parameters: {nfilter: 4}}
  - {name: LinearDiscriminantAnalysis, from: sklearn.discriminant_analysis}
""")
own = {
    "import SimulatedSubjects": "import EpochsFolder",
    "SimulatedSubjects(5, 40)": 'EpochsFolder("recordings", code="Left-Right")',
    '["ERP"]': '["EpochsParadigm"]',
}
results = run(block("python", "moabb.benchmark(", own))["results"]
assert set(results["dataset"]) == {"Left-Right"}
scores = results.groupby("pipeline")["score"].agg(["mean", "count"])
assert scores["count"].tolist() == [4, 4]
assert scores.loc["CSP + LDA", "mean"] > 0.9  # The paradigm has not normalised the signals.
assert scores.loc["EEGNet, conditional MMD", "mean"] > 0.7

# MOABB shortens names to their first words, which must differ, also those of the files that the package ships.
differences = find_significant_differences(compute_dataset_statistics(results))
summary_plot(*differences)
first_words = [yaml.safe_load(path.read_text())["name"].split(" ")[0] for path in SHIPPED.glob("*.yml")]
assert len(set(first_words)) == len(first_words) > 20

# The same pipeline with unlabelled target data, and trial by trial.
(config,) = [c for c in parse_pipelines_from_directory("pipelines") if c["name"].startswith("EEGNet")]
for mode in (CrossSubjectMode.TRAIN_TRIALWISE, CrossSubjectMode.TRAIN_AND_TARGET_UNLABELED_50P):
    data = EpochsFolder("recordings", code="Left-Right", selected_subjects=[1, 2, 3])
    clf = config["pipeline"].set_params(censoredeegclassifier__max_steps=5)
    evaluation = CrossSubjectEvaluation(EpochsParadigm(), [data], cs_mode=mode, hdf5_path=mode.value)
    scores = evaluation.process({config["name"]: clf})["score"].to_numpy(float)
    assert len(scores) == 3 and np.isfinite(scores).all(), mode
