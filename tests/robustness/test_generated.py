"""Generated bad input, from the declared tables: an error that names the argument, or a finite answer.

``ROBUSTNESS_CASES`` is the number of cases of every kind; ``make robustness`` runs many and prints their number. Not
caught, and documented: sizes below 2**32 that exceed the memory; latent codes of NaN, which give NaN, as in torch.
"""

import json
import os
import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import braindecode_censor as bc
from braindecode_censor._check import check_parameters
from braindecode_censor.classical import estimator as classical
from braindecode_censor.decoder import classifier as decoder
from braindecode_censor.numerics.scores import make_score
from braindecode_censor.penalties.options import options_of
from braindecode_censor.training import arguments, callback
from braindecode_censor.trials import normalize
from braindecode_censor.trials.dataset import check_labels, read_signals

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

CASES = int(os.environ.get("ROBUSTNESS_CASES", 5))
COUNT = Counter()
TABLES = [
    (bc.CensoredEEGClassifier, arguments._CONSTRAINTS),
    (bc.Censor, callback._CONSTRAINTS),
    (bc.SubjectNormalizer, normalize._CONSTRAINTS),
    (classical.TangentSpaceClassifier, classical._CONSTRAINTS),
    (bc.AutoTransferClassifier, decoder._CONSTRAINTS),
]
METHODS = ("adv", "mige", "mmd", "pairmmd", "began")

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.integers(2**33, 2**70),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=2),
    st.complex_numbers(),
    st.sampled_from([np.int64(3), np.float32(0.5), np.bool_(True), np.str_("a"), np.datetime64("2026")]),
    st.sampled_from([pd.NA, pd.NaT, Decimal("0.1"), object, torch.tensor(1.0), 2**31 + 0.5]),
)
DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    np.int8,
    np.uint64,
    bool,
    complex,
    "datetime64[s]",
    "U3",
    "S2",
    object,
]


@st.composite
def arrays(
    draw, shapes=((), (0,), (3,), (4, 2), (6, 3, 16), (6, 3, 0), (6, 4, 16), (1, 3, 16), (6, 3, 16, 1))
):
    """Return signals of some type, shape and size, with something wrong in one place."""
    shape, rng = draw(st.sampled_from(shapes)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.asarray(rng.standard_normal(shape)) * 10.0 ** draw(st.integers(-40, 40))
    if shape and draw(st.booleans()) and values.size:
        place = tuple(draw(st.integers(0, n - 1)) for n in shape[: draw(st.integers(0, len(shape)))])
        values[place] = draw(st.sampled_from([0.0, 7.0, np.nan, np.inf, -1e300]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = np.asarray(values).astype(draw(st.sampled_from(DTYPES)))
    form = draw(st.sampled_from(["array"] * 4 + ["list", "tensor", "masked"]))
    if form == "tensor" and values.dtype.kind in "fib":
        return torch.as_tensor(values)
    if form == "masked":
        return np.ma.array(values, mask=rng.random(shape) < 0.1)
    return values.tolist() if form == "list" else values


VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=2), SCALARS, max_size=1),
    arrays(),
)
SIGNALS = st.one_of(arrays(((6, 3, 16), (1, 3, 16), (2, 3, 16), (6, 4, 16), (3, 16))), arrays(), VALUES)
LABELS = st.one_of(st.lists(SCALARS, min_size=6, max_size=6), arrays(((6,), (6, 1), (5,))), VALUES)


def generated(**strategies):
    """Return a decorator that calls a test with generated cases, the same every time."""
    options = {"max_examples": CASES, "deadline": None, "derandomize": True, "database": None}
    options["suppress_health_check"] = list(hypothesis.HealthCheck)

    def decorate(test):
        return hypothesis.settings(**options)(hypothesis.given(**strategies)(test))

    return decorate


def answer(kind, call, *names):
    """Return what a call returns; None after an error that names an argument."""
    COUNT[kind] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except (ValueError, TypeError) as error:
        assert any(name in str(error) for name in names), f"{type(error).__name__}: {error}"
        return None


@pytest.fixture(scope="module", autouse=True)
def _count():
    yield
    print(f"\n{sum(COUNT.values())} generated cases: {dict(COUNT)}")


def parameters():
    return [pytest.param(c, t, n, id=f"{c.__name__}-{n}") for c, t in TABLES for n in t]


@pytest.mark.parametrize("cls, table, name", parameters())
@generated(value=VALUES)
def test_declared_parameters(cls, table, name, value):
    def make():
        owner = cls(**{name: value})
        check_parameters(owner, {name: table[name]})
        return owner

    owner = answer("parameters", make, name)
    if owner is not None:
        kept = owner.get_params(deep=False)[name]
        again = clone(owner).get_params(deep=False)[name] if cls is not bc.Censor else kept
        assert json.dumps(kept) == json.dumps(again)


@pytest.mark.parametrize("method", METHODS)
@generated(data=st.data())
def test_options_of_penalties(method, data):
    own = set(options_of(method)) - {"weight", "warmup", "critic_lr", "critic_steps"}
    name, value = data.draw(st.sampled_from(sorted(own))), data.draw(VALUES)
    z, s, y = torch.randn(12, 4), torch.arange(12) % 3, torch.arange(12) % 2

    def make():
        return bc.make_penalty(method, n_features=4, n_subjects=3, n_classes=2, **{name: value})(z, s, y)

    loss = answer("options", make, name, "reg", "ratio", "n_eigen", "mode")
    assert loss is None or bool(torch.isfinite(loss))


@pytest.mark.parametrize("name", ["z", "s", "y"])
@generated(value=VALUES)
def test_arguments_of_penalties(name, value):
    batch = {"z": torch.randn(6, 4), "s": torch.arange(6) % 3, "y": torch.arange(6) % 2, name: value}
    if isinstance(value, torch.Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
        return
    penalty = bc.make_penalty("mmd", mode="conditional", n_subjects=3, n_classes=2)
    loss = answer("penalties", lambda: penalty(**batch), f"{name} ", f"{name}:", f"pass {name}")
    assert loss is None or bool(torch.isfinite(loss))


@generated(value=VALUES)
def test_censored_loss_and_scores(value):
    loss, penalty = torch.nn.CrossEntropyLoss(), bc.make_penalty("mmd")
    answer("losses", lambda: bc.CensoredLoss(loss, penalty, value), "weight")
    answer("losses", lambda: bc.CensoredLoss(loss, value), "penalty")
    answer("scores", lambda: make_score(value), "score")
    answer("scores", lambda: make_score("stein").fit(value), "x must")
    answer("scores", lambda: make_score("stein")(value), "not fitted")


@generated(value=SIGNALS)
def test_reader_of_signals(value):
    result = answer("signals", lambda: read_signals(value)[0], "X")
    if result is not None:
        assert result.ndim == 3 and np.isfinite(result.astype(np.float32)).all()


@generated(value=LABELS)
def test_reader_of_labels(value):
    labels = answer("labels", lambda: check_labels("y", value, 6, "pass labels."), "y ", "y=")
    if labels is not None:
        plain = json.loads(json.dumps(labels.tolist()))
        assert plain == labels.tolist() and len(set(map(type, plain)) - {int}) < 2


def make_trials():
    rng = np.random.default_rng(0)
    y, subjects = np.arange(48) % 2, np.arange(48) // 12
    return rng.standard_normal((48, 3, 16)) * (1 + y[:, None, None]), y, subjects


def make_decoders():
    X, y, subjects = make_trials()
    network = {"max_steps": 2, "batch_size": 24, "penalty": None, "module": "ShallowFBCSPNet"}
    network |= {"module__filter_time_length": 5, "module__pool_time_length": 4, "module__pool_time_stride": 2}
    decoders = {
        name: classical.TangentSpaceClassifier(name, windows=2).fit(X, y, subjects)
        for name in ("power", "covariance", "waveform", "hjorth-covariance")
    }
    for strategy in ("subject", "euclidean"):
        clf = bc.CensoredEEGClassifier(normalize=strategy, **network)
        decoders[strategy] = clf.fit(X, y, subjects=subjects)
    return decoders


@pytest.fixture(scope="module")
def decoders():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_decoders()


@pytest.mark.parametrize("method", ["predict_proba", "adapt", "stream"])
@generated(data=st.data())
def test_methods_of_decoders(decoders, method, data):
    name, X = data.draw(st.sampled_from(sorted(decoders))), data.draw(SIGNALS)
    clf, good = decoders[name], make_trials()[0][:6]

    def call():
        if method == "predict_proba":
            return clf.predict_proba(X)
        return clf.adapt(X).predict_proba(good) if method == "adapt" else clf.stream().predict_proba(X)

    probabilities = answer(method, call, "X")
    assert probabilities is None or np.isfinite(probabilities).all()


@generated(name=st.sampled_from(["X", "y", "subjects"]), value=st.one_of(SIGNALS, LABELS))
def test_arguments_of_fit(name, value):
    X, y, subjects = make_trials()
    good = {"X": X[::8], "y": y[:6], "subjects": np.arange(6) // 2}
    clf = classical.TangentSpaceClassifier("power", windows=2)
    fitted = answer("fit", lambda: clf.fit(**{**good, name: value}), name, "one class")
    assert fitted is None or np.isfinite(fitted.predict_proba(good["X"])).all() or name == "X"


@generated(strategy=st.sampled_from(sorted(normalize.NORMALIZATIONS)), X=SIGNALS)
def test_normalizers(strategy, X):
    signals, _, subjects = make_trials()
    normalizer = bc.SubjectNormalizer(strategy).fit(signals, subjects=subjects)
    result = answer("normalizers", lambda: normalizer.adapt(X).transform(X), "X")
    assert result is None or np.isfinite(result).all()
