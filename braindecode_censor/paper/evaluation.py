"""Cross-validation by MOABB itself: its evaluation, its splits, its scores, its result file."""

import os
import tempfile
import warnings
from pathlib import Path

import moabb
import pandas as pd
from sklearn.pipeline import make_pipeline

from braindecode_censor.paper.cross_subject import CrossSubjectEvaluation
from braindecode_censor.paper.jobs import make_estimator
from braindecode_censor.storage.files import write_atomically

__all__ = ["SUFFIX", "cross_validate", "make_pipelines", "tidy"]

#: Suffix of MOABB's result file.
SUFFIX = "autotransfer"


def make_pipelines(settings, seeds, training, all_subjects):
    """Return one MOABB pipeline per setting and seed."""
    return {
        _pipeline_name(setting.name, seed): make_pipeline(
            make_estimator(setting, seed, training, all_subjects)
        )
        for setting in settings
        for seed in seeds
    }


def cross_validate(dataset, paradigm, pipelines, out, trials=None):
    """Run MOABB's leave-one-subject-out evaluation and put its result file in place in one step."""
    moabb.set_log_level("error")
    # HDF5 ends the process when the disk is full, so MOABB writes to memory where there is such a place. Its
    # finished file then replaces the old one, and an error of that is ours to report.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="moabb-") as scratch:
        evaluation = CrossSubjectEvaluation(
            paradigm=paradigm,
            datasets=[dataset],
            hdf5_path=scratch,
            suffix=SUFFIX,
            overwrite=False,
            n_jobs=1,
            random_state=0,
            cache=out / "trainings",
            trials=trials,
        )
        with warnings.catch_warnings():
            # MOABB's and Braindecode's, about names and layers of no concern here
            warnings.simplefilter("ignore")
            results = evaluation.process(pipelines)
        for made in Path(scratch).rglob("*.hdf5"):
            write_atomically(out / "moabb" / made.relative_to(scratch), made.read_bytes())
    return results


def tidy(results, settings, seeds, recording, others=()):
    """Return one row per setting, seed and test subject."""
    means = results.groupby(["pipeline", "subject"])[["score", "score_valid"]].mean()
    by_name = dict(zip(means.index, means.to_numpy(float).tolist()))
    successors = {subject: recording.successor(subject) for subject in recording.all_subjects}
    rows = []
    entries = [
        (s.method, s.mode, s.name, seed, _pipeline_name(s.name, seed)) for s in settings for seed in seeds
    ]
    entries += [(name, None, name, seeds[0], name) for name in others]
    for method, mode, setting, seed, pipeline in entries:
        for subject in recording.all_subjects:
            score, valid = by_name[pipeline, str(subject)]
            rows.append((method, mode, setting, seed, subject, successors[subject], score, valid))
    columns = ["method", "mode", "setting", "seed", "subject", "valid_subject", "score", "score_valid"]
    return pd.DataFrame(rows, columns=columns)


def _pipeline_name(setting, seed):
    return f"{setting}, seed {seed}"
