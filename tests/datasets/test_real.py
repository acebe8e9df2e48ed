"""The real recordings beside the repository load with the counts of their README."""

from pathlib import Path

import numpy as np
import pytest

from braindecode_censor.datasets import EpochsFolder, default_paradigm

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = [pytest.mark.real, pytest.mark.skipif(not DATA.is_dir(), reason=f"no recordings in {DATA}")]


@pytest.mark.parametrize(
    ("name", "where", "subjects", "trials", "shape", "classes"),
    [
        ("erp_uci_smni", None, 16, 924, (61, 128), 3),
        ("ssvep_exo", None, 12, 864, (8, 640), 4),
        ("emg_myo", {"subset": "PreTrainingDataset"}, 19, 532, (8, 700), 7),
        ("emg_myo", {"subset": "EvaluationDataset"}, 18, 1512, (8, 700), 7),
    ],
    ids=["erp", "ssvep", "emg-pretraining", "emg-evaluation"],
)
def test_counts_of_the_readme(name, where, subjects, trials, shape, classes):
    dataset = EpochsFolder(DATA / name, where=where)
    assert len(dataset.subject_list) == subjects
    X, y, metadata = default_paradigm(dataset).get_data(dataset)
    assert X.shape == (trials, *shape) and len(set(y)) == classes
    subject = dataset.subject_list[3]
    with np.load(dataset.files[subject]) as record:
        is_signal = record["ch_types"] != "eog"
        expected = (record["X"] * record["scale"][:, None])[:, is_signal]
        labels = record["label_names"][record["y"]]
    rows = (metadata["subject"] == subject).to_numpy()
    # MOABB orders by session and run, so the trials are compared in the order of their first samples.
    order, order_moabb = (
        np.lexsort(signal[:, :, :20].reshape(len(signal), -1).round(6).T) for signal in (expected, X[rows])
    )
    np.testing.assert_allclose(X[rows][order_moabb], expected[order], atol=1e-9)
    np.testing.assert_array_equal(y[rows][order_moabb], labels[order])
