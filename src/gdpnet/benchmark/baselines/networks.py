"""The usual networks: MLP, GCN, GraphSAGE and GAT, over edges that may have weights.

Of torch_geometric only the attention is used: its linear layers need dense features, and its SAGEConv takes no edge
weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import GATConv
from torch_geometric.utils import add_self_loops, softmax

from gdpnet.benchmark.baselines.fitting import Inputs, Settings, Side
from gdpnet.benchmark.baselines.propagation import Links, neighbour_mean, symmetric_mean
from gdpnet.representation.sparse import Table, drop_values, times

Propagate = Callable[[Any, Tensor], Tensor]
"""A propagation rule: edges and the message of each node, to what each node aggregates."""


class Layer(nn.Module):
    """One layer: the propagated messages M(H W), the node's own row H V, and a bias."""

    def __init__(self, inputs: int, outputs: int, *, message: bool, own: bool) -> None:
        super().__init__()
        self.message = _weight(inputs, outputs) if message else None
        self.own = _weight(inputs, outputs) if own else None
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(
        self, rows: Table, propagate: Callable[[Tensor], Tensor] | None, own_rows: Table | None = None
    ) -> Tensor:
        """Return the new rows; ``own_rows`` are those of the targets where they are not all of ``rows``."""
        result: Tensor = self.bias
        if self.message is not None and propagate is not None:
            result = result + propagate(times(rows, self.message))
        if self.own is not None:
            result = result + times(rows if own_rows is None else own_rows, self.own)
        return result


class Stack(nn.Module):
    """Layers with relu and dropout between them; the propagation rule makes it GCN, GraphSAGE or MLP."""

    def __init__(self, inputs: Inputs, settings: Settings, propagate: Propagate | None, *, own: bool) -> None:
        super().__init__()
        self.propagate, self.dropout = propagate, settings.dropout
        sizes = layer_sizes(inputs, settings)
        self.layers = nn.ModuleList(
            Layer(before, after, message=propagate is not None, own=own) for before, after in sizes
        )

    def forward(self, side: Side) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node."""
        rows = self._through(side, len(self.layers))
        assert isinstance(rows, Tensor)
        return rows

    def represent(self, side: Side) -> Float[Tensor, "nodes width"]:
        """Return the input of the last layer; the logits if there is only one layer."""
        if len(self.layers) == 1:
            return self(side)
        rows = self.between(self._through(side, len(self.layers) - 1), 1)
        assert isinstance(rows, Tensor)
        return rows

    def _through(self, side: Side, layers: int) -> Table:
        propagate = None if self.propagate is None else partial(self.propagate, side.links)
        rows = side.features
        for number, layer in enumerate(self.layers[:layers]):
            rows = layer(self.between(rows, number), propagate)
        return rows

    def between(self, rows: Table, number: int) -> Table:
        """Return the input of a layer after relu (not for the first) and dropout."""
        if number > 0:
            assert isinstance(rows, Tensor)
            rows = F.relu(rows)
        return drop_values(rows, self.dropout, self.training)


class GAT(nn.Module):
    """Graph attention; an edge weight multiplies the attention before it is normalised."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.weights, self.attention = nn.ParameterList(), nn.ModuleList()
        each = max(1, settings.width // settings.heads)
        before = inputs.num_features
        for _ in range(settings.layers - 1):
            self._add(before, each, settings.heads)
            before = each * settings.heads
        self._add(before, inputs.num_classes, 1)

    def _add(self, before: int, each: int, heads: int) -> None:
        self.weights.append(_weight(before, heads * each))
        self.attention.append(WeightedAttention(each, heads, self.dropout))

    def forward(self, side: Side) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node."""
        return self._through(side, len(self.weights))

    def represent(self, side: Side) -> Float[Tensor, "nodes width"]:
        """Return the input of the last layer; the logits if there is only one layer."""
        layers = len(self.weights)
        return self(side) if layers == 1 else F.elu(self._through(side, layers - 1))

    def _through(self, side: Side, layers: int) -> Tensor:
        links: Links = side.links
        edges = torch.stack([links.neighbour, links.target])
        edge_index, log_weight = add_self_loops(edges, links.weight.log(), 0.0, links.num_nodes)
        rows: Table = side.features
        for number in range(layers):
            weight, attention = self.weights[number], self.attention[number]
            if number > 0:
                assert isinstance(rows, Tensor)
                rows = F.elu(rows)
            projected = times(drop_values(rows, self.dropout, self.training), weight)
            rows = attention(projected, edge_index, log_weight)
        assert isinstance(rows, Tensor)
        return rows


class WeightedAttention(GATConv):
    """The attention of torch_geometric on projected rows, with log-weights added to its logits."""

    def __init__(self, each: int, heads: int, dropout: float) -> None:
        super().__init__(heads * each, each, heads=heads, dropout=dropout, add_self_loops=False)
        self.lin = nn.Identity()

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor,
        edge_attr: Tensor,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """Return the attention of each edge."""
        logits = F.leaky_relu(alpha_j + alpha_i, self.negative_slope) + edge_attr[:, None]
        return F.dropout(softmax(logits, index, ptr, dim_size), self.dropout, self.training)


def layer_sizes(inputs: Inputs, settings: Settings) -> list[tuple[int, int]]:
    """Return the width before and after each layer."""
    widths = [inputs.num_features, *[settings.width] * (settings.layers - 1), inputs.num_classes]
    return list(pairwise(widths))


def mlp(inputs: Inputs, settings: Settings) -> Stack:
    """Return a network that ignores all edges."""
    return Stack(inputs, settings, None, own=True)


def gcn(inputs: Inputs, settings: Settings) -> Stack:
    """Return the graph convolutional network of Kipf and Welling (2017)."""
    return Stack(inputs, settings, symmetric_mean, own=False)


def graphsage(inputs: Inputs, settings: Settings) -> Stack:
    """Return GraphSAGE with the mean of all neighbours (Hamilton et al., 2017)."""
    return Stack(inputs, settings, neighbour_mean, own=True)


def _weight(inputs: int, outputs: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
