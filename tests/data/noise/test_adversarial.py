"""Attacks stay within their budget, do harm, depend on their seed alone, and take any kind of features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.noise import adversarial as attack
from gdpnet.data.noise.adversarial import attack_links, attacks, train_surrogate
from gdpnet.data.noise.registry import NOISES, corrupt, corrupt_all
from gdpnet.errors import GraphError
from helpers.graphs import assert_same, small_graph

CPU = torch.device("cpu")
CLEAN = SyntheticSettings(
    nodes=150,
    classes=3,
    words=200,
    topics_per_class=4,
    spurious_links=0.0,
    corrupted_features=0.0,
    wrong_labels=0.0,
)


@pytest.fixture(autouse=True)
def small_attacks(monkeypatch):
    monkeypatch.setattr(attack, "BLOCK", 4000)
    monkeypatch.setattr(attack, "STEPS", 30)
    monkeypatch.setattr(attack, "EPOCHS", 60)


def accuracy(graph: Graph) -> float:
    """Train a network on a graph and return its accuracy on the test nodes."""
    torch.manual_seed(0)
    model = train_surrogate(graph, CPU)
    with torch.no_grad():
        chances = model(model.project(graph.features), torch.stack([graph.neighbour, graph.target]))
    test = graph.nodes_in("test")
    return float((chances.argmax(dim=1) == graph.labels)[test].float().mean())


@pytest.mark.parametrize("kind", ["prbcd", "grbcd"])
def test_an_attack_hurts_more_than_the_same_number_of_random_links(kind):
    graph = synthetic_graph(CLEAN)
    attacked = corrupt(graph, kind, 0.3, 0, NOISES | attacks(CPU))
    by_chance = corrupt(graph, "random-links", 0.3, 0)
    assert accuracy(graph) > 0.8
    assert accuracy(attacked.graph) < accuracy(by_chance.graph) - 0.1


@pytest.mark.parametrize("greedy", [False, True], ids=["prbcd", "grbcd"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_an_attack_stays_within_its_budget_and_records_its_changes(greedy, directed):
    graph = synthetic_graph(CLEAN)
    if directed:
        graph = graph.keep_edges(graph.neighbour < graph.target)
    weighted = replace(graph, edge_weight=torch.arange(graph.num_edges) / 7, truth=None)
    noisy = attack_links(weighted, 0.1, 1, CPU, greedy=greedy)
    links = graph.num_edges // (1 if directed else 2)
    changes = noisy.added.shape[1] + noisy.removed.shape[1]
    assert 0 < changes <= round(0.1 * links)
    ways = 1 if directed else 2
    assert noisy.graph.num_edges == graph.num_edges + ways * (noisy.added.shape[1] - noisy.removed.shape[1])
    assert int(noisy.graph.truth.spurious.sum()) == ways * noisy.added.shape[1]
    assert directed or bool((noisy.graph.reverse >= 0).all())
    assert not bool((noisy.graph.target == noisy.graph.neighbour).any())
    assert noisy.features_of.numel() == noisy.labels_of.numel() == 0
    assert noisy.graph.features is graph.features
    assert noisy.graph.edge_weight.shape == noisy.graph.neighbour.shape


@pytest.mark.slow
@pytest.mark.parametrize("greedy", [False, True], ids=["prbcd", "grbcd"])
def test_an_attack_depends_on_its_seed_alone_and_restores_the_state_of_torch(greedy):
    graph = synthetic_graph(CLEAN)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first = attack_links(graph, 0.1, 1, CPU, greedy=greedy)
    assert torch.equal(torch.rand(3), expected)
    assert_same(first.graph, attack_links(graph, 0.1, 1, CPU, greedy=greedy).graph)
    assert first.added.tolist() != attack_links(graph, 0.1, 2, CPU, greedy=greedy).added.tolist()


def test_dense_features_and_unknown_test_labels_can_be_attacked_too():
    graph = synthetic_graph(CLEAN)
    hidden = torch.where(graph.split == 3, -1, graph.labels)
    dense = torch.from_numpy(graph.features.to_scipy().toarray())
    noisy = attack_links(replace(graph, features=dense, labels=hidden, truth=None), 0.1, 0, CPU)
    assert noisy.added.shape[1] > 0
    assert torch.equal(noisy.graph.labels, hidden)


def test_attacks_compose_with_noise():
    graph = replace(synthetic_graph(CLEAN), truth=None)
    noisy = corrupt_all(graph, [("flipped-labels", 0.2), ("grbcd", 0.05)], 0, NOISES | attacks(CPU))
    assert noisy.labels_of.numel() == 15  # of 75 training nodes
    assert noisy.added.shape[1] > 0
    assert torch.equal(noisy.graph.truth.clean_labels, graph.labels)


def test_no_budget_is_no_attack():
    graph = synthetic_graph(CLEAN)
    noisy = attack_links(graph, 0.0, 0, CPU)
    assert_same(noisy.graph, graph)
    assert noisy.added.shape == noisy.removed.shape == (2, 0)


@pytest.mark.parametrize(
    ("graph", "rate", "sentence"),
    [
        (small_graph(), -1.0, "the rate of prbcd must be a number from 0, found -1"),
        (small_graph(), 2.0, "the rate of prbcd is a share and must lie between 0 and 1, found 2"),
        (
            replace(small_graph(), split=torch.ones(4, dtype=torch.int8)),
            0.5,
            "an attack needs test nodes to mislead, found none",
        ),
        (
            replace(small_graph(), split=torch.full((4,), 3, dtype=torch.int8)),
            0.5,
            "an attack needs labelled training nodes of two classes or more",
        ),
        (
            Graph.build(np.triu_indices(4, 1), np.eye(4), [0, 1, 0, 1], split=[1, 1, 3, 3]),
            1.0,
            "prbcd=1 must change 6 links, but at most 3 can change among 4 nodes",
        ),
    ],
)
def test_graphs_that_cannot_be_attacked_are_refused(graph, rate, sentence):
    with pytest.raises(GraphError) as refusal:
        attack_links(graph, rate, 0, CPU)
    assert str(refusal.value) == sentence
