"""A decoder as a folder, as an exported program, and from the shell."""

import copy
import datetime
import importlib.util
import json
import os
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from docs.runner import run_script
from sklearn.dummy import DummyClassifier
from subjects import fit_decoder, mixed_subjects

import braindecode_censor as bc
from braindecode_censor.cli.decoder import _escape
from braindecode_censor.cli.main import main
from braindecode_censor.datasets.interchange import save_subject
from braindecode_censor.decoder.export import NetworkAverage
from braindecode_censor.decoder.folder import check_free
from braindecode_censor.run.model import is_network

TINY = {"network": "EEGNet", "F1": 2, "D": 1, "max_steps": 6, "kernel": 0.1, "augment": None}
NETS = [
    {"name": strategy, **TINY, "normalize": strategy}
    for strategy in ("subject", "euclidean", "trial", "trial_channel", "none")
]
X, Y, SUBJECTS = mixed_subjects(6)
TRAIN = SUBJECTS < 6
NEW, NEW_Y = X[~TRAIN], Y[~TRAIN]
NAMES = ["Fz", "Cz", "Pz", "Oz"]


def fit(**options):
    options = {"candidates": ["riemann", NETS[0]], "max_trainings": 12, **options}
    return fit_decoder(X[TRAIN], Y[TRAIN], SUBJECTS[TRAIN], **options)


@pytest.fixture(scope="module")
def fitted():
    clf = fit(sfreq=64.0, ch_names=NAMES)
    # The folder needs models of both types, also if the ensemble leaves the tiny network out.
    clf.ensemble_.models += fit(candidates=NETS[:1], max_trainings=3).ensemble_.models
    for model in clf.ensemble_.models:
        model.weight /= 2
    return clf


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoders") / "decoder"
    fitted.save(path)
    return path


def test_loaded_decoder_is_the_same(fitted, folder):
    again = bc.AutoTransferClassifier.load(folder)
    assert {is_network(model.estimator) for model in again.ensemble_.models} == {False, True}
    np.testing.assert_array_equal(again.adapt(NEW).predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))
    np.testing.assert_array_equal(again.stream().predict_proba(NEW), fitted.stream().predict_proba(NEW))
    assert again.classes_.tolist() == [0, 1] and again.input_ == fitted.input_
    assert again.heldout_ == fitted.heldout_
    assert again.leaderboard_["mean"].to_numpy() == pytest.approx(fitted.leaderboard_["mean"].to_numpy())
    assert again.model_card == (folder / "model_card.md").read_text()


def test_adapted_decoder_can_be_saved(fitted, tmp_path):
    adapted = fitted.adapt(NEW)
    adapted.save(tmp_path / "subject")
    again = bc.AutoTransferClassifier.load(tmp_path / "subject")
    np.testing.assert_array_equal(again.predict_proba(NEW), adapted.predict_proba(NEW))
    with pytest.raises(ValueError, match="This decoder was saved for one subject"):
        again.adapt(NEW)


def test_folder_holds_no_code(folder):
    files = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert files == {".safetensors", ".json", ".md"}
    content = json.loads((folder / "decoder.json").read_text())["content"]
    assert content["input"]["ch_names"] == NAMES and content["input"]["sfreq"] == 64
    assert content["versions"]["torch"] and content["classes"] == [0, 1]
    assert content["candidates"]["riemann"] == {"classical": "covariance"}


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replace_text(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


DAMAGES = {
    "model": (lambda f: flip(next(f.glob("models/*"))), "was changed after it was written"),
    "missing model": (lambda f: next(f.glob("models/*")).unlink(), "is missing"),
    "card": (lambda f: flip(f / "model_card.md"), "model_card.md was changed"),
    "score": (
        lambda f: replace_text(f / "decoder.json", '"mean": 0', '"mean": 1'),
        "decoder.json was changed",
    ),
    "incomplete JSON": (lambda f: (f / "decoder.json").write_text("{"), "decoder.json is damaged"),
    "missing JSON": (lambda f: (f / "decoder.json").unlink(), "holds no decoder"),
    "later format": (
        lambda f: replace_text(f / "decoder.json", "decoder 3", "decoder 9"),
        "has the format 'braindecode-censor decoder 9'",
    ),
}


@pytest.mark.parametrize("damage, message", DAMAGES.values(), ids=DAMAGES)
def test_load_refuses_a_changed_folder(folder, tmp_path, damage, message):
    shutil.copytree(folder, tmp_path / "copy")
    damage(tmp_path / "copy")
    with pytest.raises(ValueError, match=message):
        bc.AutoTransferClassifier.load(tmp_path / "copy")


def test_save_replaces_decoders_only(fitted, tmp_path):
    fitted.save(tmp_path / "decoder")
    with pytest.raises(ValueError, match=r"holds a decoder: .* overwrite=True"):
        fitted.save(tmp_path / "decoder")
    (tmp_path / "link").symlink_to("decoder")
    fitted.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "link").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    (tmp_path / "decoder" / "notes.txt").write_text("?")
    with pytest.raises(ValueError, match=r"is not a decoder \(notes.txt\)"):
        fitted.save(tmp_path / "decoder", overwrite=True)
    assert (tmp_path / "decoder" / "notes.txt").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("!")
    with pytest.raises(ValueError, match="exists and is not a decoder"):
        fitted.save(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_failed_save_keeps_the_old_decoder(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "decoder")
    card, rename = (tmp_path / "decoder" / "model_card.md").read_text(), os.replace

    def fail(source, target):
        if str(source).endswith(".part"):
            raise OSError("no more files can be renamed")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no more files"):
        fitted.save(tmp_path / "decoder", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    assert (tmp_path / "decoder" / "model_card.md").read_text() == card


def test_own_estimators_cannot_be_saved(tmp_path):
    clf = fit(candidates=[DummyClassifier()], max_trainings=3)
    with pytest.raises(ValueError, match="DummyClassifier: an estimator of your own cannot be written"):
        clf.save(tmp_path / "decoder")


@pytest.mark.parametrize("adapted", [False, True])
def test_exported_networks_give_equal_probabilities(adapted):
    clf = fit(candidates=NETS, max_trainings=5, target="none")
    for k, model in enumerate(clf.ensemble_.models):
        model.weight = k + 1.0
    clf = clf.adapt(NEW) if adapted else clf
    networks = clf.ensemble_.networks()
    expected = networks.predict_proba(NEW)
    np.testing.assert_allclose(NetworkAverage(networks)(torch.as_tensor(NEW)).detach(), expected, atol=1e-5)
    if adapted:
        program = clf.to_torch()
        np.testing.assert_allclose(program.module()(torch.as_tensor(NEW)).detach(), expected, atol=1e-5)


def test_export_refuses_classical_models_and_heads(fitted, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has no network"):
        fit(candidates=["power"], max_trainings=3).to_torch()
    with pytest.raises(ValueError, match="adapted with labels cannot be exported"):
        fitted.adapt(NEW, NEW_Y).to_torch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(ImportError, match=r"to_onnx needs the package onnxruntime: .*\[onnx\]"):
        fitted.to_onnx(tmp_path / "x.onnx")


def test_export_of_a_part_says_how_much_it_is(fitted, tmp_path):
    clf = copy.copy(fitted)
    clf.ensemble_ = copy.copy(fitted.ensemble_)
    networks = [is_network(model.estimator) for model in fitted.ensemble_.models]
    for fraction in (0.75, 0.25):
        shares = np.where(
            networks, fraction / sum(networks), (1 - fraction) / (len(networks) - sum(networks))
        )
        clf.ensemble_.models = [
            replace(m, weight=w) for m, w in zip(fitted.ensemble_.models, shares.tolist())
        ]
        part = {"part": True} if fraction < 0.5 else {}
        with pytest.warns(UserWarning, match=f"the networks have {fraction:.0%} of the ensemble's weight"):
            clf.ensemble_.networks(**part)
    with pytest.raises(ValueError, match=r"have 25% of the ensemble's weight.*pass part=True"):
        clf.to_torch()
    with pytest.raises(ValueError, match="pass part=True"):
        clf.to_onnx(tmp_path / "x.onnx")


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"),
        np.array([True, 2], dtype=object),
        np.array([b"left", b"right"]),
        np.array([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]),
        np.array([1 + 2j, 3]),
        np.array(["left", "\ud800"]),
    ],
    ids=["datetime64", "mixed", "bytes", "date", "complex", "surrogate"],
)
def test_labels_that_a_file_cannot_hold_are_refused_in_fit(labels):
    clf = bc.AutoTransferClassifier(candidates=["power"], max_trainings=3, verbose=0)
    with pytest.raises(ValueError, match=r"^y (has|holds|mixes) "):
        clf.fit(X[TRAIN], labels[Y[TRAIN]], subjects=SUBJECTS[TRAIN])


def test_numpy_scalars_are_saved_as_numbers(tmp_path):
    options = {"random_state": np.int64(3), "partners": np.int32(3), "time_limit": np.float64(60)}
    clf = fit(
        candidates=["power"], max_trainings=3, sfreq=np.float32(64), ch_names=np.array(NAMES), **options
    )
    clf.save(tmp_path / "decoder")
    again = bc.AutoTransferClassifier.load(tmp_path / "decoder")
    assert (again.random_state, again.partners, again.time_limit) == (3, 3, 60.0)
    assert again.input_.sfreq == 64.0 and again.input_.ch_names == NAMES
    for names in (
        ["a", "b", "c", 4],
        ["a", "b", "c", None],
        ["a", "b", "c", b"d"],
        ["a", "b", "c", "\ud800"],
    ):
        with pytest.raises(ValueError, match="ch_names"):
            fit(candidates=["power"], max_trainings=3, ch_names=names)


@pytest.mark.parametrize("folder", [3, "", ".", "a\0b", "x" * 5000, None])
def test_folders_that_cannot_be_are_refused(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"folder=.* is no path|is not a decoder"):
        check_free(folder)


def test_onnx_gives_equal_probabilities_for_any_number_of_trials(tmp_path, capfd):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    clf = fit(candidates=[NETS[1], NETS[3]], max_trainings=2, target="none").adapt(NEW)
    file = tmp_path / "decoder.onnx"
    clf.to_onnx(file)
    assert [path.name for path in tmp_path.iterdir()] == ["decoder.onnx"]
    assert capfd.readouterr() == ("", "")
    session = runtime.InferenceSession(file.read_bytes())
    assert session.get_inputs()[0].shape[1:] == list(NEW.shape[1:])
    expected = clf.ensemble_.networks().predict_proba(NEW)
    assert np.ptp(expected, axis=0).min() > 1e-3, "trials in another order would not be noticed"
    for n_trials in (1, len(NEW)):
        (probabilities,) = session.run(["probabilities"], {"signals": NEW[:n_trials]})
        np.testing.assert_allclose(probabilities, expected[:n_trials], atol=1e-5)


# The shell


def save(path, rows, ch_names=NAMES):
    options = {"label_names": ["left", "right"], "sfreq": 64.0, "ch_names": ch_names, "ch_types": ["eeg"] * 4}
    save_subject(path, X[rows] * 1e-6, Y[rows], **options)
    return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    for subject in range(1, 6):
        save(folder / f"subject_{subject:02d}.npz", subject == SUBJECTS)
    return folder, save(tmp_path_factory.mktemp("new") / "subject_06.npz", ~TRAIN)


SHELL = ["--trainings", "8", "--candidates", "riemann", "power", "--device", "cpu", "--quiet"]


def test_shell_fits_predicts_and_shows_the_leaderboard(recordings, tmp_path, capsys):
    data, new = recordings
    out, predictions = str(tmp_path / "decoder"), tmp_path / "predictions.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["fit", "--data", str(data), "--out", out, *SHELL]) == 0
        assert "Held-out subjects: " in capsys.readouterr().out
        options = ["--decoder", out, "--data", str(new), "--out", str(predictions), "--adapt"]
        assert main(["predict", *options]) == 0
    rows = [line.split(",") for line in predictions.read_text().splitlines()]
    assert rows[0] == ["trial", "prediction", "p_left", "p_right"] and len(rows) == 21
    labels = np.array(["left", "right"])[NEW_Y]
    assert np.mean([row[1] == label for row, label in zip(rows[1:], labels)]) > 0.8
    assert main(["leaderboard", "--decoder", out, "--json"]) == 0
    board = json.loads(capsys.readouterr().out)["leaderboard"]
    assert {row["candidate"] for row in board} >= {"riemann", "power"}
    assert main(["leaderboard", "--decoder", out]) == 0
    assert "greedy ensemble" in capsys.readouterr().out


def test_shell_adapts_by_labelled_trials(fitted, folder, tmp_path):
    """Exchanged labels turn answers around, which unlabelled trials could not."""
    answers = []
    for k, labels in enumerate((NEW_Y, 1 - NEW_Y)):
        file, out = tmp_path / f"labelled_{k}.npz", tmp_path / f"out_{k}.csv"
        save_subject(file, NEW * 1e-6, labels, sfreq=64.0, ch_names=NAMES)
        command = ["predict", "--decoder", folder, "--data", file, "--labels", file, "--out", out]
        assert main(list(map(str, command))) == 0
        rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
        answers.append(np.array([row[2:] for row in rows], dtype=float))
        expected = fitted.adapt(NEW, labels).predict_proba(NEW)
        np.testing.assert_allclose(answers[-1], expected, atol=1e-3)
    assert np.abs(answers[0] - answers[1]).max() > 0.05


def test_shell_escapes_names():
    assert _escape("=cmd|x") == "'=cmd|x" and _escape("\x1b[2J") == r"\x1b[2J" and _escape("é -1") == "é -1"
    assert _escape(-1) == "-1"


def test_shell_errors_are_one_line(recordings, folder, tmp_path, capsys):
    data, new = recordings
    other = save(tmp_path / "subject_01.npz", ~TRAIN, ["Fz", "Cz", "Pz", "C3"])
    (tmp_path / "empty").mkdir()
    predict = ["predict", "--decoder", folder, "--data"]
    for command, message in [
        (["leaderboard", "--decoder", tmp_path / "empty"], "holds no decoder"),
        (["fit", "--data", data, "--out", new], "exists and is not a decoder"),  # before anything is trained
        (["fit", "--data", data, "--out", new / "x"], "is a file or read-only: choose"),
        (["fit", "--data", tmp_path / "missing", "--out", tmp_path / "x"], "does not exist"),
        ([*predict, tmp_path / "missing.npz"], "missing.npz"),
        ([*predict, new, "--adapt", "--stream"], "choose one"),
        ([*predict, new, "--adapt", "--labels", new], "choose one"),
        ([*predict, new, "--out", new], "would overwrite the data or the decoder"),
        ([*predict, new, "--out", folder / "decoder.json"], "would overwrite the data or the decoder"),
        ([*predict, new, "--adapt", "--out", tmp_path], "Is a directory"),
        ([*predict, new, "--adapt", "--out", tmp_path / "no" / "x.csv"], "No such file"),
        (["fit", "--data", data, "--out", folder], "holds a decoder"),
        ([*predict, other], "lacks 1 of the decoder's 4 channels: Oz"),
    ]:
        assert main(list(map(str, command))) == 1
        error = capsys.readouterr().err
        assert error.startswith("autotransfer: ") and message in error and error.count("\n") == 1


def test_killed_fit_continues_from_its_folder(recordings, tmp_path):
    data, _ = recordings
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from braindecode_censor.storage.store import Store\n"
        "write = Store.write\n"
        "def write_and_die(self, *args, **facts):\n"
        "    write(self, *args, **facts)\n"
        "    if len(list(self.folder.glob('*.training'))) == 5: os.kill(os.getpid(), 9)\n"
        "Store.write = write_and_die\n"
        "from braindecode_censor.cli.main import main; main(sys.argv[1:])\n"
    )
    store = tmp_path / "store"
    args = ["fit", "--data", str(data), "--out", str(tmp_path / "d"), "--folder", str(store), *SHELL]
    (tmp_path / "fit_and_die.py").write_text(code)
    killed = run_script(tmp_path / "fit_and_die.py", tmp_path, 120, args)
    assert killed.code == -9 and not (tmp_path / "d").exists()
    files = {path: path.stat().st_mtime_ns for path in store.glob("*.training")}
    assert len(files) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(args) == 0
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    assert len(list(store.glob("*.training"))) == 8


def test_interrupted_command_says_how_to_continue(monkeypatch, capsys):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("braindecode_censor.cli.decoder.run_leaderboard", interrupt)
    assert main(["leaderboard", "--decoder", "x"]) == 130
    assert "the same command continues, except for `fit` without --folder" in capsys.readouterr().err
