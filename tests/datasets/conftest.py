import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for standins.py: test modules are imported by path


@pytest.fixture(autouse=True, scope="session")
def _no_user_data(tmp_path_factory):
    """Look for no recordings outside the tests' own folders, and write no settings into the home folder."""
    home = tmp_path_factory.mktemp("home")
    (home / "mne_data").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNE_DATA", str(home / "mne_data"))
        patch.setenv("_MNE_FAKE_HOME_DIR", str(home))
        yield


def _folder_fixture(name, *args, **options):
    """Return a fixture of a folder written by one of the functions in standins, and the truth it returns."""

    @pytest.fixture(scope="session", name=f"{name}_folder")
    def fixture(tmp_path_factory):
        import standins

        folder = tmp_path_factory.mktemp(name)
        return folder, getattr(standins, f"write_{name}")(folder, *args, **options)

    return fixture


errp_folder = _folder_fixture("errp", subjects=[2, 6, 7, 11])  # 340 feedbacks each
ecog_folder = _folder_fixture("ecog", ["aa", "ap", "ha", "rr"], v73=("ap", "rr"))
rsvp_folder = _folder_fixture("rsvp")
asl_folder = _folder_fixture("asl")
