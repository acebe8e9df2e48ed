"""A decoder of single trials: what its models have in common is computed once, and equal networks run as one."""

import copy
from collections import defaultdict

import numpy as np
import torch

from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.classical.stream import TrialwiseClassifiers
from braindecode_censor.decoder.input import read_input
from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.encoders.stacked import StackedEEGNets, stack_key
from braindecode_censor.run.decode import quiet
from braindecode_censor.run.model import is_network
from braindecode_censor.training.batch_statistics import stream_batch_norms
from braindecode_censor.trials.trialwise import TrialwiseNormalizers

__all__ = ["StreamingDecoder", "TrialwiseEnsemble"]


class TrialwiseEnsemble:
    """The probabilities of :class:`Ensemble` or of its ``stream()``, trial by trial and several times faster.

    Parameters
    ----------
    ensemble : Ensemble
        Does not change.
    streams : bool
        Whether the models adapt to the subject with every trial.
    """

    def __init__(self, ensemble, streams):
        self.ensemble, self.models, self.n_classes = ensemble, ensemble.models, ensemble.n_classes
        self.streams = streams
        self.weights = np.array([model.weight for model in self.models])
        self._columns = [np.asarray(model.estimator.classes_, dtype=int) for model in self.models]
        self._parts = []
        groups = defaultdict(list)
        for k, model in enumerate(self.models):
            groups[_kind(model.estimator)].append(k)
        for kind, idx in groups.items():
            estimators = [self.models[k].estimator for k in idx]
            self._parts.append((idx, _PARTS[kind](estimators, streams)))

    def __reduce__(self):
        # Networks cannot be pickled; this is what keeps a copy of a decoder that has decoded a single trial possible.
        return TrialwiseEnsemble, (self.ensemble, self.streams)

    def trial_probabilities(self, trial, learn=True):
        """Return the probabilities of one trial (1, n_chans, n_times), shape (n_models, n_classes).

        A stream adapts to the trial first, unless ``learn`` is False.
        """
        probabilities = np.zeros((len(self.models), self.n_classes))
        for idx, part in self._parts:
            for k, row in zip(idx, part(trial, self.streams and learn)):
                probabilities[k, self._columns[k]] = row
        return probabilities

    def predict_proba(self, signals, learn=True):
        """Return the average of the models' probabilities, trial after trial."""
        with quiet():
            return np.stack([self.weights @ self.trial_probabilities(x[None], learn) for x in signals])


class _Networks:
    """Networks on the CPU with a softmax, called without skorch; equal EEGNets run as one."""

    def __init__(self, estimators, streams):
        self.normalize = TrialwiseNormalizers([clf.normalizer_ for clf in estimators])
        groups = defaultdict(list)
        for k, clf in enumerate(estimators):
            groups[stack_key(whole_module(clf.module_)) or k].append(k)
        self.groups = []
        for key, idx in groups.items():
            make = _alone if isinstance(key, int) else _stack
            self.groups.append((idx, make([estimators[k] for k in idx], streams)))

    @torch.no_grad()
    def __call__(self, trial, learn):
        """Return the probabilities of a trial, one array per network."""
        signals = [torch.as_tensor(x[0], dtype=torch.float32) for x in self.normalize(trial, learn)]
        rows = [None] * len(signals)
        for idx, network in self.groups:
            scores = network(torch.stack([signals[k] for k in idx]), learn)
            for k, row in zip(idx, torch.softmax(scores, 1).numpy()):
                rows[k] = row
        return rows


def _stack(estimators, streams):
    priors = [float(clf.prior) for clf in estimators] if streams else None
    stacked = StackedEEGNets([whole_module(clf.module_) for clf in estimators], priors)
    for k, clf in enumerate(estimators):
        if clf.head_ is not None:
            stacked.coef[k] += clf.head_["coef"]
            stacked.intercept[k] += clf.head_["intercept"]
    return stacked


def _alone(estimators, streams):
    clf = copy.deepcopy(estimators[0]) if streams else estimators[0]
    module = whole_module(clf.module_).eval()
    statistics = stream_batch_norms(module, _silence(clf), clf.prior) if streams else []

    def scores(x, learn):
        for one in statistics:
            one.is_learning = learn
        return module(x)

    return scores


def _silence(clf):
    sizes = (clf.signal_args_[name] for name in ("n_chans", "n_times"))
    return next(clf.module_.parameters()).new_zeros(1, *sizes)


class _Others:
    """Models that have nothing in common: the estimators themselves, or their streams."""

    def __init__(self, estimators, streams):
        self.estimators = estimators
        self.streams = [clf.stream() if streams and hasattr(clf, "stream") else clf for clf in estimators]

    def __call__(self, trial, learn):
        """Return the probabilities of a trial, one array per model; a stream cannot decode without learning."""
        return [decoder.predict_proba(trial)[0] for decoder in (self.streams if learn else self.estimators)]


_PARTS = {"classical": TrialwiseClassifiers, "network": _Networks, "other": _Others}


def _kind(estimator):
    """Return the part of :class:`TrialwiseEnsemble` that an estimator belongs to."""
    if type(estimator) is TangentSpaceClassifier:
        return "classical"
    is_plain = (
        is_network(estimator)
        and torch.device(estimator.device).type == "cpu"
        and isinstance(estimator.criterion_, torch.nn.CrossEntropyLoss)
        and (estimator.predict_nonlinearity, estimator.layer) == ("auto", "final_layer")
    )
    if not is_plain:
        return "other"
    module = whole_module(estimator.module_).eval()
    if stack_key(module) is not None:
        return "network"
    with torch.no_grad():
        scores = module(_silence(estimator))
    is_simple = isinstance(scores, torch.Tensor) and scores.ndim == 2 and estimator.head_ is None
    return "network" if is_simple else "other"


class StreamingDecoder:
    """A decoder that adapts to a subject by the trials it decodes, without their labels."""

    def __init__(self, ensemble, input_format, classes, taught=None):
        self.ensemble, self.input_, self.classes_, self.taught_ = ensemble, input_format, classes, taught

    def predict_proba(self, X):
        """Return the probabilities of the next trials, in the order in which they were recorded."""
        return self.decode(read_input(X, self.input_))

    def decode(self, signals, learn=True):
        """Return the probabilities of trials that were checked; a stream may also decode without learning."""
        probabilities = self.ensemble.predict_proba(signals, learn)
        return (
            probabilities
            if self.taught_ is None
            else self.taught_.predict_proba(signals, probabilities, learn)
        )

    def predict(self, X):
        """Return the labels of the next trials."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
