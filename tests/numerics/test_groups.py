"""Samples dealt out anew."""

import pytest
import torch
from torch.func import vmap

from braindecode_censor.numerics.groups import mix_groups


def test_everybody_gets_one_of_each():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    dealt = mix_groups(labels, order=labels)
    # the first of all three go to group 0, the second ones to group 1, the third ones to group 2
    assert dealt.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert mix_groups(labels, order=torch.tensor([5.0, 1.0, 3.0])[labels]).tolist() == [1, 2, 0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("stratified", [False, True])
def test_groups_keep_their_sizes(stratified):
    generator = torch.Generator().manual_seed(0)
    labels, y = torch.randint(6, (80,), generator=generator), torch.randint(3, (80,), generator=generator)
    order = torch.rand(6, generator=generator)[labels]
    dealt = mix_groups(labels, order, y if stratified else None)
    for k in range(3) if stratified else [slice(None)]:
        here = (y == k) if stratified else k
        assert dealt[here].bincount(minlength=6).tolist() == labels[here].bincount(minlength=6).tolist()
    # labels and the groups dealt know nothing of each other
    table = torch.zeros(6, 6).index_put_((labels, dealt), torch.ones(80), accumulate=True)
    assert table.max() <= (6 if stratified else 4)


def test_side_by_side():
    generator = torch.Generator().manual_seed(0)
    labels, y = torch.randint(4, (5, 24), generator=generator), torch.randint(2, (5, 24), generator=generator)
    order = torch.rand(5, 4, generator=generator).gather(1, labels)
    together = vmap(mix_groups)(labels, order, y)
    assert all(torch.equal(mix_groups(*one), dealt) for one, dealt in zip(zip(labels, order, y), together))
