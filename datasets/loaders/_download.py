"""Download and unpack files so that none is ever there in half."""

import os
import struct
import zipfile
import zlib
from pathlib import Path

import pooch
import requests

#: Errors that Python's reader raises for a damaged archive; RuntimeError is a password.
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OverflowError)


def fetch(url, known_hash, folder):
    """Return the path of a downloaded and verified file; a failed transfer is repeated three times."""
    name = url.rpartition("/")[2]
    store = pooch.create(folder, url.removesuffix(name), registry={name: known_hash}, retry_if_failed=3)
    try:
        return Path(store.fetch(name, progressbar=True))
    except (requests.RequestException, ValueError) as error:
        by_hand = f"Download {url} by hand, put it at {Path(folder, name)} and run this again."
        raise ConnectionError(f"{name} could not be downloaded intact ({error}). {by_hand}") from error


def unpack(path, folder, is_wanted=lambda name: True):
    """Unpack the wanted members of a zip archive and return their paths.

    pooch.Unzip writes under the final names, so that a full disk would leave half files that look complete.
    """
    paths = []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if not member.is_dir() and is_wanted(member.filename):
                    member.filename += f".{os.getpid()}.part"  # two processes may unpack at once
                    partial = Path(archive.extract(member, folder))  # never outside of the folder
                    paths.append(partial.with_suffix("").with_suffix(""))
                    os.replace(partial, paths[-1])
    except BROKEN as error:
        problem = "truncated, damaged, protected by a password, or not a zip archive"
        raise ValueError(f"{path} is {problem} ({error}); download it again.") from error
    return paths
