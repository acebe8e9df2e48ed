"""New groups have the same sizes and are mixed evenly."""

import pytest
import torch

from braindecode_censor.numerics.groups import mix_groups


def test_mix_groups_by_hand():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    mixed = mix_groups(labels, order=labels)
    # The first trials of all three go to group 0, the second ones to group 1, the third ones to group 2.
    assert mixed.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert mix_groups(labels, order=torch.tensor([5.0, 1.0, 3.0])[labels]).tolist() == [1, 2, 0] * 3


@pytest.mark.parametrize("stratified", [False, True])
def test_mix_groups_keeps_sizes(stratified):
    generator = torch.Generator().manual_seed(0)
    labels, y = torch.randint(6, (80,), generator=generator), torch.randint(3, (80,), generator=generator)
    order = torch.rand(6, generator=generator)[labels]
    mixed = mix_groups(labels, order, y if stratified else None)
    for k in range(3) if stratified else [slice(None)]:
        rows = (y == k) if stratified else k
        assert mixed[rows].bincount(minlength=6).tolist() == labels[rows].bincount(minlength=6).tolist()
    # Old and new groups are independent.
    table = torch.zeros(6, 6).index_put_((labels, mixed), torch.ones(80), accumulate=True)
    assert table.max() <= (6 if stratified else 4)
