"""GDPNet's cleaning as a torch_geometric transform."""

from __future__ import annotations

import copy
from typing import Any

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gdpnet.data.io.pyg import from_pyg
from gdpnet.errors import GraphError, check_type
from gdpnet.estimator import GDPNet


class DenoiseTransform(BaseTransform):
    """Replace the edges of a ``Data`` by those that a trained model keeps, with ``edge_weight`` and probabilities.

    ``edge_attr`` and ``edge_type`` are left out; everything else of the ``Data`` stays as it is. Edges are taken as
    undirected unless ``directed``.
    """

    def __init__(
        self, model: GDPNet, *, threshold: float | None = None, symmetric: bool = True, directed: bool = False
    ) -> None:
        check_type(model, GDPNet, "the model", "a GDPNet")
        self.model, self.threshold = model, threshold
        self.symmetric, self.directed = symmetric, directed

    def forward(self, data: Any) -> Any:
        """Return a shallow copy of ``data`` with cleaned edges."""
        if not isinstance(data, Data):
            raise GraphError(f"the graph must be a torch_geometric Data, found {type(data).__name__}")
        graph = from_pyg(data, directed=self.directed)
        cleaned = self.model.denoise(graph, threshold=self.threshold, symmetric=self.symmetric).to_pyg()
        result = copy.copy(data)
        device = data.edge_index.device
        result.edge_index = cleaned.edge_index.to(device)
        result.edge_weight = cleaned.edge_weight.to(device)
        for name in ("keep_probability", "genuine_probability"):
            if name in cleaned:
                result[name] = cleaned[name].to(device)
        for name in {"edge_attr", "edge_type"} & set(result.keys()):
            del result[name]
        return result
