"""One training of an experiment, and the key under which it is kept."""

from dataclasses import dataclass

import pandas as pd

from braindecode_censor.paper.grid import Setting
from braindecode_censor.storage.keys import training_key
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["Job", "index_of", "make_estimator"]


@dataclass(frozen=True)
class Job:
    """One training."""

    setting: Setting
    seed: int
    test_subject: object
    valid_subject: object = "rotate"

    def seen(self, recording):
        """Return which trials the training may see."""
        return recording.subjects != self.test_subject

    def estimator(self, recording, training):
        """Return the classifier to train."""
        return make_estimator(self.setting, self.seed, training, recording.all_subjects, self.valid_subject)

    def key(self, recording, training):
        """Return the name under which the training is kept."""
        clf = self.estimator(recording, training)
        return training_key(clf, recording.subjects[self.seen(recording)], recording.digests)


def make_estimator(setting, seed, training, all_subjects, valid_subject="rotate"):
    """Return the classifier of a setting."""
    return CensoredEEGClassifier(
        **{**training, **setting.parameters()},
        random_state=seed,
        all_subjects=list(all_subjects),
        valid_subject=valid_subject,
    )


def index_of(jobs, recording, training):
    """Return which key belongs to which fold of the cross-validation."""
    rows = [(job.setting.name, job.seed, job.test_subject, job.key(recording, training)) for job in jobs]
    return pd.DataFrame(rows, columns=["setting", "seed", "subject", "key"])
