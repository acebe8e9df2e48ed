"""Cross-validation by MOABB's own evaluation, which reads the trainings that are finished."""

import os
import tempfile
import warnings
from pathlib import Path

import moabb
import pandas as pd
from sklearn.pipeline import make_pipeline

from braindecode_censor.paper.cross_subject import CrossSubjectEvaluation
from braindecode_censor.paper.trainings import make_estimator
from braindecode_censor.storage.files import write_atomically

__all__ = ["SUFFIX", "cross_validate", "make_pipelines", "tidy"]

#: Suffix of MOABB's result file.
SUFFIX = "autotransfer"


def make_pipelines(configs, seeds, training, all_subjects):
    """Return one MOABB pipeline per configuration and seed."""
    return {
        _pipeline_name(config.name, seed): make_pipeline(make_estimator(config, seed, training, all_subjects))
        for config in configs
        for seed in seeds
    }


def cross_validate(dataset, paradigm, pipelines, out, data, in_memory):
    """Run MOABB's leave-one-subject-out evaluation, and replace its result file in one step."""
    moabb.set_log_level("error")
    # HDF5 ends the process when the disk is full, so MOABB writes to memory where that is possible.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="moabb-") as scratch:
        evaluation = CrossSubjectEvaluation(
            paradigm=paradigm,
            datasets=[dataset],
            hdf5_path=scratch,
            suffix=SUFFIX,
            random_state=0,
            cache=out / "trainings",
            data=data,
            in_memory=in_memory,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of MOABB and Braindecode about names and layers
            results = evaluation.process(pipelines)
        for path in Path(scratch).rglob("*.hdf5"):
            write_atomically(out / "moabb" / path.relative_to(scratch), path.read_bytes())
    return results


def tidy(results, configs, seeds, data, others=()):
    """Return one row per configuration, seed and test subject, and per other pipeline and test subject."""
    means = results.groupby(["pipeline", "subject"])[["score", "score_valid"]].mean()
    scores = dict(zip(means.index, means.to_numpy(float).tolist()))
    successors = {subject: data.successor(subject) for subject in data.all_subjects}
    entries = [
        (c.method, c.mode, c.name, seed, _pipeline_name(c.name, seed)) for c in configs for seed in seeds
    ]
    entries += [(name, None, name, seeds[0], name) for name in others]
    rows = [
        (method, mode, name, seed, subject, successors[subject], *scores[pipeline, str(subject)])
        for method, mode, name, seed, pipeline in entries
        for subject in data.all_subjects
    ]
    columns = ["method", "mode", "setting", "seed", "subject", "valid_subject", "score", "score_valid"]
    return pd.DataFrame(rows, columns=columns)


def _pipeline_name(name, seed):
    return f"{name}, seed {seed}"
