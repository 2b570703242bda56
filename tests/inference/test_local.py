"""Answers for single nodes from their surroundings: those of the whole graph, and bit for bit the same always."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.extended import Addition, ExtendedGraph
from gdpnet.data.features import SparseRows, take_rows
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.local import GROUP, LocalPredictor
from gdpnet.inference.predictors import make_predictor
from gdpnet.inference.reach import reach_of
from gdpnet.inference.threshold import Choice
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork
from gdpnet.representation.gcn import GCN
from helpers.small import FAST, fitted

pytestmark = pytest.mark.slow  # nearly every test trains a model

EVIDENCE = FAST.with_values({"evidence": {"use": True}})


def long_graph(nodes: int = 120, *, directed: bool = False) -> Graph:
    """Return a graph in which most nodes are far apart: neighbours on a line, with some longer links."""
    rng = np.random.default_rng(0)
    here = np.arange(nodes)
    ends = np.concatenate([[here[:-1], here[1:]], [here[:-3], here[3:]]], axis=1)
    ends = ends[:, rng.random(ends.shape[1]) < 0.9]
    labels = (here // 20) % 3
    rows = np.eye(6)[labels] + 0.6 * rng.normal(size=(nodes, 6))
    split = rng.choice([1, 1, 2, 3], size=nodes)
    return Graph.build(ends, rows.astype(np.float32), labels, split=split, directed=directed)


def with_all_heads(model: GDPNet, threshold: float, *, shared: bool = False) -> GDPNet:
    """Give a model all heads that look around, with weights as they are drawn, and the cleaned graph a threshold."""
    networks, generator = model.trained_.networks, torch.Generator().manual_seed(0)
    networks.gcn = GCN(6, 8, 3, layers=2)
    networks.all_edges = (SharedNetwork if shared else AllEdgesNetwork)(6, 8, 3, 2)
    for head in (networks.gcn, networks.all_edges):
        head.initialise(generator)
    weights = HeadWeights(aggregator=0.4, gcn=0.3, all_edges=0.3)
    model._set_trained(replace(model.trained_, weights=weights, threshold=Choice(threshold)))
    return model


@pytest.fixture(scope="module")
def graph() -> Graph:
    return long_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return with_all_heads(fitted(graph, EVIDENCE), 0.5)


def variants(graph: Graph) -> dict[str, tuple[Graph, Config]]:
    """Return graphs and settings whose answers look differently far."""
    weight = torch.rand(graph.num_edges // 2, generator=torch.Generator().manual_seed(0)) + 0.5
    weighted = replace(graph, edge_weight=torch.ones(graph.num_edges))
    forward = graph.neighbour < graph.target
    weighted.edge_weight[forward] = weight
    weighted.edge_weight[graph.reverse[forward]] = weight
    return {
        "one hop": (graph, FAST.with_values({"representation": {"hops": 1}})),
        "both ends decide": (graph, FAST.with_values({"inference": {"symmetrise": True}})),
        "greedy": (graph, FAST.with_values({"inference": {"mode": "greedy"}})),
        "few candidates": (graph, FAST.with_values({"policy": {"max_candidates": 2}})),
        "weighted": (weighted, FAST),
        "directed": (long_graph(directed=True), FAST),
        "without a policy": (graph, FAST.with_values({"training": {"selection": False}})),
        "hop-wise head": (graph, FAST.with_values({"hopwise": {"use": True}})),
    }


def check_same_as_whole(model: GDPNet, graph: Graph, nodes: list[int]) -> None:
    """Compare all four answers with those of the whole graph."""
    whole = make_predictor(model.trained_, graph)
    local = LocalPredictor(model.trained_, ExtendedGraph(graph))
    asked = torch.tensor(nodes)
    assert np.allclose(local.probabilities(asked), whole.probabilities()[nodes], atol=1e-6)
    assert np.allclose(local.embeddings(asked), whole.embeddings()[nodes], atol=1e-6)
    cleaned = whole.denoise()
    for node, edges in zip(nodes, local.edges(asked), strict=True):
        row = slice(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        assert edges.neighbour.tolist() == [str(one) for one in graph.node_ids[graph.neighbour[row].numpy()]]
        assert np.allclose(edges.keep_probability, cleaned.keep_probability[row], atol=1e-6)
        if cleaned.genuine_probability is not None:
            assert np.allclose(edges.genuine_probability, cleaned.genuine_probability[row], atol=1e-5)
    for one, other in zip(local.explain(asked), whole.explain_nodes(asked), strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-6)
        for mine, theirs in zip(one.decisions, other.decisions, strict=True):
            assert (mine.neighbour, mine.step) == (theirs.neighbour, theirs.step)
            assert mine.contribution == pytest.approx(theirs.contribution, abs=1e-5)
            assert mine.agreement == pytest.approx(theirs.agreement, abs=1e-5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_surroundings_give_the_answers_of_the_whole_graph_with_all_heads(model, graph, threshold, shared):
    kept = with_all_heads(model, threshold, shared=shared)
    check_same_as_whole(kept, graph, [0, 1, 57, 58, 119])


@pytest.mark.parametrize("name", variants(long_graph()))
def test_surroundings_give_the_answers_of_the_whole_graph(name):
    graph, config = variants(long_graph())[name]
    check_same_as_whole(fitted(graph, config), graph, [0, 3, 60, 118])


def test_structural_features_are_those_of_the_whole_graph():
    bare = Graph.build(long_graph().edge_index, np.eye(120, dtype=np.float32), long_graph().labels)
    bare = replace(bare, features=SparseRows.identity(120), split=long_graph().split)
    model = fitted(bare, FAST.with_values({"features": {"missing": "structural"}}))
    check_same_as_whole(model, bare, [0, 60])


def test_a_node_far_away_changes_nothing(model, graph):
    """What is farther than the reach cannot matter: features there may be anything."""
    hops = reach_of(with_all_heads(model, 0.5).trained_, "predict").hops
    near = ExtendedGraph(graph).around(torch.tensor([5]), hops, 0).node
    rows = graph.features.clone()
    far = torch.ones(graph.num_nodes, dtype=torch.bool).index_fill_(0, near, False)
    assert int(far.sum()) > 0
    rows[far] = torch.rand(int(far.sum()), 6, generator=torch.Generator().manual_seed(1)) * 100
    asked = torch.tensor([5])
    whole = [
        make_predictor(model.trained_, one).probabilities(asked)
        for one in (graph, replace(graph, features=rows))
    ]
    assert np.allclose(*whole, atol=1e-6)
    local = [
        LocalPredictor(model.trained_, ExtendedGraph(one)).probabilities(asked)
        for one in (graph, replace(graph, features=rows))
    ]
    assert np.array_equal(*local)


def test_a_question_gets_the_same_bits_whatever_was_asked_before(model, graph):
    local = LocalPredictor(model.trained_, ExtendedGraph(graph))
    nodes = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    first = [local.probabilities(some) for some in nodes.split(7)]
    again = [local.probabilities(some) for some in reversed(nodes.split(7))][::-1]
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_groups_of_a_question_are_computed_apart(model, graph):
    local = LocalPredictor(model.trained_, ExtendedGraph(graph))
    nodes = torch.arange(GROUP + 20)
    parts = [local.probabilities(nodes[:GROUP]), local.probabilities(nodes[GROUP:])]
    assert np.array_equal(local.probabilities(nodes), np.concatenate(parts))


def test_nodes_that_are_added_get_the_bits_of_nodes_that_were_always_there(model, graph):
    """The last nodes are taken away and added again as new ones, with the same numbers."""
    stored = graph.induced(torch.arange(110))
    new = torch.arange(110, 120)
    ends = graph.edge_index[:, (graph.edge_index >= 110).any(dim=0)]
    more = Addition.of(stored, graph.node_ids[110:].astype(str), take_rows(graph.features, new), ends)
    added, whole = (
        LocalPredictor(model.trained_, one) for one in (ExtendedGraph(stored, more), ExtendedGraph(graph))
    )
    asked = torch.tensor([110, 113, 119, 109, 40])
    assert np.array_equal(added.probabilities(asked), whole.probabilities(asked))
    assert np.array_equal(added.embeddings(asked), whole.embeddings(asked))
    for one, other in zip(added.edges(asked), whole.edges(asked), strict=True):
        assert np.array_equal(one.keep_probability, other.keep_probability)
    # labels are no part of what is computed, and new nodes have none
    for one, other in zip(added.explain(asked), whole.explain(asked), strict=True):
        assert one.probability == other.probability
        assert [mine.contribution for mine in one.decisions] == [
            theirs.contribution for theirs in other.decisions
        ]


def test_a_model_that_reads_the_whole_graph_is_refused(graph):
    far = fitted(graph, FAST.with_values({"policy": {"hops": 2}}))
    with pytest.raises(ConfigError, match=r"policy.hops must be 1"):
        LocalPredictor(far.trained_, ExtendedGraph(graph))
    clusters = GDPNet(task="clusters", device="cpu").set_params(training__epochs=1, task__rank=4).fit(graph)
    with pytest.raises(ConfigError, match="found one of clusters"):
        LocalPredictor(clusters.trained_, ExtendedGraph(graph))
