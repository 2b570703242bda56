"""The graph that passes over blocks read: the arrays of a store, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import owners_of
from gdpnet.data.features import Features
from gdpnet.data.io.arrays import tensor_over
from gdpnet.data.io.mapped import Mapped, MappedFeatures
from gdpnet.data.validation import whole_or_text_ids

_OPTIONAL = ("edge_weight", "edge_features", "spurious")
"""Arrays that a store may have although they are not read."""

Block = tuple[int, int]
"""The targets from the first number up to the second."""


class Source:
    """The arrays of a graph that passes read, mapped from a store; no table of all nodes is held in memory.

    In an object store the rows that are asked for are brought, and the offsets as a whole.
    """

    def __init__(self, arrays: dict[str, Mapped], width: int | None, used: list[str]) -> None:
        self._arrays = {name: one for name, one in arrays.items() if name in used or name not in _OPTIONAL}
        self.row_ptr = tensor_over(arrays["row_ptr"].whole())
        parts = ["features"] if width is None else ["feature_row_ptr", "feature_column", "feature_value"]
        self.rows = MappedFeatures(*(arrays[name] for name in parts), width=width)

    def has(self, name: str) -> bool:
        """Return whether the graph has an optional array and the model reads it."""
        return name in self._arrays

    @property
    def features(self) -> Features:
        """Return the features, of which only the shape and the type may be read."""
        return self.rows.features

    @property
    def index_type(self) -> torch.dtype:
        """Return the type in which node numbers are stored."""
        return tensor_over(self._arrays["neighbour"].values).dtype

    def _of(self, name: str, edges: slice) -> Tensor:
        return tensor_over(self._arrays[name].slice(edges))

    def edges_of(self, block: Block) -> slice:
        """Return the edges of some targets."""
        return slice(int(self.row_ptr[block[0]]), int(self.row_ptr[block[1]]))

    def neighbours_of(self, edges: slice) -> Int[Tensor, "some"]:
        """Return the neighbours of some edges."""
        return self._of("neighbour", edges).long()

    def links_around(self, nodes: Int[Tensor, "nodes"]) -> tuple[Tensor, Tensor]:
        """Return the offsets and neighbours of the graph; those of some nodes can be read."""
        first, last = self.row_ptr[nodes].numpy(), self.row_ptr[nodes + 1].numpy()
        return self.row_ptr, tensor_over(self._arrays["neighbour"].bring_ranges(first, last))

    def targets_of(self, edges: slice) -> Int[Tensor, "some"]:
        """Return the targets of some edges."""
        ends = torch.tensor([edges.start, edges.stop])
        first = int(torch.searchsorted(self.row_ptr, ends[:1], right=True)) - 1
        last = int(torch.searchsorted(self.row_ptr, ends[1:]))
        bounds = self.row_ptr[first : last + 1].clamp(edges.start, edges.stop)
        return owners_of(bounds.diff()) + first

    def weight_of(self, edges: slice) -> Float[Tensor, "some"]:
        """Return the weights of some edges in the graph, one each if it has none."""
        if not self.has("edge_weight"):
            return torch.ones(edges.stop - edges.start)
        return self._of("edge_weight", edges).float()

    def weight_at(self, numbers: Int[Tensor, "some"]) -> Float[Tensor, "some"]:
        """Return the weights of some edges by their numbers, one each if the graph has none."""
        if not self.has("edge_weight"):
            return torch.ones(numbers.numel())
        return tensor_over(self._arrays["edge_weight"].bring(numbers.numpy()))[numbers].float()

    def edge_features_of(self, edges: slice) -> Float[Tensor, "some columns"]:
        """Return the features of some edges."""
        return self._of("edge_features", edges)

    @property
    def edge_columns(self) -> int:
        """Return how many features an edge has."""
        return self._arrays["edge_features"].values.shape[1] if self.has("edge_features") else 0

    def spurious_of(self, edges: slice) -> Bool[Tensor, "some"]:
        """Return which of some edges are known to be spurious."""
        return self._of("spurious", edges)

    def names_of(self, nodes: Int[np.ndarray, "nodes"]) -> Any:
        """Return the user's ids of some nodes as an Arrow array of whole numbers or text."""
        if not self.has("node_ids"):
            return pa.array(nodes)
        return pa.array(whole_or_text_ids(np.asarray(self._arrays["node_ids"].bring(nodes)[nodes])))
