"""Where recordings lie: the folder given, else MNE's settings, else MNE's default folder."""

from pathlib import Path

import mne


def default_folder(name):
    """Return where the recording called ``name`` is looked for; nothing is created or written.

    Parameters
    ----------
    name : str
        Short name of the dataset.

    Returns
    -------
    Path
        ``$MNE_DATASETS_<NAME>_PATH`` if set (in the environment or in MNE's settings), else
        ``$MNE_DATA/<name>``, else ``~/mne_data/<name>``.
    """
    own = mne.get_config(f"MNE_DATASETS_{name.upper()}_PATH")
    if own:
        return Path(own).expanduser()
    return Path(mne.get_config("MNE_DATA") or "~/mne_data").expanduser() / name


def resolve_folder(folder, name):
    """Return the folder the user gave, or the default one.

    Parameters
    ----------
    folder : str, Path or None
        What the user gave.
    name : str
        Short name of the dataset.

    Returns
    -------
    Path
        The folder, which need not exist.
    """
    return default_folder(name) if folder is None else Path(folder).expanduser()
