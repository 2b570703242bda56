"""Edge features: order, merging, round trips, noise, pair features, and how a model reads them by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.edge_features import MERGED_NOTE, with_edge_features, without_columns
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.files import Columns, read_graph, write_tables
from gdpnet.data.io.networkx import from_networkx, to_networkx
from gdpnet.data.io.npz import read_npz, write_npz
from gdpnet.data.io.pyg import from_pyg, to_pyg
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.pair_features import PAIR_NAMES, pair_names
from gdpnet.data.prepare import prepare
from gdpnet.data.schema import EdgeColumns, read_edges
from gdpnet.errors import GraphError
from helpers.graphs import assert_same
from helpers.setups import random_graph

CPU = torch.device("cpu")
EDGES = np.array([[0, 1, 1, 2], [1, 2, 0, 2]])
ROWS = np.array([[1.0, 0.0, 10.0], [0.0, 1.0, 5.0], [0.0, 1.0, 20.0], [1.0, 1.0, 99.0]])
NAMES = ("kind=a", "kind=b", "amount")


def three_nodes(directed: bool = False) -> Graph:
    graph = Graph.build(EDGES, np.eye(3), directed=directed)
    return with_edge_features(graph, EDGES, ROWS, NAMES, directed=directed)


def with_rows(graph: Graph, rows: torch.Tensor, names: tuple[str, ...] | None = NAMES) -> Graph:
    return replace(graph, edge_features=rows, edge_feature_names=names)


def random_rows(graph: Graph, seed: int = 0) -> Graph:
    """Return the graph with two types and a number per edge, the same in both directions."""
    number = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    number = torch.maximum(number, number[graph.reverse])
    rows = torch.stack([(number < 0.5).float(), (number >= 0.5).float(), 10.0 * number], dim=1)
    return with_rows(graph, rows)


# --- order ---


def test_both_directions_of_an_undirected_edge_have_the_same_row_and_parallel_edges_are_merged():
    graph = three_nodes()
    assert graph.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graph.edge_features.tolist() == [[1, 1, 15], [1, 1, 15], [0, 1, 5], [0, 1, 5]]
    assert graph.edge_feature_names == NAMES
    assert MERGED_NOTE in graph.notes


def test_edges_that_are_given_in_both_directions_with_equal_rows_need_no_note():
    both = np.concatenate([EDGES[:, :2], EDGES[::-1, :2]], axis=1)
    graph = with_edge_features(
        Graph.build(both, np.eye(3)), both, np.concatenate([ROWS[:2], ROWS[:2]]), NAMES, directed=False
    )
    assert graph.edge_features.tolist() == ROWS[[0, 0, 1, 1]].tolist()
    assert MERGED_NOTE not in graph.notes


def test_directed_edges_have_rows_of_their_own():
    graph = three_nodes(directed=True)
    assert graph.edge_index.tolist() == [[1, 0, 1], [0, 1, 2]]
    assert graph.edge_features.tolist() == [[0, 1, 20], [1, 0, 10], [0, 1, 5]]
    assert MERGED_NOTE not in graph.notes


def test_a_part_of_a_graph_keeps_the_rows_of_its_edges():
    graph = random_rows(random_graph(3, nodes=12, links=30))
    kept = torch.arange(graph.num_edges) % 3 > 0
    assert torch.equal(graph.keep_edges(kept).edge_features, graph.edge_features[kept])
    nodes = torch.tensor([0, 2, 3, 7, 8, 11])
    part = graph.induced(nodes)
    place = {
        tuple(ends): row
        for ends, row in zip(graph.edge_index.T.tolist(), graph.edge_features.tolist(), strict=True)
    }
    ends = nodes[part.edge_index].T.tolist()
    assert part.edge_features.tolist() == [place[tuple(pair)] for pair in ends]


def test_unusable_rows_are_refused():
    graph = Graph.build(EDGES, np.eye(3))
    with pytest.raises(
        GraphError, match=r"one row of numbers per edge \(4\), found an array of shape \(3, 3\)"
    ):
        with_edge_features(graph, EDGES, ROWS[:3], directed=False)
    with pytest.raises(GraphError, match="finite, found NaN or infinity on edge number 2"):
        with_edge_features(graph, EDGES, np.array([[1.0], [np.nan], [0.0], [0.0]]), directed=False)
    with pytest.raises(GraphError, match="a name for each of 3 edge features, found 1"):
        with_edge_features(graph, EDGES, ROWS, ("amount",), directed=False)


# --- round trips ---


@pytest.mark.parametrize("names", [NAMES, None])
def test_npz_files_and_stores_keep_edge_features(tmp_path, names):
    graph = replace(three_nodes(), edge_feature_names=names)
    write_npz(graph, tmp_path / "graph.npz")
    assert_same(read_npz(tmp_path / "graph.npz"), graph)
    write_store(graph, tmp_path / "store")
    assert_same(replace(open_store(tmp_path / "store"), neighbour=graph.neighbour), graph)


def test_a_store_with_edge_features_that_do_not_fit_is_refused(tmp_path):
    write_store(three_nodes(), tmp_path / "store")
    rows = np.load(tmp_path / "store" / "edge_features.npy")
    rows[2, 1] = np.inf
    np.save(tmp_path / "store" / "edge_features.npy", rows)
    with pytest.raises(GraphError, match="array 'edge_features' must hold finite numbers"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_tables_keep_edge_features_by_name(tmp_path, format):
    graph = three_nodes(directed=True)
    write_tables(graph, tmp_path, format)
    found = read_graph(tmp_path, directed=True)
    assert torch.equal(found.edge_features, graph.edge_features)
    assert found.edge_feature_names == NAMES


def test_columns_of_the_edge_table_can_be_left_out(tmp_path):
    write_tables(three_nodes(), tmp_path / "tables")
    write_npz(three_nodes(), tmp_path / "graph.npz")
    for path in (tmp_path / "tables", tmp_path / "graph.npz"):
        assert read_graph(path, columns=Columns(edge_features=False)).edge_features is None
        found = read_graph(path, columns=Columns(dropped_edge_columns=("amount",)))
        assert found.edge_feature_names == ("kind=a", "kind=b")
        with pytest.raises(GraphError, match="did you mean 'amount'"):
            read_graph(path, columns=Columns(dropped_edge_columns=("amounts",)))
    assert without_columns(three_nodes(), ("kind",)).edge_features.tolist() == [[15], [15], [5], [5]]
    assert without_columns(three_nodes(), ("kind", "amount")).edge_features is None


def test_torch_geometric_and_networkx_keep_edge_features():
    for graph in (three_nodes(), three_nodes(directed=True)):
        directed = graph.is_directed
        data = to_pyg(graph)
        assert torch.equal(data.edge_attr, graph.edge_features)
        again = from_pyg(data, directed=directed)
        assert torch.equal(again.edge_features, graph.edge_features)
        assert from_pyg(data, directed=directed, edge_features=False).edge_features is None
        network = to_networkx(graph)
        assert network.is_directed() == directed
        found = from_networkx(network, features="x", edge_features=NAMES)
        assert torch.equal(found.edge_features, graph.edge_features)
        assert found.edge_feature_names == NAMES


def test_the_fingerprint_depends_on_edge_features():
    graph = three_nodes()
    other = replace(graph, edge_features=graph.edge_features + 1)
    assert len({fingerprint(one) for one in (graph, other, replace(graph, edge_features=None))}) == 3


# --- noise ---


@pytest.mark.parametrize("directed", [False, True])
def test_an_injected_edge_has_the_row_of_an_old_edge_and_the_links_are_those_without_rows(directed):
    plain = random_graph(5, nodes=30, links=60, directed=directed)
    rows = torch.arange(plain.num_edges, dtype=torch.float32)
    rows = rows if directed else torch.minimum(rows, rows[plain.reverse])
    graph = with_rows(plain, rows[:, None], ("number",))
    noisy, same = (corrupt(one, "random-links", 0.5, 7).graph for one in (graph, plain))
    assert torch.equal(noisy.edge_index, same.edge_index)
    old = {tuple(ends): row for ends, row in zip(graph.edge_index.T.tolist(), rows.tolist(), strict=True)}
    new = noisy.edge_features[:, 0].tolist()
    for ends, row in zip(noisy.edge_index.T.tolist(), new, strict=True):
        assert row == old.get(tuple(ends), row)
        assert row in rows
    if not directed:
        assert torch.equal(noisy.edge_features[noisy.reverse], noisy.edge_features)
    assert len({new[place] for place in noisy.truth.spurious.nonzero().flatten().tolist()}) > 10


# --- what the policy sees ---


@pytest.mark.parametrize("state", PAIR_NAMES)
def test_edge_features_come_before_the_pair_features_of_the_state(state):
    plain = random_graph(2, nodes=15, links=40)
    graph, config = random_rows(plain), Config().with_values({"policy": {"state": state}})
    found, before = prepare(graph, config, CPU), prepare(plain, config, CPU)
    assert torch.equal(found.pairs[:, :3], graph.edge_features)
    assert torch.equal(found.pairs[:, 3:], before.pairs)
    assert found.learned_pairs == before.learned_pairs
    assert found.edge_features_in_pairs == slice(0, 3)
    assert len(pair_names(state, 1, NAMES)) == found.pairs.shape[1]


def test_candidates_farther_away_have_zeros_after_their_distance():
    graph = random_rows(random_graph(2, nodes=15, links=20))
    found = prepare(graph, Config().with_values({"policy": {"hops": 2}}), CPU)
    far = found.pairs[:, 0] > 0
    assert bool(far.any())
    assert not found.pairs[far][:, found.edge_features_in_pairs].any()
    assert torch.equal(found.pairs[found.edge, 1:4], graph.edge_features)
    assert pair_names("trust", 2, NAMES)[1:4] == NAMES


def test_a_model_without_selection_does_not_look_at_edge_features():
    graph = random_rows(random_graph(2, nodes=15, links=20))
    assert prepare(graph, Config().with_values({"training": {"selection": False}}), CPU).pairs.shape[1] == 0


# --- how a model reads them ---


def test_numbers_are_scaled_by_the_training_graph_and_types_stay():
    rows = torch.tensor([[0.0, 1.0], [1.0, 3.0], [1.0, 5.0], [0.0, 1e6]])
    graph = with_rows(three_nodes(), rows, ("kind=a", "amount"))
    columns = EdgeColumns.of(graph)
    read = columns.read(graph).edge_features
    assert torch.equal(read[:, 0], rows[:, 0])
    assert read[1:3, 1].tolist() == sorted(read[1:3, 1].tolist())
    assert read[:, 1].abs().max() < 3.01  # an outlier does not dominate
    other = with_rows(three_nodes(), torch.full((4, 2), 3.0), ("amount", "length"))
    with pytest.raises(GraphError, match="trained with the edge column 'kind', which this graph lacks"):
        columns.read(other)


def test_columns_are_found_by_name_and_unknown_types_are_others():
    trained = with_rows(three_nodes(), torch.eye(4)[:, :3], ("kind=a", "kind=b", "kind=other"))
    columns = EdgeColumns.of(trained)
    other = with_rows(three_nodes(), torch.eye(4), ("kind=b", "length", "kind=new", "kind=newer"))
    assert columns.read(other).edge_features.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert columns.read(other).edge_feature_names == trained.edge_feature_names


def test_columns_without_names_are_found_by_their_place():
    columns = EdgeColumns.of(three_nodes())
    unnamed = replace(three_nodes(), edge_feature_names=None)
    assert torch.equal(columns.read(unnamed).edge_features, columns.read(three_nodes()).edge_features)
    with pytest.raises(GraphError, match="trained with 3 edge features, this graph has 2"):
        columns.read(with_rows(unnamed, torch.ones(4, 2), None))


def test_a_graph_without_edge_features_is_refused_and_features_that_a_model_does_not_read_are_ignored():
    graph = three_nodes()
    with pytest.raises(GraphError, match="trained with edge features and needs a graph that has them"):
        read_edges(replace(graph, edge_features=None, edge_feature_names=None), EdgeColumns.of(graph))
    assert read_edges(graph, None).edge_features is None


def test_columns_survive_a_model_file():
    for graph in (three_nodes(), replace(three_nodes(), edge_feature_names=None)):
        columns = EdgeColumns.of(graph)
        assert EdgeColumns.from_dict(columns.to_dict()) == columns
    assert EdgeColumns.from_dict(None) is None
