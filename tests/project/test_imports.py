"""The rooms of the package import only downwards, also inside functions, and no two of them import each other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "braindecode_censor"
# A room may import the rooms of lower floors. `datasets` imports none of them.
FLOORS = {
    "_check": 0,
    "_version": 0,
    "datasets": 0,
    "storage": 1,
    "numerics": 1,
    "penalties": 2,
    "encoders": 2,
    "trials": 2,
    "classical": 3,
    "training": 3,
    "fleet": 4,
    "run": 5,
    "search": 6,
    "decoder": 7,
    "paper": 8,
    "cli": 9,
}
# The figures belong to the paper: the report draws them, and they read its tables.
SAME_ROOM = {"figures": "paper"}
FOLDERS = {"datasets": ROOT / "datasets" / "loaders", "figures": ROOT / "paper_figures"}
# Scripts that a person starts from the shell; the package does not import them.
SCRIPTS = ("run_", "plot_simulated")


def sources():
    """Yield the dotted name and the text of every module."""
    folders = {PACKAGE: ROOT / PACKAGE, **{f"{PACKAGE}.{name}": path for name, path in FOLDERS.items()}}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            if package.endswith("figures") and path.name.startswith(SCRIPTS):
                continue
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path.read_text()


def imported(text):
    """Yield the dotted name of every module of ours that a source imports, anywhere in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith(PACKAGE + "."))


def room(name):
    """Return the room of a dotted name, None for the package itself and for what it re-exports."""
    parts = [SAME_ROOM.get(part, part) for part in name.split(".")]
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else None


def upward(modules):
    """Return every import that does not go down, as text."""
    found = set()
    for name, text in modules:
        here = room(name)
        for other in imported(text):
            there = room(other)
            if here and there and here != there and FLOORS[there] >= FLOORS[here]:
                found.add(f"{name} imports {other}")
    return sorted(found)


def circle(modules):
    """Return the names of modules that import each other in a circle, or nothing."""
    modules = dict(modules)
    left = {}
    for name, text in modules.items():
        others = {other for other in imported(text) if other in modules}
        # `from package import module` needs the module; the package itself is only on the way to it.
        left[name] = {o for o in others if not any(other.startswith(o + ".") for other in others)} - {name}
    while left:
        free = [name for name, others in left.items() if not others & left.keys()]
        if not free:
            return sorted(left)
        for name in free:
            del left[name]
    return []


def test_no_room_imports_an_upper_one():
    assert upward(sources()) == []


def test_no_circle():
    assert circle(sources()) == []


def test_every_room_has_a_floor():
    rooms = {path.name for path in (ROOT / PACKAGE).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= FLOORS.keys() | SAME_ROOM.keys()


@pytest.mark.parametrize("late", [False, True], ids=["at the top", "inside a function"])
def test_an_upward_import_is_found(late):
    line = f"from {PACKAGE}.training.callback import Censor\n"
    text = f"def later():\n    {line}" if late else line
    assert upward([(f"{PACKAGE}.penalties.penalty", text)]) == [
        f"{PACKAGE}.penalties.penalty imports {PACKAGE}.training.callback",
        f"{PACKAGE}.penalties.penalty imports {PACKAGE}.training.callback.Censor",
    ]


def test_a_circle_is_found():
    a, b = f"{PACKAGE}.search.a", f"{PACKAGE}.search.b"
    assert circle([(a, f"import {b}"), (b, f"def f():\n    from {a} import c")]) == [a, b]


def reached(name, modules):
    """Return all modules that a module needs, packages on the way included."""
    waiting, needed = [name], set()
    while waiting:
        module = waiting.pop()
        parts = module.split(".")
        names = {".".join(parts[:k]) for k in range(2, len(parts) + 1)} & modules.keys()
        for new in names - needed:
            needed.add(new)
            waiting += [other for other in imported(modules[new]) if other in modules]
    return needed


def test_the_decoder_reaches_few_files_and_nothing_of_the_paper():
    modules = dict(sources())
    needed = reached(f"{PACKAGE}.decoder.classifier", modules)
    assert len(needed) <= 75
    assert not [name for name in needed if room(name) in ("paper", "cli")]
    assert not [name for name in needed if "optuna" in modules[name]]


@pytest.mark.parametrize(
    "name, rooms",
    [
        ("training.callback", {"training", "penalties", "numerics", "encoders", "trials", "storage", "_check"}),
        ("penalties.factory", {"penalties", "numerics", "_check"}),
    ],
)
def test_training_and_penalties_reach_nothing_above(name, rooms):
    needed = reached(f"{PACKAGE}.{name}", dict(sources()))
    assert {room(module) for module in needed} - {"_version"} <= rooms


def test_few_modules_lie_on_top_and_no_file_is_long():
    assert len(list((ROOT / PACKAGE).glob("*.py"))) <= 6
    long = {name: len(text.splitlines()) for name, text in sources() if len(text.splitlines()) > 450}
    assert long == {}
