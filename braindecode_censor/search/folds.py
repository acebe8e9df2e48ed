"""Who tests whom: a model trained without two people is a test of the one and a validation of the other.

People are the corners of a graph and every edge is one training without the two people at its ends. In a graph in
which everybody has k partners, S people need S·k/2 trainings of each candidate, and every person is tested by k
models that have never seen them.
"""

import numpy as np

from braindecode_censor._check import check_size

__all__ = ["check_enough", "make_pairs", "partners_of", "seed_of_pair"]

_ALL_PAIRS = 5  # with so few people every pair is trained


def make_pairs(n_people, degree=4, random_state=0):
    """Return the pairs of people that are left out together."""
    check_enough(n_people)
    check_size("degree", degree, 2)
    degree = n_people - 1 if n_people <= _ALL_PAIRS else min(degree, n_people - 1)
    order = np.random.default_rng(random_state).permutation(n_people).tolist()
    return list(dict.fromkeys(tuple(sorted((order[a], order[b]))) for a, b in _ring(n_people, degree)))


def check_enough(n_people):
    """Raise unless there are people to train on when two are left out."""
    if n_people < 3:
        raise ValueError(
            f"subjects: {n_people} people, but at least 3 are needed: a model is trained without two of them, one to "
            "test and one to choose by. Record more people, or train CensoredEEGClassifier without a choice."
        )


def _ring(n_people, degree):
    """Yield neighbours on a ring, those after next and so on; an odd degree also needs those across.

    Every distance is gone through in two halves, in each of which nearly nobody occurs twice.
    """
    for distance in range(1, degree // 2 + 1):
        for half in (0, 1):
            starts = (a for a in range(n_people) if a // distance % 2 == half)
            yield from ((a, (a + distance) % n_people) for a in starts)
    if degree % 2:
        across = n_people // 2
        yield from ((a, (a + across) % n_people) for a in range((n_people + 1) // 2))


def partners_of(person, pairs):
    """Return who is left out together with a person."""
    found = {}
    for position, (a, b) in enumerate(pairs):
        if person in (a, b):
            found[b if person == a else a] = position
    return found


def seed_of_pair(random_state, position):
    """Return the seed of the training of one pair; averaging over pairs then averages over seeds too."""
    return int(np.random.SeedSequence([random_state, position]).generate_state(1)[0] % 2**31)
