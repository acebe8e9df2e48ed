"""The wheel holds the folders of the package and nothing else; requirements have tested bounds."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from project.oldest_versions import constraints

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PYPROJECT["tool"]["setuptools"]["packages"]
MAPPING = PYPROJECT["tool"]["setuptools"]["package-dir"]
REQUIREMENTS = [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]


def run(code, cwd=None):
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def folder(package):
    """Return the folder of a package, by the mapping of pyproject.toml."""
    for prefix in sorted(MAPPING, key=len, reverse=True):
        if package == prefix or package.startswith(prefix + "."):
            subfolder = package.removeprefix(prefix).lstrip(".")
            return ROOT / MAPPING[prefix] / subfolder.replace(".", "/")
    return ROOT / package.replace(".", "/")


def test_package_list_matches_the_folders():
    """The list is kept by hand; a folder with Python files that is missing in it would not be installed."""
    roots = {"braindecode_censor": ROOT / "braindecode_censor"} | {
        name: ROOT / p for name, p in MAPPING.items()
    }
    expected = {"braindecode_censor.moabb_pipelines"}  # of YAML files; MOABB would execute a .py there
    assert not list((ROOT / "moabb_pipelines").rglob("*.py"))
    for package, root in roots.items():
        folders = {path.parent for path in root.rglob("*.py")}
        expected |= {".".join([package, *path.relative_to(root).parts]) for path in folders}
    assert expected == set(PACKAGES)
    assert not any("studies" in package for package in PACKAGES)


def test_datasets_is_not_ours():
    """`datasets` is the name of Hugging Face's package: ours must never be imported under it."""
    assert not (ROOT / "datasets" / "__init__.py").exists()
    code = "import importlib.util as u; print(u.find_spec('datasets'))"
    assert str(ROOT) not in run(code, cwd=ROOT.parent)
    assert importlib.util.find_spec("braindecode_censor.datasets") is not None


@pytest.mark.slow
def test_wheel_holds_the_same_files_as_the_editable_install(tmp_path):
    """Built from a copy of the tracked tree, so that no leftover build folder can help."""
    copy = tmp_path / "source"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, copy]
    built = subprocess.run(command, capture_output=True, text=True, timeout=200)
    output = built.stdout + built.stderr
    assert built.returncode == 0, output[-4000:]
    # setuptools warns about data in folders that are no package, for instance.
    assert not [line for line in output.splitlines() if "Warning:" in line or "Deprecat" in line]
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    data = {"figures/style.mplstyle", "moabb_pipelines/README.md", "storage/page.html"}
    expected = {f"braindecode_censor/{name}" for name in data}
    for package in PACKAGES:
        paths = [*folder(package).glob("*.py"), *folder(package).glob("*.yml")]
        expected |= {f"{package.replace('.', '/')}/{path.name}" for path in paths}
    assert names == expected


def test_every_requirement_has_an_oldest_version_and_a_tested_one_above_it():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line) for line in lines)
    pinned = {name.lower(): Version(version) for name, _, version in (line.partition("==") for line in lines)}
    for line in constraints():
        name, _, version = line.partition("==")
        assert Version(version) <= pinned[name.lower()], line
    for requirement in REQUIREMENTS:
        assert pinned[requirement.name.lower()] in requirement.specifier, str(requirement)
    assert {"torch==2.10", "torchaudio==2.10"} <= set(constraints())  # a pair that loads together
    names = {"braindecode", "filelock", "mne", "moabb", "psutil", "safetensors", "skorch"}
    assert names <= {requirement.name for requirement in REQUIREMENTS}


def test_every_upper_bound_has_its_reason():
    """Beside a bound from above stands the package's name in a comment that says why."""
    comments = " ".join(re.findall(r"^# (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)).lower()
    upper = {"<", "<=", "==", "~="}
    bounded = [r.name for r in REQUIREMENTS if upper & {part.operator for part in r.specifier}]
    assert set(bounded) == {"torch", "mne"}
    assert [name for name in bounded if f"{name}:" not in comments] == []


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (
            "braindecode_censor as bc; bc.make_penalty('mmd')",
            "sklearn pandas scipy braindecode moabb mne skorch",
        ),
        (
            "braindecode_censor.figures.folder, braindecode_censor.paper.tables",
            "braindecode moabb mne skorch",
        ),
        ("braindecode_censor.datasets", "moabb torch"),
    ],
    ids=["penalties", "tables", "datasets"],
)
def test_what_needs_few_libraries_imports_no_more(code, heavy):
    assert run(f"import sys, {code}; print(set({heavy.split()}) & set(sys.modules))") == "set()"


@pytest.mark.slow
def test_a_saved_decoder_decodes_where_fcntl_is_missing(tmp_path):
    """As on Windows: the package imports, and a fresh process loads and uses a decoder."""
    from subjects import mixed_subjects

    from braindecode_censor import AutoTransferClassifier

    X, y, subjects = mixed_subjects(3, 12)
    candidates = [
        {"name": "net", "network": "EEGNet", "max_steps": 2, "batch_size": 12},
        {"name": "riemann", "classical": "covariance"},
    ]
    clf = AutoTransferClassifier(
        candidates=candidates, time_limit=None, verbose=0, device="cpu", random_state=0
    )
    clf.fit(X, y, subjects=subjects).save(tmp_path / "decoder")
    np.save(tmp_path / "X.npy", X)
    code = "import sys; sys.modules['fcntl'] = None; import numpy as np; import braindecode_censor as bc; "
    code += "clf = bc.AutoTransferClassifier.load('decoder', device='cpu'); X = np.load('X.npy'); "
    code += "np.save('proba.npy', clf.predict_proba(X)); assert [getattr(bc, name) for name in bc.__all__]"
    run(code, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "proba.npy"), clf.predict_proba(X), atol=1e-6)
