"""Do the real recordings beside the repository load with the counts of their README?"""

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
        keep = record["ch_types"] != "eog"
        expected = (record["X"] * record["scale"][:, None])[:, keep]
        labels = record["label_names"][record["y"]]
        order = _order(metadata[metadata["subject"] == subject], record)
    here = (metadata["subject"] == subject).to_numpy()
    np.testing.assert_allclose(X[here], expected[order], atol=1e-9)
    np.testing.assert_array_equal(y[here], labels[order])


def _order(metadata, record):
    """Return the file's trials in MOABB's order: by session, then by run, each in order of appearance."""
    session, run = record["session"].astype(str), record["run"].astype(str)
    rank = [dict.fromkeys(values) for values in (session, run)]
    first = [list(r).index for r in rank]
    keys = [
        (first[0](s), list(dict.fromkeys(run[session == s])).index(r), k)
        for k, (s, r) in enumerate(zip(session, run))
    ]
    assert len(keys) == len(metadata)
    return [k for *_, k in sorted(keys)]
