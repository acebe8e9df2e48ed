"""Messages name the argument, the value and the remedy."""

import pytest
import torch

import braindecode_censor as bc
from braindecode_censor.numerics.lengthscales import TSNEScale
from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures import MMD, Adversary
from braindecode_censor.penalties.measures.contrasts import CliquePairs

Z, S, Y = torch.randn(12, 6), torch.arange(12) % 3, torch.arange(12) % 2

CONSTRUCTION = [
    (dict(method="mdm"), r"method='mdm' is unknown; choose from \['adv'.*Did you mean 'mmd'"),
    (dict(method="mmd", mode="condtional"), r"mode='condtional' is unknown.*Did you mean 'conditional'"),
    (dict(method="mige", score="stien"), r"score='stien' is unknown.*Did you mean 'stein'"),
    (dict(method="pairmmd", pairs="cliq"), r"pairs='cliq' is unknown.*Did you mean 'clique'"),
    (dict(method="mmd", lengthscale="mean"), r"lengthscale='mean' is unknown; choose from \['median', 'ts"),
    (dict(method="mmd", lengthscale=-1.0), r"lengthscale=-1.0 must be a positive number"),
    (dict(method="mmd", kernel="gauss"), r"kernel='gauss' is unknown"),
    (dict(method="mmd", kernel="curlfree-rbf"), r"MMD needs a scalar kernel.*'curlfree-rbf'"),
    (dict(method="mmd", reduction="max"), r"reduction='max' is unknown; choose from \['mean', 'sum'\]"),
    (dict(method="mmd", nuisance="real"), r"nuisance='real' is unknown"),
    (dict(method="mmd", min_trials=0), r"min_trials=0 must be an integer of at least 1"),
    (dict(method="mmd", n_subjects=1), r"n_subjects=1 must be an integer of at least 2"),
    (dict(method="mmd", n_features=2.5), r"n_features=2.5 must be an integer"),
    (dict(method="mmd", lenghtscale=1.0), r"does not know lenghtscale=1.0.*Did you mean 'lengthscale'"),
    (dict(method="adv", n_features=4, n_subjects=2, reg=1.0), r"'adv'\) does not know reg=1.0.*\['hidden'"),
    (dict(method="mmd", censoring="marginal"), r"does not know censoring=.*the word is mode='marginal'"),
    (dict(method="mige", score_estimator="nu"), r"does not know score_estimator=.*the word is score='nu'"),
    (dict(method=MMD(), lengthscale=1.0), r"already, so its options \['lengthscale'\] have no effect"),
    (dict(method="mmd", mode="complementary", n_features=5), r"must be even, got 5.*mode='marginal'"),
    (dict(method="adv"), r"method='adv'.*needs its size: pass n_features and n_subjects"),
    (dict(method="began", n_features=4), r"method='began'.*needs its size: pass n_subjects"),
    (dict(method="adv", mode="conditional", n_features=4, n_subjects=2), r"trains a network.*pass n_classes"),
    (dict(method="began", n_features=4, n_subjects=2, gamma=0), r"gamma=0 must be a positive number"),
    (dict(method="pairmmd", pairs="clique", size=1), r"size=1 must be an integer of at least 2"),
    (dict(method="pairmmd", pairs="bernoulli", fraction=1.5), r"fraction=1.5 must be a number in \(0, 1\]"),
    (dict(method="pairmmd", pairs="clique", fraction=0.5), r"fraction=0.5 belongs to pairs='bernoulli'"),
    (dict(method="pairmmd", size=4), r"size=4 belongs to pairs='clique', not to pairs='all'"),
    (dict(method="began", nuisance="continuous"), r"'began' does not support.*\['adv', 'mige', 'mmd'\]"),
    (dict(method="mige", reg=0.0, score="nu"), r"reg=0.0 must be a positive number"),
    (dict(method="mige", score="ssge", reg=1e-3), r"reg has no meaning for score='ssge': set ratio= or n_e"),
    (dict(method="mige", score="ssge", ratio=2), r"ratio=2 must be a number in \(0, 1\]"),
    (dict(method="mige", score="ssge", kernel="curlfree-imq"), r"score='ssge' needs a diagonal kernel"),
    (dict(method="mige", score="stein", ridge="N"), r"ridge='N' is unknown; choose from \['M', 'M2', 'raw'"),
    (dict(method="mige", score=bc.make_score("nu"), reg=1e-3), r"already, so its options \['reg'\] have no"),
    (dict(method="mige", score="nu", ratio=0.9), r"option of score='nu'='ratio' is unknown"),
    (dict(method="mige", score="nu", n_steps=0), r"n_steps=0 must be an integer of at least 1"),
    (dict(method="pairmmd", pairs=CliquePairs(3), size=2), r"already, so \['size'\] have no effect"),
    (
        dict(method=Adversary(6, 4), mode="conditional", n_features=6, n_subjects=4, n_classes=2),
        r"made with n_classes=None, but mode='conditional' needs n_classes=2",
    ),
    (dict(method=MMD(), nuisance="continuous"), r"measure of a discrete nuisance, but nuisance='continuous'"),
    (dict(method="mige", subject_weights="equal"), r"subject_weights='equal' is unknown"),
    (dict(method="mige", calibrate=True, nuisance="continuous"), r"calibrate=True.* needs nuisance='disc"),
]


@pytest.mark.parametrize(("options", "message"), CONSTRUCTION, ids=[m[:40] for _, m in CONSTRUCTION])
def test_construction(options, message):
    with pytest.raises(ValueError, match=message):
        bc.make_penalty(**options)


CALLS = [
    ({}, dict(z=Z, s=S.float()), r"s has dtype torch.float32.*s.long\(\) or make.*nuisance='continuous'"),
    ({"mode": "conditional"}, dict(z=Z, s=S), r"mode='conditional' needs task labels: pass y"),
    ({"mode": "conditional"}, dict(z=Z, s=S, y=Y.double()), r"y has dtype torch.float64.*pass y.long\(\)\."),
    ({"mode": "complementary"}, dict(z=Z[:, :5], s=S), r"must be even, got 5"),
    ({}, dict(z=Z, s=S[:5]), r"s has 5 entries and z has 12: pass one per trial"),
    ({"n_subjects": 2}, dict(z=Z, s=S), r"s holds label 2, expected labels from 0 to 1.*raise n_subjects"),
    ({"mode": "conditional", "n_classes": 1}, dict(z=Z, s=S, y=Y), r"y holds label 1.*raise n_classes"),
    ({}, dict(z=Z, s=S - 1), r"s holds label -1, expected labels from 0 to n - 1: encode them"),
    ({}, dict(z=Z, s=S[:, None]), r"s has shape \(12, 1\), expected \(n,\)"),
    ({}, dict(z=Z[None], s=S), r"z has shape \(1, 12, 6\), expected \(n, n_features\): use z.flatten\(1\)"),
    ({"n_features": 4}, dict(z=Z, s=S), r"z has 6 features.*n_features=4: make it with n_features=6"),
    ({}, dict(z=Z, s=S + 100_000), r"s holds label 100002: these look like ids.*or pass n_subjects"),
    ({"nuisance": "continuous"}, dict(z=Z, s=S / 0.0), r"s holds NaN or infinite values"),
]


@pytest.mark.parametrize(("options", "arguments", "message"), CALLS, ids=[m[:40] for _, _, m in CALLS])
def test_call(options, arguments, message):
    penalty = bc.make_penalty("mmd", **options)
    for method in (penalty, penalty.critic_loss, penalty.diagnostics):
        with pytest.raises(ValueError, match=message):
            method(**arguments)


def test_sizes_are_needed_under_vmap_and_for_noise():
    penalty = bc.make_penalty("mmd")
    with pytest.raises(ValueError, match="n_subjects=None cannot be counted under vmap or compile"):
        torch.func.vmap(penalty)(Z[None], S[None])
    with pytest.raises(ValueError, match="n_subjects=None: the noise has one number per subject"):
        bc.make_penalty("pairmmd", pairs="clique").draw_noise()


def test_scores():
    with pytest.raises(ValueError, match="use at_samples"):
        bc.make_score("nu").fit(Z, S[:, None] == S)(Z)
    with pytest.raises(ValueError, match=r"solves 10000 equations densely.*use score='nu'"):
        bc.make_score("tikhonov", kernel="curlfree-rbf").fit(torch.randn(100, 100))
    with pytest.raises(ValueError, match=r"perplexity=2 must be a number in \(0, 1\]"):
        TSNEScale(2)


def test_single_arguments():
    penalty = bc.make_penalty("adv", n_features=6, nuisance="continuous")
    with pytest.raises(ValueError, match="s has 2 components per trial, but the adversary n_values=1"):
        penalty(Z, torch.randn(12, 2))
    with pytest.raises(ValueError, match="weight='heavy' must be a finite number"):
        bc.CensoredLoss(torch.nn.CrossEntropyLoss(), bc.make_penalty("mmd"), weight="heavy")
    with pytest.raises(ValueError, match="only one can be None"):
        LabelledMLP(6, 2, [5], [4, 3])(Z, None, None)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        bc.nonsense  # noqa: B018
