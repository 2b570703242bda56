"""Parts of large graphs: what is trained on and scored where the whole would not fit."""

from dataclasses import replace

import numpy as np
import torch

from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import SPLITS, Graph
from gdpnet.data.io.store import write_store
from gdpnet.data.subgraph import FAN_OUT, part_around
from gdpnet.estimator import GDPNet
from gdpnet.training.data import cut_for_training, part_for_scoring, part_for_training
from helpers.commands import last_record, refuse, succeed
from helpers.small import FAST, same_weights

LARGE = synthetic_graph(SyntheticSettings(nodes=1500, classes=3, words=200, links_per_node=1.5), seed=0)
NUMBER = {name: number for number, name in enumerate(SPLITS)}


def places_of(part: Graph, graph: Graph) -> torch.Tensor:
    return graph.numbers_of(part.node_ids.tolist())


def number_of(part: Graph, node: int) -> int:
    return LARGE.node_number(str(part.node_ids[node]))


def neighbours(graph: Graph, node: int) -> set[str]:
    return set(graph.node_ids[graph.neighbour[graph.row_ptr[node] : graph.row_ptr[node + 1]].numpy()])


# --- what lies around ---


def test_a_chosen_node_has_all_its_neighbours_and_the_part_all_edges_among_its_nodes():
    core = torch.tensor([900, 3, 77])
    part, chosen = part_around(LARGE, core, 400, 0)
    assert sorted(part.node_ids[chosen.numpy()]) == sorted(LARGE.node_ids[core.numpy()])
    for node in chosen.tolist():
        whole = number_of(part, node)
        assert neighbours(part, node) == neighbours(LARGE, whole)
    inside = set(part.node_ids)
    for node in range(part.num_nodes):
        whole = number_of(part, node)
        assert neighbours(part, node) == neighbours(LARGE, whole) & inside


def test_a_part_is_no_larger_than_asked_for_and_takes_the_core_from_its_beginning():
    core = torch.randperm(LARGE.num_nodes, generator=torch.Generator().manual_seed(1))
    part, chosen = part_around(LARGE, core, 300, 0)
    assert 150 < part.num_nodes <= 300
    assert set(part.node_ids[chosen.numpy()]) == set(LARGE.node_ids[core[: chosen.numel()].numpy()])


def test_a_hub_brings_along_some_of_its_neighbours_each_as_likely():
    leaves = 4 * FAN_OUT[0]
    star = Graph.build([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)], np.eye(leaves + 1, 2))
    heard = np.zeros(leaves + 1)
    for seed in range(60):
        part, _ = part_around(star, torch.tensor([0]), leaves, seed)
        assert part.num_nodes == FAN_OUT[0] + 1
        heard[places_of(part, star).numpy()] += 1
    # a quarter of sixty draws, within five deviations
    assert abs(heard[1:] - 15).max() < 5 * np.sqrt(60 * 0.25 * 0.75)


def test_one_node_is_taken_however_much_lies_around_it():
    part, chosen = part_around(LARGE, torch.tensor([5, 6]), 10, 0)
    assert chosen.numel() == 1
    assert neighbours(part, int(chosen)) == neighbours(LARGE, 5)


# --- for training and for scoring ---


def test_a_graph_that_is_small_enough_is_taken_as_it_is():
    assert part_for_training(LARGE, LARGE.num_nodes, 0) is LARGE
    assert part_for_scoring(LARGE, LARGE.num_nodes, 0) is LARGE


def test_no_held_out_node_enters_the_training_graph_of_a_part():
    part = part_for_training(LARGE, 600, 0)
    assert part.num_nodes <= 600
    place = places_of(part, LARGE)
    before = LARGE.split[place]
    inner = LARGE.split[places_of(cut_for_training(part, 0).inner, LARGE)]
    assert set(inner.tolist()) <= {NUMBER["train"], NUMBER["none"]}
    # every node has the split that it had, and labels that came along are not lost
    assert torch.equal(part.split, before)
    learned, asked = (part.nodes_in(name) for name in ("train", "validation"))
    assert learned.numel() > 100
    assert asked.numel() > 20
    # some of each have all their neighbours
    for nodes in (learned, asked):
        assert int((part.degree[nodes] == LARGE.degree[place[nodes]]).sum()) > 3


def test_all_validation_nodes_are_taken_where_there_is_room():
    split = torch.full_like(LARGE.split, NUMBER["none"])
    split[:8], split[8:60] = NUMBER["train"], NUMBER["validation"]
    part = part_for_training(replace(LARGE, split=split), LARGE.num_nodes - 1, 0)
    assert part.nodes_in("validation").numel() == 52
    assert part.nodes_in("train").numel() == 8


def test_the_scored_nodes_of_a_part_are_of_the_split_and_have_all_their_neighbours():
    part = part_for_scoring(LARGE, 300, 0)
    scored = part.nodes_in("test")
    assert scored.numel() > 3
    for node in scored.tolist():
        whole = number_of(part, node)
        assert int(LARGE.split[whole]) == NUMBER["test"]
        assert neighbours(part, node) == neighbours(LARGE, whole)
    assert part.nodes_in("train").numel() == 0


def test_a_graph_without_a_split_is_parted_too():
    bare = replace(LARGE, split=torch.zeros_like(LARGE.split))
    part = part_for_training(bare, 500, 0)
    assert part.nodes_in("train").numel() > 4 * part.nodes_in("validation").numel() > 0


def test_a_part_to_be_scored_has_other_nodes_where_no_test_node_has_a_label():
    untold = replace(LARGE, labels=torch.where(LARGE.split == NUMBER["test"], -1, LARGE.labels))
    part = part_for_scoring(untold, 300, 0)
    assert part.num_nodes <= 300
    assert part.nodes_in("test").numel() == 0
    nobody = part_for_scoring(replace(LARGE, labels=torch.full_like(LARGE.labels, -1)), 300, 0)
    assert nobody.num_nodes <= 300


def test_a_part_of_one_class_is_refused_before_anything_is_written(tmp_path, capsys):
    clique = np.array([(one, other) for one in range(30) for other in range(one)]).T
    two = Graph.build(np.hstack([clique, clique + 30]), np.eye(60, 4), np.arange(60) // 30)
    write_store(two, tmp_path / "store")
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--set", "training.most_nodes=10")
    said = refuse(capsys, *words)
    assert said.endswith("nodes that is trained on shows one class alone: raise training.most_nodes")
    assert not (tmp_path / "run").exists()


def test_one_hot_features_are_refused_where_a_part_is_trained_on(tmp_path, capsys):
    bare = replace(LARGE, features=SparseRows.identity(LARGE.num_nodes))
    write_store(bare, tmp_path / "store")
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--set", "training.most_nodes=700")
    assert "use --features structural, or raise training.most_nodes" in refuse(capsys, *words)
    assert not (tmp_path / "run").exists()
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    more = ("--features", "structural", "--config", tmp_path / "fast.toml", "--device", "cpu")
    succeed(capsys, *words, *more)
    succeed(capsys, "predict", tmp_path / "run", "--out", tmp_path / "said.csv")


def test_a_model_of_a_part_reads_the_whole_graph_and_follows_its_seed(tmp_path):
    config = FAST.with_values({"training": {"most_nodes": 500}})
    first, second = (GDPNet.from_config(config, seed=2, device="cpu").fit(LARGE) for _ in range(2))
    assert same_weights(first, second)
    assert len(first.predict(LARGE)) == LARGE.num_nodes
    part = part_for_training(LARGE, 500, 2)
    alone = GDPNet.from_config(config, seed=2, device="cpu").fit(part)
    assert same_weights(first, alone)


def test_the_command_says_that_it_takes_a_part(tmp_path, capsys):
    write_store(LARGE, tmp_path / "store")
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    words = ("train", tmp_path / "store", "--out", tmp_path / "run", "--config", tmp_path / "fast.toml")
    out = succeed(capsys, *words, "--set", "training.most_nodes=500", "--device", "cpu", "--json")
    part = part_for_training(LARGE, 500, 0)
    learned, asked = (part.nodes_in(name).numel() for name in ("train", "validation"))
    assert (
        f"note: a part of {part.num_nodes} nodes is trained on, {learned} of them learned from and {asked} for "
        "validation (training.most_nodes)"
    ) in out
    assert 0 < last_record(out)["nodes"] < LARGE.nodes_in("test").numel()
    assert Config().training.most_nodes > 10_000
