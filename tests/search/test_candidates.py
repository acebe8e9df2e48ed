"""Is the grid the paper's table, and does a wrong one say what is wrong?"""

import pytest

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.search.candidates import BASELINE, METHODS, expand, get_preset

# The table, typed in once more.
SMALL, LARGE, MODES = {1, 0.3, 0.1, 0.03, 0.01}, {1, 3, 10, 30, 100}, 3
SCORES_WITH_REG, REGS, LENGTHSCALES = {"nu", "tikhonov", "stein"}, {0.01, 0.001, 0.0001}, {"median", "tsne"}


def test_paper_lists_exactly_the_table():
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


def test_paper_trains_by_the_protocol_of_the_front():
    training = get_preset("paper").training
    assert training["max_epochs"] == 500 and training["patience"] is None
    clf = CensoredEEGClassifier(**training, **get_preset("paper").grid[0].parameters())
    default = CensoredEEGClassifier().get_params(deep=False)
    ours = {k: v for k, v in clf.get_params(deep=False).items() if k not in ("penalty", "weight")}
    assert ours == {k: default[k] for k in ours}


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_every_setting_is_accepted_by_the_classifier_and_survives_a_round_trip(preset):
    grid = get_preset(preset).grid
    for setting in (BASELINE, *grid):
        CensoredEEGClassifier(**setting.parameters())
    assert expand([setting.as_dict() for setting in grid]) == grid


def test_quick_reaches_lower_than_the_paper():
    low = {m: min(s.weight for s in get_preset("quick").grid if s.method == m) for m in METHODS}
    assert low["mmd"] < min(LARGE) and low["pairmmd"] < min(LARGE) and low["adv"] <= min(SMALL)


def test_a_grid_from_yaml(tmp_path):
    path = tmp_path / "own.yml"
    path.write_text(
        "grid: [{method: mmd, mode: [marginal, conditional], weight: [0.1, 1]}]\ntraining: {lr: 0.01}\n"
    )
    preset = get_preset(path)
    assert len(preset.grid) == 4 and preset.training["lr"] == 0.01
    path.write_text("- {method: adv}\n")
    assert [s.name for s in get_preset(str(path)).grid] == ["adv-marginal-1"]


def test_names_tell_settings_apart_and_defaults_are_no_options():
    assert len(get_preset([{"method": "mmd", "weight": [0.1234567, 0.1234569]}]).grid) == 2
    (setting,) = get_preset([{"method": "mmd", "weight": 0.1, "lengthscale": None}]).grid
    assert setting.name == "mmd-marginal-0.1"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([{"method": "mdm"}], r"method='mdm' is unknown.*Did you mean 'mmd'"),
        ([{"method": "mmd", "mode": "marginl"}], r"mode='marginl'.*'marginal'"),
        ([{"method": "mmd", "wieght": 1}], r"key of the grid='wieght'.*Did you mean 'weight'"),
        ([{"method": "mmd", "weight": -1}], r"weight=-1 in the grid must be a number of at least 0"),
        ([{"method": "mmd", "weight": []}], r"has no combination"),
        ([], r"has no combination"),
        (["mmd"], r"must be a list of mappings"),
        ("qick", r"preset='qick' is unknown.*Did you mean 'quick'"),
        ("missing.yml", r"cannot be read as YAML"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(grid, message):
    with pytest.raises(ValueError, match=message):
        get_preset(grid)


def test_an_unknown_key_in_a_yaml_file(tmp_path):
    path = tmp_path / "own.yml"
    path.write_text("grid: [{method: mmd}]\ntrainin: {}\n")
    with pytest.raises(ValueError, match=r"trainin.*Did you mean 'training'"):
        get_preset(path)
    path.write_text("grid: [")
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        get_preset(path)
