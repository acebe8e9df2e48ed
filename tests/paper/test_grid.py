"""The paper's table as a grid, and the messages for wrong grids and training options."""

import pytest

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.paper.grid import BASELINE, METHODS, expand, get_preset
from braindecode_censor.paper.training_options import check_training
from braindecode_censor.training.arguments import PAPER

# The table, typed in once more.
SMALL, LARGE, MODES = {1, 0.3, 0.1, 0.03, 0.01}, {1, 3, 10, 30, 100}, 3
SCORES_WITH_REG, REGS, LENGTHSCALES = {"nu", "tikhonov", "stein"}, {0.01, 0.001, 0.0001}, {"median", "tsne"}


def test_paper_grid_equals_its_table():
    grid = get_preset("paper").grid
    count = {method: sum(s.method == method for s in grid) for method in METHODS}
    ssge, others = 1, len(SCORES_WITH_REG) * len(REGS) * len(LENGTHSCALES)
    assert count == {
        "adv": len(SMALL) * MODES,
        "began": len(SMALL) * MODES,
        "mmd": len(LARGE) * MODES,
        "pairmmd": len(LARGE) * MODES * 2,
        "mige": len(SMALL) * MODES * (ssge + others),
    }
    assert len({s.name for s in grid}) == len(grid) == 360
    for method in METHODS:
        weights = {s.weight for s in grid if s.method == method}
        assert weights == (LARGE if "mmd" in method else SMALL)
    mige = [dict(s.options) for s in grid if s.method == "mige"]
    assert {o["score"] for o in mige} == {"ssge", *SCORES_WITH_REG}
    assert all(("reg" in o) == (o["score"] != "ssge") for o in mige)
    assert {o["reg"] for o in mige if "reg" in o} == REGS
    assert {o["lengthscale"] for o in mige if "reg" in o} == LENGTHSCALES
    pairs = {s.options for s in grid if s.method == "pairmmd"}
    assert pairs == {(("fraction", 0.5), ("pairs", "bernoulli")), (("pairs", "clique"), ("size", 4))}


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_presets_train_by_the_papers_protocol(preset):
    training = get_preset(preset).training
    for name in ("normalize", "schedule", "keep", "augment", "max_steps"):
        assert training[name] == PAPER[name], name
    assert not {"penalty", "censoring", "weight", "valid_subject"} & set(training)
    if preset == "paper":
        assert training["max_epochs"] == 500 and training["patience"] is None
    check_training(training)


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_configurations_round_trip_and_are_valid_arguments(preset):
    grid = get_preset(preset).grid
    for config in (BASELINE, *grid):
        CensoredEEGClassifier(**config.parameters())
    assert expand([config.as_dict() for config in grid]) == grid


def test_grid_from_yaml(tmp_path):
    path = tmp_path / "own.yml"
    path.write_text(
        "grid: [{method: mmd, mode: [marginal, conditional], weight: [0.1, 1]}]\ntraining: {lr: 0.01}\n"
    )
    preset = get_preset(path)
    assert len(preset.grid) == 4 and preset.training["lr"] == 0.01
    path.write_text("- {method: adv}\n")
    assert [config.name for config in get_preset(str(path)).grid] == ["adv-marginal-1"]
    path.write_text("training: 3\n")
    with pytest.raises(ValueError, match="training=3 must be a mapping"):
        get_preset(path)


def test_names_are_unique_and_defaults_are_no_options():
    assert len(get_preset([{"method": "mmd", "weight": [0.1234567, 0.1234569]}]).grid) == 2
    (config,) = get_preset([{"method": "mmd", "weight": 0.1, "lengthscale": None}]).grid
    assert config.name == "mmd-marginal-0.1"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([{"method": "mdm"}], r"method='mdm' is unknown.*Did you mean 'mmd'"),
        ([{"method": "mmd", "wieght": 1}], r"key of the grid.*'wieght'.*Did you mean 'weight'"),
        ([{"penalty": "mmd"}], r"the grid does not know penalty='mmd': the word is method='mmd'"),
        ([{"method": "mmd", "censoring": "marginal"}], r"the word is mode='marginal'"),
        ([{"method": "mige", "score_estimator": "nu"}], r"the word is score='nu'"),
        ([{"method": "mmd", "weight": -1}], r"weight of the grid=-1 must be a positive number or zero"),
        ([{"method": "mmd", "weight": "much"}], r"weight of the grid='much' must be a positive number"),
        ([{"method": "mmd", "score": "nu"}], r"key of the grid .method mmd.='score' is unknown"),
        ([{"method": "mige", "reg": [[1, 2]]}], r"reg=\[1, 2\] in the grid must be a number or a word"),
        ([{"method": "mige", "score": "nu", "reg": "abc"}], r"reg='abc'"),
        ([{"method": "adv", "warmup": -1}], r"warmup of the grid=-1 must be an integer of at least 0"),
        ([{"method": "adv", "critic_steps": 1.5}], r"critic_steps of the grid=1.5 must be an integer"),
        (
            [{"method": ["mmd"] * 10, "weight": [1.0] * 1000, "warmup": [0] * 1000}],
            r"has 10,000,000 configurations",
        ),
        ([{"method": "mmd", "weight": []}], r"has no combination"),
        ([], r"has no combination"),
        (["mmd"], r"must be a list of mappings"),
        ("qick", r"preset='qick' is unknown.*Did you mean 'quick'"),
        ("missing.yml", r"cannot be read as YAML"),
    ],
)
def test_wrong_grid_is_refused(grid, message):
    with pytest.raises(ValueError, match=message):
        get_preset(grid)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"max_epochs": 0}, r"max_epochs=0 must be an integer of at least 1"),
        ({"batch_size": 0}, r"batch_size=0 must be"),
        (
            {"module": "ShallowFBCSPNet", "module__F1": 4},
            r"module='ShallowFBCSPNet' does not know F1=4; its options are",
        ),
        ({"module": "EEGNett"}, r"module='EEGNett' is unknown.*Did you mean 'EEGNet'"),
        ({"module": 5}, r"module=5 must be the name of a network"),
        ({"module__F9": 1}, r"module='EEGNet' does not know F9=1"),
        ({"module__drop_prop": 0.1}, r"does not know drop_prop=0.1.*Did you mean 'drop_prob'"),
        ({"device": "tpu"}, r"device='tpu' is unknown; use 'cpu' or 'cuda'"),
        ({"callbacks": "early"}, r"callbacks='early', which cannot be a word"),
        ({"normalize": "sbject"}, r"normalize='sbject' is unknown.*Did you mean 'subject'"),
        ({"max_epoch": 5}, r"max_epoch=5. Did you mean 'max_epochs'"),
        ({"random_state": 1}, r"training has 'random_state', which the experiment sets: leave it out"),
        ({"penalty": "mmd"}, r"'penalty', which the experiment sets"),
    ],
)
def test_wrong_training_option_is_refused(training, message):
    with pytest.raises(ValueError, match=message):
        check_training(training)
