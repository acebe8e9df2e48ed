"""Cross-validation by MOABB itself: its evaluation, its splits, its scores, its result file."""

import shutil
import tempfile
import warnings
from pathlib import Path

import moabb
import pandas as pd
from moabb.evaluations import CrossSubjectEvaluation
from sklearn.pipeline import make_pipeline

from braindecode_censor.search.jobs import make_estimator
from braindecode_censor.storage.cached import Remembered
from braindecode_censor.storage.files import clear_errors

__all__ = ["SUFFIX", "cross_validate", "make_pipelines", "tidy"]

#: Suffix of MOABB's result file.
SUFFIX = "autotransfer"


def make_pipelines(settings, seeds, training, roster, memory):
    """Return one MOABB pipeline per setting and seed.

    Parameters
    ----------
    settings : list of Setting
        What to evaluate.
    seeds : list of int
        Seeds.
    training : dict
        Arguments that all trainings share.
    roster : list
        All subjects of the dataset.
    memory : Memory
        Where finished trainings lie.

    Returns
    -------
    pipelines : dict of str to Pipeline
        "setting, seed k" to pipeline.
    """
    return {
        _pipeline_name(setting.name, seed): make_pipeline(
            Remembered(make_estimator(setting, seed, training, roster), str(memory.folder))
        )
        for setting in settings
        for seed in seeds
    }


def cross_validate(dataset, paradigm, pipelines, out):
    """Run MOABB's leave-one-subject-out evaluation and put its result file in place in one step.

    Parameters
    ----------
    dataset : moabb.datasets.base.BaseDataset
        The dataset.
    paradigm : moabb.paradigms.base.BaseParadigm
        With a scorer whose first entry is balanced accuracy, and ``valid``.
    pipelines : dict of str to estimator
        Any mixture of ours and others.
    out : Path
        Folder; the file lies under ``moabb/results``.

    Returns
    -------
    results : DataFrame
        As MOABB returns it: one row per pipeline, subject and session.
    """
    moabb.set_log_level("error")
    with clear_errors(out), tempfile.TemporaryDirectory(dir=out, prefix=".moabb-") as scratch:
        evaluation = CrossSubjectEvaluation(
            paradigm=paradigm,
            datasets=[dataset],
            hdf5_path=scratch,
            suffix=SUFFIX,
            overwrite=False,
            n_jobs=1,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # MOABB's and Braindecode's, about names and layers of no concern here
            results = evaluation.process(pipelines)
        # HDF5 cannot be written safely against a crash, so a finished file replaces the old one.
        for made in Path(scratch).rglob("*.hdf5"):
            target = out / "moabb" / made.relative_to(scratch)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(target.name + ".part")
            shutil.copyfile(made, part)
            part.replace(target)
    return results


def tidy(results, settings, seeds, recording, others=()):
    """Return one row per setting, seed and test subject.

    Parameters
    ----------
    results : DataFrame
        From :func:`cross_validate`.
    settings : list of Setting
        What was evaluated.
    seeds : list of int
        Seeds.
    recording : Recording
        Knows who validated.
    others : iterable of str
        Names of further pipelines; they get the first seed and no validation score.

    Returns
    -------
    scores : DataFrame
        Columns method, mode, setting, seed, subject, valid_subject, score, score_valid; sessions of a subject
        are averaged.
    """
    by_name = results.groupby(["pipeline", "subject"])[["score", "score_valid"]].mean()
    rows = []
    entries = [
        (s.method, s.mode, s.name, seed, _pipeline_name(s.name, seed)) for s in settings for seed in seeds
    ]
    entries += [(name, None, name, seeds[0], name) for name in others]
    for method, mode, setting, seed, pipeline in entries:
        for subject in recording.roster:
            score, valid = by_name.loc[(pipeline, str(subject))]
            rows.append((method, mode, setting, seed, subject, recording.successor(subject), score, valid))
    columns = ["method", "mode", "setting", "seed", "subject", "valid_subject", "score", "score_valid"]
    return pd.DataFrame(rows, columns=columns)


def _pipeline_name(setting, seed):
    return f"{setting}, seed {seed}"
