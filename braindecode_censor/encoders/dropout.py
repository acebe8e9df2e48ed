"""Dropout masks as torch draws them on the CPU, in half the time."""

import functools

import torch

__all__ = ["dropout_mask"]


def dropout_mask(shape, p, dtype, generator=None, memory_format=torch.contiguous_format):
    """Return the mask that ``torch.nn.Dropout`` would draw on the CPU, with the same final state of the generator."""
    if _compares_uniforms():
        mask = torch.rand(shape, dtype=torch.float64, device="cpu", generator=generator) < 1 - p
    else:
        mask = torch.empty(shape, dtype=torch.bool, device="cpu").bernoulli_(1 - p, generator=generator)
    return mask.to(dtype, memory_format=memory_format).div_(1 - p)


@functools.cache
def _compares_uniforms():
    """Return True if ``bernoulli_`` compares uniform numbers of double precision, which is faster done directly.

    This holds for torch's own builds; others may call a library with a different generator.
    """
    ours, torchs = (torch.Generator().manual_seed(0) for _ in range(2))
    mask = torch.rand(4096, dtype=torch.float64, device="cpu", generator=ours) < 0.75
    same = torch.equal(mask.float(), torch.empty(4096, device="cpu").bernoulli_(0.75, generator=torchs))
    return same and torch.equal(ours.get_state(), torchs.get_state())
