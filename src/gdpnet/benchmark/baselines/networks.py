"""The usual networks: MLP, GCN, GraphSAGE and GAT, over edges that may have weights.

Of torch_geometric only the attention is used: its linear layers need dense features, and its SAGEConv takes no edge
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

    activation: Any = staticmethod(F.relu)

    def __init__(
        self, inputs: Inputs, settings: Settings, propagate: Propagate | None = None, *, own: bool = False
    ) -> None:
        super().__init__()
        self.propagate, self.own, self.dropout = propagate, own, settings.dropout
        self.layers = nn.ModuleList(self.make_layers(inputs, settings))

    def make_layers(self, inputs: Inputs, settings: Settings) -> Iterator[nn.Module]:
        """Build the layers, from the features up."""
        for before, after in layer_sizes(inputs, settings):
            yield Layer(before, after, message=self.propagate is not None, own=self.own)

    def over(self, links: Any) -> Any:
        """Return what a layer needs in order to propagate over some edges."""
        return None if self.propagate is None else partial(self.propagate, links)

    def forward(self, side: Side) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node."""
        return self._through(side, len(self.layers))

    def represent(self, side: Side) -> Float[Tensor, "nodes width"]:
        """Return the input of the last layer; the logits if there is only one layer."""
        layers = len(self.layers)
        return self(side) if layers == 1 else self.activation(self._through(side, layers - 1))

    def _through(self, side: Side, layers: int) -> Any:
        rows, edges = side.features, self.over(side.links)
        for number, layer in enumerate(self.layers[:layers]):
            rows = layer(self.between(rows, number), edges)
        return rows

    def between(self, rows: Table, number: int) -> Any:
        """Return the input of a layer after the activation (not for the first) and dropout."""
        return drop_values(self.activation(rows) if number > 0 else rows, self.dropout, self.training)


class GAT(Stack):
    """Graph attention; an edge weight multiplies the attention before it is normalised."""

    activation: Any = staticmethod(F.elu)

    def make_layers(self, inputs: Inputs, settings: Settings) -> Iterator[nn.Module]:
        """Build the layers; the heads of a hidden one share its width, the last has one head."""
        before, each = inputs.num_features, max(1, settings.width // settings.heads)
        for _ in range(settings.layers - 1):
            yield WeightedAttention(before, each, settings.heads, settings.dropout)
            before = each * settings.heads
        yield WeightedAttention(before, inputs.num_classes, 1, settings.dropout)

    def over(self, links: Links) -> tuple[Tensor, Tensor]:
        """Return the edges and self-loops with the logarithms of their weights."""
        edges = torch.stack([links.neighbour, links.target])
        return add_self_loops(edges, links.weight.log(), 0.0, links.num_nodes)


class WeightedAttention(GATConv):
    """A projection and the attention of torch_geometric, with log-weights added to its logits."""

    def __init__(self, before: int, each: int, heads: int, dropout: float) -> None:
        weight = _weight(before, heads * each)
        super().__init__(heads * each, each, heads=heads, dropout=dropout, add_self_loops=False)
        self.lin, self.weight = nn.Identity(), weight

    def forward(self, rows: Table, edges: tuple[Tensor, Tensor]) -> Tensor:
        """Return the new rows from edges and their log-weights."""
        return super().forward(times(rows, self.weight), *edges)

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


mlp = partial(Stack, own=True)
"""A network that ignores all edges."""

gcn = partial(Stack, propagate=symmetric_mean)
"""The graph convolutional network of Kipf and Welling (2017)."""

graphsage = partial(Stack, propagate=neighbour_mean, own=True)
"""GraphSAGE with the mean of all neighbours (Hamilton et al., 2017)."""


def _weight(inputs: int, outputs: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
