"""A graph convolutional network over a cleaned graph; its receptive field is larger than that of AGG.

torch_geometric's `GCN` is not used: its linear layers need dense features, and its dropout takes no generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.csr import offsets_of, owners_of, sum_rows
from gdpnet.data.features import SparseRows
from gdpnet.representation.head_product import multiply_heads
from gdpnet.representation.sparse import Matrix, Table, drop_values, times

_FEW = 32
"""Columns up to which products are slow."""


@dataclass(frozen=True)
class NormalisedAdjacency:
    """The matrix D^(-1/2) (A + I) D^(-1/2), with A the weights of the edges and D the row sums of A + I."""

    matrix: Matrix
    """Its entries off the diagonal."""
    diagonal: Float[Tensor, "nodes 1"]

    @classmethod
    def of(
        cls,
        row_ptr: Int[Tensor, "offsets"],
        neighbour: Int[Tensor, "edges"],
        weight: Float[Tensor, "edges"],
    ) -> NormalisedAdjacency:
        """Normalise the edges of non-zero weight."""
        kept, nodes = weight != 0.0, row_ptr.numel() - 1
        owner, neighbour = owners_of(row_ptr.diff())[kept], neighbour[kept]
        scale = (1.0 + sum_rows(weight, row_ptr)).rsqrt()
        value = weight[kept] * scale[owner] * scale[neighbour]
        rows = SparseRows(offsets_of(torch.bincount(owner, minlength=nodes)), neighbour, value, nodes)
        return cls(Matrix.of(rows, row_ptr.device), scale.square()[:, None])

    def __call__(self, message: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        """Return the normalised sum of every node's own message and its neighbours'."""
        return torch.addcmul(times(self.matrix, message), self.diagonal, message)


class GCN(nn.Module):
    """H <- P H W + b with relu in between, P the normalised adjacency; the last layer has one column per class."""

    def __init__(
        self, features: int, width: int, classes: int, *, layers: int = 3, exclusive: bool = True
    ) -> None:
        super().__init__()
        sizes = list(pairwise([features, *[width] * (layers - 1), classes]))
        self.weights = nn.ParameterList(torch.zeros(*size) for size in sizes)
        self.biases = nn.ParameterList(torch.zeros(size[1]) for size in sizes)
        self.exclusive = exclusive

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights."""
        for weight in self.weights:
            nn.init.xavier_uniform_(weight, generator=generator)

    def forward(
        self,
        rows: Table,
        adjacency: NormalisedAdjacency,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "nodes classes"]:
        """Return the class scores of every node, with dropout on the input of every layer."""
        inputs: Table = rows
        for weight, bias in zip(self.weights, self.biases, strict=True):
            dropped = drop_values(inputs, dropout, generator is not None, generator)
            scores = adjacency(_messages(dropped, weight)) + bias
            inputs = torch.relu(scores)
        return scores

    def to_probabilities(self, rows: Table, adjacency: NormalisedAdjacency) -> Float[Tensor, "nodes classes"]:
        """Return the class probabilities of every node."""
        return self.from_messages(times(rows, self.weights[0]), adjacency)

    def from_messages(
        self, message: Float[Tensor, "nodes width"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes classes"]:
        """Return the class probabilities of every node from its features times the first weights."""
        return self.normalised(self.layers(message, adjacency)[1])

    def layers(
        self, message: Float[Tensor, "nodes width"], adjacency: NormalisedAdjacency
    ) -> tuple[list[Float[Tensor, "nodes _"]], Float[Tensor, "nodes classes"]]:
        """Return the messages that every layer adds up, the first as given, and the class scores."""
        messages, scores = [message], adjacency(message) + self.biases[0]
        for layer, bias in enumerate(self.biases[1:]):
            messages.append(self.next_message(layer, scores))
            scores = adjacency(messages[-1]) + bias
        return messages, scores

    @property
    def weight(self) -> Tensor:
        """Return the first weights; features times these are the messages."""
        return self.weights[0]

    def next_message(self, layer: int, added: Float[Tensor, "n _"]) -> Float[Tensor, "n _"]:
        """Return what the next layer adds up, from the sums of a layer."""
        return torch.relu(added) @ self.weights[layer + 1]

    def normalised(self, scores: Float[Tensor, "n classes"]) -> Float[Tensor, "n classes"]:
        """Turn class scores into probabilities."""
        return torch.softmax(scores, dim=1) if self.exclusive else torch.sigmoid(scores)


def _messages(rows: Table, weight: Float[Tensor, "inputs outputs"]) -> Float[Tensor, "nodes outputs"]:
    """Return the product of rows and weights; few columns are multiplied as heads are."""
    if isinstance(rows, Tensor) and rows.device.type == "cpu" and weight.shape[1] <= _FEW:
        return multiply_heads(rows[:, None], weight[None])[:, 0].contiguous()
    return times(rows, weight)
