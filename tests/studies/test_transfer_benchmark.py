"""The benchmark of the steps: nothing is scored that was told, networks that are alike train as one, tables by hand."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from subjects import mixed_subjects

from braindecode_censor.datasets.interchange import save_subject
from braindecode_censor.fleet import Member
from braindecode_censor.fleet.resident import People
from braindecode_censor.search.family import find_candidates
from studies.transfer import plot_tiers

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import transfer
import transfer_person
import transfer_steps
import transfer_tables

Y = np.array([0, 1, 2] * 8)


class Watched:
    """A decoder that knows trials by their first number, answers always 0, and remembers what it was asked."""

    def __init__(self):
        self.prior, self.normalizer_, self.given, self.told, self.decoded = 5.0, self, [], [], []

    def adapt(self, X, y=None):
        self.given.append(set(X[:, 0, 0].astype(int)))
        self.told.append(y)
        return self

    def stream(self):
        return self

    def predict(self, X):
        self.decoded.append(set(X[:, 0, 0].astype(int)))
        return np.zeros(len(X), dtype=int)


def trials():
    return np.arange(len(Y))[:, None, None] * np.ones((1, 2, 4))


def test_unlabelled_trials_come_from_the_half_that_is_not_scored():
    clf = Watched()
    rows = transfer_person.curve_unlabeled(clf, trials(), Y, np.random.default_rng(0))
    assert [row[1] for row in rows] == ["0", "0.05", "0.1", "0.2", "0.5", "all", "stream"]
    *shares, everything, _ = clf.decoded
    assert all(scored == shares[0] for scored in [*shares, everything])  # the same trials at every point
    assert len(shares[0]) == 12
    assert [len(given) for given in clf.given] == [1, 2, 5, 12, 24]
    assert not any(given & shares[0] for given in clf.given[:-1])
    assert all(labels is None for labels in clf.told)


def test_labelled_trials_are_never_scored():
    clf = Watched()
    rows = transfer_person.curve_labeled(clf, trials(), Y, np.random.default_rng(0))
    assert [row[1] for row in rows if row[0] == "labeled"] == ["0", "1", "2", "5"]  # ten would leave no trial
    assert all(scored == clf.decoded[0] for scored in clf.decoded)
    assert not any(given & clf.decoded[0] for given in clf.given)
    with_classes = [(given, y) for given, y in zip(clf.given, clf.told) if y is not None]
    assert [np.bincount(y).tolist() for _, y in with_classes] == [[1] * 3, [2] * 3, [5] * 3]
    assert sum(y is None for y in clf.told) == 3  # the same trials once more, classes hidden


def test_blocks_of_one_class():
    rng = np.random.default_rng(0)
    assert np.bincount(Y[transfer_person.draw_block(Y, 1, None, rng)]).max() == 3  # 8 trials over 3 classes
    assert set(Y[transfer_person.draw_block(Y, 1, 1.0, rng)]) == {1}
    mixed = Y[transfer_person.draw_block(np.repeat(Y, 5), 1, 0.85, rng) // 5]
    assert np.mean(mixed == 1) == pytest.approx(0.85, abs=0.01)


def test_the_score_counts_classes_alike():
    assert transfer_person.score(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])) == 0.5


@pytest.mark.filterwarnings("ignore")
def test_what_trains_as_one_fleet_has_one_encoder():
    X, y, people = mixed_subjects(4, 8)
    here = [
        name for name, spec in transfer_steps.STEPS.items() if "ssvep_exo" in spec.get("on", ["ssvep_exo"])
    ]
    found = transfer_steps.units(["ssvep_exo"], list(transfer_steps.STEPS))
    assert sorted(name for _, names in found for name in names) == sorted(here)
    signatures = []
    for _, names in found:
        members = []
        for name in names:
            spec = {k: v for k, v in transfer_steps.STEPS[name].items() if k not in ("longer", "on")}
            (candidate,), _ = find_candidates([{"name": name, "network": "EEGNet", **spec}])
            clf = candidate.make(X.shape[1:], 64.0, 0, "cpu", 2)
            members.append(Member(name, clf, np.arange(len(y)), People(X, people), y))
        signatures.append({member.encoder_signature for member in members})
    assert all(len(each) == 1 for each in signatures)
    assert len(set.union(*signatures)) == len(found)


def test_the_tables_by_hand():
    y, people = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    right = np.eye(2)[y]
    wrong = right.copy()
    wrong[0] = 0.45, 0.55  # a narrow mistake, which an average with the other seed repairs
    parts = [
        {"recording": "emg_myo", "step": "paper", "seed": seed, "length": 9, "folds": 2, "y": y}
        | {"people": people, "tiers": {"none": array}, "curves": [[0, "unlabeled", "0", 0.5]]}
        | {"shift": [[0, "one class", "both", "5", 0.5, 1.0]]}
        for seed, array in enumerate([right, wrong])
    ]
    summary = transfer_tables.summarise(transfer_tables.score_people(parts)).set_index("kind")
    assert summary.loc["single", "mean"] == pytest.approx((1 + 0.75) / 2)
    assert summary.loc["single", "seed_sd"] == pytest.approx(np.std([1, 0.75], ddof=1))
    assert summary.loc["averaged", "mean"] == 1
    assert "| paper | 9 | 0.875 / 0.812 ± 0.177 | 1.000 / 1.000 |" in transfer_tables.steps_table(
        summary.reset_index()
    )
    assert "| 0.750 (0.50, 1.00) |" in transfer_tables.shift_table(transfer_tables.shift(parts))
    assert transfer_tables.curves(parts)["mean"].tolist() == [0.5]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("results")
    X, y, subjects = mixed_subjects(4, 12)
    (folder / "tiny").mkdir()
    for person in range(1, 5):
        mine = subjects == person
        options = dict(label_names=["a", "b"], sfreq=64.0, ch_names=list("wxyz"), ch_types=["eeg"] * 4)
        save_subject(folder / "tiny" / f"subject_{person:02d}.npz", X[mine] * 1e-6, y[mine], **options)
    args = ["--data", folder, "--out", out, "--recording", "tiny", "--device", "cpu", "--quick"]
    args = [*map(str, args), "--only", "steps", "--steps", "paper", "person + augment"]
    transfer.main(args)
    return out, args


@pytest.mark.filterwarnings("ignore")
def test_the_whole_script(results, capsys):
    out, args = results
    summary = pd.read_csv(out / "transfer_steps.csv")
    assert len(summary) == 2 * 3 and summary["mean"].between(0, 1).all()
    assert set(summary["people"]) == {2}
    shift = pd.read_csv(out / "transfer_shift.csv").set_index(["block", "adapted", "prior"])
    assert len(shift) == 1 + 3 * 3 * 3
    before = {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    assert len(before) == 2
    transfer.main(args)  # nothing is trained again
    assert "0 fleets to train" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}


def test_figures(results, tmp_path):
    plot_tiers.main(["--results", str(results[0]), "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"curve_unlabeled.png", "curve_labeled.png"}
