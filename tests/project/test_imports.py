"""The subpackages import only downwards, also inside functions, and no two modules import each other."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "braindecode_censor"
# A subpackage may import those of lower layers. `datasets` imports none of them.
FLOORS = ["_check _version datasets", "storage numerics", "penalties encoders trials", "classical training"]
FLOORS += ["fleet", "run", "search", "decoder", "paper live", "cli"]
LAYERS = {name: layer for layer, names in enumerate(FLOORS) for name in names.split()}
# The report of the paper's experiment draws the figures, and they read its tables.
SAME_LAYER = {"figures": "paper"}
FOLDERS = {"datasets": ROOT / "datasets" / "loaders", "figures": ROOT / "paper_figures"}
UNIX_ONLY = set(
    ["fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "posix", "readline", "curses"]
)


def sources():
    """Yield the dotted name and the text of every module."""
    folders = {PACKAGE: ROOT / PACKAGE, **{f"{PACKAGE}.{name}": path for name, path in FOLDERS.items()}}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path.read_text()


def imported(text, prefix=f"{PACKAGE}."):
    """Yield the dotted name of every module of ours that a source imports, anywhere in it."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.startswith(prefix))


def loaded(text):
    """Return the modules of ours that are imported together with a source: not those inside functions."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass()]
    return imported(ast.unparse(tree))


def subpackage(name):
    """Return the subpackage of a dotted name, None for the package itself and for what it re-exports."""
    parts = [SAME_LAYER.get(part, part) for part in name.split(".")]
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else None


def upward(modules):
    """Return every import that does not go down, as text."""
    complaints = set()
    for name, text in modules:
        for other in imported(text):
            source, target = subpackage(name), subpackage(other)
            if source and target and source != target and LAYERS[target] >= LAYERS[source]:
                complaints.add(f"{name} imports {other}")
    return sorted(complaints)


def circle(modules):
    """Return the names of modules that import each other in a circle, or nothing."""
    modules = dict(modules)
    graph = {}
    for name, text in modules.items():
        others = {other for other in imported(text) if other in modules}
        # `from package import module` needs the module; the package itself is only on the way to it.
        parents = {o for o in others if any(other.startswith(o + ".") for other in others)}
        graph[name] = others - parents - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def reached(name, modules):
    """Return all modules that are loaded with a module, packages on the way included."""
    waiting, needed = [name], set()
    while waiting:
        parts = waiting.pop().split(".")
        names = {".".join(parts[:k]) for k in range(2, len(parts) + 1)} & modules.keys()
        for new in names - needed:
            needed.add(new)
            waiting += [other for other in loaded(modules[new]) if other in modules]
    return needed


def test_no_subpackage_imports_an_upper_one():
    assert upward(sources()) == []
    rooms = {path.name for path in (ROOT / PACKAGE).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= LAYERS.keys() | SAME_LAYER.keys()


def test_no_circle():
    assert circle(sources()) == []


@pytest.mark.parametrize("indent", ["", "def later():\n    "], ids=["at the top", "inside a function"])
def test_an_upward_import_is_reported(indent):
    text = f"{indent}from {PACKAGE}.training.callback import Censor\n"
    assert upward([(f"{PACKAGE}.penalties.penalty", text)]) == [
        f"{PACKAGE}.penalties.penalty imports {PACKAGE}.training.callback",
        f"{PACKAGE}.penalties.penalty imports {PACKAGE}.training.callback.Censor",
    ]


def test_a_circle_is_reported():
    a, b = f"{PACKAGE}.search.a", f"{PACKAGE}.search.b"
    assert circle([(a, f"import {b}"), (b, f"def f():\n    from {a} import c")]) == [a, b]


def test_the_decoder_reaches_few_modules_and_nothing_of_the_paper():
    modules = dict(sources())
    needed = reached(f"{PACKAGE}.decoder.classifier", modules)
    assert not [name for name in needed if subpackage(name) in ("paper", "cli") or "optuna" in modules[name]]
    assert len(needed) <= 75


def test_no_module_needs_unix_or_torch_in_the_data_layer():
    for name, text in sources():
        top_level = {other.split(".")[0] for other in imported(text, prefix="")}
        banned = UNIX_ONLY | ({"torch", "skorch", "braindecode"} if ".datasets" in name else set())
        assert not top_level & banned, name
        assert not re.search(
            r"os\.(fork|sysconf|getuid|geteuid|sched_getaffinity|killpg)|SIGKILL|SIGALRM", text
        ), name


def test_few_modules_lie_on_top_and_no_file_is_long():
    assert len(list((ROOT / PACKAGE).glob("*.py"))) <= 6
    assert {name for name, text in sources() if len(text.splitlines()) > 450} == set()


def test_a_loaded_decoder_imports_no_search_no_paper_and_no_figures():
    modules = dict(sources())
    for name in ("decoder.folder", "live.decoder", "live.replay"):
        rooms = {subpackage(module) for module in reached(f"{PACKAGE}.{name}", modules)}
        assert not rooms & {"search", "paper", "cli", "datasets"}, name
    names = ("moabb", "matplotlib", "pyriemann")
    code = f"import sys, {PACKAGE}.live.replay; print(*(m for m in {names} if m in sys.modules))"
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == []
    used = [name for name, text in modules.items() if "mne_lsl" in text]
    assert used == [f"{PACKAGE}.live.player", f"{PACKAGE}.live.source"]
