"""Anything that can be read as a graph: paths as text, torch_geometric, NetworkX; and its summary."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.npz import read_npz, write_npz
from gdpnet.data.io.open import as_graph
from gdpnet.data.io.pyg import from_pyg, to_pyg
from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import GraphError


def small() -> Graph:
    graph = Graph.build(
        [[0, 1], [1, 2]],
        [[1.0, 0.0], [0.5, 2.0], [0.0, 3.0]],
        [0, 1, -1],
        split=[1, 2, 0],
        node_ids=np.array(["ann", "bob", "cid"]),
        class_names=["red", "blue"],
    )
    return graph.with_feature_names(["age", "income"])


def test_a_graph_is_returned_as_it_is():
    graph = small()
    assert as_graph(graph) is graph


def test_paths_may_be_text(tmp_path):
    write_tables(small(), str(tmp_path / "tables"), "csv")
    write_npz(small(), str(tmp_path / "graph.npz"))
    write_store(small(), str(tmp_path / "store"))
    for found in (
        read_graph(str(tmp_path / "tables")),
        as_graph(str(tmp_path / "tables")),
        as_graph(tmp_path / "graph.npz"),
        read_npz(str(tmp_path / "graph.npz")),
        open_store(str(tmp_path / "store")),
    ):
        assert found.node_ids.tolist() == ["ann", "bob", "cid"]


def test_a_data_of_torch_geometric_is_read():
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))
    graph = as_graph(data)
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (3, 4, 2)


def test_names_survive_torch_geometric():
    found = from_pyg(to_pyg(small()))
    assert found.node_ids.tolist() == ["ann", "bob", "cid"]
    assert found.class_names == ("red", "blue")
    assert found.feature_names == ("age", "income")


def test_numbers_in_order_are_no_names():
    data = to_pyg(Graph.build([[0], [1]], np.eye(2), [0, 1]))
    assert {"node_ids", "class_names", "feature_names"}.isdisjoint(data.keys())


def test_the_usual_attributes_of_a_networkx_graph_are_read_and_noted():
    network = nx.Graph()
    network.add_node("ann", label="red", split="train", age=31, income=1.5, name="Ann")
    network.add_node("bob", split="validation", age=33, income=1.2, name="Bob")
    network.add_edge("ann", "bob", weight=2.0)
    graph = as_graph(network)
    assert graph.features.tolist() == [[31.0, 1.5], [33.0, pytest.approx(1.2)]]
    assert (graph.class_names, graph.labels.tolist(), graph.split.tolist()) == (("red",), [0, -1], [1, 2])
    assert graph.edge_weight.tolist() == [2.0, 2.0]
    assert "features from the NetworkX attribute age, income" in graph.notes


def test_the_attribute_x_of_a_networkx_graph_holds_all_features():
    network = nx.path_graph(2)
    nx.set_node_attributes(network, {0: [1.0, 2.0], 1: [3.0, 4.0]}, "x")
    nx.set_node_attributes(network, 7, "age")
    assert as_graph(network).features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert not as_graph(nx.path_graph(3)).has_features


def test_anything_else_is_refused():
    with pytest.raises(GraphError) as refusal:
        as_graph(np.eye(3))
    assert str(refusal.value) == (
        "a graph must be a gdpnet Graph, a torch_geometric Data, a NetworkX graph or a path, found ndarray"
    )


def test_a_printed_graph_is_a_short_summary():
    assert repr(small().with_notes("read by hand")).splitlines() == [
        "Graph of 3 nodes and 4 directed edges",
        "  features: 2, dense (age, income)",
        "  classes: 2 (red 1, blue 1); 1 node without a label",
        "  split: none 1, train 1, validation 1",
        "  note: read by hand",
    ]
    bare = Graph.build([[0], [1]], np.eye(2))
    assert "classes: none" in repr(bare)
    assert "split: none" in repr(bare)


@pytest.mark.parametrize("value", [10**400, -(2**63), np.complex64(1j), float("nan"), "12"])
def test_an_attribute_that_no_array_of_numbers_can_hold_is_no_feature(value):
    network = nx.path_graph(3)
    nx.set_node_attributes(network, {node: {"age": node, "odd": value} for node in network})
    nx.set_edge_attributes(network, {edge: {"weight": value} for edge in network.edges})
    graph = as_graph(network)
    assert graph.features.tolist() == [[0.0], [1.0], [2.0]]
    assert graph.edge_weight is None
