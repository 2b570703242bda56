"""Arrays and sparse matrices that would end the process, take all memory, or be read wrongly."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet import Graph, from_networkx, from_pyg, from_scipy
from gdpnet.data.features import SparseRows
from gdpnet.data.node_numbers import node_numbers
from gdpnet.errors import GraphError

EDGES = np.array([[0, 1, 2], [1, 2, 3]])
ROWS = np.arange(8.0).reshape(4, 2)


def built(**parts) -> Graph:
    return Graph.build(**({"edge_index": EDGES, "features": ROWS} | parts))


@pytest.mark.parametrize(
    "array",
    [ROWS[::-1][::-1][::-1], ROWS.astype(">f8")[::-1], ROWS.astype(">i4")[::-1], ROWS.astype(np.longdouble)[::-1],
     ROWS.astype(np.uint64)[::-1], ROWS.astype(np.float16)[::-1]],
    ids=["backwards", "foreign", "foreign whole", "long", "unsigned", "half"],
)  # fmt: skip
def test_arrays_are_read_whatever_their_steps_byte_order_and_width(array):
    assert built(features=array).features.tolist() == ROWS[::-1].tolist()


def test_edges_and_labels_may_run_backwards_and_have_foreign_byte_order():
    graph = built(edge_index=EDGES[:, ::-1].astype(">i8"), labels=np.array([3, 2, 1, 0])[::-1].astype(">i2"))
    assert graph.labels.tolist() == [0, 1, 2, 3]
    assert graph.num_edges == 6


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("index", [-1, 10**6, 2**31 - 1])
def test_a_sparse_matrix_with_an_index_outside_is_refused_before_scipy_follows_it(layout, index):
    matrix = sp.csr_matrix(ROWS).asformat(layout)
    spoilt = matrix.col if layout == "coo" else matrix.indices
    spoilt[0] = index
    with pytest.raises(GraphError, match="features: indices must lie between 0 and"):
        built(features=matrix)
    adjacency = sp.csr_matrix(np.eye(4)).asformat(layout)
    (adjacency.row if layout == "coo" else adjacency.indices)[0] = index
    with pytest.raises(GraphError, match="the adjacency matrix: indices must lie between 0 and 3"):
        from_scipy(adjacency)


@pytest.mark.parametrize(("place", "value"), [(1, 99), (1, -5), (4, 2), (0, 1)])
def test_offsets_that_do_not_ascend_from_zero_to_the_end_are_refused(place, value):
    matrix = sp.csc_matrix(np.eye(4))
    matrix.indptr[place] = value
    with pytest.raises(GraphError, match="features: indptr must"):
        built(features=matrix)


def test_sparse_rows_of_a_user_must_fit_together_and_are_sorted():
    with pytest.raises(GraphError, match="sparse features: indptr must"):
        built(features=SparseRows(torch.tensor([0, 9, 1, 1, 2]), torch.tensor([0, 1]), torch.ones(2), 3))
    rows = SparseRows(
        torch.tensor([0, 2, 2, 2, 3]), torch.tensor([2, 0, 1]), torch.tensor([5.0, 6.0, 7.0]), 3
    )
    found = built(features=rows).features
    assert found.column.tolist() == [0, 2, 1]
    assert found.value.tolist() == [6.0, 5.0, 7.0]


def test_a_class_number_of_a_billion_is_refused_and_no_name_is_made_for_each_below_it():
    with pytest.raises(GraphError, match="class numbers below 100,000, found 1000000000"):
        built(labels=[0, 1, 10**9, 2])


@pytest.mark.parametrize("width", [1_048_577, 999_999_999])
def test_more_sparse_columns_than_a_model_can_have_weights_for_are_refused(width):
    matrix = sp.csr_matrix((np.ones(1), ([0], [width - 1])), shape=(4, width))
    with pytest.raises(GraphError, match="sparse features can have at most 1,048,576 columns"):
        built(features=matrix)


def test_one_hot_features_may_have_a_column_per_node():
    assert built(features=SparseRows.identity(4)).num_features == 4


def test_one_long_id_among_many_is_refused_before_an_array_as_wide_is_made():
    nodes = 20_000
    ids = [*(f"n{number}" for number in range(nodes - 1)), "x" * 8010]
    with pytest.raises(GraphError, match=r"found one of 8,010 characters among 20,000, 'xxx.*shorten it"):
        Graph.build(EDGES, np.ones((nodes, 1)), node_ids=ids)
    few = [*(f"n{number}" for number in range(3)), "x" * 8010]
    assert built(node_ids=few).node_number("x" * 8010) == 3


def test_asking_for_a_node_with_a_very_long_name_needs_no_array_as_wide():
    graph = built(node_ids=["a", "b", "c", "d"])
    with pytest.raises(GraphError, match="the graph has no node 'x") as caught:
        graph.numbers_of(["x" * 1_000_000] * 10_000)
    assert len(str(caught.value)) <= 300


def test_a_matrix_of_far_more_rows_than_values_is_refused():
    with pytest.raises(GraphError, match="may have 10,000,000 rows as it stores 0 values"):
        from_scipy(sp.coo_matrix((10**12, 10**12)))


def test_an_array_that_repeats_its_memory_is_refused():
    with pytest.raises(GraphError, match="features must be an array with memory of its own"):
        built(features=np.broadcast_to(np.float32(1), (10**6, 10**6)))
    with pytest.raises(GraphError, match="features must be an array with memory of its own"):
        built(features=torch.zeros(1, 1).expand(10**6, 10**6))


@pytest.mark.parametrize(
    "features",
    [torch.zeros(4, 2, device="meta"), torch.zeros(4, 2, dtype=torch.complex64), np.ma.masked_array(ROWS, ROWS > 2),
     np.zeros((4, 2), complex), [[1], [2, 3]], "text", None, object()],
)  # fmt: skip
def test_what_is_no_plain_array_of_numbers_is_refused_in_one_sentence(features):
    with pytest.raises(GraphError) as caught:
        built(features=features)
    assert len(str(caught.value)) <= 300


def test_types_of_edges_of_a_billion_are_refused():
    from torch_geometric.data import Data

    data = Data(x=torch.ones(4, 2), edge_index=torch.from_numpy(EDGES), edge_type=torch.tensor([0, 1, 10**9]))
    with pytest.raises(
        GraphError, match="edge_type must hold whole numbers from 0 below 100,000, found 1000000000"
    ):
        from_pyg(data)


def test_a_feature_number_of_a_billion_in_networkx_is_refused():
    import networkx as nx

    network = nx.path_graph(3)
    for node in network:
        network.nodes[node]["x"] = {0: 1.0}
    network.nodes[2]["x"] = {999_999_999: 1.0}
    with pytest.raises(GraphError, match="at most 1,048,576 columns"):
        from_networkx(network, "x")


def test_a_row_of_very_many_numbers_in_networkx_is_refused_before_a_matrix_is_made():
    import networkx as nx

    network = nx.path_graph(3)
    for node in network:
        network.nodes[node]["x"] = np.broadcast_to(0.5, (1 << 20) + 1)
    with pytest.raises(GraphError, match="'x' can hold at most 1,048,576 numbers, found 1,048,577"):
        from_networkx(network, "x")


@pytest.mark.parametrize(
    "nodes",
    ["nobody", ["a", "nobody"], [["a"], ["b", "c"]], torch.ones(2, device="meta"), {"a": 1}.keys() | {7}],
)
def test_nodes_that_do_not_exist_are_refused_in_one_sentence(nodes):
    with pytest.raises(GraphError):
        node_numbers(built(node_ids=["a", "b", "c", "d"]), nodes)


def damaged_lists(damage) -> sp.lil_matrix:
    matrix = sp.lil_matrix(np.eye(4, dtype=np.float32))
    damage(matrix)
    return matrix


@pytest.mark.parametrize(
    "damage",
    [
        lambda matrix: matrix.data.__setitem__(0, [1.0] * 1000),
        lambda matrix: matrix.rows.__setitem__(0, [0, 1, 2]),
        lambda matrix: matrix.rows.__setitem__(0, None),
        lambda matrix: setattr(matrix, "rows", matrix.rows[:2]),
        lambda matrix: setattr(matrix, "data", np.eye(4)),
    ],
    ids=["more values", "more columns", "no list", "fewer rows", "no lists"],
)
def test_lists_of_a_sparse_matrix_that_do_not_fit_are_refused_before_scipy_copies_them(damage):
    with pytest.raises(GraphError, match=r"one list per row|as many columns as values in each row"):
        built(features=damaged_lists(damage))


@pytest.mark.parametrize(
    ("offsets", "data"),
    [
        (np.arange(1000), np.ones((1, 4))),
        (np.array([2**40]), np.ones((1, 4))),
        (np.array([-(2**31)], dtype=np.int32), np.ones((1, 4))),
        (np.array([0, 0]), np.ones((2, 4))),
        (np.array([0]), np.ones(4)),
    ],
    ids=["more offsets", "beyond", "far below", "repeated", "flat"],
)
def test_diagonals_of_a_sparse_matrix_that_do_not_fit_are_refused(offsets, data):
    matrix = sp.dia_matrix(np.eye(4))
    matrix.offsets, matrix.data = offsets, data
    with pytest.raises(GraphError, match="offset"):
        built(features=matrix)


def test_lists_and_diagonals_that_fit_are_read():
    for layout in (sp.lil_matrix, sp.dia_matrix, sp.dok_matrix):
        assert built(features=layout(np.diag([1.0, 2.0, 3.0, 4.0]))).features.value.tolist() == [1, 2, 3, 4]


def test_overlapping_rows_are_refused_if_a_copy_would_take_all_memory():
    small = np.zeros(200_000, dtype=np.float32)
    for rows in (
        np.lib.stride_tricks.as_strided(small, (100_000, 100_000), (4, 4)),
        torch.from_numpy(small).as_strided((100_000, 100_000), (1, 1)),
    ):
        with pytest.raises(GraphError, match="memory of its own"):
            built(features=rows)


@pytest.mark.parametrize("name", ["a\0", "a\0b", "\ud800"])
def test_names_that_no_file_can_hold_are_refused(name):
    with pytest.raises(GraphError, match="text that files can hold"):
        built(node_ids=[name, "b", "c", "d"])
    with pytest.raises(GraphError, match="text that files can hold"):
        built(labels=[0, 1, 0, 1], class_names=[name, "b"])
