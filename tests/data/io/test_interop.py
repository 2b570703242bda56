"""Graphs come from and go to torch_geometric, NetworkX and scipy without losing anything."""

import re
import tracemalloc

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCNConv

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.networkx import from_networkx, to_networkx
from gdpnet.data.io.pyg import from_pyg, from_scipy, to_pyg
from gdpnet.errors import GraphError
from helpers.graphs import assert_same, small_graph

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
EDGES = torch.tensor([[0, 1], [1, 2]])


def refused(sentence: str):
    return pytest.raises(GraphError, match=f"^{re.escape(sentence)}$")


def weighted(graph: Graph) -> Graph:
    return graph.keep_edges(torch.tensor([True, True, False, True, True, True]), torch.arange(1.0, 7.0) / 7)


# --- torch_geometric ---


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_graph_survives_torch_geometric(sparse):
    graph = weighted(small_graph(sparse=sparse, node_ids=[0, 1, 2, 3]))
    back = from_pyg(to_pyg(graph), directed=True)
    assert back.class_names == graph.class_names
    assert_same(Graph(**{**vars(back), "class_names": graph.class_names}), graph)


def test_data_points_from_the_neighbour_to_its_target():
    data = to_pyg(Graph.build([[2], [0]], X, directed=True))
    assert data.edge_index.tolist() == [[2], [0]]
    assert data.validate()


def test_data_has_labels_masks_and_weights_only_if_the_graph_has_them():
    assert set(to_pyg(Graph.build(EDGES, X)).keys()) == {"x", "edge_index"}
    full = to_pyg(weighted(small_graph()))
    assert full.y.tolist() == [1, 0, -1, 1]
    assert full.train_mask.tolist() == [True, False, False, False]
    assert full.val_mask.tolist() == [False, True, False, False]
    assert full.test_mask.tolist() == [False, False, False, True]
    assert full.edge_weight.shape == (5,)


def test_sparse_features_stay_sparse_in_data_and_a_convolution_accepts_them():
    data = to_pyg(Graph.build(EDGES, sp.csr_matrix(X.numpy())))
    assert data.x.layout == torch.sparse_csr
    assert data.num_nodes == 3
    layer = GCNConv(2, 2)
    torch.testing.assert_close(layer(data.x, data.edge_index), layer(X, data.edge_index))
    assert to_pyg(Graph.build([], SparseRows.identity(100_000))).x.values().numel() == 100_000


def test_changing_the_data_does_not_change_the_graph():
    graph = Graph.build(EDGES, X.clone(), [0, 1, 0])
    data = to_pyg(graph)
    data.x.zero_()
    data.y.zero_()
    assert torch.equal(graph.features, X)
    assert graph.labels.tolist() == [0, 1, 0]


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta state")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_tensors_are_converted_without_densifying(layout):
    graph = from_pyg(Data(x=X.to_sparse(layout=layout), edge_index=EDGES))
    assert isinstance(graph.features, SparseRows)
    assert graph.features.value.tolist() == [1.0, 2.0]
    assert np.array_equal(graph.features.to_scipy().toarray(), X.numpy())


def test_undirected_data_gets_both_directions_and_directed_data_one():
    data = Data(x=X, edge_index=EDGES)
    assert from_pyg(data).neighbour.tolist() == [1, 0, 2, 1]
    assert from_pyg(data, directed=True).neighbour.tolist() == [0, 1]


def test_a_given_split_replaces_the_masks():
    data = Data(x=X, edge_index=EDGES, train_mask=torch.tensor([True, False, False]))
    assert from_pyg(data).split.tolist() == [1, 0, 0]
    assert from_pyg(data, [3, 1, 2]).split.tolist() == [3, 1, 2]


def test_labels_in_a_column_or_with_nan_are_read():
    label = torch.tensor([[1.0], [float("nan")], [0.0]])
    assert from_pyg(Data(x=X, edge_index=EDGES, y=label)).labels.tolist() == [1, -1, 0]


def test_an_edge_index_object_is_read():
    data = Data(x=X, edge_index=EdgeIndex(EDGES, sparse_size=(3, 3)))
    assert from_pyg(data).neighbour.tolist() == [1, 0, 2, 1]


def test_one_hot_features_can_be_set_as_the_error_suggests():
    data = Data(edge_index=EDGES, num_nodes=3)
    with refused(
        "the Data must have node features x, found none; for one-hot features set "
        "data.x = SparseRows.identity(data.num_nodes)"
    ):
        from_pyg(data)
    data.x = SparseRows.identity(data.num_nodes)
    assert from_pyg(data).num_features == 3


def test_data_that_cannot_be_a_graph_is_refused():
    with refused("the Data must have an edge_index, found none"):
        from_pyg(Data(x=X))
    with refused("a HeteroData must have one type of nodes, found 0: none"):
        from_pyg(HeteroData())
    with refused("edge 0 to 5 names a node that does not exist: there are 3 nodes"):
        from_pyg(Data(x=X, edge_index=torch.tensor([[0], [5]])))


def test_fractions_as_y_are_numbers_to_predict_and_come_back():
    y = torch.tensor([0.5, 1.0, torch.nan])
    graph = from_pyg(Data(x=X, edge_index=EDGES, y=y))
    assert graph.num_classes == 0
    assert graph.labelled.tolist() == [True, True, False]
    assert torch.equal(to_pyg(graph).y.nan_to_num(9.0), y.nan_to_num(9.0))


def test_masks_that_overlap_or_hold_several_splits_are_refused():
    mask = torch.tensor([True, True, False])
    with refused("a node must be in at most one mask, found node 1 also in test_mask"):
        from_pyg(Data(x=X, edge_index=EDGES, train_mask=mask, test_mask=mask.flip(0)))
    with refused(
        "train_mask must hold true or false for each of 3 nodes, found shape (3, 10); "
        "choose one column if it holds several splits"
    ):
        from_pyg(Data(x=X, edge_index=EDGES, train_mask=torch.ones(3, 10, dtype=torch.bool)))


# --- NetworkX ---


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("node_ids", [[30, 10, 20, 40], ["a", "007", "c", "d"]], ids=["numbers", "text"])
def test_a_graph_survives_networkx(sparse, node_ids):
    graph = small_graph(sparse=sparse, node_ids=node_ids)
    network = to_networkx(graph)
    assert type(network) is nx.Graph
    assert list(network) == node_ids
    assert network.number_of_edges() == 3
    assert network.nodes[node_ids[0]]["label"] == "dog"
    assert "label" not in network.nodes[node_ids[2]]
    back = from_networkx(network, "x", "label", "split")
    assert back.node_ids.tolist() == node_ids
    assert_same(back, graph)


def test_a_graph_with_one_way_edges_and_weights_survives_networkx():
    graph = weighted(small_graph())
    network = to_networkx(graph)
    assert type(network) is nx.DiGraph
    assert network.edges["007", 'say "x"']["weight"] == pytest.approx(6 / 7)
    assert_same(from_networkx(network, "x", "label", "split", weight="weight"), graph)


def test_different_weights_of_the_two_directions_are_kept():
    graph = small_graph().keep_edges(torch.ones(6, dtype=torch.bool), torch.arange(6.0))
    assert type(to_networkx(graph)) is nx.DiGraph
    even = graph.keep_edges(torch.ones(6, dtype=torch.bool), torch.ones(6))
    assert type(to_networkx(even)) is nx.Graph


def flowers() -> nx.DiGraph:
    network = nx.DiGraph()
    network.add_node(("rose", 1), height=1.5, petals=[3, 4], kind="b", part="train")
    network.add_node("tulip", height=2, petals=[5, 6], kind="a", part="val")
    network.add_node(7, height=np.float32(3), petals=(7, 8))
    network.add_edge(("rose", 1), "tulip", strength=0.5)
    network.add_edge("tulip", 7, strength=2)
    return network


def test_any_hashable_is_an_id_and_survives_unchanged():
    graph = from_networkx(flowers(), "height")
    assert graph.node_ids.tolist() == [("rose", 1), "tulip", 7]
    assert list(to_networkx(graph)) == [("rose", 1), "tulip", 7]


def test_attributes_become_features_side_by_side_labels_and_splits():
    graph = from_networkx(flowers(), ["petals", "height"], "kind", "part")
    assert graph.features.tolist() == [[3, 4, 1.5], [5, 6, 2], [7, 8, 3]]
    assert graph.class_names == ("a", "b")
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.split.tolist() == [1, 2, 0]


def test_direction_follows_the_network_unless_it_is_dropped():
    graph = from_networkx(flowers(), "height", weight="strength")
    assert (graph.neighbour.tolist(), graph.target.tolist()) == ([0, 1], [1, 2])
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5, 2.0]
    assert from_networkx(flowers(), "height", directed=False).num_edges == 4
    assert from_networkx(nx.path_graph(3)).num_edges == 4
    assert from_networkx(nx.path_graph(3), directed=True).num_edges == 4


def test_a_network_without_features_gets_one_hot_ones_and_a_note():
    graph = from_networkx(nx.MultiGraph([(0, 1), (0, 1)]))
    assert graph.num_edges == 2
    assert graph.num_features == 2
    assert any("one-hot" in note for note in graph.notes)


def test_attributes_that_are_missing_or_do_not_fit_are_refused():
    network = flowers()
    with refused(
        "every node must have the attribute 'kind', found none at node '7'; known are height, petals"
    ):
        from_networkx(network, "kind")
    with refused("some node must have the attribute 'kid', found none; did you mean 'kind'?"):
        from_networkx(network, "height", "kid")
    with refused(
        "node attribute 'part' must hold train, validation, test or nothing, found 'tests'; "
        "did you mean 'test'?"
    ):
        network.nodes[7]["part"] = "tests"
        from_networkx(network, "height", split="part")
    with refused(
        "node attribute 'petals' must hold a number or a row of 2 numbers, found [1] at node 'tulip'"
    ):
        network.nodes["tulip"]["petals"] = [1]
        from_networkx(network, "petals")
    with refused(
        "node attribute 'height' must hold a number or a row of 1 numbers, found 'tall' at node '7'"
    ):
        network.nodes[7]["height"] = "tall"
        from_networkx(network, "height")
    with refused("edge attribute 'colour' must hold a number, found None from '('rose', 1)' to 'tulip'"):
        from_networkx(network, weight="colour")
    with refused("features must be finite, found NaN or infinity in the row of node 'tulip'"):
        network.nodes["tulip"]["height"], network.nodes[7]["height"] = 1e300, 1
        from_networkx(network, "height")
    with refused("the graph is empty: it has no node"):
        from_networkx(nx.Graph())
    with refused("the graph is empty: it has no node"):
        from_networkx(nx.Graph(), "height", "kind", "part")


def test_sparse_attributes_must_be_dictionaries_of_feature_numbers():
    network = nx.path_graph(2)
    nx.set_node_attributes(network, {0: {4: 1.0}, 1: {"red": 1.0}}, "x")
    with refused(
        "node attribute 'x' must hold a dictionary from feature number to value, "
        "found {'red': 1.0} at node '1'"
    ):
        from_networkx(network, "x")
    network.nodes[1]["x"] = {}
    assert from_networkx(network, "x").num_features == 5


# --- scipy ---


def test_a_scipy_matrix_is_read_from_row_to_column():
    adjacency = sp.csr_matrix(np.array([[0, 3, 0], [0, 0, 0.5], [0, 0, 0]]))
    graph = from_scipy(
        adjacency, X.numpy(), [0, 1, -1], split=[1, 2, 3], node_ids=["a", "b", "c"], directed=True
    )
    assert (graph.neighbour.tolist(), graph.target.tolist()) == ([0, 1], [1, 2])
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.split.tolist() == [1, 2, 3]
    assert from_scipy(adjacency, X.numpy()).num_edges == 4


def test_a_stored_zero_is_not_an_edge():
    adjacency = sp.csr_matrix((np.array([0.0, 1.0]), np.array([1, 2]), np.array([0, 1, 2, 2])), shape=(3, 3))
    assert from_scipy(adjacency, X.numpy(), directed=True).neighbour.tolist() == [1]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix])
def test_every_kind_of_scipy_matrix_is_accepted_for_edges_and_features(kind):
    graph = from_scipy(kind(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])), kind(X.numpy()))
    assert graph.neighbour.tolist() == [1, 0, 2, 1]
    assert isinstance(graph.features, SparseRows)
    assert np.array_equal(graph.features.to_scipy().toarray(), X.numpy())


def test_a_scipy_matrix_without_features_gets_one_hot_ones():
    graph = from_scipy(sp.eye_array(4, k=1))
    assert isinstance(graph.features, SparseRows)
    assert graph.features.column.tolist() == [0, 1, 2, 3]
    assert any("one-hot" in note for note in graph.notes)


def test_matrices_that_do_not_fit_are_refused():
    with refused("the adjacency matrix must be finite, found NaN or infinity"):
        from_scipy(sp.csr_matrix([[0, np.nan], [1, 0]]), X.numpy()[:2])
    with refused("the adjacency matrix must be square, found shape (2, 3)"):
        from_scipy(sp.csr_matrix((2, 3)), X.numpy())
    with refused(
        "there must be one feature row per row of the adjacency matrix (4), found features of shape (3, 2)"
    ):
        from_scipy(sp.csr_matrix((4, 4)), X.numpy())


# --- edge features ---


def hetero() -> HeteroData:
    """Return three nodes of one type with two relations."""
    data = HeteroData()
    data["paper"].x, data["paper"].y = X, torch.tensor([0, 1, 1])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data["paper", "extends", "paper"].edge_index = torch.tensor([[2], [1]])
    return data


def test_the_types_of_edges_of_a_hetero_data_become_edge_features():
    graph = from_pyg(hetero())
    assert graph.edge_feature_names == ("relation=cites", "relation=extends")
    assert graph.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graph.edge_features.tolist() == [[1, 0], [1, 0], [1, 1], [1, 1]]
    assert graph.labels.tolist() == [0, 1, 1]


def test_attributes_of_some_types_of_edges_are_zero_for_others_and_weights_one():
    data = hetero()
    data["paper", "extends", "paper"].edge_attr = torch.tensor([[7.0]])
    data["paper", "extends", "paper"].edge_weight = torch.tensor([0.5])
    graph = from_pyg(data, directed=True)
    assert graph.edge_feature_names == ("edge_attr[0]", "relation=cites", "relation=extends")
    assert graph.edge_index.tolist() == [[0, 2, 1], [1, 1, 2]]
    assert graph.edge_features[:, 0].tolist() == [0.0, 7.0, 0.0]
    assert graph.edge_weight.tolist() == [1.0, 0.5, 1.0]
    assert "edge_attr" not in data["paper", "cites", "paper"]
    data["paper", "cites", "paper"].edge_attr = torch.ones(2, 2)
    with refused("edge_attr must be as wide for every type of edges, found shapes [(1,), (2,)]"):
        from_pyg(data)


def test_a_hetero_data_of_several_types_of_nodes_is_refused():
    data = hetero()
    data["author"].x = X
    with refused("a HeteroData must have one type of nodes, found 2: paper, author"):
        from_pyg(data)


@pytest.mark.parametrize("form", [list, np.array], ids=["lists", "arrays"])
def test_fields_of_a_hetero_data_that_are_no_tensors_are_kept(form):
    data = HeteroData()
    data["paper"].x, data["paper"].y = form(X.tolist()), form([0, 1, 1])
    data["paper"].train_mask, data["paper"].node_ids = form([True, False, False]), ["a", "b", "c"]
    edges = data["paper", "cites", "paper"]
    edges.edge_index, edges.edge_weight = form([[0, 1], [1, 2]]), form([0.5, 2.0])
    edges.edge_attr = form([[3.0], [4.0]])
    graph = from_pyg(data, directed=True)
    assert (graph.labels.tolist(), graph.split.tolist()) == ([0, 1, 1], [1, 0, 0])
    assert (graph.edge_weight.tolist(), graph.node_ids.tolist()) == ([0.5, 2.0], ["a", "b", "c"])
    assert graph.edge_features[:, 0].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("place", [[[2, 0], [1, 0]], [[0, 0], [0, 0]]], ids=["unsorted", "duplicates"])
def test_a_sparse_tensor_that_is_wrongly_called_coalesced_is_sorted_and_added_up(place):
    x = torch.sparse_coo_tensor(place, [3.0, 5.0], (3, 2), is_coalesced=True, check_invariants=False)
    honest = torch.sparse_coo_tensor(place, [3.0, 5.0], (3, 2), check_invariants=False).to_dense()
    graph = from_pyg(Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]])))
    assert graph.features.to_scipy().toarray().tolist() == honest.tolist()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"edge_type": [0.5, 1.0]}, "edge_type must hold whole numbers from 0 below 100,000, found 0.5"),
        ({"edge_type": [7, -3]}, "edge_type must hold whole numbers from 0 below 100,000, found -3"),
        ({"edge_type": [7.0, np.nan]}, "edge_type must hold whole numbers from 0 below 100,000, found nan"),
        (
            {"train_mask": torch.tensor([1, 0, 0])},
            "train_mask must hold true or false for each of 3 nodes, found values of type int64",
        ),
    ],
)
def test_types_and_masks_that_are_none_are_refused_by_what_they_hold(fields, sentence):
    with refused(sentence):
        from_pyg(Data(x=X, edge_index=EDGES, **fields))


def test_edge_attributes_and_types_of_a_data_become_edge_features():
    edges = torch.tensor([[0, 1], [1, 2]])
    graph = from_pyg(Data(x=X, edge_index=edges, edge_attr=torch.tensor([2.0, 3.0])))
    assert graph.edge_features.tolist() == [[2.0], [2.0], [3.0], [3.0]]
    assert graph.edge_feature_names is None
    typed = from_pyg(Data(x=X, edge_index=edges, edge_type=torch.tensor([1, 0])))
    assert typed.edge_feature_names == ("relation=0", "relation=1")
    assert typed.edge_features.tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    with refused("edge features must be one row of numbers per edge (2), found an array of shape (3, 1)"):
        from_pyg(Data(x=X, edge_index=edges, edge_attr=torch.ones(3, 1)))


def test_edge_attributes_of_networkx_are_numbers_or_types():
    network = nx.MultiGraph()
    network.add_edge("a", "b", kind="pays", hours=1.0)
    network.add_edge("a", "b", kind="owes", hours=2.0)
    network.add_edge("b", "c", kind="pays", hours=4)
    graph = from_networkx(network, edge_features=["kind", "hours"])
    assert graph.edge_feature_names == ("kind=pays", "kind=owes", "hours")
    assert graph.edge_features.tolist() == [[1, 1, 1.5], [1, 1, 1.5], [1, 0, 4], [1, 0, 4]]
    with refused("some edge must have the attribute 'kinds', found none; did you mean 'kind'?"):
        from_networkx(network, edge_features="kinds")


def test_one_long_node_among_many_is_refused_before_memory_is_taken_for_all():
    network = nx.Graph()
    network.add_nodes_from(str(number) for number in range(10_000))
    network.add_edge("z" * 9000, "b")
    tracemalloc.start()
    with pytest.raises(GraphError, match=r"node ids must be of like length.*found one of 9,000 characters"):
        from_networkx(network)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 << 20


def repeated(rows, columns):
    return torch.zeros(1, 1).expand(rows, columns)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"edge_attr": repeated(2, 10**9)}, "edge_attr must be an array with memory of its own"),
        ({"edge_attr": repeated(2, 60_000)}, "edge_attr can have at most 50,000 columns, found 60,000"),
        ({"edge_weight": repeated(2, 10**9)}, "edge_weight must be an array with memory of its own"),
        ({"edge_type": repeated(2, 10**9)}, "edge_type must be an array with memory of its own"),
        ({"y": repeated(3, 10**9)}, "y must be an array with memory of its own"),
        ({"y": repeated(3, 200_000)}, "y can have at most 100,000 columns, found 200,000"),
        (
            {"edge_attr": torch.tensor([[1j], [1]])},
            "edge_attr must be a plain tensor of numbers, found .*complex64",
        ),
        ({"edge_attr": ["a", "b"]}, "edge_attr must be numbers, found text"),
        ({"y": ["a", "b", "c"]}, "y must be numbers, found text"),
    ],
)
def test_fields_of_data_that_are_no_plain_arrays_or_too_wide_are_refused_by_name(fields, sentence):
    edges = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(GraphError, match=sentence):
        from_pyg(Data(x=torch.ones(3, 2), edge_index=edges, **fields))


@pytest.mark.parametrize("name", ["y", "edge_attr"])
def test_fields_of_a_hetero_data_that_repeat_are_refused_before_they_are_copied(name):
    data = HeteroData()
    data["paper"].x = torch.ones(3, 2)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data["paper" if name == "y" else ("paper", "cites", "paper")][name] = repeated(
        3 if name == "y" else 2, 10**9
    )
    with pytest.raises(GraphError, match=f"{name} must be an array with memory of its own"):
        from_pyg(data)


def test_an_edge_attribute_that_holds_itself_is_refused():
    network, value = nx.Graph(), []
    value.append(value)
    network.add_edge(1, 2, w=value)
    with pytest.raises(GraphError, match="edge attribute 'w' must hold plain values or flat lists"):
        from_networkx(network, edge_features="w")


def test_whole_numbers_beyond_64_bits_beside_negative_ones_stay_exact():
    network = nx.Graph([(2**63, -1), (-1, 2**53 + 1)])
    assert from_networkx(network).node_ids.tolist() == [2**63, -1, 2**53 + 1]


@pytest.mark.parametrize("weight", [np.complex64(1 + 2j), np.timedelta64(3, "s")])
def test_a_weight_that_is_no_real_number_is_refused(weight):
    network = nx.Graph()
    network.add_edge("a", "b", weight=weight)
    with pytest.raises(GraphError, match="edge attribute 'weight' must hold a number, found"):
        from_networkx(network, weight="weight")
    network.add_nodes_from("ab", x={0: weight})
    with pytest.raises(GraphError, match="node attribute 'x' must hold real numbers, found"):
        from_networkx(network, features="x")


@pytest.mark.parametrize("value", [range(10**12), [range(10**12)]])
def test_a_range_as_an_attribute_is_refused_before_it_becomes_an_array(value):
    network = nx.Graph()
    network.add_node("a", x=value)
    with refused("node attribute 'x' can hold at most 1,048,576 numbers, found 1,000,000,000,000"):
        from_networkx(network, features="x")


def test_rows_of_node_attributes_may_be_tensors():
    network = nx.Graph()
    network.add_node("a", x=torch.tensor([1.0, 2.0]))
    network.add_node("b", x=[3.0, 4.0])
    assert from_networkx(network, features="x").features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    network.add_node("c", x=torch.ones(3))
    with refused(
        "node attribute 'x' must hold a number or a row of 2 numbers, found tensor([1., 1., 1.]) at node 'c'"
    ):
        from_networkx(network, features="x")


def test_features_of_a_data_may_be_lists():
    data = Data(x=[[1.0], [2.0]], edge_index=torch.tensor([[0], [1]]), train_mask=torch.tensor([True, False]))
    graph = from_pyg(data)
    assert graph.features.tolist() == [[1.0], [2.0]]
    assert graph.split.tolist() == [1, 0]
