"""Candidates within several hops: which they are, how they are sampled, and what the model does with them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet._core.csr import owners_of
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.khop import reach
from gdpnet.data.pair_features import DISTANCE, pair_names, pair_tables, pairs_between, pairs_of
from gdpnet.data.prepare import prepare
from gdpnet.errors import ConfigError
from gdpnet.inference.streaming import denoise_to
from helpers.setups import random_graph

CPU = torch.device("cpu")
QUICK = {"training": {"warmup": 2, "epochs": 3}, "representation": {"width": 16}}


def within(graph: Graph, hops: int) -> dict[int, dict[int, int]]:
    """Return the distance of every node within some hops, by NetworkX."""
    network = nx.DiGraph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_edges_from(zip(graph.target.tolist(), graph.neighbour.tolist(), strict=True))
    return {
        node: {other: far for other, far in found.items() if far}
        for node, found in nx.all_pairs_shortest_path_length(network, cutoff=hops)
    }


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_candidates_and_distances_are_those_of_networkx(hops, directed):
    rng = np.random.default_rng(hops)
    graph = Graph.build(rng.integers(40, size=(2, 60)), np.ones((40, 3)), directed=directed)
    found = reach(graph.row_ptr, graph.neighbour, hops, most=1000)
    target = owners_of(found.row_ptr.diff()).tolist()
    mine: dict[int, dict[int, int]] = {node: {} for node in range(40)}
    for node, other, far in zip(target, found.neighbour.tolist(), found.distance.tolist(), strict=True):
        assert other not in mine[node]
        mine[node][other] = far
    assert mine == within(graph, hops)
    assert torch.equal(found.neighbour[found.edge], graph.neighbour)
    assert torch.equal(found.distance[found.edge], torch.ones_like(graph.neighbour))


def test_far_candidates_are_sampled_up_to_a_bound_and_all_neighbours_kept():
    star = Graph.build([[0] * 60, list(range(1, 61))], np.ones((61, 2)))
    found = reach(star.row_ptr, star.neighbour, 2, most=7)
    length = found.row_ptr.diff()
    assert length[0] == 60
    assert length[1:].tolist() == [8] * 60  # the hub and seven of the other leaves
    assert (found.distance == 2).sum() == 60 * 7


def test_far_candidates_are_sampled_uniformly():
    star = Graph.build([[0] * 201, list(range(1, 202))], np.ones((202, 2)))
    found = reach(star.row_ptr, star.neighbour, 2, most=20)
    sampled = np.bincount(found.neighbour[found.distance == 2].numpy(), minlength=202)[1:]
    # 20 of 200 other leaves are sampled 201 times: each about 20 times, with a standard deviation of about 4.2
    assert abs(sampled.mean() - 20.0) < 1e-9
    assert 3.2 < sampled.std() < 5.4


def test_blocks_do_not_change_the_candidates(monkeypatch):
    graph = random_graph(3, 50, 120)
    whole = reach(graph.row_ptr, graph.neighbour, 2, most=1000)
    monkeypatch.setattr("gdpnet.data.khop._PATHS", 40)
    parts = reach(graph.row_ptr, graph.neighbour, 2, most=1000)
    assert torch.equal(whole.neighbour, parts.neighbour)
    assert torch.equal(whole.distance, parts.distance)


def test_pair_features_of_edges_are_the_same_computed_as_pairs():
    graph = random_graph(5, 30, 60)
    tables = pair_tables(graph, "structure")
    expected = pairs_of(tables, 0, graph.num_nodes)[0]
    assert torch.allclose(pairs_between(tables, graph.target, graph.neighbour), expected, atol=1e-6)


def test_the_first_pair_feature_is_the_distance():
    graph = random_graph(2, 30, 50)
    config = Config().with_values({"policy": {"hops": 2}})
    prepared = prepare(graph, config, CPU)
    assert pair_names(config.policy.state, 2)[0] == DISTANCE
    assert prepared.pairs.shape[1] == len(pair_names(config.policy.state, 2))
    assert set(prepared.pairs[:, 0].tolist()) == {0.0, 1.0}
    assert prepared.pairs[prepared.edge, 0].sum() == 0
    assert torch.equal(prepared.neighbour[prepared.reverse_edge], owners_of(prepared.row_ptr.diff()))


def test_without_selection_only_neighbours_are_candidates():
    graph = random_graph(2, 30, 50)
    values = {"policy": {"hops": 2}, "training": {"selection": False}}
    assert prepare(graph, Config().with_values(values), CPU).edge is None


@pytest.fixture(scope="module")
def fitted() -> tuple[GDPNet, Graph]:
    graph = synthetic_graph(SyntheticSettings(nodes=300, classes=3, words=300), seed=1)
    config = Config().with_values(QUICK | {"policy": {"hops": 2, "far_candidates": 6}})
    return GDPNet.from_config(config, seed=0, device="cpu").fit(graph), graph


@pytest.mark.slow
def test_the_cleaned_graph_has_only_edges_of_the_graph(fitted):
    model, graph = fitted
    cleaned = model.denoise(graph, threshold=0.5)
    assert cleaned.keep_probability.shape == (graph.num_edges,)
    pairs = set(zip(graph.target.tolist(), graph.neighbour.tolist(), strict=True))
    left = set(zip(cleaned.graph.target.tolist(), cleaned.graph.neighbour.tolist(), strict=True))
    assert left <= pairs


@pytest.mark.slow
def test_far_candidates_are_decided_on_and_explained(fitted):
    model, graph = fitted
    node = int(graph.degree.argmax())
    story = model.explain(graph, int(graph.node_ids[node]))
    far = [one for one in story.decisions if one.distance == 2]
    assert len(far) == 6
    assert len(story.decisions) == int(graph.degree[node]) + 6
    assert {one.neighbour for one in far}.isdisjoint(
        graph.node_ids[graph.neighbour[graph.row_ptr[node] : graph.row_ptr[node + 1]]].astype(str)
    )


@pytest.mark.slow
def test_a_model_of_two_hops_survives_saving(fitted, tmp_path):
    model, graph = fitted
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(again.predict_proba(graph), model.predict_proba(graph))


@pytest.mark.slow
def test_shards_and_tasks_without_labels_refuse_far_candidates(fitted, tmp_path):
    model, graph = fitted
    with pytest.raises(ConfigError, match=r"policy\.hops must be 1 to write shards, found 2"):
        denoise_to(model.trained_, graph, tmp_path / "shards")
    config = Config().with_values({"policy": {"hops": 2}, "task": {"kind": "clusters"}})
    with pytest.raises(ConfigError, match=r"policy\.hops must be 1"):
        GDPNet.from_config(config, seed=0, device="cpu").fit(graph)
