"""The benchmark that asks whether a gradient depends on who is who."""

import importlib.util
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mige_labels.py"


def load():
    spec = importlib.util.spec_from_file_location("mige_labels", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_it_tells_a_force_on_everybody_from_one_on_people():
    rng = np.random.default_rng(0)
    people, y = np.arange(320) % 8, np.arange(320) // 8 % 2
    z = rng.normal(size=(320, 200)) + rng.normal(size=(8, 200))[people]
    script = load()
    shuffled = script.shuffle(people, y, rng)
    assert (shuffled != people).mean() > 0.5
    assert all(np.array_equal(np.bincount(shuffled[y == k]), np.bincount(people[y == k])) for k in range(2))
    found = script.compare(z, y, people, n_batches=5).set_index(["mode", "penalty"])
    assert (found.loc[(slice(None), "mige"), "shuffled"] > 0.9).all()
    assert (found.loc[(slice(None), ["mige, calibrated", "mmd"]), "shuffled"].abs() < 0.3).all()
    assert (found.loc[(slice(None), ["mige, calibrated", "mmd"]), "people"] > 0.3).all()
    nobody = script.compare(rng.normal(size=(320, 200)), y, people, n_batches=5)
    assert (nobody["people"].abs() < 0.1).all()
