"""A decoder as a folder, as an exported program, and from the shell."""

import argparse
import importlib.util
import json
import os
import warnings

import numpy as np
import pytest
import torch
from docs.runner import run_script
from subjects import mixed_subjects
from sklearn.dummy import DummyClassifier

import braindecode_censor as bc
from braindecode_censor.cli.main import main
from braindecode_censor.datasets.interchange import save_subject
from braindecode_censor.decoder.export import NetworkAverage

TINY = {"network": "EEGNet", "F1": 2, "D": 1, "max_steps": 6, "kernel": 0.1, "augment": None}
NETS = [
    {"name": how, **TINY, "normalize": how}
    for how in ("subject", "euclidean", "trial", "trial_channel", "none")
]
X, Y, SUBJECTS = mixed_subjects(6)
SEEN = SUBJECTS < 6
NEW, NEW_Y = X[~SEEN], Y[~SEEN]
NAMES = ["Fz", "Cz", "Pz", "Oz"]


def fit(**options):
    clf = bc.AutoTransferClassifier(
        **{"candidates": ["riemann", NETS[0]], "max_trainings": 12, "device": "cpu", "verbose": 0, **options}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clf.fit(X[SEEN], Y[SEEN], subjects=SUBJECTS[SEEN])


@pytest.fixture(scope="module")
def fitted():
    clf = fit(sfreq=64.0, ch_names=NAMES)
    # Both kinds of models shall be in the folder, whatever the search thinks of the tiny network.
    clf.ensemble_.models += fit(candidates=NETS[:1], max_trainings=3).ensemble_.models
    for model in clf.ensemble_.models:
        model.weight /= 2
    return clf


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoders") / "decoder"
    fitted.save(path)
    return path


def test_read_again_it_is_the_same(fitted, folder):
    again = bc.AutoTransferClassifier.load(folder)
    assert {model.kind for model in again.ensemble_.models} == {"classical", "network"}
    np.testing.assert_array_equal(again.adapt(NEW).predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))
    np.testing.assert_array_equal(again.stream().predict_proba(NEW), fitted.stream().predict_proba(NEW))
    assert again.classes_.tolist() == [0, 1] and again.input_ == fitted.input_
    assert again.heldout_ == fitted.heldout_
    assert again.leaderboard_["mean"].to_numpy() == pytest.approx(fitted.leaderboard_["mean"].to_numpy())
    assert again.model_card == (folder / "model_card.md").read_text()


def test_an_adapted_decoder_can_be_kept(fitted, tmp_path):
    person = fitted.adapt(NEW)
    person.save(tmp_path / "subject")
    again = bc.AutoTransferClassifier.load(tmp_path / "subject")
    np.testing.assert_array_equal(again.predict_proba(NEW), person.predict_proba(NEW))
    with pytest.raises(ValueError, match="This decoder was saved for one person"):
        again.adapt(NEW)


def test_nothing_in_the_folder_is_code(folder):
    files = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert files == {".safetensors", ".json", ".md"}
    content = json.loads((folder / "decoder.json").read_text())["content"]
    assert content["input"]["ch_names"] == NAMES and content["input"]["sfreq"] == 64
    assert content["versions"]["torch"] and content["classes"] == [0, 1]
    assert content["candidates"]["riemann"] == {"classical": "covariance"}


def damaged(folder, tmp_path, change):
    import shutil

    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    change(copied)
    return copied


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a weight": (lambda f: flip(next(f.glob("models/*"))), "was changed after it was written"),
    "a missing model": (lambda f: next(f.glob("models/*")).unlink(), "is missing"),
    "the card": (lambda f: flip(f / "model_card.md"), "model_card.md was changed"),
    "a promise": (
        lambda f: (f / "decoder.json").write_text(
            (f / "decoder.json").read_text().replace('"mean": 0', '"mean": 1')
        ),
        "decoder.json was changed",
    ),
    "the head": (lambda f: (f / "decoder.json").write_text("{"), "decoder.json is damaged"),
    "no head": (lambda f: (f / "decoder.json").unlink(), "holds no decoder"),
    "a later format": (
        lambda f: (f / "decoder.json").write_text(
            (f / "decoder.json").read_text().replace("decoder 1", "decoder 9")
        ),
        "has the format 'braindecode-censor decoder 9'",
    ),
}


@pytest.mark.parametrize("change, message", DAMAGE.values(), ids=DAMAGE)
def test_a_folder_that_was_tampered_with_is_refused(folder, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        bc.AutoTransferClassifier.load(damaged(folder, tmp_path, change))


def test_saving_replaces_decoders_and_nothing_else(fitted, tmp_path):
    fitted.save(tmp_path / "decoder")
    fitted.save(tmp_path / "decoder")
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("!")
    with pytest.raises(ValueError, match="exists and is no decoder"):
        fitted.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_save_that_fails_at_the_last_moment_leaves_the_old_decoder(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "decoder")
    card, replace = (tmp_path / "decoder" / "model_card.md").read_text(), os.replace

    def broken(source, target):
        if str(source).endswith(".part"):
            raise OSError("no more files can be renamed")
        replace(source, target)

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no more files"):
        fitted.save(tmp_path / "decoder")
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    assert (tmp_path / "decoder" / "model_card.md").read_text() == card


def test_own_estimators_cannot_be_saved(tmp_path):
    class Flat(DummyClassifier):
        pass

    clf = fit(candidates=[Flat()], max_trainings=3)
    with pytest.raises(ValueError, match="Flat: an estimator of your own cannot be written"):
        clf.save(tmp_path / "decoder")


@pytest.mark.parametrize("adapted", [False, True])
def test_exported_networks_say_the_same(adapted):
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


def test_what_cannot_be_exported(fitted, tmp_path):
    classical = fit(candidates=["power"], max_trainings=3)
    with pytest.raises(ValueError, match="has no network"):
        classical.to_torch()
    with pytest.raises(ValueError, match="adapted with classes cannot be exported"):
        fitted.adapt(NEW, NEW_Y).to_torch()


def test_onnx_needs_its_packages(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(ImportError, match=r"to_onnx needs the package onnxruntime: .*\[onnx\]"):
        fitted.to_onnx(tmp_path / "x.onnx")


def test_onnx_says_the_same_for_any_number_of_trials(tmp_path, capfd):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    clf = fit(candidates=[NETS[1], NETS[3]], max_trainings=2, target="none").adapt(NEW)
    file = tmp_path / "decoder.onnx"
    clf.to_onnx(file)
    assert [path.name for path in tmp_path.iterdir()] == ["decoder.onnx"]  # one file is all
    assert capfd.readouterr() == ("", "")
    session = runtime.InferenceSession(file.read_bytes())
    assert session.get_inputs()[0].shape[1:] == list(NEW.shape[1:])
    expected = clf.ensemble_.networks().predict_proba(NEW)
    assert np.ptp(expected, axis=0).min() > 1e-3  # so that trials in another order would be noticed
    for n_trials in (1, len(NEW)):
        (found,) = session.run(["probabilities"], {"signals": NEW[:n_trials]})
        np.testing.assert_allclose(found, expected[:n_trials], atol=1e-5)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    for person in range(1, 7):
        mine = person == SUBJECTS
        save_subject(
            folder / f"subject_{person:02d}.npz",
            X[mine] * 1e-6,
            Y[mine],
            label_names=["left", "right"],
            sfreq=64.0,
            ch_names=NAMES,
            ch_types=["eeg"] * 4,
        )
    new = tmp_path_factory.mktemp("new") / "subject_06.npz"
    (folder / "subject_06.npz").rename(new)
    return folder, new


def test_the_shell(recordings, tmp_path, capsys):
    data, new = recordings
    out, answers = tmp_path / "decoder", tmp_path / "y.csv"
    shared = ["--trainings", "8", "--candidates", "riemann", "power", "--device", "cpu", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["fit", "--data", str(data), "--out", str(out), *shared]) == 0
        assert "Expected of the next person" in capsys.readouterr().out
        assert (
            main(["predict", "--decoder", str(out), "--data", str(new), "--out", str(answers), "--adapt"])
            == 0
        )
    rows = [line.split(",") for line in answers.read_text().splitlines()]
    assert rows[0] == ["trial", "y", "p_left", "p_right"] and len(rows) == 21
    truth = np.array(["left", "right"])[NEW_Y]
    assert np.mean([row[1] == y for row, y in zip(rows[1:], truth)]) > 0.8
    assert main(["leaderboard", "--decoder", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["candidate"] for row in told["leaderboard"]} >= {"riemann", "power"}
    assert main(["leaderboard", "--decoder", str(out)]) == 0
    assert "greedy ensemble" in capsys.readouterr().out


def test_the_shell_says_what_is_wrong(recordings, folder, tmp_path, capsys):
    data, new = recordings
    assert main(["leaderboard", "--decoder", str(tmp_path)]) == 1
    assert "holds no decoder" in capsys.readouterr().err
    for taken, message in (
        (new, "exists and is no decoder"),
        (new / "x", "is a file: choose another folder"),
    ):
        assert main(["fit", "--data", str(recordings[0]), "--out", str(taken)]) == 1
        assert message in capsys.readouterr().err  # before anything was trained
    assert main(["predict", "--decoder", str(folder), "--data", str(tmp_path / "nobody.npz")]) == 1
    assert "nobody.npz is no file" in capsys.readouterr().err
    assert main(["fit", "--data", str(tmp_path / "nothing"), "--out", str(tmp_path / "x")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert main(["predict", "--decoder", str(folder), "--data", str(new), "--adapt", "--stream"]) == 1
    assert "choose one" in capsys.readouterr().err
    other = tmp_path / "subject_01.npz"
    more = dict(
        label_names=["left", "right"], sfreq=64.0, ch_names=["Fz", "Cz", "Pz", "C3"], ch_types=["eeg"] * 4
    )
    save_subject(other, NEW * 1e-6, NEW_Y, **more)
    assert main(["predict", "--decoder", str(folder), "--data", str(other)]) == 1
    assert "lacks 1 of the decoder's 4 channels: Oz" in capsys.readouterr().err


def test_a_killed_fit_goes_on(recordings, tmp_path):
    """The process is killed while it trains; the same command then finds the trainings that were finished."""
    data, _ = recordings
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from braindecode_censor.run import pair_store\n"
        "write = pair_store.PairStore.write\n"
        "def write_and_die(self, *args):\n"
        "    write(self, *args)\n"
        "    if len(list((self.folder / 'pairs').iterdir())) == 5: os.kill(os.getpid(), 9)\n"
        "pair_store.PairStore.write = write_and_die\n"
        "from braindecode_censor.cli.main import main; main(sys.argv[1:])\n"
    )
    args = ["fit", "--data", str(data), "--out", str(tmp_path / "d"), "--folder", str(tmp_path / "kept")]
    args += ["--trainings", "8", "--candidates", "riemann", "power", "--device", "cpu", "--quiet"]
    (tmp_path / "fit_and_die.py").write_text(code)
    killed = run_script(tmp_path / "fit_and_die.py", tmp_path, 120, args)
    assert killed.code == -9 and not (tmp_path / "d").exists()
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept" / "pairs").iterdir()}
    assert len(files) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(args) == 0
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    assert len(list((tmp_path / "kept" / "pairs").iterdir())) == 8


@pytest.mark.parametrize(
    "command, remedy",
    [
        (["leaderboard", "--decoder", "x"], "run the same command again; `fit --folder DIR` keeps"),
        (["datasets"], "`autotransfer resume` goes on"),
    ],
)
def test_ctrl_c_in_the_shell_says_how_to_go_on(monkeypatch, capsys, command, remedy):
    def stopped(self, argv):
        args = parse(self, argv)
        args.run = interrupt
        return args

    def interrupt(args):
        raise KeyboardInterrupt

    parse = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stopped)
    assert main(command) == 130
    assert remedy in capsys.readouterr().err
