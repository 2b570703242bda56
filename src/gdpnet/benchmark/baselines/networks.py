"""The usual networks: MLP, GCN, GraphSAGE and GAT, over links that may have weights."""

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
from torch_geometric.utils import softmax

from gdpnet.benchmark.baselines.fitting import Build, Inputs, Settings, Side
from gdpnet.benchmark.baselines.propagation import Links, neighbour_mean, symmetric_mean
from gdpnet.representation.sparse import Table, drop_values, times

Mixing = Callable[[Any, Tensor], Tensor]
"""How a node hears its neighbours: links and what every node gives, to what every node hears."""


class Layer(nn.Module):
    """One layer: what is heard of the neighbours, M(H W), and of the node itself, H V, and a bias."""

    def __init__(self, inputs: int, outputs: int, *, given: bool, own: bool) -> None:
        super().__init__()
        self.given = _weight(inputs, outputs) if given else None
        self.own = _weight(inputs, outputs) if own else None
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(
        self, rows: Table, mix: Callable[[Tensor], Tensor] | None, own_rows: Table | None = None
    ) -> Tensor:
        """Return the new rows; ``own_rows`` are those of the targets where they are not all of ``rows``."""
        heard: Tensor = self.bias
        if self.given is not None and mix is not None:
            heard = heard + mix(times(rows, self.given))
        if self.own is not None:
            heard = heard + times(rows if own_rows is None else own_rows, self.own)
        return heard


class Stack(nn.Module):
    """Layers with relu and dropout between them; which network it is depends on how its layers mix."""

    def __init__(self, inputs: Inputs, settings: Settings, mixing: Mixing | None, *, own: bool) -> None:
        super().__init__()
        self.mixing, self.dropout = mixing, settings.dropout
        sizes = layer_sizes(inputs, settings)
        self.layers = nn.ModuleList(
            Layer(before, after, given=mixing is not None, own=own) for before, after in sizes
        )

    def forward(self, side: Side) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node."""
        rows = self._through(side, len(self.layers))
        assert isinstance(rows, Tensor)
        return rows

    def represent(self, side: Side) -> Float[Tensor, "nodes width"]:
        """Return what the last layer reads of every node; its logits where it is the only one."""
        if len(self.layers) == 1:
            return self(side)
        rows = self.between(self._through(side, len(self.layers) - 1), 1)
        assert isinstance(rows, Tensor)
        return rows

    def _through(self, side: Side, layers: int) -> Table:
        mix = None if self.mixing is None else partial(self.mixing, side.links)
        rows = side.features
        for number, layer in enumerate(self.layers[:layers]):
            rows = layer(self.between(rows, number), mix)
        return rows

    def between(self, rows: Table, number: int) -> Table:
        """Prepare the input of a layer: relu but for the first, and dropout."""
        if number > 0:
            assert isinstance(rows, Tensor)
            rows = F.relu(rows)
        return drop_values(rows, self.dropout, self.training)


class GAT(nn.Module):
    """Graph attention; a weight of a link multiplies its attention before it is normalised."""

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
        """Return what the last layer reads of every node; its logits where it is the only one."""
        layers = len(self.weights)
        return self(side) if layers == 1 else F.elu(self._through(side, layers - 1))

    def _through(self, side: Side, layers: int) -> Tensor:
        links: Links = side.links
        everyone = torch.arange(links.num_nodes, device=links.target.device)
        loops = everyone.expand(2, -1)
        edge_index = torch.cat([torch.stack([links.neighbour, links.target]), loops], dim=1)
        log_weight = torch.cat([links.weight.log(), torch.zeros_like(everyone, dtype=links.weight.dtype)])
        rows: Table = side.features
        for number in range(layers):
            weight, attention = self.weights[number], self.attention[number]
            if number > 0:
                assert isinstance(rows, Tensor)
                rows = F.elu(rows)
            given = times(drop_values(rows, self.dropout, self.training), weight)
            rows = attention(given, edge_index, log_weight)
        assert isinstance(rows, Tensor)
        return rows


class WeightedAttention(GATConv):
    """torch_geometric's attention on rows that were projected already, with log-weights added to its logits."""

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
    """Return a network that hears no neighbour."""
    return Stack(inputs, settings, None, own=True)


def gcn(inputs: Inputs, settings: Settings) -> Stack:
    """Return the graph convolutional network of Kipf and Welling (2017)."""
    return Stack(inputs, settings, symmetric_mean, own=False)


def graphsage(inputs: Inputs, settings: Settings) -> Stack:
    """Return GraphSAGE with the mean of all neighbours (Hamilton et al., 2017)."""
    return Stack(inputs, settings, neighbour_mean, own=True)


BACKBONES: dict[str, Build] = {"gcn": gcn, "gat": GAT, "graphsage": graphsage}
"""Networks that can be trained on a cleaned graph."""


def _weight(inputs: int, outputs: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
