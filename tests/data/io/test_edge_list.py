"""Edges as they come: ids in several forms, unknown nodes, duplicates, weights, and no table of nodes."""

from pathlib import Path

import pyarrow as pa
import pytest

from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.npz import write_npz
from gdpnet.errors import GraphError

NODES = "id,f\na,1\nb,2\nc,3\n"


def folder(tmp_path: Path, edges: str, nodes: str | None = NODES) -> Path:
    if nodes is not None:
        (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    return tmp_path


def weight_of(graph, source: str, target: str) -> float:
    target_number = graph.node_number(target)
    start, stop = graph.row_ptr[target_number : target_number + 2].tolist()
    place = graph.neighbour[start:stop].tolist().index(graph.node_number(source))
    return graph.edge_weight[start + place].item()


# --- ids ---


def test_floats_that_are_whole_numbers_match_whole_ids(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target\n1,2.0\n2,3.0\n", "id,f\n1,1\n2,2\n3,3\n"))
    assert graph.node_ids.tolist() == ["1", "2", "3"]
    assert graph.num_edges == 4
    assert "2 ids like 1.0 in column 'target' of edges.csv are read as 1" in graph.notes


def test_node_ids_that_pandas_turned_into_floats_are_whole_numbers(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target\n1,2\n2.0,3\n", "id,f\n1.0,1\n2.0,2\n3.0,3\n"))
    assert graph.node_ids.tolist() == ["1", "2", "3"]
    assert "ids like 1.0 in column 'id' of nodes.csv are read as 1" in graph.notes


def test_ids_like_versions_stay_as_they_are(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target\n1.0,2.0\n", "id,f\n1.0,1\n1,2\n2.0,3\n1.5,4\n"))
    assert graph.node_ids.tolist() == ["1.0", "1", "2.0", "1.5"]
    assert graph.neighbour.tolist() == [2, 0]


def test_whole_floats_in_parquet_are_ids_and_too_large_ones_are_not(tmp_path):
    write_table(pa.table({"id": [1.0, 2.0], "f": [1, 2]}), tmp_path / "nodes.parquet")
    ends = pa.table({"source": [1.0, float("nan")], "target": pa.array([2, None], pa.int32())})
    write_table(ends, tmp_path / "edges.parquet")
    graph = read_graph(tmp_path, drop_unknown=True)
    assert graph.node_ids.tolist() == [1, 2]
    assert graph.neighbour.tolist() == [1, 0]
    write_table(pa.table({"id": [1.0, 1e17], "f": [1, 2]}), tmp_path / "nodes.parquet")
    with pytest.raises(GraphError, match=r"must hold text or whole numbers, found 1e\+17"):
        read_graph(tmp_path)


def test_spaces_around_ids_are_removed_and_leading_zeros_stay(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target\n003, 3\n 3 ,b b\n", "id,f\n003 ,1\n3,2\nb b,3\n"))
    assert graph.node_ids.tolist() == ["003", "3", "b b"]
    assert graph.num_edges == 4
    assert "spaces around 1 id in column 'id' of nodes.csv were removed" in graph.notes
    assert "spaces around 1 id in column 'target' of edges.csv were removed" in graph.notes


def test_duplicate_node_ids_are_refused_with_their_number(tmp_path):
    path = folder(tmp_path, "source,target\n", "id,f\na,1\nb,1\na,2\nb,2\na,3\nc,1\n")
    with pytest.raises(GraphError, match="found 'a' 3 times and 1 other id more than once"):
        read_graph(path)


# --- unknown nodes ---

LOOSE = "source,target,weight\na,b,2\nzz,b,1\nc,zz,1\nq,zz,x\n,b,1\nb,c,3\na,,-1\n"


def test_unknown_and_missing_ids_are_counted_and_the_flag_is_named(tmp_path):
    path = folder(tmp_path, LOOSE)
    with pytest.raises(GraphError) as refusal:
        read_graph(path)
    assert str(refusal.value) == (
        f"both ends of every edge in {path / 'edges.csv'} must be nodes of nodes.csv, found 3 edges with 2 unknown "
        "ids, such as 'zz' and 2 edges without one of their ids (first in row 2); --drop-unknown (in Python "
        "drop_unknown=True) leaves them out"
    )


def test_unknown_and_missing_ids_are_dropped_on_request_and_counted(tmp_path):
    graph = read_graph(folder(tmp_path, LOOSE), drop_unknown=True)
    assert graph.num_edges == 4
    assert weight_of(graph, "a", "b") == 2.0
    assert (
        "3 edges with 2 unknown ids and 2 edges without one of their ids were dropped from edges.csv (--drop-unknown)"
        in graph.notes
    )


def test_feature_values_of_unknown_nodes_are_dropped_on_request(tmp_path):
    path = folder(tmp_path, "source,target\na,b\n", "id\na\nb\n")
    (path / "features.tsv").write_text("ID\tfeature\tvalue\na\t0\t1\nzz\t1\t1\nb\t1\t2\n")
    with pytest.raises(GraphError, match="found 1 row that does not, such as 'zz' in row 2; --drop-unknown"):
        read_graph(path)
    graph = read_graph(path, drop_unknown=True)
    assert graph.features.to_scipy().toarray().tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert "1 row of features.tsv with an unknown node was dropped (--drop-unknown)" in graph.notes


# --- duplicates and weights ---


def test_duplicate_edges_are_merged_and_their_weights_added_up(tmp_path):
    edges = "source,target,weight\na,b,1\na,b,2\nb,a,5\nb,c,1\nc,c,9\nc,b,1\n"
    graph = read_graph(folder(tmp_path, edges))
    assert (weight_of(graph, "a", "b"), weight_of(graph, "b", "a")) == (3.0, 5.0)
    assert weight_of(graph, "b", "c") == weight_of(graph, "c", "b") == 1.0
    for note in (
        "1 self-loop was removed: a node is always part of its own mean",
        "1 duplicate edge was merged",
        "2 edges are given in both directions and count once",
        "the weights of duplicate edges were added up",
    ):
        assert note in graph.notes


def test_each_direction_of_a_directed_graph_has_its_own_weight(tmp_path):
    edges = "source,target,weight\na,b,1\na,b,2\nb,a,5\n"
    graph = read_graph(folder(tmp_path, edges), directed=True)
    assert (weight_of(graph, "a", "b"), weight_of(graph, "b", "a")) == (3.0, 5.0)
    assert not any("direction" in note for note in graph.notes)


def test_weights_are_announced_and_left_out_on_request(tmp_path):
    path = folder(tmp_path, "source,target,weight\na,b,0.5\nb,c,3\n")
    graph = read_graph(path)
    note = "edge weights, 0.5 to 3, are from column 'weight' of edges.csv; --no-weights leaves them out"
    assert note in graph.notes
    assert read_graph(path, weights=False).edge_weight is None
    write_npz(graph, tmp_path / "graph.npz")
    assert read_graph(tmp_path / "graph.npz").edge_weight is not None
    assert read_graph(tmp_path / "graph.npz", weights=False).edge_weight is None


def test_weights_of_one_are_none_and_other_constants_are_said(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target,weight\na,b,1\nb,c,1.0\n"))
    assert graph.edge_weight is None
    assert "all weights in column 'weight' of edges.csv are 1, as if there were none" in graph.notes
    graph = read_graph(folder(tmp_path, "source,target,weight\na,b,1\nb,c,1\na,b,1\n"))
    assert weight_of(graph, "a", "b") == 2.0
    graph = read_graph(folder(tmp_path, "source,target,weight\na,b,3\nb,c,3\n"))
    assert any(
        note.startswith("all edge weights in column 'weight' of edges.csv are 3,") for note in graph.notes
    )


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ("-2", "must hold numbers above zero .*, found 1 other, such as -2 in row 2; --no-weights"),
        ("0", "must hold numbers above zero .*, found 1 other, such as 0 in row 2; --no-weights"),
        ("", "must hold a finite number in every row, found nothing in row 2; --no-weights"),
        ("strong", "must hold numbers, found 'strong' in row 2; --no-weights"),
        ("2e6", "edge weights must be at most 1,000,000"),
    ],
)
def test_unusable_weights_are_refused_with_the_flag_that_helps(tmp_path, second, sentence):
    path = folder(tmp_path, f"source,target,weight\na,b,1\nb,c,{second}\n")
    with pytest.raises(GraphError, match=sentence):
        read_graph(path)
    assert read_graph(path, weights=False).num_edges == 4


# --- edges alone ---


@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_table_of_edges_alone_is_a_graph_whose_nodes_it_names(tmp_path, whole_folder):
    path = folder(tmp_path, "from;to;weight\n2;10.0;0,5\n10;3.0;1,5\n", nodes=None)
    graph = read_graph(path if whole_folder else path / "edges.csv")
    assert graph.node_ids.tolist() == ["10", "2", "3"]
    assert weight_of(graph, "2", "10") == 0.5
    assert (graph.num_classes, graph.has_features) == (0, False)
    assert "there is no table of nodes: the edges of edges.csv name 3, without labels" in graph.notes


def test_a_folder_of_parts_may_be_the_table_of_edges(tmp_path):
    (tmp_path / "links").mkdir()
    write_table(pa.table({"u": [5, 7], "v": [7, 6]}), tmp_path / "links" / "part-0.parquet")
    assert read_graph(tmp_path / "links").node_ids.tolist() == [5, 6, 7]


def test_a_table_of_nodes_beside_the_edges_that_are_named_is_mentioned(tmp_path):
    graph = read_graph(folder(tmp_path, "source,target\na,b\n") / "edges.csv")
    assert graph.num_nodes == 2
    assert "only edges.csv is read, not nodes.csv; name their folder to read both" in graph.notes


def test_a_table_of_nodes_is_no_graph(tmp_path):
    path = folder(tmp_path, "source,target\na,b\n") / "nodes.csv"
    with pytest.raises(GraphError) as refusal:
        read_graph(path)
    assert str(refusal.value) == (
        "a graph must be a folder with tables of nodes and edges, or a table of edges with columns 'source' and "
        f"'target', found {path} with id, f"
    )


def test_edges_alone_must_be_complete_and_some(tmp_path):
    with pytest.raises(GraphError, match="found 1 edge without one of its ids"):
        read_graph(folder(tmp_path, "source,target\na,b\na,\n", nodes=None))
    assert read_graph(tmp_path, drop_unknown=True).num_edges == 2
    with pytest.raises(GraphError, match="must name the nodes of the graph"):
        read_graph(folder(tmp_path, "source,target\n", nodes=None))
