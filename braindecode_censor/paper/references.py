"""Classical pipelines that are evaluated beside ours, so that a reader knows what a network is worth."""

from pyriemann.estimation import Covariances, XdawnCovariances
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from braindecode_censor._check import check_choice

__all__ = ["make_references"]

# Paradigms in which the form of an evoked response tells the class, not the power of a rhythm.
_EVOKED = ("p300", "erp", "errp", "ecog")


def make_references(others, dataset):
    """Return further pipelines by name."""
    if isinstance(others, dict):
        return dict(others)
    names = [others] if isinstance(others, str) else list(others or [])
    return {check_choice("others", name, ["riemann"]): _riemann(dataset) for name in names}


def _riemann(dataset):
    """Covariances in the tangent space, with logistic regression: pyRiemann's standard, which is hard to beat."""
    is_evoked = dataset.paradigm in _EVOKED
    covariances = XdawnCovariances(estimator="lwf") if is_evoked else Covariances("lwf")
    classifier = LogisticRegression(class_weight="balanced", max_iter=1000)
    return make_pipeline(covariances, TangentSpace(), classifier)
