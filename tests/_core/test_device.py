"""How much is computed at a time on a GPU: what fits into half of its free memory, within bounds."""

import pytest
import torch

from gdpnet._core import device
from gdpnet._core.device import at_once


@pytest.mark.parametrize(
    ("free", "count"), [(8_000, 40), (1 << 40, 1_000), (0, 10)], ids=["fits", "plenty", "nearly full"]
)
def test_half_of_the_free_memory_of_a_gpu_is_used_within_bounds(free, count, monkeypatch):
    monkeypatch.setattr(device, "free_bytes", lambda _: free)
    assert at_once(torch.device("cuda"), 10, 1_000, 100) == count


def test_a_cpu_computes_as_many_whatever_memory_is_free():
    assert at_once(torch.device("cpu"), 10, 1_000, 100) == 10
