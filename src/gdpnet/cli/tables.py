"""Tables that commands write: edges of a cleaned graph, pairs, and one row per node."""

from __future__ import annotations

from collections.abc import Callable
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


def write_edges_of(
    model: GDPNet, graph: Graph, asked: Tensor, out: Path, threshold: float | None, *, all_edges: bool
) -> dict[str, Any]:
    """Write the edges to some nodes, from their surroundings; return the threshold, its reason and the counts."""
    import numpy as np
    import pyarrow as pa

    from gdpnet.data.extended import ExtendedGraph
    from gdpnet.data.io.csv_parquet import write_table
    from gdpnet.data.io.files import edges_of_targets, id_array
    from gdpnet.inference.edge_tables import Decided, decided_edges
    from gdpnet.inference.local import LocalPredictor

    least, reason = model.trained_.cleaning_threshold(threshold)
    local, names = LocalPredictor(model.trained_, ExtendedGraph(graph)), id_array(graph)
    with doing("deciding on the edges of some nodes"):
        found = list(local.edges(asked, threshold))
    table = pa.concat_tables([edges_of_targets(graph, names, node, node + 1) for node in asked.tolist()])
    genuine = [one.genuine_probability for one in found if one.genuine_probability is not None]
    keep, kept = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("keep_probability", "kept")
    )
    decided = Decided(keep, kept, None, np.concatenate(genuine) if genuine else None)
    table = decided_edges(table, decided, all_edges=all_edges)
    write_table(table, out)
    print(f"{counted(len(table), 'directed edge')} written to {out}")
    return {
        "threshold": least,
        "reason": reason,
        "nodes": len(found),
        "edges": len(keep),
        "kept": int(kept.sum()),
    }


def predicted_columns(
    model: GDPNet, graph: Graph, asked: Tensor | None, *, as_served: bool
) -> dict[str, Any]:
    """Return what is predicted for some nodes, all by default, as columns."""
    from gdpnet.data.extended import ExtendedGraph
    from gdpnet.inference.local import LocalPredictor
    from gdpnet.inference.predictors import RegressionPredictor

    if as_served and asked is not None:
        local = LocalPredictor(model.trained_, ExtendedGraph(graph))
        probability = local.probabilities(asked)
        return _columns_of(model, local.named(probability), probability, lambda: local.interval(probability))
    predictor = model.predictor(graph)
    found = predictor.predict(asked)
    if isinstance(predictor, RegressionPredictor):
        regression = predictor
        return _columns_of(model, found, None, lambda: regression.interval(asked))
    classes = model.config_.task.kind in ("classification", "multi-label")
    return _columns_of(model, found, predictor.probabilities(asked) if classes else None, None)


def _columns_of(
    model: GDPNet,
    found: np.ndarray,
    probability: np.ndarray | None,
    interval: Callable[[], np.ndarray] | None,
) -> dict[str, Any]:
    if model.config_.task.kind == "regression":
        assert interval is not None
        low, high = interval().T
        return {"prediction": found, "low": low, "high": high}
    table: dict[str, Any] = {"predicted": found}
    if probability is not None:
        table |= {f"p_{label}": column for label, column in zip(model.classes_, probability.T, strict=True)}
    return table


def embedded_rows(model: GDPNet, graph: Graph, asked: Tensor | None, *, as_served: bool) -> np.ndarray:
    """Return the embeddings of some nodes, all by default."""
    from gdpnet.data.extended import ExtendedGraph
    from gdpnet.inference.local import LocalPredictor

    if as_served and asked is not None:
        return LocalPredictor(model.trained_, ExtendedGraph(graph)).embeddings(asked)
    return model.embed(graph, asked)


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
