"""Tables that commands write: edges of a cleaned graph, pairs, and one row per node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdpnet._core.words import counted
from gdpnet.cli.progress import doing
from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from gdpnet.data.graph import Graph
    from gdpnet.estimator import GDPNet


def write_edges(
    model: GDPNet, graph: Graph, out: Path, threshold: float | None, symmetric: bool, all_edges: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the edges of the cleaned graph; return the threshold with its reason, and the metrics."""
    import numpy as np

    from gdpnet.benchmark.evaluation import describe_cleaning
    from gdpnet.data.io.csv_parquet import write_table
    from gdpnet.data.io.files import edge_table
    from gdpnet.inference.edge_tables import Decided, decided_edges

    with doing("deciding on every edge"):
        cleaned = model.denoise(graph, threshold=threshold, symmetric=symmetric)
    weight = None
    if graph.edge_weight is not None:
        weight = np.zeros(graph.num_edges, dtype=np.float32)
        weight[cleaned.kept] = cleaned.graph.edge_weight
    decided = Decided(cleaned.keep_probability, cleaned.kept, weight, cleaned.genuine_probability)
    table = decided_edges(edge_table(graph), decided, all_edges=all_edges)
    write_table(table, out)
    print(cleaned.summary)
    print(f"{counted(len(table), 'directed edge')} written to {out}")
    about = {"threshold": cleaned.threshold, "reason": cleaned.reason, "summary": cleaned.summary}
    return about, describe_cleaning(graph, cleaned)


def write_pairs(model: GDPNet, graph: Graph, pairs: Path | None, out: Path) -> int:
    """Write the probability of an edge for each pair of a table; return the number of pairs."""
    import pyarrow as pa

    from gdpnet.data.io.csv_parquet import write_table
    from gdpnet.data.link_split import read_ends

    if pairs is None:
        raise ConfigError("a model of task links predicts edges: name a table of node pairs with --pairs")
    ends = read_ends(pairs, graph)
    with doing("predicting"):
        probability = model.predict_links(graph, ends)
    source, target = _writable(graph.node_ids[ends.numpy()])
    write_table(pa.table({"source": source, "target": target, "probability": probability}), out)
    return len(probability)


def write_nodes(graph: Graph, asked: Tensor | None, table: dict[str, Any], out: Path) -> int:
    """Write one row per node, with its id first; return the number of rows."""
    import pyarrow as pa

    from gdpnet.data.io.csv_parquet import write_table

    ids = graph.node_ids if asked is None else graph.node_ids[asked.numpy()]
    write_table(pa.table({"id": _writable(ids)} | table), out)
    return len(ids)


def _writable(ids: np.ndarray) -> np.ndarray:
    return ids.astype(str) if ids.dtype == object else ids
