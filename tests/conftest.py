import pytest
import torch

# Two pytest workers with many threads each fight over two cores.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded():
    """Make every test repeatable, whatever ran before it."""
    torch.manual_seed(0)
