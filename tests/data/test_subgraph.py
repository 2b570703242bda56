"""Subgraphs of large graphs, for training and scoring if the whole does not fit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import write_store
from gdpnet.data.surroundings import part_around
from gdpnet.data.validation import SPLITS
from gdpnet.estimator import GDPNet
from gdpnet.training.data import cut_for_training
from gdpnet.training.parts import part_for_scoring, part_for_training
from helpers.commands import last_record, refuse, succeed
from helpers.small import FAST, same_weights

LARGE = synthetic_graph(SyntheticSettings(nodes=1500, classes=3, words=200, links_per_node=1.5), seed=0)
FAN_OUT = Config().training.part_fan_out
NUMBER = {name: number for number, name in enumerate(SPLITS)}


def places_of(part: Graph, graph: Graph) -> torch.Tensor:
    return graph.numbers_of(part.node_ids.tolist())


def number_of(part: Graph, node: int) -> int:
    return LARGE.node_number(str(part.node_ids[node]))


def neighbours(graph: Graph, node: int) -> set[str]:
    return set(graph.node_ids[graph.neighbour[graph.row_ptr[node] : graph.row_ptr[node + 1]].numpy()])


def at_most(nodes: int) -> Config:
    return Config().with_values({"training": {"max_nodes": nodes}})


# --- sampling ---


def test_a_core_node_has_all_its_neighbours_and_the_subgraph_is_induced():
    core = torch.tensor([900, 3, 77])
    part, chosen = part_around(LARGE, core, 400, FAN_OUT, 0)
    assert sorted(part.node_ids[chosen.numpy()]) == sorted(LARGE.node_ids[core.numpy()])
    for node in chosen.tolist():
        whole = number_of(part, node)
        assert neighbours(part, node) == neighbours(LARGE, whole)
    inside = set(part.node_ids)
    for node in range(part.num_nodes):
        whole = number_of(part, node)
        assert neighbours(part, node) == neighbours(LARGE, whole) & inside


def test_a_subgraph_is_no_larger_than_requested_and_takes_the_core_from_its_beginning():
    core = torch.randperm(LARGE.num_nodes, generator=torch.Generator().manual_seed(1))
    part, chosen = part_around(LARGE, core, 300, FAN_OUT, 0)
    assert 150 < part.num_nodes <= 300
    assert set(part.node_ids[chosen.numpy()]) == set(LARGE.node_ids[core[: chosen.numel()].numpy()])


def test_neighbours_of_a_hub_are_sampled_uniformly():
    leaves = 4 * FAN_OUT[0]
    star = Graph.build([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)], np.eye(leaves + 1, 2))
    sampled = np.zeros(leaves + 1)
    for seed in range(60):
        part, _ = part_around(star, torch.tensor([0]), leaves, FAN_OUT, seed)
        assert part.num_nodes == FAN_OUT[0] + 1
        sampled[places_of(part, star).numpy()] += 1
    # a quarter of sixty samples, within five standard deviations
    assert abs(sampled[1:] - 15).max() < 5 * np.sqrt(60 * 0.25 * 0.75)


def test_the_fan_out_bounds_the_neighbours_per_node_and_the_number_of_hops():
    core = torch.arange(50)
    one_hop, _ = part_around(LARGE, core, LARGE.num_nodes, (1,), 0)
    assert 50 < one_hop.num_nodes <= 100
    two_hops, _ = part_around(LARGE, core, LARGE.num_nodes, (1, 2), 0)
    assert one_hop.num_nodes < two_hops.num_nodes <= 50 + 50 + 2 * 50


def test_one_core_node_is_taken_however_many_neighbours_it_has():
    part, chosen = part_around(LARGE, torch.tensor([5, 6]), 10, FAN_OUT, 0)
    assert chosen.numel() == 1
    assert neighbours(part, int(chosen)) == neighbours(LARGE, 5)


# --- training and scoring ---


def test_a_graph_that_is_small_enough_is_used_whole():
    assert part_for_training(LARGE, at_most(LARGE.num_nodes), 0) is LARGE
    assert part_for_scoring(LARGE, LARGE.num_nodes, FAN_OUT, 0) is LARGE


def test_no_held_out_node_is_in_the_training_graph_of_a_subgraph():
    part = part_for_training(LARGE, at_most(600), 0)
    assert part.num_nodes <= 600
    place = places_of(part, LARGE)
    before = LARGE.split[place]
    inner = LARGE.split[places_of(cut_for_training(part, 0).inner, LARGE)]
    assert set(inner.tolist()) <= {NUMBER["train"], NUMBER["none"]}
    # every node keeps its split, and labels of sampled nodes are kept
    assert torch.equal(part.split, before)
    learned, asked = (part.nodes_in(name) for name in ("train", "validation"))
    assert learned.numel() > 100
    assert asked.numel() > 20
    # some of each have all their neighbours
    for nodes in (learned, asked):
        assert int((part.degree[nodes] == LARGE.degree[place[nodes]]).sum()) > 3


def test_all_validation_nodes_are_taken_if_they_fit():
    split = torch.full_like(LARGE.split, NUMBER["none"])
    split[:8], split[8:60] = NUMBER["train"], NUMBER["validation"]
    part = part_for_training(replace(LARGE, split=split), at_most(LARGE.num_nodes - 1), 0)
    assert part.nodes_in("validation").numel() == 52
    assert part.nodes_in("train").numel() == 8


def test_the_scored_nodes_of_a_subgraph_are_test_nodes_with_all_their_neighbours():
    part = part_for_scoring(LARGE, 300, FAN_OUT, 0)
    scored = part.nodes_in("test")
    assert scored.numel() > 3
    for node in scored.tolist():
        whole = number_of(part, node)
        assert int(LARGE.split[whole]) == NUMBER["test"]
        assert neighbours(part, node) == neighbours(LARGE, whole)
    assert part.nodes_in("train").numel() == 0


def test_a_graph_without_a_split_is_sampled_too():
    bare = replace(LARGE, split=torch.zeros_like(LARGE.split))
    part = part_for_training(bare, at_most(500), 0)
    assert part.nodes_in("train").numel() > 4 * part.nodes_in("validation").numel() > 0


def test_other_nodes_are_scored_if_no_test_node_has_a_label():
    unlabelled = replace(LARGE, labels=torch.where(LARGE.split == NUMBER["test"], -1, LARGE.labels))
    part = part_for_scoring(unlabelled, 300, FAN_OUT, 0)
    assert part.num_nodes <= 300
    assert part.nodes_in("test").numel() == 0
    nobody = part_for_scoring(replace(LARGE, labels=torch.full_like(LARGE.labels, -1)), 300, FAN_OUT, 0)
    assert nobody.num_nodes <= 300


def test_a_subgraph_of_one_class_is_refused_before_anything_is_written(tmp_path, capsys):
    clique = np.array([(one, other) for one in range(30) for other in range(one)]).T
    two = Graph.build(np.hstack([clique, clique + 30]), np.eye(60, 4), np.arange(60) // 30)
    write_store(two, tmp_path / "store")
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--set", "training.max_nodes=10")
    said = refuse(capsys, *words)
    assert said.endswith("nodes that is trained on shows one class alone: raise training.max_nodes")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_one_hot_features_are_refused_if_a_subgraph_is_trained_on(tmp_path, capsys):
    bare = replace(LARGE, features=SparseRows.identity(LARGE.num_nodes))
    write_store(bare, tmp_path / "store")
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--set", "training.max_nodes=700")
    assert "use --features structural, or raise training.max_nodes" in refuse(capsys, *words)
    assert not (tmp_path / "run").exists()
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    more = ("--features", "structural", "--config", tmp_path / "fast.toml", "--device", "cpu")
    succeed(capsys, *words, *more)
    succeed(capsys, "predict", tmp_path / "run", "--out", tmp_path / "said.csv")


@pytest.mark.slow
def test_a_model_of_a_subgraph_reads_the_whole_graph_and_depends_on_its_seed(tmp_path):
    config = FAST.with_values({"training": {"max_nodes": 500}})
    first, second = (GDPNet.from_config(config, seed=2, device="cpu").fit(LARGE) for _ in range(2))
    assert same_weights(first, second)
    assert len(first.predict(LARGE)) == LARGE.num_nodes
    other = GDPNet.from_config(config, seed=3, device="cpu").fit(LARGE)
    assert not same_weights(first, other)


@pytest.mark.slow
def test_the_command_reports_that_it_trains_on_a_subgraph(tmp_path, capsys):
    write_store(LARGE, tmp_path / "store")
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--config", tmp_path / "fast.toml")
    out = succeed(capsys, *words, "--set", "training.max_nodes=500", "--device", "cpu", "--json")
    assert (
        "note: training uses sampled parts of at most 500 nodes, drawn anew every 5 epochs (training.max_nodes, "
        "training.redraw_every)"
    ) in out
    assert 0 < last_record(out)["nodes"] < LARGE.nodes_in("test").numel()
    assert Config().training.max_nodes > 10_000
