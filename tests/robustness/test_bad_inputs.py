"""Wrong files and options: each ends with one line, exit code 1 and no folder."""

import pytest
from tiny import DATA

from braindecode_censor.cli.main import main

OPTIONS = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
# Content of a file for --preset -> a word of the message.
PRESETS = {
    "nothing": ("", "must be a list of mappings"),
    "an unknown key": ("grd: [{method: mmd}]", "must be a|unknown"),
    "an unknown method": ("[{method: mdm}]", "Did you mean 'mmd'"),
    "no method": ("[{mode: marginal}]", "method=None is unknown"),
    "a mapping": ("[{method: mige, score: nu, reg: {a: 1}}]", "must be a number or a word"),
    "infinity": ("[{method: mmd, weight: .inf}]", "weight of the grid=inf must be a positive number"),
    "ten million": (f"[{{method: mmd, weight: {[1] * 10000}, warmup: {[0] * 1000}}}]", "10,000,000"),
    "a thousand deep": ("[" * 1000 + "]" * 1000, "list of mappings|cannot be read"),
    "not closed": ("[{method: mmd", "cannot be read as YAML"),
    "python objects": ("!!python/object/apply:os.system ['echo']", "cannot be read as YAML"),
    "training as a list": ("training: [1]", "must be a mapping"),
    "a rate as a word": ("training: {lr: abc}", "lr='abc' must be"),
    "an unknown network": ("training: {module: EEGNett}", "Did you mean 'EEGNet'"),
    "another network's option": ("training: {module: ShallowFBCSPNet, module__F1: 3}", "does not know F1=3"),
    "an unknown option": ("training: {module__F9: 3}", "does not know F9=3"),
    "an unknown device": ("training: {device: tpu}", "device='tpu'"),
    "callbacks": ("training: {callbacks: early}", "cannot be a word"),
    "a loss": ("training: {criterion: mse}", "must be a class"),
    "an unknown optimiser": ("training: {optimizer: Adamm}", "Did you mean 'Adam'"),
    "an unknown option of the optimiser": ("training: {optimizer__momentm: 3}", "cannot be made with"),
    "a word for a number of the optimiser": ("training: {optimizer__weight_decay: x}", "cannot be made with"),
    "what the trials decide": ("training: {module__n_chans: 3}", "which the experiment sets"),
    "the estimator's word in a grid": ("[{penalty: mmd}]", "the word is method='mmd'"),
    "an unknown argument": ("training: {epochs: 3}", "Did you mean 'max_epochs'"),
    "what folds decide": ("training: {valid_subject: 3}", "which the experiment sets"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_wrong_preset_is_one_line(name, tmp_path, capsys):
    text, message = PRESETS[name]
    path, out = tmp_path / "grid.yml", tmp_path / "out"
    path.write_text(text)
    assert main(["run", "--preset", str(path), *OPTIONS, "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("autotransfer: ") and len(error) < 2000
    assert any(word in error for word in message.split("|")), error
    assert not out.exists()


@pytest.mark.parametrize(
    "training", ["{optimizer: SGD, max_epochs: 1}", "{module: ShallowFBCSPNet, max_epochs: 1}"]
)
def test_other_optimizers_and_networks_are_trained(training, tmp_path):
    path = tmp_path / "grid.yml"
    path.write_text(f"grid: [{{method: mmd, weight: 0.1}}]\ntraining: {training}")
    arguments = ["run", "--preset", str(path), *OPTIONS, "--dataset-option=duration=2.0"]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--no-report", "--quiet"]) == 0


def test_too_few_samples_for_the_network_are_an_error(tmp_path, capsys):
    path = tmp_path / "grid.yml"
    path.write_text("grid: [{method: mmd, weight: 0.1}]\ntraining: {module: ShallowFBCSPNet}")
    arguments = ["run", "--preset", str(path), *OPTIONS, "--dataset-option=duration=0.5"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("autotransfer: ") and "longer trials" in error and "n_times" in error, error


def test_file_instead_of_a_folder_is_an_error(tmp_path, capsys):
    (tmp_path / "out").write_text("")
    for command in ("run", "resume", "report"):
        options = OPTIONS if command == "run" else []
        assert main([command, *options, "--out", str(tmp_path / "out")]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith("autotransfer: ")
