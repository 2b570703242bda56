"""Transductive graphs: training sees every node and edge, and the labels of training nodes alone."""

from dataclasses import replace

import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.npz import read_npz, write_npz
from gdpnet.data.io.store import open_store, write_store
from gdpnet.training.data import cut_for_training
from helpers.small import fitted, noisy_graph, same_weights

EDGES = [[0, 1, 2, 3], [1, 2, 3, 4]]


def path_graph(*, transductive: bool) -> Graph:
    """Return a path of five nodes: two train, one validates, one tests, and one is in no split."""
    return Graph.build(
        EDGES, torch.eye(5), [0, 1, 0, 1, -1], split=[1, 1, 2, 3, 0], transductive=transductive
    )


def test_an_inductive_training_graph_lacks_validation_and_test_nodes():
    cut = cut_for_training(path_graph(transductive=False), seed=0)
    assert cut.seen.tolist() == [0, 1, 4]
    assert cut.inner.num_edges == 2


def test_a_transductive_training_graph_has_all_nodes_and_edges_and_hides_labels():
    graph = path_graph(transductive=True)
    cut = cut_for_training(graph, seed=0)
    assert cut.seen.tolist() == [0, 1, 2, 3, 4]
    assert cut.inner.num_edges == 8
    assert cut.targets.tolist() == [0, 1]
    assert cut.validation.tolist() == [2]
    assert cut.inner.labels.tolist() == [0, 1, -1, -1, -1]
    assert graph.labels.tolist() == [0, 1, 0, 1, -1]


def test_numbers_to_predict_are_hidden_like_labels():
    numbers = Graph.build(
        EDGES, torch.eye(5), split=[1, 1, 2, 3, 0], targets=[1.0, 2.0, 3.0, 4.0, 5.0], transductive=True
    )
    found = cut_for_training(numbers, seed=0).inner.targets
    assert found[:2].tolist() == [1.0, 2.0]
    assert bool(found[2:].isnan().all())


@pytest.mark.parametrize("transductive", [False, True])
def test_npz_files_and_stores_keep_whether_a_graph_is_transductive(transductive, tmp_path):
    graph = path_graph(transductive=transductive)
    write_npz(graph, tmp_path / "graph.npz")
    write_store(graph, tmp_path / "store")
    assert read_npz(tmp_path / "graph.npz").transductive is transductive
    assert open_store(tmp_path / "store").transductive is transductive


def test_a_transductive_graph_has_another_checksum_and_says_what_it_is():
    inductive, whole = (path_graph(transductive=one) for one in (False, True))
    assert fingerprint(inductive) != fingerprint(whole)
    assert "transductive" in repr(whole)
    assert "transductive" not in repr(inductive)


@pytest.mark.slow
def test_labels_of_test_nodes_do_not_change_a_model_of_a_transductive_graph():
    graph = replace(noisy_graph(), transductive=True)
    test = graph.nodes_in("test")
    labels = graph.labels.clone()
    labels[test] = (labels[test] + 1) % graph.num_classes
    other = replace(graph, labels=labels, truth=None)
    assert same_weights(fitted(replace(graph, truth=None)), fitted(other))


@pytest.mark.slow
def test_edges_of_test_nodes_count_in_transductive_training():
    graph = replace(noisy_graph(), truth=None, transductive=True)
    test = torch.zeros(graph.num_nodes, dtype=torch.bool)
    test[graph.nodes_in("test")] = True
    fewer = graph.keep_edges(~(test[graph.target] | test[graph.neighbour]))
    assert not same_weights(fitted(graph), fitted(fewer))
