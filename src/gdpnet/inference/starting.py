"""What every command that writes shards does first: refuse models that cannot, and cut the graph into blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gdpnet._core.csr import cut_rows
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from gdpnet.inference.model import TrainedModel

EDGES_PER_SHARD = 1 << 20
"""Edges decided on together and written to one shard; a node with more neighbours has its own shard."""

EDGES_PER_SHARD_ON_DEVICE = 1 << 22
"""The same on a GPU, which needs larger batches; an edge takes about 3 kilobytes of its memory."""

Progress = Callable[[str, int, int], None]
"""Called with the current step, the number of finished shards, and the number of all.

Passes over blocks call it with the cost of all finished tasks, about, and that of all tasks; first of all before the
first one.
"""


def check_model(model: TrainedModel) -> None:
    """Refuse a model that needs the whole graph at once."""
    if model.networks.basis is not None:
        raise ConfigError(
            "a model without labels reads the whole graph at once and writes no shards; "
            f"this one was trained for {model.config.task.kind}"
        )
    if model.config.policy.hops > 1 and model.networks.policy is not None:
        raise ConfigError(
            f"policy.hops must be 1 to write shards, found {model.config.policy.hops}: "
            "candidates farther away need the whole graph at once"
        )


def ranges_of(graph: Graph, edges_per_shard: int | None, device: torch.device) -> list[tuple[int, int]]:
    """Return the range of targets of each shard."""
    if edges_per_shard is None:
        edges_per_shard = EDGES_PER_SHARD if device.type == "cpu" else EDGES_PER_SHARD_ON_DEVICE
    if edges_per_shard < 1:
        raise ConfigError(f"a shard must hold at least one edge, found {edges_per_shard}")
    return cut_rows(graph.row_ptr, edges_per_shard)
