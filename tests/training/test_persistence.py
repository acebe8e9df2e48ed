"""A saved estimator predicts the same in a new process, and an invalid file is an error."""

import copy
import json
import os
import pickle

import numpy as np
import pytest
import torch
from braindecode.models import EEGNet
from docs.runner import run_script
from moabb.analysis.results import get_digest
from safetensors.torch import load_file, save_file
from sklearn.pipeline import make_pipeline

from braindecode_censor import CensoredEEGClassifier

PIPELINE = {"penalty": "adv", "censoring": "conditional", "weight": 0.3, "module__F1": 4, "max_epochs": 2}
WORDS = np.array(["left", "right"])

NEW_PROCESS = """
import sys
import numpy as np
from moabb.analysis.results import get_digest
from sklearn.pipeline import make_pipeline
from braindecode_censor import CensoredEEGClassifier
folder, options = sys.argv[1], eval(sys.argv[2])
clf = CensoredEEGClassifier.load(f"{folder}/clf.safetensors")
x = np.load(f"{folder}/x.npy")
adapted = CensoredEEGClassifier.load(f"{folder}/adapted.safetensors")
np.savez(f"{folder}/out.npz", proba=clf.predict_proba(x), y=clf.predict(x), z=clf.features(x),
         subject=adapted.predict_proba(x), adapted=clf.adapt(x[:40]).predict_proba(x))
print("hash", hash("a word"))
print("digest", get_digest(make_pipeline(CensoredEEGClassifier(**options))))
"""


@pytest.fixture(scope="module")
def fitted(data):
    x, y, subjects = data
    return CensoredEEGClassifier(**PIPELINE).fit(x, WORDS[y], subjects)


def test_load_in_a_new_process(data, fitted, tmp_path):
    fitted.save(tmp_path / "clf.safetensors")
    adapted_clf = fitted.adapt(data[0][:40], WORDS[data[1][:40]])
    adapted_clf.save(tmp_path / "adapted.safetensors")
    np.save(tmp_path / "x.npy", data[0])
    # The process has another hash seed: the key of MOABB's results must not depend on the order of a set.
    (tmp_path / "new_process.py").write_text(NEW_PROCESS)
    done = run_script(tmp_path / "new_process.py", tmp_path, 120, [tmp_path, PIPELINE])
    assert done.code == 0, done.output
    assert f"hash {hash('a word')}" not in done.output
    loaded = np.load(tmp_path / "out.npz")
    expected = {
        "proba": fitted.predict_proba(data[0]),
        "z": fitted.features(data[0]),
        "subject": adapted_clf.predict_proba(data[0]),
        "adapted": fitted.adapt(data[0][:40]).predict_proba(data[0]),
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(loaded[name], values, err_msg=name)
    assert np.array_equal(loaded["y"], fitted.predict(data[0]))
    digest = get_digest(make_pipeline(CensoredEEGClassifier(**PIPELINE)))
    assert f"digest {digest}" in done.output


def test_fitted_attributes_round_trip(data, fitted, tmp_path):
    fitted.save(tmp_path / "clf")
    content = fitted.to_bytes()
    assert content == fitted.to_bytes() == (tmp_path / "clf").read_bytes()
    assert content == CensoredEEGClassifier.from_bytes(content).to_bytes()
    state = torch.get_rng_state()
    loaded = CensoredEEGClassifier.load(tmp_path / "clf")
    assert torch.equal(state, torch.get_rng_state())
    assert loaded.classes_.tolist() == ["left", "right"]
    for name in ("best_epoch_", "valid_subject_", "signal_args_", "adapted_", *PIPELINE):
        assert getattr(loaded, name) == getattr(fitted, name), name
    assert np.isnan(loaded.valid_score_)
    assert np.array_equal(loaded.normalizer_.population_, fitted.normalizer_.population_)
    loaded.fit(*data)  # and can be trained again
    assert loaded.classes_.tolist() == [0, 1]


def _header(path):
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def test_file_holds_no_pickle(fitted, tmp_path):
    fitted.save(tmp_path / "clf")
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        pickle.loads((tmp_path / "clf").read_bytes())
    header = _header(tmp_path / "clf")  # a JSON header and raw numbers are all there is
    names = {f"module.{name}" for name in fitted.module_.state_dict()}
    assert set(header) - {"__metadata__"} == names | {"normalizer.statistics", "normalizer.spreads"}


class Custom(EEGNet):
    pass


@pytest.mark.parametrize(
    "options",
    [
        {"module": Custom},
        # Else the loaded net would have another, and predict something else.
        {"module__activation": torch.nn.ReLU},
        {"criterion": torch.nn.NLLLoss},  # from it follows what turns outputs into probabilities
    ],
    ids=lambda options: next(iter(options)),
)
def test_code_must_be_passed_to_load(data, quick, tmp_path, options):
    clf = CensoredEEGClassifier(**options, **quick).fit(*data)
    clf.save(tmp_path / "clf")
    with pytest.raises(ValueError, match=rf"pass load\(path, {next(iter(options))}="):
        CensoredEEGClassifier.load(tmp_path / "clf")
    loaded = CensoredEEGClassifier.load(tmp_path / "clf", **options)
    assert np.array_equal(loaded.predict_proba(data[0]), clf.predict_proba(data[0]))


@pytest.mark.parametrize("kind", ["general", "labelled"])
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))], ids=["deepcopy", "pickle"]
)
def test_copy_and_pickle(data, fitted, kind, copied):
    x, y = data[0][:40], WORDS[data[1][:40]]
    clf = {"general": fitted, "labelled": fitted.adapt(x, y)}[kind]
    twin = copied(clf)
    assert twin is not clf and twin.module_ is not clf.module_
    assert np.array_equal(twin.predict_proba(data[0]), clf.predict_proba(data[0]))
    assert twin.get_params(deep=False).keys() == clf.get_params(deep=False).keys()
    assert twin.history[:, "train_loss"] == fitted.history[:, "train_loss"]
    twin.partial_fit(data[0], WORDS[data[1]], subjects=data[2])  # and trains on, without touching the first
    assert len(twin.history) == len(clf.history) + 2


def test_module_objects_can_be_copied_but_not_pickled(data, quick):
    options = {name: value for name, value in quick.items() if "module__" not in name}
    clf = CensoredEEGClassifier(
        EEGNet(4, 2, 96, final_layer_with_constraint=True), penalty=None, **options
    ).fit(*data)
    assert np.array_equal(copy.deepcopy(clf).predict_proba(data[0]), clf.predict_proba(data[0]))
    with pytest.raises(pickle.PicklingError, match=r"module=EEGNet\(...\) is an object.*use save\(path\)"):
        pickle.dumps(clf)
    twin = copy.deepcopy(CensoredEEGClassifier(weight=3.0, **quick))  # nothing learnt yet
    assert twin.weight == 3.0 and not twin.initialized_


def test_damaged_files(fitted, tmp_path):
    path = tmp_path / "clf"
    fitted.save(path)
    good = path.read_bytes()
    for length in (0, 4, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="clf is not a saved braindecode-censor classifier"):
            CensoredEEGClassifier.load(path)
    path.write_text("name,score\n")
    with pytest.raises(ValueError, match="clf is not a saved braindecode-censor classifier"):
        CensoredEEGClassifier.load(path)
    metadata = {"format": "braindecode-censor classifier 1"}
    save_file({"weight": torch.zeros(3)}, path, metadata)
    with pytest.raises(ValueError, match="Files of other versions cannot be read: train again"):
        CensoredEEGClassifier.load(path)
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="its format is None"):
        CensoredEEGClassifier.load(path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        CensoredEEGClassifier.load(tmp_path / "nowhere")


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch exploded",))


def test_pickle_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Bomb()}, "bomb")
    (tmp_path / "bomb2").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb", "bomb2"):
        with pytest.raises(ValueError, match="is not a saved"):
            CensoredEEGClassifier.load(name)
    assert not (tmp_path / "exploded").exists()


def test_invalid_header(fitted, tmp_path):
    path = tmp_path / "clf"
    fitted.save(path)
    tensors, metadata = load_file(path), _header(path)["__metadata__"]
    header = json.loads(metadata["header"])

    def write(**changes):
        fields = {"params": {}, "options": {}}
        for name, value in changes.items():
            fields["options" if "__" in name else "params"][name] = value
        text = json.dumps({**header, **{field: {**header[field], **fields[field]} for field in fields}})
        save_file(tensors, path, metadata={**metadata, "header": text})

    write(module="os.system")
    with pytest.raises(ValueError, match="is unknown; choose from"):
        CensoredEEGClassifier.load(path)
    write(module__F1=16)
    with pytest.raises(ValueError, match="clf does not fit module='EEGNet':"):
        CensoredEEGClassifier.load(path)
    save_file(tensors, path, metadata={**metadata, "header": "{"})
    with pytest.raises(ValueError, match=r"the header of .*clf is damaged"):
        CensoredEEGClassifier.load(path)
