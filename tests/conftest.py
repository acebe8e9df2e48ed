import gc
import os
import warnings

import pytest
import shared

# Before torch is imported: processes that tests fork would wait for threads that they do not inherit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# torch is imported where it is used: xdist's controller, which runs no test, would make its workers wait.


def pytest_collection_finish():
    """Use one thread, and keep what was imported out of every later search for garbage."""
    import torch

    torch.set_num_threads(1)  # two workers with many threads each fight over two cores
    gc.collect()
    gc.freeze()  # libraries ask for such searches


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory):
    """Set the folder of :mod:`shared`."""
    shared.set_home(tmp_path_factory)


@pytest.fixture(autouse=True)
def seeded():
    """Make every test repeatable, whatever ran before it."""
    import torch

    torch.manual_seed(0)
    # Without half precision in the processor torch gives up oneDNN, and the process rounds differently afterwards.
    torch.backends.mkldnn.set_flags(True)


@pytest.fixture(scope="session")
def data():
    from rhythms import simulate

    return simulate()


@pytest.fixture
def quick():
    return {"max_epochs": 2, "batch_size": 32, "module__F1": 4, "module__D": 1}


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """Return an undisturbed experiment without a report. Copy its folder before you change it."""
    import moabb
    from tiny import copy_of, run

    moabb.set_log_level("error")
    warnings.simplefilter("ignore")
    # A copy, because two workers may not run in one folder; every training in it is done.
    return run(copy_of(shared.once("reference", run), tmp_path_factory.mktemp("reference") / "out"))
