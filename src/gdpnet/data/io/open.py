"""Open a graph by dataset name or path, or take it from an object of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import NAMED, check_name
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.networkx import from_networkx, is_networkx, usual_attributes
from gdpnet.data.io.pyg import from_pyg
from gdpnet.data.splits import ALL_TEST, USUAL_SHARES, fit_columns, has_split, parse_shares, with_split
from gdpnet.errors import GraphError


def open_graph(
    name: str,
    *,
    data_dir: str | Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    directed: bool = False,
    weights: bool = True,
    drop_unknown: bool = False,
    split: str = "paper",
    seed: int = 0,
    task: str | None = None,
) -> Graph:
    """Open a dataset by its name, the synthetic graph by ``synthetic``, or files by their path.

    The split is ``paper``, that of the dataset or of the files, ``random``, or shares such as ``60/20/20``. Files
    with labels and without a split get one of 60/20/20, class by class. For the task ``regression`` labels
    are read as numbers.
    """
    check_name(name)
    shares = None if split in ("paper", "random") else parse_shares(split)
    if name == "synthetic":
        graph = synthetic_graph(seed=seed)
    elif name in NAMED:
        graph = load_dataset(name, data_dir, split="paper" if shares else split, seed=seed)
    else:
        how: dict[str, Any] = {"columns": columns, "directed": directed}
        how |= {"weights": weights, "drop_unknown": drop_unknown}
        graph = read_graph(name, **how, task=task)
        if split == "random" or (shares is None and not has_split(graph)):
            shares = USUAL_SHARES
    keeps_own = split == ALL_TEST and has_split(graph)
    if shares is None or keeps_own or not bool(graph.labelled.any()):
        return graph if name in NAMED or graph.table is not None else fit_columns(graph, graph.split)
    return _split_by(graph, shares, seed)


def content_of(name: str, *, data_dir: Path | None = None, **how: Any) -> str | None:
    """Return the fingerprint of a graph as it is read, before a split is drawn; None for the synthetic graph."""
    if name == "synthetic":
        return None
    return fingerprint(load_dataset(name, data_dir) if name in NAMED else read_graph(name, **how))


def _split_by(graph: Graph, shares: tuple[float, float, float], seed: int) -> Graph:
    """Return the graph with a split by shares, which is noted."""
    split = with_split(graph, shares, seed)
    counts = ", ".join(f"{split.nodes_in(part).numel():,} {part}" for part in ("train", "validation", "test"))
    text = "/".join(f"{100 * share:g}" for share in shares)
    how = "class by class" if graph.targets is None else "evenly over the numbers"
    return split.with_notes(f"split {text} of the labelled nodes, {how}, with seed {seed}: {counts}")


def as_graph(graph: Any) -> Graph:
    """Return a `Graph`, from a torch_geometric ``Data``, a NetworkX graph, a path or the name of a dataset too.

    Of a NetworkX graph the usual attributes are read: ``label`` and ``split`` of nodes, ``weight`` of edges, and as
    features ``x`` or else all numbers that every node has. The notes of the graph name them.
    """
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, str | Path | ObjectPath):
        known = str(graph) in NAMED or str(graph) == "synthetic"
        # no split is drawn: a graph that was read with `read_graph` and its path must be the same graph
        return open_graph(str(graph)) if known else read_graph(graph)
    if is_networkx(graph):
        found, notes = usual_attributes(graph)
        return from_networkx(graph, **found).with_notes(*notes)
    if hasattr(graph, "edge_index") or hasattr(graph, "edge_types"):
        return from_pyg(graph)
    raise GraphError(
        "a graph must be a gdpnet Graph, a torch_geometric Data, a NetworkX graph or a path, found "
        f"{type(graph).__name__}"
    )
