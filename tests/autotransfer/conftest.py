import warnings

import moabb
import pytest
from autotransfer.tiny import experiment

moabb.set_log_level("error")
warnings.simplefilter("ignore")


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """An experiment that nothing disturbed."""
    return experiment(tmp_path_factory.mktemp("reference") / "out").run()
