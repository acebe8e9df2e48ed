"""The table and the figures of the decoder for the next person, on people so few that it takes seconds."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from subjects import mixed_subjects

from braindecode_censor.datasets.interchange import save_subject
from braindecode_censor.figures import plot_transfer
from braindecode_censor.figures.style import style
from braindecode_censor.search.heldout import HeldOut
from studies.transfer.figures import draw_leaderboard, draw_weights
from studies.transfer.scores import RULES, TOGETHER, score_seeds
from studies.transfer.tiers import TIERS, decode

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("run_transfer", ROOT / "paper_figures" / "run_transfer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_person(folder, person, X, y):
    options = dict(label_names=["a", "b"], sfreq=64.0, ch_names=list("wxyz"), ch_types=["eeg"] * 4)
    save_subject(folder / f"subject_{person:02d}.npz", X * 1e-6, y, **options)


@pytest.fixture(scope="module")
def results(script, tmp_path_factory):
    folder, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("results")
    X, y, subjects = mixed_subjects(4, 12)
    (folder / "tiny").mkdir()
    for person in range(1, 5):
        write_person(folder / "tiny", person, X[subjects == person], y[subjects == person])
    args = [
        "--data",
        str(folder),
        "--out",
        str(out),
        "--recording",
        "tiny",
        "--seeds",
        "2",
        "--device",
        "cpu",
    ]
    args += ["--candidates", "riemann", "power", "waveform"]
    script.main(args)
    return out, args


def test_every_person_is_scored_in_every_tier_by_every_decoder(results):
    scores = pd.read_csv(results[0] / "scores.csv")
    assert len(scores) == len(TIERS) * 4 * (2 * (3 + len(RULES)) + 1)
    assert scores["score"].between(0, 1).all()
    tiers = scores[scores["decoder"] == "riemann"].groupby("target")["score"].mean()
    assert tiers["unlabeled"] > tiers["none"]


def test_tiers_know_what_their_names_say():
    class Asked:
        """A model that notes what it is told."""

        classes_, told = np.arange(2), None

        def adapt(self, X, y=None):
            model = Asked()
            model.told = len(X), y
            return model

        def predict_proba(self, X):
            Asked.last = self.told, len(X)
            return np.full((len(X), 2), 0.5)

    X, y = np.zeros((20, 2, 8)), np.arange(20) % 2
    for tier, told, decoded in (("none", None, 20), ("unlabeled", 20, 20), ("unlabeled-20p", 4, 16)):
        assert np.isfinite(decode(tier, Asked(), X, y, 2)).all(axis=1).sum() == decoded
        assert Asked.last[1] == decoded and (told is None) == (Asked.last[0] is None)
        assert told is None or (Asked.last[0][0] == told and Asked.last[0][1] is None)
    assert np.isnan(decode("labeled-5", Asked(), X, y, 2)[:10]).all()
    assert Asked.last[1] == 10 and Asked.last[0][0] == 10 and (Asked.last[0][1] == y[:10]).all()
    few, alone = X[:2], y[:2]  # one trial of each class: there is none to give away
    assert np.isfinite(decode("labeled-5", Asked(), few, alone, 2)).all() and Asked.last == (None, 2)


def test_started_again_it_trains_nothing(script, results):
    out, args = results
    files = {path: path.stat().st_mtime_ns for path in (out / "tiny" / "pairs").iterdir()}
    before = (out / "table.md").read_text()
    script.main(args)
    assert files == {path: path.stat().st_mtime_ns for path in (out / "tiny" / "pairs").iterdir()}
    assert len(files) == 2 * 3 * 6 and (out / "table.md").read_text() == before


def test_further_candidates_come_beside_those_that_are_there(script, results, tmp_path):
    """The same as when all of them are trained at once, without training the first ones again."""
    out, args = tmp_path / "out", list(results[1])
    shutil.copytree(results[0], out)
    args[args.index("--out") + 1] = str(out)
    files = {path: path.stat().st_mtime_ns for path in (out / "tiny" / "pairs").iterdir()}
    script.main([*args, "hjorth"])
    now = {path: path.stat().st_mtime_ns for path in (out / "tiny" / "pairs").iterdir()}
    assert files.items() <= now.items() and len(now) == 2 * 4 * 6
    args[args.index("--out") + 1] = str(tmp_path / "at once")
    script.main([*args, "hjorth"])
    keys = ["target", "seed", "decoder", "subject"]
    found, asked = (
        pd.read_csv(tmp_path / name / "scores.csv").set_index(keys).sort_index()
        for name in ("out", "at once")
    )
    pd.testing.assert_frame_equal(found, asked)
    note = json.loads((out / "tiny" / "seed_0.json").read_text())
    assert note["trainings"] == 4 * 6 and note["candidates"] == ["riemann", "power", "waveform", "hjorth"]
    one = json.loads((results[0] / "tiny" / "seed_0.json").read_text())
    assert note["seconds"] > one["seconds"]


def test_recordings_run_one_after_the_other_stand_in_one_table(script, results, tmp_path):
    out, args = tmp_path / "out", list(results[1])
    shutil.copytree(results[0], out)
    data = tmp_path / "data"
    shutil.copytree(Path(args[args.index("--data") + 1]) / "tiny", data / "other")
    for option, value in (("--out", out), ("--data", data), ("--recording", "other"), ("--seeds", 1)):
        args[args.index(option) + 1] = str(value)
    script.main([*args[: args.index("--candidates")], "--candidates", "riemann"])
    before, after = (pd.read_csv(folder / "scores.csv") for folder in (results[0], out))
    tiny = after[after["recording"] == "tiny"].reset_index(drop=True)
    pd.testing.assert_frame_equal(tiny, before)
    assert set(after["recording"]) == {"tiny", "other"} and "| tiny |" in (out / "table.md").read_text()


def test_candidates_tested_in_another_way_are_not_mixed(script, results):
    for other in (["--partners", "2"], ["--tiers", "none"]):
        with pytest.raises(ValueError, match=r"holds seed 0 with partners=4 and tiers=.*another folder"):
            script.main([*results[1], "hjorth", *other])


@pytest.mark.parametrize("change", ["another person", "another order"])
def test_candidates_tested_on_other_people_are_not_mixed(script, results, tmp_path, change):
    out, data, args = tmp_path / "out", tmp_path / "data", list(results[1])
    shutil.copytree(results[0], out)
    shutil.copytree(args[args.index("--data") + 1], data)
    for option, folder in (("--out", out), ("--data", data)):
        args[args.index(option) + 1] = str(folder)
    X, y, subjects = mixed_subjects(5, 12)
    if change == "another person":
        write_person(data / "tiny", 5, X[subjects == 5], y[subjects == 5])
    else:
        order = np.flatnonzero(subjects == 1)
        order = order[np.argsort(y[order], kind="stable")]
        write_person(data / "tiny", 1, X[order], y[order])
    before = sorted((out / "tiny").rglob("*"))
    with pytest.raises(ValueError, match="holds seed 0 of a recording with other people or trials: take"):
        script.main([*args, "hjorth"])
    assert sorted((out / "tiny").rglob("*")) == before


def test_all_seeds_together_are_one_search_with_all_partners():
    rng = np.random.default_rng(0)
    labels, seeds = [rng.integers(0, 2, 30) for _ in range(4)], [[(0, 1), (2, 3)], [(1, 2), (0, 3)]]
    whole, found = HeldOut(labels, seeds[0] + seeds[1]), {}
    for seed, pairs in enumerate(seeds):
        part = HeldOut(labels, pairs)
        for name, skill in (("good", 0.4), ("bad", 0.1)):
            for position, pair in enumerate(pairs):
                sure = [0.5 + skill * (2 * labels[p] - 1) + rng.normal(0, 0.2, 30) for p in pair]
                said = [np.stack([1 - p.clip(0, 1), p.clip(0, 1)], 1) for p in sure]
                part.add(name, position, *said)
                whole.add(name, 2 * seed + position, *said)
        found[seed] = {"none": part}, {"good": "network", "bad": "classical"}
    scores = score_seeds(found)
    together = scores[scores["decoder"] == TOGETHER].set_index("subject")["score"]
    np.testing.assert_array_equal(together, whole.nested_scores(["good", "bad"]))
    each = scores[scores["decoder"] == RULES["greedy"]].groupby("seed")["score"].mean()
    assert set(each.index) == {0, 1} and together.mean() > each.mean()


def test_the_documentation_is_made_anew_from_what_it_keeps(results, tmp_path):
    plot_transfer.main(["--results", str(results[0]), "--docs", str(tmp_path)])
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in made} == {
        *(f"transfer_{name}.png" for name in ("leaderboard", "people", "tiers", "weights")),
        *(f"{name}.csv.gz" for name in ("scores", "weights", "cost")),
        "tiers.md",
    }
    plot_transfer.main(["--results", str(tmp_path / "results" / "transfer"), "--docs", str(tmp_path)])
    for path, before in made.items():
        if path.suffix != ".png":
            assert (tmp_path / path).read_bytes() == before, path
    text = (tmp_path / "results" / "tiers.md").read_text()
    assert "| worst |" in text and "Trainings: tiny" in text


def test_figures(results):
    plot_transfer.main(["--results", str(results[0])])
    assert "| tiny | causal stream |" in (results[0] / "tiers.md").read_text()
    assert {path.name for path in results[0].glob("transfer_*")} == {
        f"transfer_{name}.{ending}"
        for name in ("leaderboard", "people", "tiers", "weights")
        for ending in ("pdf", "png")
    }


def test_what_nobody_noted_is_left_out(results, tmp_path):
    """The scores alone, as of a folder whose held-out probabilities are gone."""
    scores = (results[0] / "scores.csv").read_text()
    (tmp_path / "scores.csv").write_text(scores.replace("tiny", "emg_myo"))
    plot_transfer.main(["--results", str(tmp_path), "--docs", str(tmp_path / "docs")])
    kept = tmp_path / "docs" / "results" / "transfer"
    assert [path.name for path in kept.iterdir()] == ["scores.csv.gz"]
    before = (tmp_path / "docs" / "results" / "tiers.md").read_text()
    assert "| EMG | nothing known |" in before
    plot_transfer.main(["--results", str(kept), "--docs", str(tmp_path / "docs")])
    assert (tmp_path / "docs" / "results" / "tiers.md").read_text() == before and "Trainings" not in before


def test_censored_candidates_are_compared_with_uncensored_ones(results, tmp_path, capsys):
    scores = (results[0] / "scores.csv").read_text().replace(",power,", ",riemann+mmd-conditional,")
    (tmp_path / "scores.csv").write_text(scores)
    plot_transfer.main(["--results", str(tmp_path), "--docs", str(tmp_path / "docs")])
    text = (tmp_path / "docs" / "results" / "censored_candidates.md").read_text()
    assert "| tiny | `riemann+mmd-conditional` |" in text and text in capsys.readouterr().out
    plot_transfer.main(["--results", str(tmp_path)])
    assert (tmp_path / "censored.md").read_text() == text


def test_names_of_censored_candidates_leave_room_for_the_panels():
    names, rows = ["riemann", "euclidean-wide+mmd-conditional", "subject-wide+mige-marginal"], []
    for recording in ("one", "two", "three"):
        for tier in TIERS:
            rows += [
                (recording, tier, name, "network", 0, person, 0.5) for name in names for person in range(3)
            ]
    scores = pd.DataFrame(
        rows, columns=["recording", "target", "decoder", "kind", "seed", "subject", "score"]
    )
    weights = scores[scores["subject"] == 0].rename(columns={"score": "weight"})
    with style():
        for figure in (draw_leaderboard(scores), draw_weights(weights)):
            figure.draw_without_rendering()
            inches = figure.get_size_inches()[0]
            assert all(axis.get_position().width * inches > 1.2 for axis in figure.axes)
            assert min(axis.get_tightbbox().x0 for axis in figure.axes) >= 0
