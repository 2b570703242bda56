"""The ensemble of heads: arithmetic of the weights, and predictions as weighted means."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.inference import ensemble
from gdpnet.inference.ensemble import Ensemble, HeadWeights, aggregate, cleaned_adjacency, hop_features
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import HopwiseNetwork
from gdpnet.representation.all_edges import AllEdgesNetwork
from gdpnet.representation.gcn import GCN
from gdpnet.representation.linear import LinearModels
from gdpnet.representation.trees import BoostedTrees, trees_of
from helpers.setups import random_graph, random_setup

CONFIG = Config().with_values({"representation": {"width": 4}, "policy": {"hidden": [5, 4]}})
THRESHOLD = 0.5


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(3, nodes=12, links=24)


@pytest.fixture(scope="module")
def setup(graph) -> tuple[Networks, Selected]:
    """Return networks of all heads with random weights, and random decisions on a small graph."""
    draws = torch.Generator().manual_seed(1)
    policy, aggregators, prepared = random_setup(graph, CONFIG, fold_models=2)
    hopwise, gcn = HopwiseNetwork(4, 4, 3, 2, hops=3), GCN(4, 4, 3)
    hopwise.initialise(draws)
    gcn.initialise(draws)
    probability = torch.rand(prepared.neighbour.numel(), generator=draws)
    selected = Selected(probability, probability > 0.5, torch.ones_like(probability) > 0, prepared)
    networks = Networks(aggregators)
    networks.policy, networks.hopwise, networks.gcn = policy, hopwise, gcn
    networks.all_edges = AllEdgesNetwork(4, 4, 3, fold_models=2)
    networks.all_edges.initialise(draws)
    networks.trees = some_trees(prepared.own.numpy())
    networks.linear = LinearModels(4, 3, fold_models=1)
    with torch.no_grad():
        networks.linear.weight.copy_(torch.randn(1, 4, 3, generator=draws))
        networks.linear.bias.fill_(0.5)
    return networks, selected


def some_trees(rows: np.ndarray) -> BoostedTrees:
    """Return trees of three classes, fitted to many copies of some rows."""
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2)
    model.fit(np.tile(rows, (5, 1)), np.tile(np.arange(len(rows)) % 3, 5))
    return BoostedTrees(trees_of([[(model, model.classes_)]], 3))


# --- weights ---


def test_without_other_heads_the_aggregator_has_all_the_weight():
    assert HeadWeights() == (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_the_hopwise_head_takes_its_share_from_the_aggregator():
    assert HeadWeights().with_hopwise(0.5) == (0.5, 0.5, 0.0, 0.0, 0.0, 0.0)
    assert HeadWeights().with_hopwise(1.0) == (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    assert HeadWeights().with_hopwise(0.0) == HeadWeights()


def test_the_gcn_head_takes_its_weight_from_the_others_in_proportion():
    assert HeadWeights().with_gcn(0.5) == (0.5, 0.0, 0.5, 0.0, 0.0, 0.0)
    assert HeadWeights().with_hopwise(1.0).with_gcn(0.25) == (0.0, 0.75, 0.25, 0.0, 0.0, 0.0)
    both = HeadWeights().with_hopwise(0.25).with_gcn(0.2)
    assert both == pytest.approx((0.6, 0.2, 0.2, 0.0, 0.0, 0.0))


def test_any_head_takes_its_weight_from_the_others_in_proportion():
    weights = HeadWeights().with_gcn(0.5).with_head("trees", 0.2)
    assert weights == pytest.approx((0.4, 0.0, 0.4, 0.0, 0.2, 0.0))
    assert str(weights) == "aggregator 0.40, GCN head 0.40, trees head 0.20"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("weight", [0.0, 0.2, 0.5, 1.0])
def test_weights_add_up_to_one(share, weight):
    assert sum(HeadWeights().with_hopwise(share).with_gcn(weight)) == pytest.approx(1.0)


# --- predictions ---


@torch.no_grad()
def gcn_alone(networks: Networks, selected: Selected) -> torch.Tensor:
    adjacency = cleaned_adjacency(selected, THRESHOLD)
    return networks.gcn.to_probabilities(selected.prepared.features, adjacency)


@torch.no_grad()
def all_edges_alone(networks: Networks, selected: Selected) -> torch.Tensor:
    """Return the head's probabilities from dense matrices."""
    prepared, network = selected.prepared, networks.all_edges
    near = torch.eye(prepared.num_nodes)
    owner = torch.repeat_interleave(torch.arange(prepared.num_nodes), prepared.row_ptr.diff())
    near[owner, prepared.neighbour] += 1.0
    scale = near.sum(dim=1).rsqrt()
    near = scale[:, None] * near * scale
    own, around = ((prepared.features @ one).unflatten(1, (2, 4)) for one in network.weight.chunk(2, dim=1))
    hidden = torch.relu(own + torch.einsum("ab,bmd->amd", near, around) + network.bias)
    mixed = torch.einsum("ab,bmd->amd", near, hidden)
    scores = hidden.transpose(0, 1) @ network.head_weight + mixed.transpose(0, 1) @ network.next_weight
    return (scores + network.head_bias[:, None]).softmax(dim=2).mean(dim=0)


@pytest.mark.parametrize(
    "weights",
    [
        HeadWeights(),
        HeadWeights(0.0, 1.0),
        HeadWeights(0.5, 0.5),
        HeadWeights(0.5, 0.0, 0.5),
        HeadWeights(0.0, 0.25, 0.75),
        HeadWeights(0.6, 0.3, 0.1),
        HeadWeights(0.0, 0.0, 0.0, 0.0, 1.0),
        HeadWeights(0.2, 0.0, 0.0, 0.5, 0.3),
        HeadWeights(0.1, 0.2, 0.3, 0.15, 0.05, 0.2),
    ],
)
@torch.no_grad()
def test_probabilities_are_the_mean_over_heads_by_their_weights(weights, setup, graph):
    networks, selected = setup
    nodes = torch.tensor([7, 0, 3, 3])
    edge_weight = selected.weight("sampled")
    embedded, aggregated = aggregate(networks.aggregators, selected.prepared, nodes, edge_weight)
    hidden = networks.hopwise.embed(hop_features(selected.prepared, nodes, edge_weight))
    heads = (
        aggregated,
        networks.hopwise.fold_probabilities(hidden).mean(dim=1),
        gcn_alone(networks, selected)[nodes],
        all_edges_alone(networks, selected)[nodes],
        networks.trees.to_probabilities(selected.prepared.own[nodes]),
        torch.softmax(selected.prepared.own[nodes] @ networks.linear.weight[0] + 0.5, dim=1),
    )
    expected = sum(weight * found for weight, found in zip(weights, heads, strict=True))
    heads_with_weights = Ensemble(networks, weights, THRESHOLD)
    found = heads_with_weights.probabilities(selected, nodes, "sampled")
    torch.testing.assert_close(found, expected)
    own = heads_with_weights.local(selected.prepared, nodes, edge_weight)[0]
    by_hops = weights.aggregator == 0 and weights.hopwise > 0
    torch.testing.assert_close(own, hidden[:, 0] if by_hops else embedded)
    by_head = heads_with_weights.by_head(selected, nodes, "sampled")
    assert list(by_head) == [name for name, weight in weights._asdict().items() if weight > 0]
    torch.testing.assert_close(heads_with_weights.mix(by_head), expected)
    assert heads_with_weights.uses_gcn == (weights.gcn > 0)


def test_the_number_of_targets_at_once_does_not_change_the_result(setup, monkeypatch):
    networks, selected = setup
    everyone, heads = torch.arange(12), Ensemble(networks, HeadWeights(0.5, 0.5), THRESHOLD)
    whole = heads.local(selected.prepared, everyone, selected.probability)
    monkeypatch.setattr(ensemble, "_TARGETS_AT_ONCE", 5)
    monkeypatch.setattr(ensemble, "_EDGES_AT_ONCE", 3)
    parts = heads.local(selected.prepared, everyone, selected.probability)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)


def test_a_gcn_head_of_weight_one_predicts_alone_and_embeddings_stay_those_of_the_aggregator(setup):
    networks, selected = setup
    targets = torch.arange(12)
    alone = Ensemble(networks, HeadWeights().with_hopwise(0.5).with_gcn(1.0), THRESHOLD)
    found = alone.probabilities(selected, targets, "sampled")
    torch.testing.assert_close(found, gcn_alone(networks, selected)[targets])
    weight = selected.weight("sampled")
    embedded = aggregate(networks.aggregators, selected.prepared, targets, weight)[0]
    torch.testing.assert_close(alone.local(selected.prepared, targets, weight)[0], embedded)
