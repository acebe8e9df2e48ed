"""An experiment whose trials are in a file has the numbers of one in memory, and takes less memory."""

import gc
import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from processes import forking_joblib
from tiny import DATA, GRID, experiment, finished, run

from braindecode_censor.datasets import SimulatedSubjects, default_paradigm
from braindecode_censor.paper.data import ExperimentData
from braindecode_censor.paper.probing import probe
from braindecode_censor.paper.trial_file import TrialFile, read_trials
from braindecode_censor.storage.files import SCRATCH, clean, make_scratch
from braindecode_censor.trials import stored
from braindecode_censor.trials.stored import StoredSignals

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def nothing_fits(monkeypatch):
    monkeypatch.setattr(stored, "LARGEST_COPY", 0)


def test_file_holds_what_moabb_returns_and_is_removed(tmp_path, nothing_fits):
    # MOABB drops one of two sessions after it was cut, so positions are not 0, 1, 2, ...
    dataset = SimulatedSubjects(n_subjects=4, n_trials=8, n_chans=3, n_sessions=2, selected_sessions=["1"])
    paradigm = default_paradigm(dataset)
    X, y, metadata = paradigm.get_data(dataset)
    data = ExperimentData(dataset, paradigm, tmp_path / "out")
    (file,) = (tmp_path / "out").iterdir()
    assert isinstance(data.X, StoredSignals) and file.stat().st_size == 2 * X.nbytes
    np.testing.assert_array_equal(data.X[:], X)
    np.testing.assert_array_equal(data.labels, y)
    assert data.metadata.equals(metadata)
    in_memory = ExperimentData(dataset, paradigm)
    np.testing.assert_array_equal(in_memory.X, X)
    assert data.digests == in_memory.digests
    del data
    gc.collect()
    assert not list((tmp_path / "out").iterdir())


def test_bands_of_a_filter_bank_are_stacked_by_moabb(tmp_path, nothing_fits):
    dataset = SimulatedSubjects(n_subjects=2, n_trials=4, n_chans=3)
    paradigm = default_paradigm(dataset)
    paradigm.filters = [[1, 10], [10, 20]]
    X, *_, file = read_trials(dataset, paradigm, tmp_path)
    assert X.ndim == 4 and X.shape[-1] == 2 and file is None


def test_trials_of_different_length_are_refused():
    file = TrialFile(None)
    file.add(np.zeros((2, 3, 10)))
    with pytest.raises(
        ValueError, match=r"\(3, 9\) channels and samples and some \(3, 10\): choose channels"
    ):
        file.add(np.zeros((2, 3, 9)))


def test_only_files_of_killed_processes_are_cleaned_away(tmp_path):
    path = make_scratch(tmp_path)
    (tmp_path / "trainings").mkdir()
    (tmp_path / "trainings" / "a.json.17.part").write_text("half")
    code = "import sys; from braindecode_censor.storage.files import make_scratch\n"
    code += "print(make_scratch(sys.argv[1]), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        name = other.stdout.readline().strip()
        clean(tmp_path)
        files = {str(file) for file in tmp_path.rglob("*") if file.is_file()}
        assert files == {name, str(path)}, "both processes live"
        os.kill(other.pid, signal.SIGKILL)
        other.wait(timeout=20)
    clean(tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]


def test_an_experiment_on_a_file_has_the_table_of_one_in_memory(reference, tmp_path, nothing_fits):
    """In two processes, which open the file themselves."""
    with forking_joblib():
        result = run(tmp_path / "out", n_jobs=2)
    for name in ("scores.csv", "table.csv"):
        assert (result.out / name).read_bytes() == (reference.out / name).read_bytes()
    assert set(finished(result.out)) == set(finished(reference.out)), (
        "keys do not depend on the file of the trials"
    )
    gains = probe(result.out, result.table) / "gains.csv"  # reads the trials again
    assert gains.stat().st_size > 0
    gc.collect()  # The file goes with the data, which may be part of a cycle.
    assert not list(result.out.glob(f"*{SCRATCH}"))


def test_an_experiment_never_has_all_trials_in_memory(reference, tmp_path, nothing_fits):
    """The reference is there because modules that are imported for it would count as memory taken."""
    data = {**DATA, "n_subjects": 6, "n_trials": 32, "n_chans": 16, "sfreq": 512.0}
    options = {"dataset_options": data, "training": {"max_steps": 1, "batch_size": 16, "module__F1": 1}}
    study = experiment(tmp_path / "out", [{**GRID[1], "weight": 0.1}], **options)
    tracemalloc.start()
    study.run(report=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    ExperimentData(study.dataset, study.paradigm)
    _, in_memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = study.data.X.nbytes
    assert peak < size, (peak, size)
    assert in_memory > 2 * size, "or the measure would not see a copy"
