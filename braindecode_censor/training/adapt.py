"""Adaptation to one subject: by unlabelled trials, by a few labelled ones, or by trials as they arrive."""

import copy

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import nn

from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.training.batch_statistics import adapt_batch_norms, stream_batch_norms
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.preparation import encode_known
from braindecode_censor.trials.dataset import Trials

__all__ = ["StreamingClassifier", "adapt_classifier", "adapt_to_target", "check_target", "correct_head"]

# Minimum curvature of the ridge penalty, so that a solution exists without a prior too.
_MIN_CURVATURE = 1e-3


def adapt_classifier(clf, X, y=None):
    """Return a copy of a decoder with the statistics of one subject."""
    _check_general(clf, "adapt")
    signals = clf._read(X)
    y_encoded = None if y is None else _encode(clf, y, len(signals))
    adapted = copy.deepcopy(clf)
    adapted.adapted_ = True
    adapted.normalizer_ = clf.normalizer_.adapt(signals)
    x = adapted._to_tensor(adapted.normalizer_.transform(signals))
    module = whole_module(adapted.module_).eval()
    adapt_batch_norms(module, x, clf.prior, clf.device)
    if y_encoded is not None:
        is_known = y_encoded >= 0
        z, logits = _read_head(adapted, module, x[torch.as_tensor(is_known)])
        head = correct_head(z, logits, y_encoded[is_known], clf.prior, clf.class_weighted)
        adapted.head_ = {
            name: torch.as_tensor(array, dtype=x.dtype, device=clf.device) for name, array in head.items()
        }
    return adapted


def check_target(unlabeled, labeled, y):
    """Raise unless the target data of ``fit`` are unlabelled trials, labelled ones, or none."""
    if (labeled is None) != (y is None) or (unlabeled is not None and labeled is not None):
        raise ValueError(
            "Pass fit X_target_unlabeled alone, or X_target_labeled together with y_target_labeled."
        )


def adapt_to_target(clf, unlabeled, labeled, y):
    """Adapt a decoder in place to the target data that ``fit`` got, if there are any."""
    check_target(unlabeled, labeled, y)
    if unlabeled is None and labeled is None:
        return
    adapted = adapt_classifier(clf, unlabeled if labeled is None else labeled, y)
    clf.normalizer_, clf.head_, clf.adapted_ = adapted.normalizer_, adapted.head_, True
    whole_module(clf.module_).load_state_dict(whole_module(adapted.module_).state_dict())


def _check_general(clf, method):
    clf.check_is_fitted()
    if clf.adapted_:
        raise ValueError(
            f"This decoder is already adapted to a subject: call {method} of the one that fit returned."
        )


def _encode(clf, y, n_trials):
    y_encoded = encode_known(
        y, clf.classes_, n_trials, "pass adapt trials of these, though not necessarily of all."
    )
    if not isinstance(clf.criterion_, nn.CrossEntropyLoss):
        raise ValueError(
            f"criterion={type(clf.criterion_).__name__}: adapt(X, y) corrects the logits of a cross-entropy loss. "
            "Use the default criterion, or adapt(X) without classes."
        )
    return y_encoded


@torch.no_grad()
def _read_head(clf, module, x):
    """Latent code and logits of every trial, in double precision."""
    batches = []
    for chunk in x.split(64):
        chunk = chunk.to(clf.device)
        logits = module(chunk)
        if logits.ndim != 2:
            raise ValueError(
                f"adapt(X, y) needs one row of logits per trial; the network's have {tuple(logits.shape)}."
            )
        batches.append((code_of(module, clf.layer, chunk), logits))
    return (torch.cat(values).double().cpu().numpy() for values in zip(*batches))


def correct_head(z, logits, y, prior, class_weighted=True):
    r"""Fit a correction of the logits to labelled trials of one subject.

    The new logits are :math:`o + \Delta \tilde z`, where o are the old ones and :math:`\tilde z` is the latent code,
    standardised over these trials, divided by the square root of its width, and followed by a one. Δ minimises the
    multinomial logistic loss of the trials plus :math:`\frac{n_0}{8}\lVert\Delta\rVert^2`: a trial's loss has a
    curvature of at most a quarter, so that the population's weights count as :math:`n_0` trials. The softmax is over
    the classes that occur, so the others keep their logits.

    Parameters
    ----------
    z : ndarray of shape (n_trials, n_features)
        Latent code.
    logits : ndarray of shape (n_trials, n_classes)
        Of the population's decoder.
    y : ndarray of shape (n_trials,)
        Encoded class of every trial.
    prior : float
        Number of trials that the population's weights count as.
    class_weighted : bool
        Whether classes count alike, independent of their numbers of trials.

    Returns
    -------
    head : dict of str to ndarray
        ``coef`` of shape (n_classes, n_features) and ``intercept`` of shape (n_classes,): the correction is
        ``z @ coef.T + intercept``.
    """
    centre, scale = z.mean(axis=0), z.std(axis=0) * np.sqrt(z.shape[1])
    scale = np.where(scale > 1e-8 * (1 + np.abs(centre)), scale, np.inf)  # Constant features are not used.
    features = np.column_stack([(z - centre) / scale, np.ones(len(z))])
    present, y, counts = np.unique(y, return_inverse=True, return_counts=True)
    weight = (len(y) / len(present) / counts)[y] if class_weighted else np.ones(len(y))
    curvature = max(prior / 4, _MIN_CURVATURE)
    one_hot = np.eye(len(present))[y]

    def loss(flat):
        delta = flat.reshape(len(present), -1)
        scores = logits[:, present] + features @ delta.T
        log_sum = logsumexp(scores, axis=1, keepdims=True)
        value = weight @ (log_sum[:, 0] - scores[np.arange(len(y)), y]) + curvature / 2 * flat @ flat
        residual = weight[:, None] * (np.exp(scores - log_sum) - one_hot)
        return value, (residual.T @ features).ravel() + curvature * flat

    result = minimize(loss, np.zeros(len(present) * features.shape[1]), jac=True, method="L-BFGS-B")
    delta = np.zeros((logits.shape[1], features.shape[1]))
    delta[present] = result.x.reshape(len(present), -1)
    coef = delta[:, :-1] / scale
    return {"coef": coef, "intercept": delta[:, -1] - coef @ centre}


class StreamingClassifier:
    """Causal decoder of one subject.

    Trial n is decoded with the statistics of trials 1 .. n, without their classes, shrunk towards the population's.
    """

    def __init__(self, clf):
        _check_general(clf, "stream")
        self._decoder = copy.deepcopy(clf)
        self._normalizer = clf.normalizer_.stream()
        module = whole_module(self._decoder.module_).eval()
        sizes = (clf.signal_args_[name] for name in ("n_chans", "n_times"))
        stream_batch_norms(module, next(module.parameters()).new_zeros(1, *sizes), clf.prior)
        # A compiled network would ignore the hooks that update the statistics.
        self._decoder.module_ = module
        self.classes_ = clf.classes_

    def predict_proba(self, X):
        """Return the probabilities of the next trials, decoded one after the other."""
        signals = self._decoder._read(X)
        return np.concatenate([self._decode(trial[None]) for trial in signals])

    def predict(self, X):
        """Return the class of every trial, as labelled in ``fit``."""
        return self._decoder.classes_[self.predict_proba(X).argmax(axis=1)]

    def _decode(self, trial):
        x = self._decoder._to_tensor(self._normalizer.transform(trial))
        return self._decoder.predict_proba(Trials(x))
