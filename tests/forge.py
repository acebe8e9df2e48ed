"""Decoder folders changed by a stranger, who computes all checksums again."""

import json
import shutil

from braindecode_censor.storage.seal import digest
from braindecode_censor.storage.tensors import _header_of, format_of, read_tensors, write_tensors


def forge_model(content, change):
    """Return the bytes of a model whose header and tensors `change(header, tensors)` has edited."""
    _, tensors = read_tensors(content, format_of(content), "model", finite=False)
    header = json.loads(_header_of(content)["__metadata__"]["header"])
    change(header, tensors)
    return write_tensors(tensors, header, format_of(content))


def reseal(folder, change=lambda content: None):
    """Edit the content of decoder.json, and write checksums and seal that fit."""
    path = folder / "decoder.json"
    head = json.loads(path.read_text())
    for name in head["content"]["checksums"]:
        if (folder / name).is_file():
            head["content"]["checksums"][name] = digest((folder / name).read_bytes())
    head["content"] = change(head["content"]) or head["content"]
    head["seal"] = digest(json.dumps(head["content"], sort_keys=True).encode())
    path.write_text(json.dumps(head))


def forge(folder, target, change=lambda content: None, change_model=None, network=True):
    """Copy a decoder with changes in decoder.json and in the first network (or classical model); return the copy."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    if change_model is not None:
        path = next(p for p in sorted((target / "models").iterdir()) if is_network_file(p) == network)
        path.write_bytes(forge_model(path.read_bytes(), change_model))
    reseal(target, change)
    return target


def is_network_file(path):
    return "TangentSpace" not in format_of(path.read_bytes())
