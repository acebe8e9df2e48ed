"""Choice of the validation subject: one per fit, and another one in every leave-one-subject-out fold."""

import hashlib
import re
import warnings

import numpy as np

__all__ = ["split_trials", "validation_subject"]

_NUMBERED = re.compile(r"^(\D*)(\d+)(\D*)$")


def validation_subject(subjects, all_subjects=None):
    """Return the validation subject: the successor of the one that is missing.

    Parameters
    ----------
    subjects : array-like of shape (n_trials,)
        Subject of every training trial. The test subject's trials are not among them.
    all_subjects : sequence or None
        All subjects of the study, in order. None infers it from the labels.

    Returns
    -------
    subject : object
        One of `subjects`.

    Notes
    -----
    In a leave-one-subject-out run over all M subjects of a study, fold m trains without subject m. This rule returns
    the next one of all (cyclically), so each subject validates exactly once. When several are missing (grouped
    folds, a grid search inside a fold), the choice still rotates with each of them: it starts at ``sum(indices of the
    missing) + number of the missing`` in the list of all and takes the first subject that is present.

    An estimator sees only the labels of its training trials. If those are consecutive numbers, or names that differ
    in a number alone (``S01``, ``S02``), with at most one gap, the missing subject is the gap or one of the two ends.
    Both ends have the lowest subject as their successor, so the list is not needed. With more gaps or free names *no*
    rule that sees only the training labels can use every subject once. (For three subjects out of four or more it
    would have to orient each pair of subjects so that every triple forms a cycle. No tournament on four vertices does
    so.) Then pass `all_subjects`; without it some subjects validate twice and others never, and a warning says so.

    Examples
    --------
    >>> [int(validation_subject([s for s in (1, 2, 3, 4) if s != held_out])) for held_out in (1, 2, 3, 4)]
    [2, 3, 4, 1]
    >>> validation_subject(["anna", "dora"], all_subjects=["anna", "bert", "dora"]).item()
    'dora'
    """
    present = np.unique(np.asarray(subjects))
    if all_subjects is not None:
        return _successor(present, list(all_subjects))
    numbers = _numbers(present)
    if numbers is None:
        _warn_unknown_subjects(present)
        digest = hashlib.sha256("\n".join(map(str, present)).encode()).digest()
        return present[int.from_bytes(digest[:8], "big") % len(present)]
    by_number = dict(zip(numbers, present))
    # All subjects are all numbers from the first to the last; these may be too many for a list.
    first, size = min(numbers), max(numbers) - min(numbers) + 1
    n_gaps = size - len(by_number)
    if n_gaps > 1:
        _warn_unknown_subjects(present)
    gap_sum = size * (size - 1) // 2 - sum(number - first for number in by_number)
    start = first + (gap_sum + n_gaps) % size
    return by_number[min(by_number, key=lambda number: (number - start) % size)]


def split_trials(subjects, valid_subjects):
    """Return the indices of the training trials and of the validation trials."""
    subjects = np.asarray(subjects)
    is_valid = np.zeros(len(subjects), bool)
    for label in valid_subjects:
        # A comparison between unlike types (a number and strings) is one False, not an array of them.
        is_of_subject = np.broadcast_to(subjects == label, subjects.shape)
        if not is_of_subject.any():
            raise ValueError(
                f"valid_subject={label!r} has no trials; choose one of {np.unique(subjects).tolist()} "
                "or valid_subject='rotate'."
            )
        is_valid = is_valid | is_of_subject
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def _successor(present, all_subjects):
    present = set(present.tolist())
    unknown = sorted(present - set(all_subjects))
    if unknown:
        raise ValueError(
            f"all_subjects={all_subjects!r} lacks the subjects {unknown}: it must list every subject of the study, "
            "with the same type as the subject labels."
        )
    missing = [k for k, subject in enumerate(all_subjects) if subject not in present]
    start = (sum(missing) + len(missing)) % len(all_subjects)
    rotated = all_subjects[start:] + all_subjects[:start]
    return np.asarray(next(subject for subject in rotated if subject in present))[()]


def _numbers(present):
    """Return the labels as integers if they are integers or differ in one number alone, else None."""
    if np.issubdtype(present.dtype, np.floating) and np.abs(present).max() < 2**53:
        whole = present.astype(int)
        present = whole if (present == whole).all() else present
    if np.issubdtype(present.dtype, np.integer):
        return present.tolist()
    matches = [_NUMBERED.match(str(label)) for label in present.tolist()]
    if not all(matches) or len({(m[1], m[3]) for m in matches}) > 1:
        return None
    return [int(m[2]) for m in matches]


def _warn_unknown_subjects(present):
    warnings.warn(
        f"The subject labels {present.tolist()} are not consecutive, so they do not show which subject is "
        "held out, and some subjects may validate more often than others. Pass all_subjects=[...] with all "
        "subjects of the study to use each of them once in a leave-one-subject-out run.",
        UserWarning,
        stacklevel=3,
    )
