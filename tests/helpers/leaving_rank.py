"""What a rank of the tests runs: it makes an optimiser, leaves the others, and counts its threads of gloo."""

import json
import sys
from pathlib import Path

import torch

from gdpnet._core.ranks import joined_ranks


def threads_of_gloo() -> int:
    """Count the threads of this process whose name says that they are gloo's (Linux)."""
    return sum("gloo" in path.read_text() for path in Path("/proc/self/task").glob("*/comm"))


with joined_ranks("cpu") as ranks:
    torch.optim.Adam([torch.nn.Parameter(torch.ones(1))])
    ranks.add(1.0)
    before = threads_of_gloo()
    ranks.leave()
    Path(sys.argv[1]).write_text(json.dumps({"before": before, "after": threads_of_gloo()}))
