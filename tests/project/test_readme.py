"""Does what the README tells people to type run, and is the way to a censored classifier short?"""

import re
from pathlib import Path

import moabb
import pytest
import sklearn
from moabb.datasets.utils import _init_dataset
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

import braindecode_censor as bc
from braindecode_censor.datasets import DATASETS, PARADIGMS, SimulatedSubjects
from braindecode_censor.paper.grid import expand
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.options import options_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
pytestmark = pytest.mark.filterwarnings("ignore")


def snippet(word):
    """The one Python snippet that holds a word."""
    (found,) = [text for text in PYTHON if word in text]
    return found


def run(text):
    names = {}
    exec(compile(text, "README.md", "exec"), names)
    return names


@pytest.fixture
def small(monkeypatch):
    """Simulated subjects are fewer by default, and MOABB forgets ours after the test."""
    monkeypatch.setattr(SimulatedSubjects.__init__, "__defaults__", (4, 40))
    yield
    for module, classes in ((moabb.datasets, DATASETS), (moabb.paradigms, PARADIGMS)):
        for cls in classes.values():
            if hasattr(module, cls.__name__):
                delattr(module, cls.__name__)
    _init_dataset()


def test_there_are_no_other_snippets():
    assert len(PYTHON) == 5


def test_it_is_short():
    """Whether it runs is tested by those who travel with it, in tests/journeys."""
    for word, most in {"AutoTransferClassifier(": 12, 'EEGClassifier("': 9}.items():
        assert len([line for line in snippet(word).splitlines() if line.strip()]) <= most


def test_somebody_who_takes_the_pipelines_as_they_are(small, tmp_path, monkeypatch):
    folder = ROOT / "moabb_pipelines"
    (text,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)
    pipeline = (folder / "mmd_marginal.yml").read_text()
    (tmp_path / "moabb_pipelines").mkdir()
    short = re.sub(r"max_epochs: \d+", "max_epochs: 2", pipeline)
    (tmp_path / "moabb_pipelines" / "mmd_marginal.yml").write_text(short)
    monkeypatch.chdir(tmp_path)
    results = run(text.replace("moabb.benchmark(", "results = moabb.benchmark("))["results"]
    assert sorted(results["subject"].astype(int)) == [1, 2, 3, 4]


def test_the_search_by_hand():
    page = (ROOT / "docs" / "front.md").read_text()
    (text,) = [
        text for text in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "GridSearchCV" in text
    ]
    X, y, subjects = SimulatedSubjects(4, 24, n_chans=4, sfreq=64.0).arrays()
    clf = bc.CensoredEEGClassifier(max_epochs=1)
    names = {"sklearn": sklearn, "GridSearchCV": GridSearchCV, "LeaveOneGroupOut": LeaveOneGroupOut}
    names |= {"clf": clf, "X": X, "y": y, "subjects": subjects}
    with sklearn.config_context():
        exec(compile(text, "front.md", "exec"), names)
    assert names["search"].best_params_["weight"] in (0.1, 1.0)
    assert names["search"].n_splits_ == 4


def test_a_loop_of_ones_own():
    names = run(snippet("CensoredLoss("))
    assert all(p.grad is not None for p in names["penalty"].critic_parameters())


def test_links_and_names_exist():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for name in re.findall(r"`((?:benchmarks|paper_figures|docs|examples)/[\w/.]*\.\w+)`", README):
        assert (ROOT / name).is_file(), name
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^\s*(make .*)$|`(make [^`]*)`", README, re.MULTILINE)
    targets = {word for pair in commands for word in re.findall(r"make (\w+)", " ".join(pair))}
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \| (?:yes|no) ", README, re.MULTILINE)) == set(MEASURES)


OPTIONS = {
    "hidden": 16,
    "n_layers": 1,
    "score": "nu",
    "lengthscale": "median",
    "calibrate": True,
    "self_pairs": True,
}
OPTIONS |= {"pairs": "clique", "gamma": 0.5, "beta": 0.01, "printed": True}
# An option that has a meaning beside another one only.
PAIRS = {"reg": {"score": "nu", "reg": 0.1}, "size": {"pairs": "clique", "size": 2}}
PAIRS["fraction"] = {"pairs": "bernoulli", "fraction": 0.5}


def test_options_worth_knowing_are_taken_wherever_a_method_is_named():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (?:yes|no) \| (.*) \|$", README, re.MULTILINE)
    assert len(rows) == len(MEASURES)
    for method, cell in rows:
        for name in re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cell)):
            options = PAIRS.get(name) or {name: OPTIONS[name]}
            bc.make_penalty(method, n_features=8, n_subjects=4, n_classes=2, **options)
            assert name in options_of(method)  # whom the callback asks
            assert len(expand([{"method": method, **options}])) == 1
            words = {f"penalty__{word}": value for word, value in options.items()}
            bc.CensoredEEGClassifier(penalty=method, **words).set_params(**words)


def test_results_are_those_of_the_documentation():
    # whoever makes a table anew in docs/ has to think of the README
    pages = {"run_transfer": "results/tiers"}
    lines = README.split("results table: begin")[1].split("results table: end")[0].splitlines()
    _, *rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    page = ""
    for *cells, script in rows:
        if named := re.search(r"/(\w+)\.py", script):
            page = (ROOT / "docs" / f"{pages[named[1]]}.md").read_text().replace("−", "-")
        numbers = re.findall(r"[-+]?\d\.\d{3}", " ".join(cells[2:]).replace("−", "-"))
        assert numbers, cells
        for number in numbers:
            assert number in page, (script, number)
