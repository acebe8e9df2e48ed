"""Where recordings lie: the folder given, else MNE's settings, else MNE's default folder."""

from pathlib import Path

import mne


def default_folder(name):
    """Return where the recording called ``name`` is looked for; nothing is created or written."""
    own = mne.get_config(f"MNE_DATASETS_{name.upper()}_PATH")
    if own:
        return Path(own).expanduser()
    return Path(mne.get_config("MNE_DATA") or "~/mne_data").expanduser() / name


def resolve_folder(folder, name):
    """Return the folder the user gave, or the default one."""
    return default_folder(name) if folder is None else Path(folder).expanduser()
