import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for standins.py: test modules are imported by path


@pytest.fixture(autouse=True, scope="session")
def _no_user_data(tmp_path_factory):
    """Look for no recordings outside the tests' own folders, and write no settings into the home folder."""
    home = tmp_path_factory.mktemp("home")
    old = {key: os.environ.get(key) for key in ("MNE_DATA", "_MNE_FAKE_HOME_DIR", "MOABB_RESULTS")}
    os.environ.update(MNE_DATA=str(home / "mne_data"), _MNE_FAKE_HOME_DIR=str(home))
    (home / "mne_data").mkdir()
    yield
    for key, value in old.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


@pytest.fixture(scope="session")
def errp_folder(tmp_path_factory):
    """All 16 subjects with 340 feedbacks each, in the release's format."""
    import standins

    folder = tmp_path_factory.mktemp("errp")
    return folder, standins.write_errp(folder)


@pytest.fixture(scope="session")
def ecog_folder(tmp_path_factory):
    """Four subjects of faces_basic at full trial numbers, two in each .mat format."""
    import standins

    folder = tmp_path_factory.mktemp("ecog")
    return folder, standins.write_ecog(folder, ["aa", "ap", "ha", "rr"], v73=("ap", "rr"))


@pytest.fixture(scope="session")
def rsvp_folder(tmp_path_factory):
    import standins

    folder = tmp_path_factory.mktemp("rsvp")
    return folder, standins.write_rsvp(folder)


@pytest.fixture(scope="session")
def asl_folder(tmp_path_factory):
    import standins

    folder = tmp_path_factory.mktemp("asl")
    return folder, standins.write_asl(folder)
