"""AutoTransferClassifier in MOABB's cross-subject evaluation, from YAML, in three modes of target data."""

import warnings

import moabb
import numpy as np
import pytest
import yaml
from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
from moabb.pipelines.utils import create_pipeline_from_config

from braindecode_censor.datasets import SimulatedSubjects, default_paradigm

moabb.set_log_level("error")
PIPELINE = """
- name: AutoTransferClassifier
  from: braindecode_censor
  parameters:
    target: TARGET
    max_trainings: 8
    device: cpu
    verbose: 0
    sfreq: 64
    candidates:
      - riemann
      - waveform
      - {name: net, network: EEGNet, F1: 2, D: 1, max_steps: 4}
"""


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    data = SimulatedSubjects(4, 20, preset="easy", n_chans=4, sfreq=64.0, duration=1.0)

    def run(mode, target):
        clf = create_pipeline_from_config(yaml.safe_load(PIPELINE.replace("TARGET", target)))
        evaluation = CrossSubjectEvaluation(
            paradigm=default_paradigm(data),
            datasets=[data],
            hdf5_path=str(tmp_path_factory.mktemp("moabb")),
            cs_mode=mode,
            overwrite=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluation.process({"auto": clf}).sort_values("subject")["score"].to_numpy()

    return run


def test_no_target_data(evaluate):
    scores = evaluate(CrossSubjectMode.TRAIN, "none")
    assert len(scores) == 4 and np.isfinite(scores).all() and scores.mean() > 0.55


def test_unlabeled_target_data(evaluate):
    scores = evaluate(CrossSubjectMode.TRAIN_AND_TARGET_UNLABELED_FULL, "unlabeled")
    assert len(scores) == 4 and np.isfinite(scores).all() and scores.mean() > 0.55
    # Without target data the same classifier has other scores, so the trials did arrive.
    assert not np.array_equal(scores, evaluate(CrossSubjectMode.TRAIN, "unlabeled"))


def test_labeled_target_data(evaluate):
    scores = evaluate(CrossSubjectMode.TRAIN_AND_TARGET_LABELED_50P, "labeled")
    assert len(scores) == 4 and np.isfinite(scores).all()
