"""A stranger's decoder folder: loading it starts no program, and whatever is not as `save` writes it is refused."""

import json
import os
import shutil
import stat
import warnings

import mne
import numpy as np
import pytest
import torch
from forge import forge, forge_model, reseal
from subjects import fit_decoder, mixed_subjects

import braindecode_censor as bc
from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.cli.main import main
from braindecode_censor.decoder.ensemble import Model
from braindecode_censor.run.training import TrainingResult
from braindecode_censor.training.arguments import NET_ARGUMENTS

X, Y, SUBJECTS = mixed_subjects(6)
TRAIN, NEW = SUBJECTS < 6, X[SUBJECTS == 6]
RAW = mne.io.RawArray(np.hstack(NEW[:3]), mne.create_info(list("abcd"), 64.0, "eeg"), verbose="error")


@pytest.fixture(scope="module")
def fitted():
    """A decoder of one network and one classical model, so that it is read quickly."""
    data = X[TRAIN], Y[TRAIN], SUBJECTS[TRAIN]
    options = {"penalty": None, "max_steps": 6, "augment": None, "module__F1": 2, "module__D": 1}
    clf = fit_decoder(*data, candidates=["power"], max_trainings=3, sfreq=64.0, ch_names=list("abcd"))
    models = bc.CensoredEEGClassifier(**options), TangentSpaceClassifier()
    clf.ensemble_.models[:] = [Model(f"m{k}", 0, 0.5, model.fit(*data)) for k, model in enumerate(models)]
    return clf


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoders") / "decoder"
    fitted.save(path)
    return path


def load(folder):
    return bc.AutoTransferClassifier.load(folder, device="cpu")


def use(clf):
    """Call everything that runs the models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf.predict_proba(NEW)
        clf.adapt(NEW).predict_proba(NEW)
        clf.stream().predict_proba(NEW[:3])
        assert len(bc.replay(clf, RAW, every=0.5, filter=False)) == 5  # what LiveDecoder does with samples


# A program among the parameters

COMPONENTS = ("compile", "callbacks", "iterator_train", "iterator_valid", "criterion", "optimizer", "dataset")
NESTED = {f"{component}__{option}" for component in COMPONENTS for option in ("options", "num_workers", "x")}
PARAMS = sorted(
    NET_ARGUMENTS | NESTED | {*bc.CensoredEEGClassifier().get_params(), "module__x", "penalty__x"}
)
OWN = {"module", "penalty", "censoring", "weight", "layer", "normalize", "prior", "augment", "sampling"}
OWN |= {"subjects_per_batch", "class_weighted", "schedule", "lr", "max_steps", "max_epochs", "keep", "device"}
OWN |= {
    "valid_subject",
    "all_subjects",
    "patience",
    "batch_norm_momentum",
    "fast",
    "batch_size",
    "random_state",
}


@pytest.fixture
def program(tmp_path):
    """Return a program and the file by which it tells that it was started."""
    path, mark = tmp_path / "program", tmp_path / "started"
    path.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path), mark


def nasty_values(program):
    return [True, program, {"cpp.cxx": [program]}, 10**9]


def test_program_is_what_compile_would_start(folder, program, tmp_path):
    """The canary sings: the same parameters, passed by the user instead of the file, start the program."""
    file = next(p for p in (folder / "models").iterdir() if b"TangentSpace" not in p.read_bytes()[:2000])
    options = {"compile": True, "compile__options": {"cpp.cxx": [program[0]]}}
    clf = bc.CensoredEEGClassifier.load(file, **options)
    torch._dynamo.reset()
    with (
        torch.compiler.config.patch(force_disable_caches=True),
        pytest.raises(torch._inductor.exc.InductorError),
    ):
        clf.predict_proba(NEW)
    assert program[1].exists()


def test_no_parameter_starts_a_program(folder, program, tmp_path):
    loaded = []
    for name in PARAMS:
        for value in nasty_values(program[0]):

            def change(header, tensors, name=name, value=value):
                header["options" if "__" in name else "params"][name] = value
                if name == "compile":
                    header["options"]["compile__options"] = {"cpp.cxx": [program[0]]}

            forged = forge(folder, tmp_path / "forged", change_model=change)
            try:
                clf = load(forged)
            except ValueError as error:
                assert "models/" in str(error)
                assert name in OWN or name.startswith(("module__", "penalty__")) or name in str(error), error
                if "not permitted" in str(error):  # whatever its value
                    break
                continue
            assert name in OWN or name.startswith("penalty__"), f"{name}={value!r} was accepted"
            loaded.append(name)
            use(clf)
    assert not program[1].exists()
    assert 0 < len(set(loaded)) < len(OWN)


def test_live_decoding_refuses_a_program(folder, program, tmp_path, capsys):
    def change(header, _):
        header["params"]["compile"] = True
        header["options"]["compile__options"] = {"cpp.cxx": [program[0]]}

    forged = forge(folder, tmp_path / "forged", change_model=change)
    with pytest.raises(ValueError, match="models/"), bc.LiveDecoder(forged, "EEG", every=1.0):
        pass
    assert main(["live", "--decoder", str(forged), "--stream", "EEG", "--every", "1"]) == 1
    assert "models/" in capsys.readouterr().err and not program[1].exists()


def test_forged_decoder_exports_without_a_program(folder, program, tmp_path):
    pytest.importorskip("onnxscript")
    forged = forge(
        folder, tmp_path / "forged", change_model=lambda header, _: header["params"].update(weight=9.0)
    )
    load(forged).to_onnx(tmp_path / "decoder.onnx")
    assert (tmp_path / "decoder.onnx").exists() and not program[1].exists()


def test_single_files_and_stored_trainings_refuse_programs(folder, tmp_path):
    def change(header, _):
        header["params"].update(compile=True)

    models = sorted((folder / "models").iterdir())
    network = next(p.read_bytes() for p in models if b"TangentSpace" not in p.read_bytes()[:2000])
    content = forge_model(network, change)
    (tmp_path / "clf").write_bytes(content)
    stored = TrainingResult(None, content, {}, {}).to_bytes()
    readers = [
        lambda: bc.CensoredEEGClassifier.from_bytes(content),
        lambda: bc.CensoredEEGClassifier.load(tmp_path / "clf"),
        lambda: TrainingResult.from_bytes(None, stored).estimator(),
    ]
    for read in readers:
        with pytest.raises(ValueError, match="sets compile, which is never taken from a file"):
            read()
    classical = next(p.read_bytes() for p in models if b"TangentSpace" in p.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"params.compile=True: Extra inputs are not permitted"):
        TangentSpaceClassifier.from_bytes(forge_model(classical, change))


# Every field


def fields(value, path=()):
    """Yield the path of every field of some JSON; of a list, that of its first item."""
    items = (
        value.items()
        if isinstance(value, dict)
        else list(enumerate(value))[:1]
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield (*path, key)
        yield from fields(item, (*path, key))


def changed(value, path, new):
    """Set or, with DROP, delete a field in place."""
    for key in path[:-1]:
        value = value[key]
    if new is DROP:
        del value[path[-1]]
    else:
        value[path[-1]] = new


DROP = object()
VALUES = [DROP, None, "\ud800", -1, 10**18, float("nan"), [[]], {"a": {}}]


def refused_or_sane(folder, where):
    """Return whether a folder is refused, by name; if it is not, its decoder has to give probabilities."""
    try:
        clf = load(folder)
    except ValueError as error:
        assert "decoder.json" in str(error) or "models/" in str(error), (where, error)
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        probabilities = [
            clf.predict_proba(NEW),
            *([] if clf.adapted_ else [clf.adapt(NEW).predict_proba(NEW)]),
        ]
    for found in probabilities:
        assert (found >= 0).all() and found.sum(axis=1) == pytest.approx(1, abs=1e-3), where
    assert clf.predict(NEW).shape == (len(NEW),) and clf.model_card and str(clf.heldout_)
    return False


def forgeries(folder, target, path, values, network=None):
    """Return how many values of a field are refused."""
    n_refused = 0
    for new in values:

        def change(content, *_, new=new):
            changed(content, path, new)

        changes = {"change": change} if network is None else {"change_model": change, "network": network}
        n_refused += refused_or_sane(forge(folder, target, **changes), (path, new))
    return n_refused


def test_every_field_of_the_folder_is_checked(folder, tmp_path):
    content = json.loads((folder / "decoder.json").read_text())["content"]
    # These facts decide nothing, and most values of another type are refused all the same.
    facts = {"versions", "subjects", "candidates", "errors", "leaderboard", "heldout", "params"}
    for path in fields(content):
        decides = path[0] not in facts
        n_refused = forgeries(folder, tmp_path / "forged", path, VALUES if decides else VALUES[-2:])
        least = 3 if path[-1] == "idle" else 5  # the class of rest is a label of any type
        assert n_refused >= (least if decides else path[0] not in ("params", "candidates")), path


@pytest.mark.parametrize("network", [True, False], ids=["network", "classical"])
def test_every_field_of_a_model_is_checked(folder, network, tmp_path):
    headers = []
    forge(folder, tmp_path / "forged", change_model=lambda header, _: headers.append(header), network=network)
    for path in fields(headers[0]):
        is_param = path[0] in ("params", "options")
        n_refused = forgeries(folder, tmp_path / "forged", path, VALUES[-2:] if is_param else VALUES, network)
        # Most parameters decide about further training only, whose arguments fit checks.
        assert n_refused >= (0 if is_param else 1 if path[-1] == "version" else 4), path


TENSORS = {
    "NaN": lambda x: torch.full_like(x, float("nan")) if x.is_floating_point() else None,
    "other type": lambda x: x.view(torch.int32 if x.dtype == torch.float32 else torch.int64),
    "other shape": lambda x: torch.zeros(3, *x.shape, dtype=x.dtype),
    "flat": lambda x: x.flatten()[:-1],
    "missing": lambda x: DROP,
}


@pytest.mark.parametrize("network", [True, False], ids=["network", "classical"])
def test_every_tensor_is_checked(folder, network, tmp_path):
    names = []
    forge(folder, tmp_path / "forged", change_model=lambda _, tensors: names.extend(tensors), network=network)
    for name in names:
        for damage, make in TENSORS.items():
            is_same = []

            def change(_, tensors, name=name, make=make, is_same=is_same):
                old, tensors[name] = tensors[name], make(tensors[name])
                is_same.append(
                    tensors[name] is None or (make(old) is not DROP and torch.equal(old, make(old)))
                )
                if tensors[name] is DROP:
                    del tensors[name]
                elif tensors[name] is None:
                    tensors[name] = old

            forged = forge(folder, tmp_path / "forged", change_model=change, network=network)
            assert refused_or_sane(forged, (name, damage)) or is_same[0], (name, damage)


# Files

FILES = {
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "link": lambda path: (path.rename(path.with_suffix(".x")), path.symlink_to(path.with_suffix(".x"))),
    "endless": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "sparse": lambda path: os.truncate(path, 40 * 10**9),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", ["decoder.json", "model_card.md", "models/000.safetensors"])
def test_only_regular_files_of_bounded_size_are_read(folder, name, tmp_path):
    for damage in FILES.values():
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(folder, tmp_path / "copy")
        damage(tmp_path / "copy" / name)
        with pytest.raises(ValueError, match=name.rpartition(".")[0]):
            load(tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/hostname", "models/../x", "models/x.safetensors", "notes.txt"]
)
def test_only_names_that_save_makes_are_read(folder, name, tmp_path):
    def add(content):
        content["checksums"][name] = "0" * 64

    with pytest.raises(ValueError, match="do not fit together"):
        load(forge(folder, tmp_path / "forged", add))

    def rename(content):
        content["models"][0]["file"] = name

    with pytest.raises(ValueError, match=r"models\.0\.file"):
        load(forge(folder, tmp_path / "forged", rename))


def test_a_model_is_named_once_and_weights_sum_to_one(folder, tmp_path):
    for change, message in [
        (lambda c: c["models"].extend([dict(c["models"][0])] * 300), "do not fit together"),
        (lambda c: c["models"][0].update(weight=-0.5), "greater than or equal to 0"),
        (lambda c: c["models"][0].update(weight=0.75), "do not fit together"),
        (lambda c: c["models"].clear(), "at least 1 item"),
    ]:
        with pytest.raises(ValueError, match=message):
            load(forge(folder, tmp_path / "forged", change))


def test_nested_json_and_large_numbers_are_refused(folder, tmp_path):
    for text in ("[" * 10**5, '{"format": ' + "9" * 5000 + "}", "[1, 2]", "null"):
        copy = forge(folder, tmp_path / "copy")
        (copy / "decoder.json").write_text(text)
        with pytest.raises(ValueError, match=r"decoder\.json is damaged"):
            load(copy)


def test_module_larger_than_its_tensors_is_not_built(folder, tmp_path):
    """One hundred thousand filters with kernels as long would take forty gigabytes."""

    def change(header, _):
        header["options"].update(module__F1=10**5, module__kernel_length=10**5)

    with pytest.raises(ValueError, match=r"does not fit module='EEGNet': it has more than"):
        load(forge(folder, tmp_path / "forged", change_model=change))


def test_teaching_is_checked(folder, tmp_path):
    names, forged = [], tmp_path / "forged"
    content = (folder / "teaching.safetensors").read_bytes()
    forge_model(content, lambda _, tensors: names.extend(tensors))
    for name in names[::2]:
        for damage in ("NaN", "missing", "other shape"):

            def change(_, tensors, name=name, damage=damage):
                tensors[name] = TENSORS[damage](tensors[name])
                if tensors[name] is None or damage == "missing":
                    del tensors[name]

            forge(folder, forged)
            (forged / "teaching.safetensors").write_bytes(forge_model(content, change))
            reseal(forged)
            try:
                use(load(forged))
            except ValueError as error:
                assert "teaching.safetensors" in str(error)
            else:
                assert damage == "other shape", name


COVARIANCES = {
    "zero": lambda x: 0 * x,
    "not symmetric": lambda x: x + torch.triu(torch.full_like(x, 1e30), 1),
    "huge": lambda x: 1e300 * x,
    "not positive": lambda x: x - x.trace() * torch.ones_like(x),
    "single precision": lambda x: x.float(),
}


@pytest.mark.parametrize("make", COVARIANCES.values(), ids=COVARIANCES)
def test_covariance_of_channels_is_checked(folder, make, tmp_path):
    def change(_, tensors):
        last = max(tensors, key=int)
        assert tensors[last].shape == (4, 4)
        tensors[last] = make(tensors[last])

    forged = forge(folder, tmp_path / "forged")
    (forged / "teaching.safetensors").write_bytes(
        forge_model((folder / "teaching.safetensors").read_bytes(), change)
    )
    reseal(forged)
    with pytest.raises(ValueError, match="its covariance is not one of the channels"):
        load(forged)
