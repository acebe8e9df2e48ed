"""Unpack zip archives so that a hostile or damaged one, or a full disk, leaves nothing half done behind."""

import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath


def check_members(archive, path):
    """Raise if a member of an archive would be written outside the folder it is unpacked to."""
    for name in archive.namelist():
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if ".." in parts or name.startswith(("/", "\\")) or (parts and ":" in parts[0]):
            raise ValueError(
                f"{path} holds the member {name!r}, which would be written outside its folder; refused. "
                "Download the archive again from its official source."
            )


def unpack(path, folder, wanted=lambda name: True):
    """Unpack the wanted members of a zip archive; files that are there already in full size are kept."""
    path, folder = Path(path), Path(folder)
    try:
        with zipfile.ZipFile(path) as archive:
            check_members(archive, path)
            members = [m for m in archive.infolist() if not m.is_dir() and wanted(m.filename)]
            return [_unpack_one(archive, member, folder / member.filename) for member in members]
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise ValueError(
            f"{path} is truncated, damaged, protected by a password, or not a zip archive ({error}); download it "
            "again."
        ) from error


def _unpack_one(archive, member, target):
    """Write one member under a temporary name and rename it when it is complete."""
    if target.exists() and target.stat().st_size == member.file_size:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".unpacking-")
    try:
        with open(handle, "wb") as stream, archive.open(member) as source:
            shutil.copyfileobj(source, stream, 1 << 20)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return target
