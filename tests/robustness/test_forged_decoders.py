"""A stranger's decoder folder: loading it starts no program, and whatever is not as `save` writes it is refused."""

import stat
import warnings

import pytest
import torch
from forge import forge, forge_model
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.decoder.ensemble import Model
from braindecode_censor.run.training import TrainingResult
from braindecode_censor.training.arguments import NET_ARGUMENTS

X, Y, SUBJECTS = mixed_subjects(6)
TRAIN, NEW = SUBJECTS < 6, X[SUBJECTS == 6]


@pytest.fixture(scope="module")
def fitted():
    """A decoder of one network and one classical model, so that it is read quickly."""
    data = X[TRAIN], Y[TRAIN], SUBJECTS[TRAIN]
    options = {"penalty": None, "max_steps": 6, "augment": None, "module__F1": 2, "module__D": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = bc.AutoTransferClassifier(candidates=["power"], max_trainings=3, device="cpu", verbose=0).fit(
            *data
        )
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
    return [True, program, f"os.system('{program}')", [program], {"cpp.cxx": [program]}, 10**9]


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
                continue
            assert name in OWN or name.startswith("penalty__"), f"{name}={value!r} was accepted"
            loaded.append(name)
            use(clf)
    assert not program[1].exists()
    assert 0 < len(set(loaded)) < len(OWN)


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
        with pytest.raises(ValueError, match="sets compile='True', which is never taken from a file"):
            read()
    classical = next(p.read_bytes() for p in models if b"TangentSpace" in p.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"params.compile=True: Extra inputs are not permitted"):
        TangentSpaceClassifier.from_bytes(forge_model(classical, change))
