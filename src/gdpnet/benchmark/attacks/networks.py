"""GCN, GCN behind a filter, and GNNGuard as victims; on links of weight 0 and 1 each relaxed model is the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import find_in_rows, sum_by_owner
from gdpnet.benchmark.attacks.problem import Candidates, Relaxed, weighted_sum, with_links
from gdpnet.benchmark.baselines.filters import kept_share, similarity_scores
from gdpnet.benchmark.baselines.fitting import Fitted, Side
from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.benchmark.baselines.robust import LEAST, MEMORY
from gdpnet.data.features import normalise
from gdpnet.data.graph import Graph
from gdpnet.representation.sparse import Table, table_of

Weights = Float[Tensor, "edges"]
"""A weight, or a similarity, per directed edge of some candidates."""

FILTERS = {"jaccard-gcn": "jaccard", "cosine-gcn": "cosine"}
"""Filters by the similarity of features that can be attacked, with the similarity."""

NETWORKS = ("gcn", *FILTERS, "gnnguard")
"""The baselines that can be attacked."""


@dataclass(frozen=True)
class NetworkVictim:
    """A fitted baseline."""

    method: str
    fitted: Fitted
    graph: Graph
    device: torch.device

    @cached_property
    def _features(self) -> Table:
        return table_of(normalise(self.graph.features, "l2"), self.device)

    @property
    def _similarity(self) -> str:
        return FILTERS.get(self.method, "cosine")

    @torch.no_grad()
    def scores(self, graph: Graph) -> Float[Tensor, "nodes classes"]:
        """Return the logits of every node of a graph with the same features."""
        links = Links.of(graph, self.device)
        if self.method != "gcn":
            similarity = similarity_scores(graph, self._similarity)
            if self.method in FILTERS:
                similarity = kept_share(similarity, self._kept_share).float()
            links = links.with_weight(similarity.to(self.device))
        logits: Tensor = self.fitted.network(Side(self._features, links))
        return logits.float().cpu()

    @property
    def _kept_share(self) -> float:
        return float(self.fitted.chosen["kept_share"])

    def relax(self, graph: Graph, candidates: Candidates) -> Relaxed:
        """Return the network over weighted candidates; nothing but their similarity of features is fixed."""
        similarity = torch.ones(0)
        if self.method != "gcn":
            similarity = self._similarities(candidates).to(self.device)
        through = self._guarded if self.method == "gnnguard" else self._convolved
        return partial(through, candidates.to(self.device), similarity)

    def _similarities(self, candidates: Candidates) -> Weights:
        """Return the similarity of each candidate's features, as if all candidates were links."""
        every = with_links(self.graph, candidates.key)
        place = find_in_rows(every.row_ptr, every.neighbour, candidates.target, candidates.neighbour)
        return similarity_scores(every, self._similarity)[place]

    def _convolved(
        self, pairs: Candidates, similarity: Weights, weight: Float[Tensor, "pairs"]
    ) -> Float[Tensor, "nodes classes"]:
        both = weight.to(self.device).repeat(2)
        if self.method in FILTERS:
            both = both * (similarity >= weighted_quantile(similarity, both, self._kept_share))
        return self._layers(lambda number, rows: symmetric_mean(pairs, both))

    def _guarded(
        self, pairs: Candidates, similarity: Weights, weight: Float[Tensor, "pairs"]
    ) -> Float[Tensor, "nodes classes"]:
        both, trust = weight.to(self.device).repeat(2), torch.zeros(0)

        def propagate(number: int, rows: Any) -> Callable[[Tensor], Tensor]:
            nonlocal trust
            near = similarity
            if number > 0:
                unit = F.normalize(rows.relu(), dim=1)
                near = (unit[pairs.target] * unit[pairs.neighbour]).sum(dim=1)
            fresh, own = weighted_trust(pairs, near, both)
            trust = fresh if number == 0 else MEMORY * trust + (1.0 - MEMORY) * fresh
            value = trust
            return lambda message: weighted_sum(pairs, value, message) + own * message

        return self._layers(propagate)

    def _layers(self, over: Callable[[int, Any], Callable[[Tensor], Tensor]]) -> Tensor:
        """Return the logits of a network whose propagation is ``over`` the number and the input of a layer."""
        network, rows = self.fitted.network, self._features
        for number, layer in enumerate(network.layers):
            rows = layer(network.between(rows, number), over(number, rows))
        assert isinstance(rows, Tensor)
        return rows


def symmetric_mean(pairs: Candidates, weight: Weights) -> Callable[[Tensor], Tensor]:
    """Return GCN's propagation over weighted candidates: D^(-1/2) (A + I) D^(-1/2) H."""
    scale = (1.0 + sum_by_owner(weight, pairs.target, pairs.nodes)).rsqrt()[:, None]
    return lambda message: scale * (weighted_sum(pairs, weight, scale * message) + scale * message)


def weighted_trust(
    pairs: Candidates, similarity: Weights, weight: Weights
) -> tuple[Weights, Float[Tensor, "nodes 1"]]:
    """Return GNNGuard's weight of each neighbour and of the node itself, with a neighbour present by its weight."""
    near = similarity >= LEAST
    similar = torch.where(near, similarity, 0.0) * weight
    total = sum_by_owner(similar, pairs.target, pairs.nodes)
    count = sum_by_owner(near.float() * weight, pairs.target, pairs.nodes)
    scale = count / (count + 1.0) / total.clamp(min=1e-6)
    return similar * scale[pairs.target], (1.0 / (count + 1.0))[:, None]


@torch.no_grad()
def weighted_quantile(similarity: Weights, weight: Weights, share: float) -> float:
    """Return the similarity of the last edge of the best-scored share of the total weight."""
    if share >= 1.0 or not similarity.numel():
        return -torch.inf
    order = similarity.argsort(descending=True, stable=True)
    reached = weight[order].double().cumsum(dim=0)
    wanted = torch.tensor(max(round(float(reached[-1]) * share), 1), dtype=torch.double)
    place = torch.searchsorted(reached, wanted.to(reached.device) - 1e-6).clamp(max=order.numel() - 1)
    return float(similarity[order[place]])
