"""Graphs from and to torch_geometric and scipy objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gdpnet._core.limits import MOST_CLASSES, MOST_COLUMNS
from gdpnet.data.array_checks import (
    array_of,
    check_csr,
    check_rows,
    check_switches,
    checked_matrix,
    tensor_of,
)
from gdpnet.data.edge_features import with_edge_features
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.features import ONE_HOT_NOTE, Features, SparseRows
from gdpnet.data.graph import Graph, check_graph
from gdpnet.data.io.hetero import as_one_type
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError, refusing

_MOST_VALUES = 1 << 28
"""Values of the one-hot types of edges."""

_MASKS = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}


@refusing("the torch_geometric graph")
def from_pyg(data: Any, split: Any = None, *, directed: bool = False, edge_features: bool = True) -> Graph:
    """Convert a torch_geometric ``Data``: x, edge_index, y, masks, edge_weight, edge_attr, edge_type, and names.

    Args:
        data: the graph; x may be sparse, and y is -1 or NaN if unknown. If y has one column of ones and zeros per
            label, the class of a node is the set of its labels, their numbers joined by ``|``. If y holds fractions,
            they are the numbers to predict by regression. A ``HeteroData`` must have one type of nodes; its types of
            edges become edge features, as does ``edge_type``.
        split: one code per node as in :meth:`Graph.build`, instead of the masks.
        directed: keep the direction of edges; otherwise every edge is added in both directions.
        edge_features: whether edge_attr and types of edges become edge features; else they are left out.
    """
    from torch_geometric.data import Data, HeteroData

    check_switches(directed=directed, edge_features=edge_features)
    data, types = as_one_type(data) if isinstance(data, HeteroData) else (data, None)
    if not isinstance(data, Data):
        raise GraphError(f"the graph must be a torch_geometric Data, found {type(data).__name__}")
    if data.x is None:
        raise GraphError(
            "the Data must have node features x, found none; for one-hot features set "
            "data.x = SparseRows.identity(data.num_nodes)"
        )
    if data.edge_index is None:
        raise GraphError("the Data must have an edge_index, found none")
    edges = data.edge_index.as_tensor() if hasattr(data.edge_index, "as_tensor") else data.edge_index
    labels, names = _pyg_labels(data)
    numbers = labels if labels is not None and labels.is_floating_point() else None
    graph = Graph.build(
        edges,
        _pyg_features(data.x),
        labels if numbers is None else None,
        targets=numbers,
        node_ids=data.get("node_ids"),
        class_names=names,
        split=_split_of_masks(data) if split is None else split,
        directed=directed,
    )
    if data.get("feature_names") is not None:
        graph = graph.with_feature_names(data.feature_names)
    if data.get("feature_encoding") is not None:
        graph = replace(graph, table=NodeTable(Encoding.from_dict(data.feature_encoding)))
    given = tensor_of(edges, "edges").numpy()
    if edge_features:
        graph = with_edge_features(graph, given, *_edge_columns(data, types), directed=directed)
    if data.edge_weight is None:
        return graph
    weight = tensor_of(data.edge_weight, "edge_weight").reshape(-1).float().numpy()
    return with_weights(graph, given, weight, directed=directed)


def to_pyg(graph: Graph) -> Any:
    """Return a torch_geometric ``Data`` with what the graph has: y (-1 or NaN if unknown), masks, weights, edge_attr.

    Edges point from the neighbour to its target; sparse features become a sparse CSR tensor. Names that are not
    numbers in order become the lists ``node_ids``, ``class_names`` and ``feature_names``, which `from_pyg` reads.
    ``feature_encoding`` says how the columns of a table became x, so that they are not encoded again. Edge features
    lose their names.
    """
    from torch_geometric.data import Data

    check_graph(graph)
    data = Data(x=_torch_features(graph.features), edge_index=graph.edge_index)
    if graph.targets is not None:
        data.y = graph.targets.clone()
    elif graph.num_classes:
        data.y = graph.labels.clone()
    if bool(graph.split.any()):
        for name, mask in _MASKS.items():
            data[mask] = graph.split == SPLITS.index(name)
    if graph.edge_weight is not None:
        data.edge_weight = graph.edge_weight.clone()
    if graph.edge_features is not None:
        data.edge_attr = graph.edge_features.clone()
    for name, values in _names_of(graph).items():
        data[name] = values
    if graph.table is not None:
        data.feature_encoding = graph.table.encoding.to_dict()
    return data


def _names_of(graph: Graph) -> dict[str, list[Any]]:
    """Return the user's names of nodes, classes and features, as far as there are any."""
    named: dict[str, list[Any]] = {
        "node_ids": graph.node_ids.tolist(),
        "class_names": list(graph.class_names),
    }
    named = {
        name: values
        for name, values in named.items()
        if [str(value) for value in values] != [str(number) for number in range(len(values))]
    }
    return named if graph.feature_names is None else named | {"feature_names": list(graph.feature_names)}


@refusing("the adjacency matrix")
def from_scipy(
    adjacency: Any,
    features: Any = None,
    labels: Any = None,
    *,
    split: Any = None,
    node_ids: Any = None,
    class_names: Sequence[str] | None = None,
    directed: bool = False,
) -> Graph:
    """Convert a square adjacency matrix (row to column) and one feature row per node, one-hot by default.

    Every non-zero value is an edge; the values are not used as weights.
    """
    what = "the adjacency matrix"
    if not sp.issparse(adjacency):
        dense = array_of(adjacency, what)
        if dense.ndim != 2 or dense.dtype.kind not in "biuf":
            raise GraphError(f"{what} must be a matrix of numbers, found {type(adjacency).__name__}")
        adjacency = sp.csr_matrix(dense)
    if len(adjacency.shape) != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(f"{what} must be square, found shape {adjacency.shape}")
    matrix = checked_matrix(adjacency, what).tocoo()
    if not np.isfinite(matrix.data).all():
        raise GraphError(f"{what} must be finite, found NaN or infinity")
    rows = SparseRows.identity(matrix.shape[0]) if features is None else features
    rows = rows if hasattr(rows, "shape") else array_of(rows, "features")
    if rows.shape[:1] != matrix.shape[:1]:
        raise GraphError(
            f"there must be one feature row per row of the adjacency matrix ({matrix.shape[0]}), "
            f"found features of shape {tuple(rows.shape)}"
        )
    stored = matrix.data != 0
    graph = Graph.build(
        np.stack([matrix.row[stored], matrix.col[stored]]),
        rows,
        labels,
        split=split,
        node_ids=node_ids,
        class_names=class_names,
        directed=directed,
    )
    return graph.with_notes(ONE_HOT_NOTE) if features is None else graph


def _pyg_features(x: Any) -> Any:
    """Return x, as a scipy matrix if it is a sparse tensor."""
    if not isinstance(x, Tensor) or x.layout == torch.strided:
        return x
    if x.layout not in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        raise GraphError(f"sparse x must be a COO, CSR or CSC tensor, found {x.layout}")
    if x.dim() != 2:
        raise GraphError(f"x must have one row per node, found {x.dim()} dimensions")
    check_rows(int(x.shape[0]), int(x._nnz()), "x")
    with _without_beta_warning():
        csr = _checked_sparse(x.detach().cpu()).to_sparse_csr()
    parts = (csr.values(), csr.col_indices(), csr.crow_indices())
    return sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(x.shape))


def _checked_sparse(x: Tensor) -> Tensor:
    """Return a sparse tensor after checking its indices, which torch itself trusts."""
    if x.layout == torch.sparse_coo:
        place, most = x._indices(), torch.tensor(x.shape)[:, None]
        if bool(((place < 0) | (place >= most)).any()):
            raise GraphError("x must have indices inside its shape, found one outside")
        # it may say that it is sorted and without duplicates when it is not
        return torch.sparse_coo_tensor(place, x._values(), x.shape, check_invariants=False).coalesce()
    down = x.layout == torch.sparse_csr
    pointer, index = (x.crow_indices(), x.col_indices()) if down else (x.ccol_indices(), x.row_indices())
    shape = (int(x.shape[0]), int(x.shape[1])) if down else (int(x.shape[1]), int(x.shape[0]))
    check_csr(pointer.numpy(), index.numpy(), x.values().numpy(), shape, "x")
    return x


def _torch_features(features: Features) -> Tensor:
    if not isinstance(features, SparseRows):
        return features.clone()
    with _without_beta_warning():
        parts = (features.row_ptr.clone(), features.column.clone(), features.value.clone())
        return torch.sparse_csr_tensor(*parts, size=features.shape, check_invariants=False)


@contextmanager
def _without_beta_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        yield


def _edge_columns(data: Any, types: Sequence[str] | None) -> tuple[np.ndarray | None, list[str] | None]:
    """Return the edge features of a ``Data`` and their names; edge_attr alone has none."""
    attributes, code = data.edge_attr, data.get("edge_type")
    blocks, names = [], []
    if attributes is not None:
        rows = tensor_of(attributes, "edge_attr")
        rows = rows[:, None] if rows.dim() == 1 else rows
        _check_columns(rows, "edge_attr", MOST_COLUMNS)
        blocks.append(rows.float())
        names += [f"edge_attr[{place}]" for place in range(rows.shape[-1])]
    if code is None:
        return (blocks[0].numpy(), None) if blocks else (None, None)
    code = _edge_types(code)
    words = types or [str(number) for number in range(int(code.max()) + 1 if code.numel() else 0)]
    blocks.append(torch.nn.functional.one_hot(code, len(words)).float())
    return torch.cat(blocks, dim=1).numpy(), names + [f"relation={word}" for word in words]


def _edge_types(given: Any) -> Tensor:
    """Return the numbers of the types of edges; refuse what is no number of a type."""
    code = tensor_of(given, "edge_type").reshape(-1)
    most = min(MOST_CLASSES, _MOST_VALUES // max(1, code.numel()))
    number = code.double()
    bad = ~((number >= 0) & (number < most) & (number == number.floor()))  # NaN is none of these
    if bool(bad.any()):
        raise GraphError(
            f"edge_type must hold whole numbers from 0 below {most:,}, found {number[bad][0].item():.10g}"
        )
    return code.long()


def _check_columns(rows: Tensor, what: str, most: int) -> None:
    """Refuse a tensor of too many columns before anything is made for each of them."""
    if rows.dim() == 2 and rows.shape[1] > most:
        raise GraphError(f"{what} can have at most {most:,} columns, found {rows.shape[1]:,}")


def _pyg_labels(data: Any) -> tuple[Tensor | None, Any]:
    """Return the class numbers of a ``Data``, or the numbers to predict, and the names of classes."""
    names = data.get("class_names")
    if data.y is None:
        return None, names
    y = tensor_of(data.y, "y")
    if y.dim() == 2 and y.shape[1] > 1:
        return _label_sets(y)
    label = y.squeeze(1) if y.dim() == 2 and y.shape[1] == 1 else y
    if not label.is_floating_point():
        return label, names
    whole = label.nan_to_num(nan=UNKNOWN).long()
    return (whole if bool((label.isnan() | (whole == label)).all()) else label), names


def _label_sets(y: Tensor) -> tuple[Tensor, list[str]]:
    """Return the class of each node, which is its set of labels, and the names of the sets."""
    _check_columns(y, "y", MOST_CLASSES)
    if not bool(((y == 0) | (y == 1)).all()):
        raise GraphError("y with one column per label must hold ones and zeros, found another value")
    sets, label = torch.unique(y.long(), dim=0, return_inverse=True)
    return label, ["|".join(str(place) for place in one.nonzero().flatten().tolist()) for one in sets]


def _split_of_masks(data: Any) -> Tensor:
    nodes = int(np.shape(data.x)[0])
    code = torch.zeros(nodes, dtype=torch.int8)
    for name, mask in _MASKS.items():
        chosen = data.get(mask)
        if chosen is None:
            continue
        chosen = tensor_of(chosen, mask)
        rule = f"{mask} must hold true or false for each of {nodes} nodes"
        if chosen.shape != code.shape:
            hint = "; choose one column if it holds several splits" if chosen.dim() > 1 else ""
            raise GraphError(f"{rule}, found shape {tuple(chosen.shape)}{hint}")
        if chosen.dtype != torch.bool:
            raise GraphError(f"{rule}, found values of type {str(chosen.dtype).removeprefix('torch.')}")
        twice = (chosen & (code > 0)).nonzero()
        if twice.numel():
            raise GraphError(f"a node must be in at most one mask, found node {int(twice[0])} also in {mask}")
        code[chosen] = SPLITS.index(name)
    return code
