"""A torch_geometric ``HeteroData`` of one type of nodes, as a ``Data``."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdpnet.data.array_checks import tensor_of
from gdpnet.errors import GraphError


def as_one_type(data: Any) -> tuple[Any, list[str]]:
    """Return a ``HeteroData`` of one type of nodes as ``Data`` with edge_type, and the names of these types."""
    if len(data.node_types) != 1:
        raise GraphError(
            f"a HeteroData must have one type of nodes, found {len(data.node_types)}: "
            f"{', '.join(data.node_types) or 'none'}"
        )
    data, names = copy.copy(data), [relation for _, relation, _ in data.edge_types]
    # to_homogeneous keeps tensors alone, and copies them
    nodes = dict(data.node_stores[0].items())
    if isinstance(nodes.get("x"), list | tuple | np.ndarray):
        data.node_stores[0].x = nodes["x"] = tensor_of(nodes["x"], "x")
    for name in ("x", "y"):
        if isinstance(value := nodes.get(name), Tensor) and value.layout == torch.strided:
            tensor_of(value, name)
    for store in data.edge_stores:
        for name in {"edge_index", "edge_attr", "edge_weight"} & set(store.keys()):
            if name != "edge_index" or not isinstance(store[name], Tensor):
                store[name] = tensor_of(store[name], name)
    _fill(data)
    whole = data.to_homogeneous()
    for name, value in nodes.items():
        whole[name] = value
    return whole, names


def _fill(data: Any) -> None:
    """Give every type of edges the attributes that some have; to_homogeneous would fill them with NaN."""
    for name, default in (("edge_attr", torch.zeros), ("edge_weight", torch.ones)):
        shapes = {tuple(store[name].shape[1:]) for store in data.edge_stores if name in store}
        if len(shapes) > 1:
            raise GraphError(f"{name} must be as wide for every type of edges, found shapes {sorted(shapes)}")
        for store in (store for store in data.edge_stores if shapes and name not in store):
            store[name] = default(store.num_edges, *next(iter(shapes)))
