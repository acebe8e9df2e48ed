"""The one checksum of everything that is stored, made where it is written and compared where it is read."""

import hashlib

__all__ = ["digest", "seal", "unseal"]


def digest(*contents):
    """Return the SHA-256 of some bytes, as text."""
    sha = hashlib.sha256()
    for content in contents:
        sha.update(content)
    return sha.hexdigest()


def seal(content, name=""):
    """Return some bytes behind a checksum of them and of the name under which they are stored."""
    return digest(name.encode(), content).encode() + b"\n" + content


def unseal(content, name=""):
    """Return the bytes behind a checksum, or None if they are not those that were sealed under that name."""
    checksum, payload = content[:64], content[65:]
    return payload if checksum == digest(name.encode(), payload).encode() else None
