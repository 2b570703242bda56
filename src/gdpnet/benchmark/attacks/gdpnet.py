"""GDPNet as a victim: its own predictions, and the relaxed model of its policy and heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.benchmark.attacks.networks import symmetric_mean
from gdpnet.benchmark.attacks.problem import Candidates, Relaxed, reversed_edges, weighted_sum
from gdpnet.benchmark.attacks.relaxed_policy import Means, RelaxedPolicy, Weights, means_of, taken_out
from gdpnet.data.features import Features
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import pairs_between
from gdpnet.data.prepare import Prepared, prepare, prepare_nodes
from gdpnet.errors import ConfigError
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictors import make_predictor
from gdpnet.inference.threshold import KEEP_ALL
from gdpnet.representation.all_edges import SharedNetwork
from gdpnet.representation.sparse import times

_SHARPNESS = 10.0
"""Slope of the soft step that stands for the threshold of the cleaned graph in gradients."""

_TINY = 1e-12

Classes = Float[Tensor, "nodes classes"]


@dataclass(frozen=True)
class GDPNetVictim:
    """A fitted GDPNet for classification."""

    model: TrainedModel
    graph: Graph

    def __post_init__(self) -> None:
        """Refuse models that have no relaxed form."""
        if self.model.config.policy.hops > 1:
            raise ConfigError("an adaptive attack on GDPNet needs policy.hops = 1: candidates are neighbours")

    @torch.no_grad()
    def scores(self, graph: Graph) -> Classes:
        """Return the logarithm of the class probabilities that the model predicts."""
        found = make_predictor(self.model, graph).probabilities()
        return torch.from_numpy(found).float().clamp(min=_TINY).log()

    @cached_property
    def _prepared(self) -> Prepared:
        model = self.model
        return prepare(model.as_read(model.matched(self.graph)), model.config, model.device)

    @torch.no_grad()
    def relax(self, graph: Graph, candidates: Candidates) -> Relaxed:
        """Return the model over weighted candidates, with the pair features of ``graph``."""
        model, features = self.model, self._prepared.features
        pairs, policy = candidates.to(model.device), None
        if model.networks.policy is not None:
            read = model.as_read(model.matched(graph))
            tables = prepare_nodes(read, model.config, torch.device("cpu"))[1]
            found = pairs_between(tables, candidates.target, candidates.neighbour).to(model.device)
            aggregators = model.networks.aggregators
            own = aggregators.project_own(features, slice(0, 1))[:, 0]
            message = aggregators.project_message(features, slice(0, 1))[:, 0]
            policy = RelaxedPolicy(
                model.networks.policy, aggregators, model.config, pairs, own, message, found
            )
        return partial(RelaxedHeads(model, self._prepared, pairs, policy).log_probabilities)


class RelaxedHeads:
    """The ensemble of heads over weighted candidates, with the tables that do not depend on the weights."""

    def __init__(
        self, model: TrainedModel, prepared: Prepared, pairs: Candidates, policy: RelaxedPolicy | None
    ) -> None:
        self.model, self.prepared, self.pairs, self.policy = model, prepared, pairs, policy
        self.two_hops = model.config.representation.hops == 2
        features, networks, weights = prepared.features, model.networks, model.weights
        self.own = networks.aggregators.project_own(features).flatten(1)
        self.message = networks.aggregators.project_message(features).flatten(1)
        self.hops = self._hop_tables(features) if weights.hopwise > 0 else []
        self.gcn = times(features, networks.gcn.weights[0]) if networks.gcn and weights.gcn > 0 else None
        everyone = torch.arange(prepared.num_nodes, device=prepared.device)
        self.alone = model.ensemble.alone(prepared, everyone)

    def _hop_tables(self, features: Features) -> list[Tensor]:
        assert self.model.networks.hopwise is not None
        return [times(features, weight) for weight in self.model.networks.hopwise.weight]

    def log_probabilities(self, weight: Float[Tensor, "pairs"]) -> Classes:
        """Return the logarithm of the ensemble's class probabilities."""
        both = weight.to(self.model.device).repeat(2)
        if self.policy is None:
            probability, used = torch.ones_like(both), both
            mean_weight = both if self.two_hops else torch.zeros_like(both)
        else:
            probability, used, mean_weight = self.policy.used(both)
        weights, mixed = self.model.weights._asdict(), list[Tensor]()
        for name, by in {**self._by_graph(both, probability, used, mean_weight), **self.alone}.items():
            mixed.append(weights[name] * by)
        return torch.stack(mixed).sum(dim=0).clamp(min=_TINY).log()

    def _by_graph(
        self, weight: Weights, probability: Weights, used: Weights, mean_weight: Weights
    ) -> dict[str, Classes]:
        """Return the class probabilities by each head that reads edges and has a weight."""
        found, networks, weights = dict[str, Tensor](), self.model.networks, self.model.weights
        if weights.aggregator > 0:
            found["aggregator"] = self._aggregated(used, mean_weight)
        if weights.hopwise > 0:
            found["hopwise"] = self._hopwise(used, mean_weight)
        if weights.gcn > 0 and networks.gcn is not None:
            found["gcn"] = self._convolved(weight, probability)
        if weights.all_edges > 0 and networks.all_edges is not None:
            found["all_edges"] = self._over_all_edges(weight)
        return found

    def _aggregated(self, used: Weights, mean_weight: Weights) -> Classes:
        """Return the mean probabilities of the aggregators: each of h = relu(mean of messages) and a head."""
        aggregators, pairs = self.model.networks.aggregators, self.pairs
        rows, back, whole = self.message, torch.zeros_like(used), torch.ones_like(used)
        if self.two_hops:
            means: Means = means_of(pairs, self.message, mean_weight)
            rows, (back, whole) = means.rows, taken_out(means, pairs.neighbour)
        received = weighted_sum(pairs, used * whole, rows)
        own_part = sum_by_owner(used * back, pairs.target, pairs.nodes)[:, None]
        total, count = (
            received - own_part * self.message,
            sum_by_owner(used, pairs.target, pairs.nodes)[:, None],
        )
        if aggregators.self_weight is None:
            hidden = (self.own + total) / (1.0 + count)
        else:
            hidden = total / count.clamp(min=1e-6) + self.own
        shape = (aggregators.fold_models, aggregators.width)
        embedded = torch.relu(hidden.unflatten(1, shape) + aggregators.bias)
        return aggregators.fold_probabilities(embedded).mean(dim=1)

    def _hopwise(self, used: Weights, mean_weight: Weights) -> Classes:
        """Return the mean probabilities of the hop-wise networks, from the projected rows of each hop."""
        network, pairs = self.model.networks.hopwise, self.pairs
        assert network is not None
        hidden = self.hops[0] + means_of(pairs, self.hops[1], used).rows
        if len(self.hops) == 3:
            around = means_of(pairs, self.hops[2], mean_weight).rows
            first = means_of(pairs, self.hops[2], used)
            hidden = hidden + (first.rows + weighted_sum(pairs, used, around)) / first.total[:, None]
        embedded = torch.relu(hidden.unflatten(1, (network.fold_models, network.width)) + network.bias)
        return network.fold_probabilities(embedded).mean(dim=1)

    def _convolved(self, weight: Weights, probability: Weights) -> Classes:
        """Return the probabilities of the GCN head on the cleaned graph."""
        gcn, message = self.model.networks.gcn, self.gcn
        assert gcn is not None
        assert message is not None
        cleaned = weight * cleaned_share(probability, self.model.threshold.threshold)
        propagate = symmetric_mean(self.pairs, cleaned)
        scores = propagate(message) + gcn.biases[0]
        for matrix, bias in zip(gcn.weights[1:], gcn.biases[1:], strict=True):
            scores = propagate(torch.relu(scores) @ matrix) + bias
        return gcn.normalised(scores)

    def _over_all_edges(self, weight: Weights) -> Classes:
        """Return the probabilities of the head that reads all edges alike."""
        network = self.model.networks.all_edges
        assert network is not None
        propagate = symmetric_mean(self.pairs, weight)
        message = times(self.prepared.features, network.weight)
        if isinstance(network, SharedNetwork):
            hidden = propagate(message) + network.biases[0]
            for layer in range(2):
                hidden = propagate(network.next_message(layer, hidden)) + network.biases[layer + 1]
            scores = hidden.unflatten(1, (network.fold_models, network.classes))
            return network.to_probabilities(scores, dim=2).mean(dim=1)
        own, around = message.chunk(2, dim=1)
        hidden = network.hidden(own + propagate(around))
        further = torch.einsum("nmd,mdc->nmc", hidden, network.next_weight)
        scores = network.logits(hidden) + propagate(further.flatten(1)).unflatten(1, further.shape[1:])
        return network.to_probabilities(scores, dim=2).mean(dim=1)


def cleaned_share(probability: Weights, threshold: float) -> Weights:
    """Return the weight of each edge in the cleaned graph; the threshold is a soft step in gradients alone."""
    if threshold == KEEP_ALL:
        return torch.ones_like(probability)
    both = probability / 2 + reversed_edges(probability) / 2
    soft = torch.sigmoid(_SHARPNESS * (both - threshold))
    return both * ((both >= threshold).float() + soft - soft.detach())
