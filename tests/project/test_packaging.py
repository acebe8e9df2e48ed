"""Is what gets installed what the folders hold, and nothing that belongs to others?"""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from project.oldest_versions import constraints

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PYPROJECT["tool"]["setuptools"]["packages"]
MAPPING = PYPROJECT["tool"]["setuptools"]["package-dir"]


def folder(package):
    """The folder that a package lies in, by the mapping of pyproject.toml."""
    for prefix in sorted(MAPPING, key=len, reverse=True):
        if package == prefix or package.startswith(prefix + "."):
            rest = package.removeprefix(prefix).lstrip(".")
            return ROOT / MAPPING[prefix] / rest.replace(".", "/")
    return ROOT / package.replace(".", "/")


def test_package_list_matches_the_folders():
    """The list is kept by hand; a folder with Python files that is missing in it would not be installed."""
    roots = {"braindecode_censor": ROOT / "braindecode_censor"}
    roots |= {package: ROOT / path for package, path in MAPPING.items()}
    found = set()
    for package, root in roots.items():
        for path in [root, *root.rglob("*")]:
            if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py")):
                found.add(".".join([package, *path.relative_to(root).parts]))
    # Folders of YAML files are listed too: setuptools warns about data in folders that are no package.
    pipelines = "braindecode_censor.moabb_pipelines"
    found |= {
        pipelines,
        *(f"{pipelines}.{path.name}" for path in folder(pipelines).iterdir() if path.is_dir()),
    }
    assert found == set(PACKAGES)
    assert all(folder(package).is_dir() for package in PACKAGES)


def test_no_python_file_beside_the_pipelines():
    """MOABB executes every .py in a pipeline folder."""
    assert not list((ROOT / "moabb_pipelines").rglob("*.py"))


def test_datasets_is_not_ours():
    """`datasets` is the name of Hugging Face's package: ours must never be found under it."""
    assert not (ROOT / "datasets" / "__init__.py").exists()
    code = "import importlib.util as u; print(u.find_spec('datasets'))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    ).stdout
    assert str(ROOT) not in found
    assert importlib.util.find_spec("braindecode_censor.datasets") is not None


@pytest.mark.slow
def test_wheel_holds_the_same_files_as_the_editable_install(tmp_path):
    """Built from a copy of the tracked tree, so that no leftover build folder can help."""
    copy = tmp_path / "source"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, copy]
    built = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    said = [
        line
        for line in (built.stdout + built.stderr).splitlines()
        if "Warning:" in line or "Deprecat" in line
    ]
    assert said == []  # such as setuptools', about data in folders that are no package
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = set()
    for package in PACKAGES:
        inside = package.replace(".", "/")
        expected |= {f"{inside}/{path.name}" for path in folder(package).glob("*.py")}
        expected |= {f"{inside}/{path.name}" for path in folder(package).glob("*.yml")}
    expected.add("braindecode_censor/figures/style.mplstyle")
    expected.add("braindecode_censor/moabb_pipelines/README.md")
    expected.add("braindecode_censor/paper/page.html")
    assert names == expected
    assert not any(name.startswith("datasets/") for name in names)


def test_constraints_hold_names_and_versions_only():
    pinned = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+")
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert all(pinned.fullmatch(line) for line in lines)
    names = {line.split("==")[0].lower() for line in lines}
    assert {"torch", "torchaudio", "braindecode", "moabb", "skorch", "mne"} <= names


def test_every_requirement_has_an_oldest_version_and_a_tested_one_above_it():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {
        name.lower(): Version(version)
        for name, _, version in (line.partition("==") for line in lines)
        if version
    }
    for line in constraints():
        name, _, version = line.partition("==")
        assert Version(version) <= pinned[name.lower()], line
    for text in PYPROJECT["project"]["dependencies"]:
        requirement = Requirement(text)
        assert pinned[requirement.name.lower()] in requirement.specifier, text


def test_every_upper_bound_has_its_reason():
    """Beside a bound from above stands the package's name in a comment that says why."""
    text = (ROOT / "pyproject.toml").read_text()
    comments = " ".join(re.findall(r"^# (.*)$", text, re.MULTILINE)).lower()
    bounded = [
        Requirement(text).name
        for text in PYPROJECT["project"]["dependencies"]
        if any(part.operator in ("<", "<=", "==", "~=") for part in Requirement(text).specifier)
    ]
    assert {"torch", "torchaudio", "mne"} <= set(bounded)
    assert [name for name in bounded if name.lower() not in comments] == []


def test_importing_the_pure_torch_part_is_light():
    """`make_penalty` must not drag in Braindecode, MOABB, MNE or skorch, which take seconds."""
    code = (
        "import sys, braindecode_censor as bc; bc.make_penalty('mmd'); "
        "print(sorted({'braindecode', 'moabb', 'mne', 'skorch', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_readme_names_the_commands_that_ci_runs():
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make demo" in (ROOT / "README.md").read_text()
    assert "make test" in (ROOT / ".ci" / "run").read_text()
