"""GNNGuard: neighbours weigh as much as they are similar, layer by layer (Zhang and Zitnik, 2020)."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet._core.csr import sum_by_owner
from gdpnet.benchmark.baselines.filters import similarity_scores
from gdpnet.benchmark.baselines.fitting import Inputs, Settings, Side, Task
from gdpnet.benchmark.baselines.networks import Layer, layer_sizes
from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.representation.sparse import Table, drop_values, times

LEAST = 0.1
"""A cosine below this prunes the edge."""

MEMORY = 0.5
"""Share of the previous layer in the trust of a layer."""


class GNNGuard(nn.Module):
    """Layers whose edges weigh as much as the cosine of their inputs; at first that of the raw features."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.layers = nn.ModuleList(
            Layer(before, after, message=True, own=False) for before, after in layer_sizes(inputs, settings)
        )

    def forward(self, side: Side) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node."""
        links: Links = side.links
        rows: Table = side.features
        trust = links.weight.new_zeros(0)
        for number, layer in enumerate(self.layers):
            similarity = links.weight
            if number > 0:
                assert isinstance(rows, Tensor)
                rows = F.relu(rows)
                similarity = _cosines(links, rows)
            fresh, own = trust_of(links, similarity)
            trust = fresh if number == 0 else MEMORY * trust + (1.0 - MEMORY) * fresh
            matrix = links.matrix.with_value(trust)
            rows = layer(
                drop_values(rows, self.dropout, self.training),
                lambda message, matrix=matrix, own=own: times(matrix, message) + own * message,
            )
        assert isinstance(rows, Tensor)
        return rows


def trust_of(
    links: Links, similarity: Float[Tensor, "edges"]
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "nodes 1"]]:
    """Return the weight of each neighbour, and of the node itself.

    With s the similarity where it is at least `LEAST` and N its number of such neighbours, a neighbour weighs
    s / Σs · N / (N + 1) and the node itself 1 / (N + 1).
    """
    similar = torch.where(similarity >= LEAST, similarity, 0.0)
    total = sum_by_owner(similar, links.target, links.num_nodes)
    count = sum_by_owner((similar > 0).float(), links.target, links.num_nodes)
    scale = count / (count + 1.0) / total.clamp(min=1e-6)
    return similar * scale[links.target], (1.0 / (count + 1.0))[:, None]


def guard_inputs(inputs: Inputs, task: Task) -> Inputs:
    """Return the inputs with the cosine of the raw features as edge weights."""
    sides = []
    for side, graph in ((inputs.train, task.train), (inputs.whole, task.whole)):
        cosine = similarity_scores(graph, "cosine").to(inputs.targets.device)
        sides.append(replace(side, links=side.links.with_weight(cosine)))
    return replace(inputs, train=sides[0], whole=sides[1])


@torch.no_grad()
def _cosines(links: Links, rows: Tensor) -> Float[Tensor, "edges"]:
    unit = F.normalize(rows, dim=1)
    return (unit[links.target] * unit[links.neighbour]).sum(dim=1)
