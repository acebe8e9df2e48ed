"""Dropout masks as torch draws them on the CPU, in half the time."""

import functools

import torch

__all__ = ["dropout_mask"]


def dropout_mask(shape, p, dtype, generator=None, memory_format=torch.contiguous_format):
    """Draw the mask that ``torch.nn.Dropout`` would draw on the CPU, and leave the generator where it would."""
    if _compares_uniforms():
        kept = torch.rand(shape, dtype=torch.float64, device="cpu", generator=generator) < 1 - p
    else:
        kept = torch.empty(shape, dtype=torch.bool, device="cpu").bernoulli_(1 - p, generator=generator)
    return kept.to(dtype, memory_format=memory_format).div_(1 - p)


@functools.cache
def _compares_uniforms():
    """Whether ``bernoulli_`` compares uniform numbers of double precision, which by itself takes half as long.

    It does in torch's own builds; a build may also leave it to a library with a generator of its own.
    """
    mine, theirs = (torch.Generator().manual_seed(0) for _ in range(2))
    kept = torch.rand(4096, dtype=torch.float64, device="cpu", generator=mine) < 0.75
    same = torch.equal(kept.float(), torch.empty(4096, device="cpu").bernoulli_(0.75, generator=theirs))
    return same and torch.equal(mine.get_state(), theirs.get_state())
