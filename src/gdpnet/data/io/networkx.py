"""Graphs from and to NetworkX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor

from gdpnet._core.limits import MOST_FEATURES
from gdpnet.data.array_checks import check_switches, length_of
from gdpnet.data.edge_features import with_edge_features
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.features import ONE_HOT_NOTE, Features, SparseRows
from gdpnet.data.given_ids import exact_array
from gdpnet.data.graph import Graph, check_graph
from gdpnet.data.io.cells import check_cells
from gdpnet.data.io.column_names import USUAL_COLUMNS
from gdpnet.data.io.csv_parquet import code_labels, code_split
from gdpnet.data.io.node_columns import encode_columns
from gdpnet.data.tables.edge_columns import read_edge_columns
from gdpnet.data.validation import SPLITS, UNKNOWN, text_array
from gdpnet.errors import GraphError, nearest, refusing

_NOT_REAL = (complex, np.complexfloating, np.timedelta64)
"""Types that an array of numbers takes and changes."""


@refusing("the NetworkX graph")
def from_networkx(
    network: Any,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    split: str | None = None,
    *,
    weight: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    directed: bool | None = None,
) -> Graph:
    """Convert a NetworkX graph; its nodes become the node ids.

    Args:
        features: one or several node attributes that hold a number or a row of numbers; a single attribute may
            instead hold a dictionary from feature number to value. One-hot features by default.
        label: the node attribute of the class, absent or empty if unknown.
        split: the node attribute that holds train, validation, test or nothing.
        weight: the edge attribute of the weight.
        edge_features: one or several edge attributes that hold a number, or a text, which is a type; absent if
            unknown.
        directed: False to read a directed graph as undirected; an undirected graph stays undirected.
    """
    if not is_networkx(network):
        raise GraphError(f"the graph must be a NetworkX graph, found {type(network).__name__}")
    if directed is not None:
        check_switches(directed=directed)
    nodes = list(network.nodes)
    follow = network.is_directed() and (directed is None or bool(directed))
    place = {node: number for number, node in enumerate(nodes)}
    edges = [(place[source], place[target]) for source, target in network.edges()]
    edge_index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    labels, names = (None, None) if label is None else code_labels(*_texts(network, label))
    graph = Graph.build(
        edge_index,
        _features(network, features),
        labels,
        split=None if split is None else code_split(*_texts(network, split)),
        node_ids=_id_array(nodes),
        class_names=names,
        directed=follow,
    )
    graph = graph.with_notes(ONE_HOT_NOTE) if features is None else _encoded(graph, network, features)
    if edge_features is not None:
        found = read_edge_columns(_edge_attributes(network, edge_features))
        graph = graph.with_notes(*found.notes)
        graph = with_edge_features(graph, edge_index, found.values, found.names, directed=follow)
    weights = None if weight is None else _weights(network, weight)
    return with_weights(graph, edge_index, weights, directed=follow)


def is_networkx(network: Any) -> bool:
    """Return whether an object is a NetworkX graph, or one like it."""
    return all(hasattr(network, name) for name in ("nodes", "is_directed", "adjacency"))


def _encoded(graph: Graph, network: Any, names: str | Sequence[str]) -> Graph:
    """Return a graph whose features, if they are one number per attribute, are encoded as those of a table are."""
    chosen = [names] if isinstance(names, str) else list(names)
    values = {name: [value for _, value in network.nodes(data=name)] for name in chosen}
    if not chosen or not all(_is_number(value) for column in values.values() for value in column):
        return graph
    return encode_columns(graph, pa.table(values), USUAL_COLUMNS)


def usual_attributes(network: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments of `from_networkx` for the attributes that a graph has, and notes that name them.

    Features are ``x`` if every node has it, else all attributes that are a number at every node.
    """
    rows = [data for _, data in network.nodes(data=True)]
    found: dict[str, Any] = {
        name: name for name in ("label", "split") if any(data.get(name) is not None for data in rows)
    }
    others = [name for name in (rows[0] if rows else {}) if name not in ("label", "split")]
    numbers = [name for name in others if all(_is_number(data.get(name)) for data in rows)]
    if rows and all(data.get("x") is not None for data in rows):
        found["features"] = "x"
    elif numbers:
        found["features"] = numbers
    weights = [value for _, _, value in network.edges(data="weight")]
    if weights and all(_is_number(value) for value in weights):
        found["weight"] = "weight"
    named = {role: name if isinstance(name, str) else ", ".join(name) for role, name in found.items()}
    return found, tuple(f"{role} from the NetworkX attribute {name}" for role, name in named.items())


def _is_number(value: Any) -> bool:
    """Return whether an attribute is a number that an array of 64 bits can hold."""
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return _is_real(value) and not math.isnan(value)


def _is_real(value: Any) -> bool:
    """Return whether a value is a real number; numpy counts spans of time as whole numbers."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, np.timedelta64)


def to_networkx(graph: Graph) -> Any:
    """Return a NetworkX graph with the user's ids, undirected if all edges have a reverse edge like them.

    Nodes have ``x`` (an array, or a dictionary if features are sparse), and ``label`` and ``split`` if known. Edge
    features are edge attributes by their names, ``e0`` and so on if they have none.
    """
    import networkx as nx

    check_graph(graph)
    ids = graph.node_ids.tolist()
    network = nx.Graph() if _is_mutual(graph) else nx.DiGraph()
    network.graph["num_features"] = graph.num_features
    network.add_nodes_from((node, {"x": row}) for node, row in zip(ids, _rows(graph.features), strict=True))
    labels, splits = (zip(ids, codes.tolist(), strict=True) for codes in (graph.labels, graph.split))
    named = {node: graph.class_names[code] for node, code in labels if code != UNKNOWN}
    nx.set_node_attributes(network, named, "label")
    nx.set_node_attributes(network, {node: SPLITS[code] for node, code in splits if code}, "split")
    ends = [[ids[node] for node in end.tolist()] for end in (graph.neighbour, graph.target)]
    network.add_edges_from(zip(*ends, strict=True))
    for name, values in _edge_values(graph).items():
        nx.set_edge_attributes(network, dict(zip(zip(*ends, strict=True), values, strict=True)), name)
    return network


def _edge_values(graph: Graph) -> dict[str, list[float]]:
    """Return the attributes of the edges: their weight and features."""
    found = {} if graph.edge_weight is None else {"weight": graph.edge_weight.tolist()}
    if graph.edge_features is None:
        return found
    names = graph.edge_feature_names or [f"e{place}" for place in range(graph.edge_features.shape[1])]
    return found | dict(zip(names, graph.edge_features.T.tolist(), strict=True))


def _id_array(nodes: Sequence[Any]) -> np.ndarray:
    """Return an array of whole numbers or of text; any other nodes (tuples, mixtures) stay objects."""
    if all(type(node) is str for node in nodes):
        return text_array(nodes, "node ids")  # checked first: each takes as much memory as the longest
    if all(type(node) is int for node in nodes):
        return exact_array(nodes, "node ids")
    return np.fromiter(nodes, dtype=object, count=len(nodes))


def _texts(network: Any, name: str) -> tuple[Any, str]:
    """Return an attribute of all nodes as text, and how errors call it."""
    values = [value for _, value in network.nodes(data=name)]
    if values and all(value is None for value in values):
        known = {attribute for _, data in network.nodes(data=True) for attribute in data}
        hint = nearest(name, map(str, known)) if known else ""
        raise GraphError(f"some node must have the attribute '{name}', found none{hint}")
    blank = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    texts = [None if empty else str(value) for value, empty in zip(values, blank, strict=True)]
    return pa.array(texts, pa.string()), f"node attribute '{name}'"


def _features(network: Any, names: str | Sequence[str] | None) -> Any:
    if names is None:
        return SparseRows.identity(len(network))
    chosen = [names] if isinstance(names, str) else list(names)
    values = {name: _values(network, name) for name in chosen}
    if len(chosen) == 1 and len(network) and isinstance(values[chosen[0]][0], dict):
        return _sparse_rows(values[chosen[0]], chosen[0], network)
    blocks = [_dense_rows(values[name], name, network) for name in chosen]
    return np.concatenate([np.empty((len(network), 0)), *blocks], axis=1)


def _values(network: Any, name: str) -> list[Any]:
    for node, data in network.nodes(data=True):
        if data.get(name) is None:
            hint = nearest(name, map(str, data)) if data else ""
            raise GraphError(
                f"every node must have the attribute '{name}', found none at node '{node}'{hint}"
            )
    return [value for _, value in network.nodes(data=name)]


def _check_values(network: Any, name: str, good: list[bool], rule: str) -> None:
    if not all(good):
        node, value = list(network.nodes(data=name))[good.index(False)]
        raise GraphError(f"node attribute '{name}' must hold {rule}, found {value!r} at node '{node}'")


def _dense_rows(values: list[Any], name: str, network: Any) -> np.ndarray:
    for value in values:
        if (width := length_of(value)) > MOST_FEATURES:
            raise GraphError(
                f"node attribute '{name}' can hold at most {MOST_FEATURES:,} numbers, found {width:,}"
            )
    rows = [value.detach().cpu().numpy() if isinstance(value, Tensor) else value for value in values]
    width = np.size(rows[0]) if rows else 0
    good = [np.asarray(row).dtype.kind in "biuf" and np.size(row) == width for row in rows]
    _check_values(network, name, good, f"a number or a row of {width} numbers")
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _sparse_rows(values: list[Any], name: str, network: Any) -> sp.csr_matrix:
    good = [isinstance(row, dict) and all(isinstance(key, int) and key >= 0 for key in row) for row in values]
    _check_values(network, name, good, "a dictionary from feature number to value")
    real = [not any(isinstance(one, _NOT_REAL) for one in row.values()) for row in values]
    _check_values(network, name, real, "real numbers")
    column = np.fromiter(chain.from_iterable(values), dtype=np.int64)
    try:
        value = np.fromiter(chain.from_iterable(row.values() for row in values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GraphError(f"node attribute '{name}' must hold numbers: {error}") from error
    row_ptr = np.cumsum([0, *map(len, values)])
    known = network.graph.get("num_features", 0)
    width = max(known if isinstance(known, int) else 0, int(column.max(initial=-1)) + 1)
    return sp.csr_matrix((value, column, row_ptr), shape=(len(values), width))


def _edge_attributes(network: Any, names: str | Sequence[str]) -> Any:
    """Return some edge attributes as an Arrow table, null where an edge lacks one."""
    columns: dict[str, Any] = {}
    for name in [names] if isinstance(names, str) else names:
        values = [value for _, _, value in network.edges(data=name)]
        if values and all(value is None for value in values):
            known = {str(attribute) for _, _, data in network.edges(data=True) for attribute in data}
            hint = nearest(name, sorted(known)) if known else ""
            raise GraphError(f"some edge must have the attribute '{name}', found none{hint}")
        check_cells(values, f"edge attribute '{name}'", "on edge number")
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise GraphError(f"edge attribute '{name}' must hold numbers or texts: {error}") from error
    return pa.table(columns)


def _weights(network: Any, name: str) -> np.ndarray:
    for source, target, value in network.edges(data=name):
        if not _is_real(value):
            raise GraphError(
                f"edge attribute '{name}' must hold a number, found {value!r} from '{source}' to '{target}'"
            )
    return np.array([value for _, _, value in network.edges(data=name)], dtype=np.float32)


def _rows(features: Features) -> list[Any]:
    if not isinstance(features, SparseRows):
        return list(features.numpy().copy())
    matrix = features.to_scipy()
    rows = (slice(*matrix.indptr[row : row + 2]) for row in range(matrix.shape[0]))
    return [dict(zip(matrix.indices[row].tolist(), matrix.data[row].tolist(), strict=True)) for row in rows]


def _is_mutual(graph: Graph) -> bool:
    if graph.is_directed:
        return False
    values = [one for one in (graph.edge_weight, graph.edge_features) if one is not None]
    return all(torch.equal(value[graph.reverse], value) for value in values)
