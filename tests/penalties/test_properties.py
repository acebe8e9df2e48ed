"""Penalties are functions of distributions."""

import pytest
import torch
from cases import N_FEATURES, N_SUBJECTS, PENALTIES, make_batch, make_penalty, value_and_gradient

import braindecode_censor as bc
from braindecode_censor.penalties.batch import Batch

NO_CRITIC = [(method, mode) for method, mode in PENALTIES if method in ("mige", "mmd", "pairmmd")]
NO_CRITIC_IDS = [f"{method}-{mode}" for method, mode in NO_CRITIC]
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


@pytest.mark.parametrize(("method", "mode"), NO_CRITIC, ids=NO_CRITIC_IDS)
def test_gradient_follows_rotation_shift_scale_order_and_names(method, mode):
    """Kernel penalties with the median scale see distances only; MIGE's gradient scales inversely."""
    z, s, y = make_batch("unbalanced")
    penalty, order = make_penalty(method, mode), torch.randperm(len(z))
    renamed = torch.randperm(N_SUBJECTS)[s][order], torch.tensor([2, 0, 1])[y][order]
    half = N_FEATURES // 2 if mode == "complementary" else N_FEATURES
    blocks = [torch.linalg.qr(torch.randn(half, half, dtype=z.dtype)).Q for _ in range(N_FEATURES // half)]
    rotation = torch.block_diag(*blocks)

    plain = value_and_gradient(lambda z: penalty(z, s, y), z)[1]
    penalty = bc.make_penalty(method, mode=mode)  # which counts subjects and classes itself
    moved = value_and_gradient(lambda z: penalty(z, *renamed), (3 * z @ rotation + 1)[order])[1]
    torch.testing.assert_close(3 * moved, (plain @ rotation)[order], rtol=1e-6, atol=1e-8)


def test_perfectly_separated_halves_have_known_values():
    """z1 independent of s and z2 = s: -H(s) for a perfect adversary, and at most zero for MMD."""
    s = torch.arange(60) % 3
    z = torch.cat([torch.randn(60, 3), 50.0 * torch.nn.functional.one_hot(s, 3)], 1).double()
    penalty = bc.make_penalty("adv", mode="complementary", n_features=6, n_subjects=3).double()
    measure, code, batch = penalty.measures[1], z[:, 3:], Batch(s, n_subjects=3)
    optimiser = torch.optim.Adam(measure.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        measure.critic_loss(code, batch).backward()
        optimiser.step()
    revealed = measure.reveal(code, batch)
    assert float(revealed) == pytest.approx(-torch.log(torch.tensor(3.0)).item(), abs=1e-3)
    assert float(bc.make_penalty("mmd", mode="complementary", n_subjects=3)(z, s)) < -0.2


@pytest.mark.parametrize("nuisance_dim", [1, 2])
@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
@pytest.mark.parametrize("method", ["adv", "mige", "mmd"])
def test_continuous_nuisance_ignores_its_unit(method, mode, nuisance_dim):
    """Age in years or months: the same penalty."""
    z, _, y = make_batch("balanced")
    s = z[:, :nuisance_dim] + torch.randn(len(z), nuisance_dim, dtype=z.dtype)
    s = s[:, 0] if nuisance_dim == 1 else s
    options = {"n_features": N_FEATURES, "n_classes": 3, "nuisance": "continuous"}
    options |= {"n_values": nuisance_dim} if method == "adv" else {}
    penalty = bc.make_penalty(method, mode=mode, **options).double()
    torch.testing.assert_close(penalty(z, 12 * s + 7, y), penalty(z, s, y), **CLOSE)
    assert torch.isfinite(penalty.critic_loss(z, s, y))
