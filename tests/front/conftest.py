"""Shared data of the training front's tests; one thread, because many small torch calls are faster so."""

import pytest
import torch
from front.simulated import simulate

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data():
    """Five subjects, two classes, both visible in the signal."""
    return simulate()


@pytest.fixture
def quick():
    """Parameters that keep a fit short."""
    return {"max_epochs": 3, "batch_size": 32, "module__F1": 4, "module__D": 1}
