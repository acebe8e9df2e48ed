"""The preset that evaluates the family of decoders: whole, killed and resumed, from Python and from the shell."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from braindecode_censor import AutoTransfer
from braindecode_censor.autotransfer import transfer
from braindecode_censor.autotransfer.cli import main
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.figures import plot_transfer
from braindecode_censor.report import transfer_folder
from braindecode_censor.report.transfer_page import write_transfer_page
from braindecode_censor.search.candidates import get_preset
from braindecode_censor.search.heldout_file import read_heldout
from braindecode_censor.search.pair_data import PairData
from braindecode_censor.search.tiers import TIERS, decode

DATA = {"kind": "mixed", "n_subjects": 6, "n_trials": 12, "n_channels": 4, "sfreq": 64.0, "duration": 1.0}
TINY = {"network": "EEGNet", "F1": 2, "D": 1, "max_steps": 6, "kernel": 0.1, "augment": None}
CANDIDATES = ["riemann", "power", {"name": "paper", **TINY, "normalize": "trial-channel"}]
FIGURES = ("leaderboard", "people", "tiers", "weights", "learning")


def experiment(out, **options):
    options = {"candidates": CANDIDATES, "dataset_options": DATA, "partners": 2, **options}
    return AutoTransfer("simulated", out, preset="transfer", **options)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return experiment(tmp_path_factory.mktemp("transfer") / "out").run()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return experiment(tmp_path_factory.mktemp("small") / "out", candidates=["power"]).run(report=False)


@pytest.fixture(scope="module")
def folder(result):
    (found,) = (path for path in result.out.iterdir() if path.is_dir())
    return found


def trainings(out):
    return {path: path.stat().st_mtime_ns for path in out.rglob("*.training")}


def test_every_tier_has_its_row_and_everybody_is_scored(result):
    assert sorted(result.table["tier"]) == sorted(TIERS)
    assert (result.table["people"] == 6).all() and result.chance == 0.25
    assert len(result.scores) == len(TIERS) * 6 * (len(CANDIDATES) + 3)
    assert result.scores["score"].between(0, 1).all()
    means = result.scores[result.scores["decoder"] == "riemann"].groupby("target")["score"].mean()
    assert (
        means["unlabeled"] > means["none"] + 0.05
    )  # what these people differ by is undone by their own trials


def test_a_newcomer_understands_the_end(result):
    text = result.describe()
    assert max(map(len, text.splitlines())) <= 100 and "nan" not in text
    assert "each held out in turn (all unlabelled; chance is 0.250)" in text.replace("\n", " ")
    assert all(f"\n{label} " in text for label in ("nothing known", "causal stream", "5 labelled a class"))
    assert f"Report:  {result.out / 'report.html'}" in text


def test_the_page_shows_five_figures_and_a_table_for_every_tier(result):
    page = result.report.read_text()
    assert {path.stem for path in result.out.glob("transfer_*.png")} == {f"transfer_{n}" for n in FIGURES}
    assert page.count('class="figure-img') >= len(FIGURES)
    assert all(f'id="board-{tier}"' in page for tier in TIERS)
    assert "Learning curve over people" in page and "AutoTransferClassifier" in page


def test_the_page_says_what_censoring_adds(result, tmp_path):
    assert 'id="censored"' not in result.report.read_text()
    shutil.copytree(result.out, tmp_path / "out")
    found = transfer_folder.read_folder(tmp_path / "out")
    found.scores["decoder"] = found.scores["decoder"].replace("power", "riemann+mmd-conditional")
    page = write_transfer_page(found, {}).read_text()
    assert 'id="censored"' in page and "riemann+mmd-conditional" in page and "call it no gain" in page


def test_weights_of_every_tier_sum_to_one(result):
    weights = pd.read_csv(result.out / "weights.csv")
    assert weights.groupby("target")["weight"].sum().to_numpy() == pytest.approx(1, abs=2e-3)
    assert set(weights["target"]) == set(TIERS)


def test_the_curve_compares_as_many_models_at_every_size(result, folder):
    curve = pd.read_csv(folder / "learning.csv")
    assert sorted(set(curve["people"])) == [2, 4] and "paper" in set(curve["decoder"])
    counts = curve.groupby(["people", "target", "decoder"])["person"].nunique()
    assert (counts == 6).all() and curve["score"].between(0, 1).all()
    found, _ = read_heldout(folder / "seed_0.npz")
    name = next(name for name in set(curve["decoder"]) if name != "paper")
    known = found["unlabeled"].found[name]
    first = {
        person: p for k in reversed(range(3)) for person, p in known[k].items()
    }  # everybody's first model
    mine = curve[(curve["people"] == 4) & (curve["decoder"] == name) & (curve["target"] == "unlabeled")]
    for person, score in zip(mine["person"], mine["score"]):
        y = found["unlabeled"].labels[person]
        right = first[person].argmax(axis=1) == y
        assert score == pytest.approx(np.mean([right[y == k].mean() for k in range(4)]))


def test_few_people_are_others_than_the_pair_and_a_part_of_more():
    people = np.repeat(np.arange(8), 3)
    pairs = [(0, 1), (2, 5), (3, 7)]
    for position, pair in enumerate(pairs):
        seen = []
        for most in (2, 4, 6, None):
            data = PairData(np.zeros((24, 1, 8)), people % 2, people, pairs, most=most)
            seen.append(set(people[data.seen_without(position)]))
            assert len(seen[-1]) == (most or 6) and not seen[-1] & set(pair)
            assert len(data.seen_without(position)) == 3 * len(seen[-1])  # all trials of each
        assert seen[0] < seen[1] < seen[2] == seen[3]


def test_only_the_last_tier_sees_classes():
    class Model:
        classes_ = np.array([0, 2])

        def adapt(self, X, y=None):
            assert y is None
            return self

        def stream(self):
            return self

        def predict_proba(self, X):
            return np.tile([0.25, 0.75], (len(X), 1))

    X = np.zeros((10, 2, 8))
    for tier in TIERS[:-1]:
        a, b = (decode(tier, Model(), X, y, 3) for y in (np.zeros(10, int), np.arange(10) % 3))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a[-1], [0.25, 0, 0.75])  # a class that the model does not know


def test_run_again_nothing_is_trained_and_figures_need_no_data(result, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(result.out, out)
    before = trainings(out)
    assert experiment(out).plan()["text"].startswith("Nothing is left to train")
    again = experiment(out).run(report=False)
    pd.testing.assert_frame_equal(again.scores, result.scores)
    assert trainings(out) == before
    for path in out.glob("transfer_*"):
        path.unlink()
    plot_transfer.main(["--results", str(out)])  # what `make figures` calls
    assert {path.stem for path in out.glob("transfer_*.pdf")} == {f"transfer_{n}" for n in FIGURES}


def test_stopped_in_the_middle_it_goes_on(result, tmp_path, monkeypatch):
    class Stopped(transfer.SearchProgress):
        def report(self, outcome, found):
            super().report(outcome, found)
            if self.trained == 5:
                raise OSError("the machine went away")

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "SearchProgress", Stopped)
        with pytest.raises(OSError, match="went away"):
            experiment(tmp_path / "out").run()
    kept = trainings(tmp_path)
    assert len(kept) == 5 and not list(tmp_path.rglob("seed_*"))
    plan = experiment(tmp_path / "out").plan()
    assert plan["trainings"] == 18 and plan["left"] == 13 and "13 are left" in plan["text"]
    again = experiment(tmp_path / "out").run(report=False)
    assert kept.items() <= trainings(tmp_path).items()
    pd.testing.assert_frame_equal(again.scores, result.scores)


def test_after_ctrl_c_no_table_of_half_of_it_is_made(tmp_path, monkeypatch):
    class Stopped(transfer.SearchProgress):
        def report(self, outcome, found):
            if self.trained == 2:
                raise KeyboardInterrupt
            super().report(outcome, found)

    monkeypatch.setattr(transfer, "SearchProgress", Stopped)
    with pytest.raises(KeyboardInterrupt):
        experiment(tmp_path / "out", candidates=["power"]).run()
    assert len(trainings(tmp_path)) >= 2 and not list(tmp_path.rglob("seed_*")) + list(
        tmp_path.rglob("*.csv")
    )


def cut_short(file):
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


def change_a_probability(file):
    with np.load(file) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    name = next(name for name in found if name.startswith("none "))
    found[name] = found[name][:, ::-1]
    np.savez_compressed(file, **found)


@pytest.mark.parametrize("damage", [cut_short, change_a_probability])
def test_damaged_probabilities_count_as_not_there(small, tmp_path, damage):
    out = tmp_path / "out"
    shutil.copytree(small.out, out)
    (file,), before = out.glob("*/seed_0.npz"), trainings(out)
    whole = file.read_bytes()
    damage(file)
    again = experiment(out, candidates=["power"]).run(report=False)
    pd.testing.assert_frame_equal(again.scores, small.scores)
    assert trainings(out) == before and file.read_bytes() == whole


def test_a_candidate_that_fails_is_named(tmp_path):
    wrong = {"name": "wrong", "network": "EEGNet", "F1": 2, "max_steps": 6, "batch_size": 64, "lr": 1e30}
    found = experiment(tmp_path / "out", candidates=["power", wrong]).run(report=False)
    assert set(found.scores["decoder"]) == {"power", "family, averaged", "best 3, averaged", "best one"}
    assert "wrong failed and was left out" in found.notes[0] and "–" in found.describe()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"search": "optuna"}, "search='optuna' is for grids of settings"),
        ({"trials": 5}, "trials=5 is for grids of settings"),
        ({"nested": True}, "nested=True is for grids"),
        ({"engine": "fleet"}, "engine='fleet' is for grids"),
        ({"backend": "dask"}, "backend='dask' is for grids"),
        ({"others": ["riemann"]}, "others=.*is for grids"),
        ({"training": {"max_epochs": 3, "device": "cpu"}}, "training has max_epochs, but"),
        ({"partners": 1}, "partners"),
        ({"candidates": ["censored", "person"]}, "candidates has 'censored', which depends"),
        ({"candidates": ["persn"]}, "candidates='persn'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        experiment(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_own_estimators_and_grids(tmp_path):
    from sklearn.dummy import DummyClassifier

    with pytest.raises(ValueError, match="DummyClassifier, an estimator of your own"):
        experiment(tmp_path, candidates=[DummyClassifier()])
    with pytest.raises(ValueError, match=r"preset='tranfer'.*transfer"):
        AutoTransfer("simulated", tmp_path, preset="tranfer")
    with pytest.raises(ValueError, match="is no grid: start it in a folder of its own"):
        get_preset("transfer")  # as `autotransfer resume --preset transfer` does
    with pytest.raises(ValueError, match=r"candidates=.*is for preset='transfer'"):
        AutoTransfer("simulated", tmp_path, candidates=["power"])


def test_another_list_of_candidates_needs_another_folder(result):
    with pytest.raises(ValueError, match="holds another experiment, which differs in candidates"):
        experiment(result.out, candidates=["power"]).run()


def test_a_dataset_object_is_resumed_in_python(tmp_path, capsys):
    data = SimulatedSubjects(**{**DATA, "n_subjects": 4})
    out, options = tmp_path / "out", {"preset": "transfer", "candidates": ["power"]}
    first = AutoTransfer(data, out, **options).run(report=False)
    assert main(["resume", "--out", str(out)]) == 1
    assert "made with a dataset object: resume it in Python" in capsys.readouterr().err
    pd.testing.assert_frame_equal(AutoTransfer(data, out, **options).run(report=False).scores, first.scores)


def test_the_shell(tmp_path, capsys, monkeypatch):
    for name in set(transfer_folder.FIGURES) - {"leaderboard"}:  # which take most of a report's time
        monkeypatch.delitem(transfer_folder.FIGURES, name)
    out = str(tmp_path / "out")
    options = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
    run = ["run", "--preset", "transfer", *options, "--partners", "2", "--out", out]
    assert main([*run, "--epochs", "3"]) == 1
    assert "training has max_epochs" in capsys.readouterr().err
    run += ["--candidates", "power", "riemann"]
    assert main([*run, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["trainings"] == 12
    assert main(["report", "--out", out]) == 1
    assert main([*run, "--no-report", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["table"]) == len(TIERS) and first["report"] is None
    assert main(["resume", "--out", out, "--nested"]) == 1
    assert "--nested adds to a grid of settings" in capsys.readouterr().err
    assert main(["resume", "--out", out, "--seeds", "2", "--no-report", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert {row["seed"] for row in more["scores"]} == {-1, 0, 1}
    assert [row for row in more["scores"] if row["seed"] == 0] == first["scores"]
    assert main(["report", "--out", out]) == 0
    assert "known of the person" in capsys.readouterr().out and (tmp_path / "out" / "report.html").is_file()


def test_trials_in_a_file_give_the_same_table(result, tmp_path, monkeypatch):
    monkeypatch.setattr("braindecode_censor.trials.stored.LARGEST_COPY", 0)
    found = experiment(tmp_path / "out").run(report=False)
    pd.testing.assert_frame_equal(found.scores, result.scores, rtol=0, atol=1e-12)
    assert {path.name for path in trainings(found.out)} == {path.name for path in trainings(result.out)}
