"""Small checks shared by the loaders; imports nothing of ours."""

import difflib
from collections import Counter

import numpy as np


def check_name(name, choices, what):
    """Return ``name`` if it is one of ``choices``, else raise a ValueError that lists them."""
    choices = list(choices)
    if name in choices:
        return name
    near = difflib.get_close_matches(str(name).lower(), [c.lower() for c in choices], n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what}={name!r} is unknown; choose one of {', '.join(choices)}.{hint}")


def check_unique(names, where, what):
    """Raise if a name occurs twice."""
    twice = sorted(name for name, count in Counter(str(n) for n in names).items() if count > 1)
    if twice:
        raise ValueError(f"{where}: {what} holds {', '.join(twice[:5])} more than once; each must be unique.")


def check_samples(data, where, ch_names, axis_names):
    """Raise if samples are not real and finite numbers; say which sample of which channel."""
    if data.dtype.kind not in "iuf":
        raise ValueError(f"{where} has dtype {data.dtype}; expected integers or floating-point numbers.")
    if data.dtype.kind == "f" and not np.isfinite(data.sum()):  # one pass when all is well
        bad = np.argwhere(~np.isfinite(data))
        if len(bad):
            first = dict(zip(axis_names, bad[0].tolist()))
            first["channel"] = str(ch_names[first["channel"]])
            place = ", ".join(f"{name} {value}" for name, value in first.items())
            raise ValueError(
                f"{where} holds {len(bad)} samples that are NaN or infinite, the first at {place}; "
                "repair or drop these trials before loading."
            )
