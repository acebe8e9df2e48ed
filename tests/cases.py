"""Batches and penalties of many tests."""

import math

import numpy as np
import torch

import braindecode_censor as bc

METHODS = ("adv", "mige", "mmd", "pairmmd", "began")
MODES = ("marginal", "conditional", "complementary")
PENALTIES = [(method, mode) for method in METHODS for mode in MODES]
IDS = [f"{method}-{mode}" for method, mode in PENALTIES]

N_FEATURES, N_SUBJECTS, N_CLASSES = 6, 4, 3


def _labels():
    """Return the subject and class labels of every kind of batch."""
    unbalanced = torch.tensor([0] * 14 + [1] * 9 + [2] * 7 + [3] * 6), torch.tensor([0, 0, 0, 1, 1, 2] * 6)
    single = torch.tensor([0] * 8 + [1] * 8 + [2] * 4 + [3])
    single_classes = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2] * 2 + [0, 0, 0, 1] + [2])
    return {
        "balanced": (torch.arange(N_SUBJECTS).repeat_interleave(9), torch.arange(N_CLASSES).repeat(12)),
        "unbalanced": unbalanced,
        "missing subject": (torch.tensor([0, 1, 3]).repeat(10), torch.arange(30) // 3 % N_CLASSES),
        "single-trial cells": (single, single_classes),
        "one class": (torch.arange(24) % N_SUBJECTS, torch.ones(24, dtype=torch.long)),
    }


BATCHES = _labels()


def make_batch(kind, seed=0, dtype=torch.float64):
    """Return codes that depend on subject and class, and the labels, in random order."""
    generator = torch.Generator().manual_seed(seed)
    s, y = BATCHES[kind]
    order = torch.randperm(len(s), generator=generator)
    s, y = s[order], y[order]
    z = torch.randn(len(s), N_FEATURES, generator=generator, dtype=torch.float64)
    z = z + 0.7 * s[:, None] * torch.linspace(-1, 1, N_FEATURES, dtype=torch.float64) + 0.3 * y[:, None]
    return z.to(dtype), s, y


def critics(penalty):
    """Return the critic of each half of z, None where there is none."""
    return [*(getattr(measure, "critic", None) for measure in penalty.measures), None][:2]


def value_and_gradient(function, z):
    """Return the value of a function of z and its gradient."""
    leaf = z.clone().requires_grad_()
    value = function(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def make_penalty(method, mode, seed=0, dtype=torch.float64, **options):
    """Return a penalty of the sizes used here, with seeded critics."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return bc.make_penalty(
            method, mode=mode, n_features=N_FEATURES, n_subjects=N_SUBJECTS, n_classes=N_CLASSES, **options
        ).to(dtype)


def two_subjects(a, seed, n=256, d=4):
    """s = +-1, z = a s u + noise; returns z, s and dz/da."""
    s = torch.arange(n) % 2
    direction = (2 * s[:, None] - 1) * torch.full((d,), d**-0.5, dtype=torch.float64)
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return a * direction + noise, s, direction


def information(a):
    """Return I(z; s) in nats and dI/da, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    x = a * a + a * nodes
    return math.log(2) - (weights * np.log1p(np.exp(-2 * x))).sum(), a * (1 - (weights * np.tanh(x)).sum())
