"""A list of wrong files and options: each ends with one line of ours and exit code 1, and leaves no folder behind."""

import pytest
from tiny import DATA

from braindecode_censor.cli.main import main

OPTIONS = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
# Content of a file for --preset -> a word of the message.
PRESETS = {
    "nothing": ("", "must be a list of mappings"),
    "a word": ("mmd", "must be a list of mappings"),
    "a number": ("3", "must be a list of mappings"),
    "null": ("null", "must be a list of mappings"),
    "no list": ("grid: 3", "must be a list of mappings"),
    "an unknown key": ("grd: [{method: mmd}]", "must be a|unknown"),
    "an unknown method": ("[{method: mdm}]", "Did you mean 'mmd'"),
    "a method in capitals": ("[{method: MMD}]", "'MMD' is unknown"),
    "no method": ("[{mode: marginal}]", "method=None is unknown"),
    "a list in a list": ("[{method: mige, score: nu, reg: [[1, 2]]}]", "must be a number or a word"),
    "a mapping": ("[{method: mige, score: nu, reg: {a: 1}}]", "must be a number or a word"),
    "a date": ("[{method: mmd, weight: 2020-01-01}]", "weight"),
    "infinity": ("[{method: mmd, weight: .inf}]", "weight of the grid=inf must be a positive number"),
    "not a number": ("[{method: mmd, weight: .nan}]", "weight of the grid=nan must be a positive number"),
    "a negative weight": ("[{method: mmd, weight: -1}]", "must be a positive number"),
    "ten million": (f"[{{method: mmd, weight: {[1] * 10000}, warmup: {[0] * 1000}}}]", "10,000,000 settings"),
    "a thousand deep": ("[" * 1000 + "]" * 1000, "list of mappings|cannot be read"),
    "not closed": ("[{method: mmd", "cannot be read as YAML"),
    "python objects": ("!!python/object/apply:os.system ['echo']", "cannot be read as YAML"),
    "training as a list": ("training: [1]", "must be a mapping"),
    "training as a number": ("training: 3", "must be a mapping"),
    "no epochs": ("training: {max_epochs: 0}", "max_epochs=0 must be"),
    "half an epoch": ("training: {max_epochs: 1.5}", "max_epochs=1.5 must be"),
    "epochs as a word": ("training: {max_epochs: abc}", "max_epochs='abc' must be"),
    "a rate as a word": ("training: {lr: abc}", "lr='abc' must be"),
    "an unknown network": ("training: {module: EEGNett}", "Did you mean 'EEGNet'"),
    "another network's option": ("training: {module: ShallowFBCSPNet, module__F1: 3}", "no option 'F1'"),
    "an unknown option": ("training: {module__F9: 3}", "no option 'F9'"),
    "an unknown device": ("training: {device: tpu}", "device='tpu'"),
    "a number as a device": ("training: {device: 5}", "device=5"),
    "no device": ("training: {device: ''}", "device=''"),
    "callbacks": ("training: {callbacks: early}", "cannot be a word"),
    "a loss": ("training: {criterion: mse}", "cannot be a word"),
    "a loader": ("training: {iterator_train: fast}", "cannot be a word"),
    "an unknown optimiser": ("training: {optimizer: Adamm}", "Did you mean 'Adam'"),
    "a number as an optimiser": ("training: {optimizer: 3}", "optimizer=3 cannot be made"),
    "an unknown option of the optimiser": ("training: {optimizer__momentm: 3}", "cannot be made with"),
    "a word for a number of the optimiser": ("training: {optimizer__weight_decay: x}", "cannot be made with"),
    "an unknown option of the loss": (
        "training: {criterion__smoothing: 3}",
        "is no option of FoldCrossEntropy",
    ),
    "an unknown option of the loader": ("training: {iterator_train__foo: 3}", "is no option of TrialLoader"),
    "what the trials decide": ("training: {module__n_chans: 3}", "which the trials decide"),
    "an infinite rate": ("training: {lr: .inf}", "lr=inf must be"),
    "the estimator's word in a grid": ("[{penalty: mmd}]", "the word is method='mmd'"),
    "an unknown argument": ("training: {epochs: 3}", "Did you mean max_epochs"),
    "numbers as names": ("training: {3: 4}", "must be a mapping"),
    "what folds decide": ("training: {valid_subject: 3}", "which the folds decide"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_wrong_preset_is_one_line(name, tmp_path, capsys):
    text, message = PRESETS[name]
    path, out = tmp_path / "grid.yml", tmp_path / "out"
    path.write_text(text)
    assert main(["run", "--preset", str(path), *OPTIONS, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("autotransfer: ") and len(said) < 2000
    assert any(word in said for word in message.split("|")), said
    assert not out.exists()


@pytest.mark.parametrize(
    "training", ["{optimizer: SGD, max_epochs: 1}", "{module: ShallowFBCSPNet, max_epochs: 1}"]
)
def test_words_that_look_wrong_and_are_right(training, tmp_path):
    path = tmp_path / "grid.yml"
    path.write_text(f"grid: [{{method: mmd, weight: 0.1}}]\ntraining: {training}")
    arguments = ["run", "--preset", str(path), *OPTIONS, "--dataset-option=duration=2.0"]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--no-report", "--quiet"]) == 0


def test_too_few_samples_for_the_network_are_said(tmp_path, capsys):
    path = tmp_path / "grid.yml"
    path.write_text("grid: [{method: mmd, weight: 0.1}]\ntraining: {module: ShallowFBCSPNet}")
    arguments = ["run", "--preset", str(path), *OPTIONS, "--dataset-option=duration=0.5"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("autotransfer: ") and "longer trials" in said and "n_times" in said, said


def test_a_file_instead_of_a_folder_is_said(tmp_path, capsys):
    (tmp_path / "out").write_text("")
    for command in ("run", "resume", "report"):
        options = OPTIONS if command == "run" else []
        assert main([command, *options, "--out", str(tmp_path / "out")]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith("autotransfer: ")
