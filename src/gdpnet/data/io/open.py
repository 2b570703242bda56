"""Open a graph by dataset name or path, or take it from an object of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import DATASETS, check_name
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import USUAL_COLUMNS, Columns, read_graph
from gdpnet.data.io.networkx import from_networkx, usual_attributes
from gdpnet.data.io.pyg import from_pyg
from gdpnet.errors import GraphError


def open_graph(
    name: str,
    *,
    data_dir: str | Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    directed: bool = False,
    split: str = "paper",
    seed: int = 0,
) -> Graph:
    """Open a dataset by its name, the synthetic graph by ``synthetic``, or files by their path."""
    check_name(name)
    if name == "synthetic":
        return synthetic_graph(seed=seed)
    if name in DATASETS:
        return load_dataset(name, data_dir, split=split, seed=seed)
    return read_graph(Path(name), columns=columns, directed=directed)


def as_graph(graph: Any) -> Graph:
    """Return a `Graph`, from a torch_geometric ``Data``, a NetworkX graph, a path or the name of a dataset too.

    Of a NetworkX graph the usual attributes are read: ``label`` and ``split`` of nodes, ``weight`` of edges, and as
    features ``x`` or else all numbers that every node has. The notes of the graph name them.
    """
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, str | Path):
        return open_graph(str(graph))
    if hasattr(graph, "nodes") and hasattr(graph, "is_directed") and hasattr(graph, "adjacency"):
        found, notes = usual_attributes(graph)
        return from_networkx(graph, **found).with_notes(*notes)
    if hasattr(graph, "edge_index"):
        return from_pyg(graph)
    raise GraphError(
        "a graph must be a gdpnet Graph, a torch_geometric Data, a NetworkX graph or a path, found "
        f"{type(graph).__name__}"
    )
