"""Whether a graph is processed with tables of all nodes in memory or by passes over blocks."""

from __future__ import annotations

from gdpnet._core.files import Place
from gdpnet._core.memory import available_memory
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.inference.by_blocks import is_by_blocks
from gdpnet.inference.engines.engine import Engine, Share
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.model import TrainedModel

_SHARE_OF_MEMORY = 0.7
"""Tables of all nodes are held in memory if they take less than this share of what is free."""


def engine_for(
    model: TrainedModel, graph: Graph, folder: Place, engine: Engine | None, blocks: range | Share | None
) -> Engine | None:
    """Return the engine of a run; None if it is better done with tables of all nodes in memory.

    A folder that was begun by blocks is continued by blocks.
    """
    if engine is not None:
        return engine
    if blocks is not None or is_by_blocks(folder):
        return OneProcess(model.device)
    fits = model.device.type != "cpu" or bytes_in_memory(model, graph) < _SHARE_OF_MEMORY * available_memory()
    return None if fits else OneProcess(model.device)


def bytes_in_memory(model: TrainedModel, graph: Graph) -> int:
    """Return the size of the tables of all nodes and edges, about."""
    width, evidence = model.networks.aggregators.width, model.networks.evidence is not None
    features = graph.features
    stored = 60 * features.value.numel() if isinstance(features, SparseRows) else 0
    columns = 0 if stored else 12 * model.columns.width
    each = columns * (2 if evidence else 1) + 8 * width + 60
    return graph.num_nodes * each + stored + (24 if evidence else 16) * graph.num_edges
