"""The trainings of an experiment: a configuration and a seed, fitted without one subject."""

import pandas as pd

from braindecode_censor.run.training import Training
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["as_row", "cross_validation", "make_estimator", "make_index", "make_training"]


def make_estimator(config, seed, training, all_subjects):
    """Return the classifier of a configuration; `training` are the arguments that all trainings share."""
    return CensoredEEGClassifier(
        **{**training, **config.parameters()},
        random_state=seed,
        all_subjects=list(all_subjects),
        valid_subject="rotate",
    )


def make_training(config, seed, test_subject, training, data, callbacks=()):
    """Return the training of a configuration without a subject."""
    train = tuple(subject for subject in data.all_subjects if subject != test_subject)
    estimator = make_estimator(config, seed, training, data.all_subjects)
    return Training(config.name, estimator, train, (test_subject,), callbacks=callbacks)


def cross_validation(configs, seeds, training, data):
    """Return the trainings of the cross-validation: every configuration and seed without each subject."""
    folds = ((config, seed, test) for config in configs for seed in seeds for test in data.all_subjects)
    return [make_training(*fold, training, data) for fold in folds]


def make_index(trainings, data):
    """Return a row per fold of the cross-validation with the key of its training."""
    rows = [(t.name, t.estimator.random_state, t.test[0], t.key(data)) for t in trainings]
    return pd.DataFrame(rows, columns=["setting", "seed", "subject", "key"])


def as_row(config, training, record):
    """Return a row of the table of a search for a finished training."""
    return {
        "method": config.method,
        "mode": config.mode,
        "weight": config.weight,
        "setting": config.name,
        "seed": training.estimator.random_state,
        "subject": training.test[0],
        "valid_subject": record.get("valid_subject"),
        "score_valid": record.get("valid_score", float("nan")),
    }
