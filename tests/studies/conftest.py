import numpy as np
import pytest
from subjects import mixed_subjects

from braindecode_censor.datasets.interchange import save_subject
from studies.recordings import number_subjects


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    X, y, subjects = mixed_subjects(4, 12)
    options = {"label_names": ["a", "b"], "sfreq": 64.0, "ch_names": list("wxyz"), "ch_types": ["eeg"] * 4}
    for subject in range(1, 5):
        is_own = subjects == subject
        save_subject(folder / f"subject_{subject:02d}.npz", X[is_own] * 1e-6, y[is_own], **options)
    return folder


@pytest.fixture(scope="session")
def trials():
    return number_subjects(*mixed_subjects(4, 12))


@pytest.fixture
def rng():
    return np.random.default_rng(0)
