"""The whole family on one recording: everything is trained without every pair of people, then tested tier by tier.

All candidates are trained whatever their scores are, so that every number of the ensemble is strictly nested: for the
person tested only models are used that have not seen this person, in the choice and in the weights, too.
"""

import json
import time
import zipfile
import zlib
from functools import cached_property, partial
from math import ceil

import numpy as np
import pandas as pd

from braindecode_censor.run.pair_data import PairData
from braindecode_censor.run.pair_runner import PairRunner
from braindecode_censor.run.pair_store import PairStore
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.family import BASELINE, family_names
from braindecode_censor.search.folds import make_pairs
from braindecode_censor.search.pair_search import PairSearch, retest
from braindecode_censor.search.pair_speed import Speed
from braindecode_censor.search.weights import balanced_loss
from braindecode_censor.storage.files import write_atomically
from braindecode_censor.trials.balance import balanced_weights
from studies.transfer.heldout_file import cut_heldout, read_heldout, write_heldout
from studies.transfer.tiers import TIERS, decode

__all__ = ["CANDIDATES", "TransferStudy"]

#: The family, and censoring on top of two of its networks.
CANDIDATES = [
    *family_names(),
    *(f"{base}+{method}-conditional" for base in ("subject", "euclidean") for method in ("mmd", "adv")),
]
_MEASURING = 60.0  # seconds; a few hundredths of it are spent on measuring speed


class TransferStudy:
    """Trains all candidates without every pair of people, and lets them decode the pair in every tier."""

    def __init__(
        self,
        read,
        folder,
        candidates,
        partners=4,
        tiers=TIERS,
        device="cpu",
        n_jobs=1,
        say=lambda line: None,
        watch=lambda outcome, result: None,
    ):
        self.read = read
        self.folder = folder
        self.candidates = candidates
        self.partners = partners
        self.tiers = tiers
        self.device = device
        self.n_jobs = n_jobs
        self.say = say
        self.watch = watch

    @cached_property
    def recording(self):
        """Signals, numbers of classes and of people, and the sampling rate."""
        X, y, subjects, sfreq = self.read()
        codes, people = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
        return X.astype(np.float32), codes, people, sfreq

    @property
    def n_people(self):
        """How many people there are."""
        return int(self.recording[2].max()) + 1

    def run(self, seeds):
        """Train and test, or what is left of it."""
        left = {}  # seeds that lack the same candidates are trained in the same fleets
        for seed in seeds:
            left.setdefault(self._left(seed), []).append(seed)
        for names, members in left.items():
            if names:
                self._train_and_test(members, [c for c in self.candidates if c.name in names])
        return {seed: read_heldout(self._path(seed)) for seed in seeds}

    def count(self, seeds):
        """Return how many trainings there are and how many are left, the learning curve not counted."""
        pairs = [make_pairs(self.n_people, self.partners, seed) for seed in seeds]
        total = len(self.candidates) * sum(map(len, pairs))
        if not any(self._left(seed) for seed in seeds):
            return total, 0
        return total, max(total - len(list(self.folder.glob("pairs/*.training"))), 0)

    def seconds_each(self):
        """Return about how long a training takes on this machine, from short ones."""
        data = self._data(make_pairs(self.n_people, self.partners), 0)
        speed = Speed(data, Budget(_MEASURING), PairRunner(data, PairStore(None, data), self.n_jobs))
        networks = [candidate for candidate in self.candidates if candidate.kind == "network"]
        costs, _ = speed.measure_all(networks)
        times = [cost.seconds(1.0) for cost in costs.values()]
        times += [speed.probe(candidate) for candidate in self.candidates if candidate.kind == "classical"]
        return float(np.mean(times)) if times else 0.0

    def _path(self, seed):
        return self.folder / f"seed_{seed}.npz"

    def _finished(self, seed):
        """Return what a finished seed has left; what is damaged counts as not there."""
        try:
            return read_heldout(self._path(seed))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            return None

    def _note(self, seed):
        """Return what is noted about a finished seed."""
        try:
            return json.loads(self._path(seed).with_suffix(".json").read_text())
        except (OSError, ValueError):
            return {}

    def _left(self, seed):
        """Return the names of candidates that a seed has not seen yet."""
        found, note, names = self._finished(seed), self._note(seed), [c.name for c in self.candidates]
        if found is None:
            return tuple(names)
        heldout, kinds = found
        if note.get("partners", self.partners) != self.partners or set(self.tiers) != set(heldout):
            raise ValueError(
                f"{self.folder} holds seed {seed} with partners={note.get('partners')} and tiers={list(heldout)}: ask "
                "for these, or take another folder."
            )
        return tuple(name for name in names if name not in kinds and name not in note.get("errors", {}))

    def _train_and_test(self, seeds, candidates):
        """Run seeds, all of them in the same fleets, and keep what they say beside what was there."""
        started = time.monotonic()
        each = [make_pairs(self.n_people, self.partners, seed) for seed in seeds]
        for seed, pairs in zip(seeds, each):
            self._check_people(seed, pairs)
        data = self._data([pair for mine in each for pair in mine], min(seeds))
        self.say(f"{self.folder.name}: {len(data.pairs)} pairs x {len(candidates)} candidates")
        heldout, kinds, errors = self._train(data, candidates, self.folder)
        seconds = (time.monotonic() - started) / len(each)
        note = {"partners": self.partners, "device": self.device}
        note["candidates"] = [candidate.name for candidate in candidates]
        first = 0
        for seed, pairs in zip(seeds, each):
            mine = {tier: cut_heldout(found, first, pairs) for tier, found in heldout.items()}
            cost = {"seconds": seconds, "trainings": len(pairs) * len(candidates)}
            self._keep(seed, mine, kinds, cost | note | ({"errors": errors} if errors else {}))
            first += len(pairs)

    def _check_people(self, seed, pairs):
        """Refuse to put further candidates beside those that were tested on other people or trials."""
        found = self._finished(seed)
        if found is None:
            return
        before = next(iter(found[0].values()))
        _, y, people, _ = self.recording
        labels = [y[people == person] for person in range(self.n_people)]
        if before.pairs != pairs or not all(map(np.array_equal, before.labels, labels)):
            raise ValueError(
                f"{self.folder} holds seed {seed} of a recording with other people or trials: take another folder."
            )

    def _keep(self, seed, heldout, kinds, note):
        """Write what candidates of a seed say, and what it cost, with what other candidates have said before."""
        before = self._finished(seed)
        if before is not None:
            for tier, found in heldout.items():
                found.found = before[0][tier].found | found.found
            kinds = before[1] | kinds
            earlier = self._note(seed)
            note |= {
                name: earlier[name] + note[name]
                for name in ("seconds", "trainings", "candidates")
                if name in earlier
            }
            if "errors" in earlier:
                note["errors"] = earlier["errors"] | note.get("errors", {})
        write_heldout(
            self._path(seed), heldout, kinds
        )  # first: what is there is not counted in the note once more
        write_atomically(self._path(seed).with_suffix(".json"), json.dumps(note).encode())

    def _data(self, pairs, seed, most=None):
        X, y, people, sfreq = self.recording
        return PairData(X, y, people, pairs, "unlabeled", sfreq, self.device, seed, most)

    def _train(self, data, candidates, folder):
        """Return tier -> what every candidate says, the kinds of those that did not fail, and why others did."""
        started = time.monotonic()

        def report(outcome, result):
            if sum(result.trainings.values()) % 100 == 0:
                told = f"{sum(result.trainings.values())} trainings, {time.monotonic() - started:.0f} s"
                self.say(f"  {told}; the last one was {outcome.candidate}: {outcome.error or 'done'}")
            self.watch(outcome, result)

        runner = PairRunner(data, PairStore(folder, data), self.n_jobs)
        result = PairSearch(data, candidates, False, Budget(), runner, report).run()
        if result.interrupted:
            raise KeyboardInterrupt  # what is trained is kept; a table of half of it would not be strict
        for name, error in result.errors.items():
            self.say(f"  {name} failed: {error}")
        self.say(f"  trained after {time.monotonic() - started:.0f} s")
        tests = {tier: partial(decode, tier, n_classes=data.n_classes) for tier in self.tiers}
        heldout = retest(result, data, tests, self.n_jobs)
        self.say(f"  tested after {time.monotonic() - started:.0f} s")
        kinds = {name: result.candidates[name].kind for name in result.finalists}
        return heldout, kinds, result.errors

    def learn(self, seed, heldout, kinds):
        """Return how well the best candidate and the baseline decode when fewer people were recorded."""
        pairs = make_pairs(self.n_people, self.partners, seed)[: ceil(self.n_people / 2)]
        names = dict.fromkeys([*({BASELINE} & set(kinds)), _best_of(heldout, kinds)])
        candidates = [candidate for candidate in self.candidates if candidate.name in names]
        most = self.n_people - 2
        sizes = [2**k for k in range(1, most.bit_length()) if 2**k < most]
        found = {most: {tier: cut_heldout(said, 0, pairs) for tier, said in heldout.items()}}
        for size in sizes:
            data, folder = self._data(pairs, seed, size), self.folder / f"people_{size}"
            self.say(f"{self.folder.name}: trained on {size} people")
            try:
                found[size] = self._train(data, candidates, folder)[0]
            except ValueError as error:  # two people may be too few for a network; the curve begins later
                self.say(f"  left out: {error}")
        rows = [
            (size, tier, person, name, score)
            for size in sorted(found)
            for tier, said in found[size].items()
            for name in names
            for person, score in enumerate(said.scores(name))
        ]
        return pd.DataFrame(rows, columns=["people", "target", "subject", "decoder", "score"])


def _best_of(heldout, kinds):
    """Return the candidate with the best held-out loss where most is known without labels."""
    found = heldout["unlabeled"] if "unlabeled" in heldout else next(iter(heldout.values()))

    def loss(name):
        P, y, people = found.of_population([name])
        return balanced_loss(P[0, np.arange(len(y)), y], balanced_weights(y, people))

    return min(kinds, key=loss)
