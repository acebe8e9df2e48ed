"""Which file of the trainings belongs to which fold of the cross-validation."""

import pandas as pd

from braindecode_censor.search.jobs import make_estimator
from braindecode_censor.storage.files import write_atomically
from braindecode_censor.storage.trainings import training_key

__all__ = ["SELECTED", "read_index", "write_index"]

#: Row of the table of results that holds what the paper's rule selects.
SELECTED = "AutoTransfer (paper)"


def write_index(memory, jobs, recording, training):
    """Write down which file holds which training of the cross-validation.

    Parameters
    ----------
    memory : Memory
        The finished trainings; ``index.csv`` is put beside them.
    jobs : list of Job
        Trainings of the cross-validation.
    recording : Recording
        The data.
    training : dict
        Arguments that all trainings share.
    """
    # late: who only reads the index needs neither Braindecode nor its seconds of import
    rows = []
    for job in jobs:
        clf = make_estimator(job.setting, job.seed, training, recording.roster, job.valid_subject)
        key = training_key(clf, recording.subjects[recording.subjects != job.test_subject], recording.digests)
        rows.append((job.setting.name, job.seed, job.test_subject, key))
    frame = pd.DataFrame(rows, columns=["setting", "seed", "subject", "key"])
    write_atomically(memory.folder / "index.csv", frame.to_csv(index=False).encode())


def read_index(out):
    """Return which file holds which training of the cross-validation.

    Parameters
    ----------
    out : Path
        Folder of the experiment.

    Returns
    -------
    index : DataFrame
        Columns setting, seed, subject (whose trials were left out) and key; empty if there is no index.
    """
    path = out / "trainings" / "index.csv"
    if not path.is_file():
        return pd.DataFrame(columns=["setting", "seed", "subject", "key"])
    return pd.read_csv(path)
