"""Written graphs are read back the same, with the user's ids; bad files are refused in one sentence."""

import errno
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from gdpnet._core.files import atomic_path
from gdpnet.data.features import ONE_HOT_NOTE, SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import Columns, edge_table, read_graph, write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.errors import GDPNetError, GraphError
from helpers.graphs import assert_same, small_graph, without_truth

NODES = "id,label,split,age\na,x,train,1\nb,y,val,2\nc,,,3\n"
EDGES = "source,target\na,b\nb,c\n"


def folder(tmp_path: Path, nodes: str | bytes | None = NODES, edges: str | bytes | None = EDGES) -> Path:
    tmp_path.mkdir(exist_ok=True)
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        if content is not None:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path


def refused(path: Path, sentence: str, **options) -> None:
    with pytest.raises(GraphError, match=f"^{re.escape(sentence)}$"):
        read_graph(path, **options)


def noisy(graph: Graph) -> Graph:
    edges = torch.stack([graph.neighbour, graph.target])
    return Graph.build(
        edges,
        graph.features,
        graph.labels,
        split=graph.split,
        node_ids=graph.node_ids,
        class_names=graph.class_names,
        directed=True,
        spurious=[True, False, False, True, False, False],
        corrupted=[False, True, False, False],
        clean_labels=[1, 1, 0, 1],
    ).keep_edges(torch.tensor([True, True, False, True, True, True]), torch.arange(1.0, 7.0) / 7)


# --- round trips ---


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_tables_are_read_back_as_the_same_graph(tmp_path, kind, sparse):
    graph = small_graph(sparse=sparse)
    write_tables(graph, tmp_path / "new" / "folder", kind)
    assert_same(read_graph(tmp_path / "new" / "folder"), graph)
    stems = {"nodes", "edges", "features"} if sparse else {"nodes", "edges"}
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {
        f"{stem}.{kind}" for stem in stems
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_directed_graph_with_weights_is_read_back_the_same(tmp_path, kind, sparse):
    graph = without_truth(noisy(small_graph(sparse=sparse)))
    write_tables(graph, tmp_path, kind, {"keep_probability": np.linspace(0, 1, 5)})
    assert_same(read_graph(tmp_path, directed=True), graph)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "node_ids", [[30, 10, 20, 40], ["n1", "007", "é", "x" * 40]], ids=["numbers", "text"]
)
def test_an_npz_file_is_read_back_exactly_with_weights_and_known_noise(tmp_path, sparse, node_ids):
    graph = noisy(small_graph(sparse=sparse, node_ids=node_ids))
    write_npz(graph, tmp_path / "graph.npz")
    found = read_graph(tmp_path / "graph.npz")
    assert_same(found, graph)
    assert found.node_ids.tolist() == node_ids


def test_a_bare_graph_is_read_back_from_npz(tmp_path):
    graph = Graph.build([], [[1.0], [2.0]])
    write_npz(graph, tmp_path / "graph.npz")
    assert_same(read_graph(tmp_path / "graph.npz"), graph)


def test_classes_without_a_node_and_their_order_survive_in_npz(tmp_path):
    graph = Graph.build([], [[1.0], [2.0]], [2, -1], class_names=["z", "unused", "a"])
    write_npz(graph, tmp_path / "graph.npz")
    assert_same(read_graph(tmp_path / "graph.npz"), graph)


def test_number_ids_in_parquet_stay_numbers(tmp_path):
    graph = small_graph(node_ids=[30, 10, 20, 40])
    write_tables(graph, tmp_path, "parquet")
    assert read_graph(tmp_path).node_ids.tolist() == [30, 10, 20, 40]


def test_dense_features_survive_csv_to_the_last_bit(tmp_path):
    values = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 1e-3
    write_tables(Graph.build([], values), tmp_path, "csv")
    assert torch.equal(read_graph(tmp_path).features, values)


def test_one_hot_features_survive_tables_without_being_densified(tmp_path):
    graph = Graph.build([[0], [1]], SparseRows.identity(1000))
    write_tables(graph, tmp_path, "parquet")
    assert_same(read_graph(tmp_path), graph)


# --- hand-written files ---


def test_a_hand_written_folder_is_read(tmp_path):
    graph = read_graph(folder(tmp_path))
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.class_names == ("x", "y")
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.split.tolist() == [1, 2, 0]
    assert graph.features.tolist() == [[1.0], [2.0], [3.0]]
    assert graph.neighbour.tolist() == [1, 0, 2, 1]
    assert graph.feature_names == ("age",)


def test_ids_keep_their_leading_zeros_and_odd_words(tmp_path):
    path = folder(tmp_path, "id,f\n007,1\nNA,2\nnull,3\n1e5,4\n", "source,target\n007,NA\nnull,1e5\n")
    assert read_graph(path).node_ids.tolist() == ["007", "NA", "null", "1e5"]


def test_classes_are_ordered_as_numbers_if_all_are_numbers(tmp_path):
    path = folder(tmp_path, "id,label,f\na,10,1\nb,9,1\nc,-1,1\n")
    graph = read_graph(path)
    assert graph.class_names == ("-1", "9", "10")
    assert graph.labels.tolist() == [2, 1, 0]


def test_classes_are_ordered_as_text_if_one_is_text(tmp_path):
    assert read_graph(folder(tmp_path, "id,label,f\na,10,1\nb,9,1\nc,x,1\n")).class_names == ("10", "9", "x")


def test_number_labels_with_gaps_in_parquet_are_class_names(tmp_path):
    nodes = pa.table({"id": [1, 2, 3], "label": [2.0, None, float("nan")], "f": [1, 2, 3]})
    write_table(nodes, tmp_path / "nodes.parquet")
    write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "edges.parquet")
    graph = read_graph(tmp_path)
    assert graph.class_names == ("2",)
    assert graph.labels.tolist() == [0, -1, -1]


def test_columns_are_found_by_the_names_given(tmp_path):
    path = folder(
        tmp_path,
        "who,kind,part,w,h,title\na,x,test,1,4,T\nb,y,,2,5,U\nc,x,train,3,6,V\n",
        "from,to,how\na,b,.5\n",
    )
    columns = Columns("from", "to", "how", "who", "kind", "part", features=("h", "w"))
    graph = read_graph(path, columns=columns, directed=True)
    assert graph.features.tolist() == [[4.0, 1.0], [5.0, 2.0], [6.0, 3.0]]
    assert graph.split.tolist() == [3, 0, 1]
    assert graph.class_names == ("x", "y")
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5]
    assert (graph.neighbour.tolist(), graph.target.tolist()) == ([0], [1])


def test_a_folder_without_features_gets_one_hot_features_and_says_so(tmp_path):
    graph = read_graph(folder(tmp_path, "id\na\nb\nc\n"))
    assert isinstance(graph.features, SparseRows)
    assert np.array_equal(graph.features.to_scipy().toarray(), np.eye(3))
    assert any("one-hot" in note for note in graph.notes)


def test_a_long_feature_table_with_names_is_read_in_their_order(tmp_path):
    path = folder(tmp_path, "id\na\nb\nc\n")
    (path / "features.csv").write_text("node,feature,value\nb,wine,2\na,beer,1\nb,beer,3\nb,wine,4\n")
    graph = read_graph(path)
    assert isinstance(graph.features, SparseRows)
    assert graph.features.to_scipy().toarray().tolist() == [[1.0, 0.0], [3.0, 6.0], [0.0, 0.0]]
    assert "1 repeated feature values were added up" in graph.notes


def test_an_edge_table_without_edges_is_a_graph_without_edges(tmp_path):
    assert read_graph(folder(tmp_path, edges="source,target\n")).num_edges == 0


def test_true_and_false_numbers_as_text_and_a_byte_order_mark_are_read(tmp_path):
    path = folder(tmp_path, b"\xef\xbb\xbf" + b"id,f,g\na,true, 1\nb,false,2.5 \nc,true,-3e2\n")
    assert read_graph(path).features.tolist() == [[1.0, 1.0], [0.0, 2.5], [1.0, -300.0]]
    table = pa.table({"id": ["a", "b", "c"], "f": ["1", " 2", "3e1"]})
    (path / "nodes.csv").unlink()
    write_table(table, path / "nodes.parquet")
    assert read_graph(path).features.tolist() == [[1.0], [2.0], [30.0]]


def test_the_row_numbers_that_pandas_writes_are_not_features(tmp_path):
    graph = read_graph(folder(tmp_path, ",id,f\n0,a,0.5\n1,b,-0.5\n2,c,0.1\n"))
    assert graph.feature_names == ("f",)


def test_tables_of_different_formats_agree_on_ids(tmp_path):
    write_table(pa.table({"id": [1, 2], "f": [1.0, 2.0]}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    assert read_graph(tmp_path).neighbour.tolist() == [1, 0]


def test_categories_and_large_numbers_in_parquet_are_ids(tmp_path):
    big = pa.array([2**64 - 1, 5], pa.uint64())
    write_table(pa.table({"id": big, "f": [1, 2]}), tmp_path / "nodes.parquet")
    write_table(pa.table({"source": big[:1], "target": big[1:]}), tmp_path / "edges.parquet")
    assert read_graph(tmp_path).node_ids.tolist() == ["18446744073709551615", "5"]
    words = pa.array(["u", "v"]).dictionary_encode()
    write_table(pa.table({"id": words, "label": words, "f": [1, 2]}), tmp_path / "nodes.parquet")
    write_table(pa.table({"source": words[:1], "target": words[1:]}), tmp_path / "edges.parquet")
    graph = read_graph(tmp_path)
    assert graph.node_ids.tolist() == ["u", "v"]
    assert graph.class_names == ("u", "v")


# --- the common npz layout ---


def common_arrays() -> dict[str, np.ndarray]:
    adjacency = sp.csr_matrix(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    words = sp.csr_matrix(np.array([[0.0, 0.5], [0.0, 0.0], [1.0, 0.0]]))
    parts = {"adj": adjacency, "attr": words}
    return {
        f"{prefix}_{part}": np.asarray(getattr(matrix, part))
        for prefix, matrix in parts.items()
        for part in ("data", "indices", "indptr", "shape")
    } | {"labels": np.array([1, 0, 1])}


def test_the_layout_of_citation_files_is_read(tmp_path):
    np.savez(tmp_path / "g.npz", **common_arrays(), names=np.array([{"not": "plain"}], dtype=object))
    graph = read_graph(tmp_path / "g.npz")
    assert graph.neighbour.tolist() == [1, 0, 2, 1]
    assert graph.labels.tolist() == [1, 0, 1]
    assert isinstance(graph.features, SparseRows)
    assert graph.features.to_scipy().toarray().tolist() == [[0.0, 0.5], [0.0, 0.0], [1.0, 0.0]]
    assert read_graph(tmp_path / "g.npz", directed=True).num_edges == 2


def test_the_common_layout_without_features_gets_one_hot_ones(tmp_path):
    np.savez(tmp_path / "g.npz", **{name: a for name, a in common_arrays().items() if name.startswith("adj")})
    graph = read_graph(tmp_path / "g.npz")
    assert graph.num_features == 3
    assert any("one-hot" in note for note in graph.notes)


def test_an_npz_file_without_a_graph_is_refused(tmp_path):
    path = tmp_path / "g.npz"
    np.savez(path, a=np.ones(2), b=np.ones(2))
    refused(
        path,
        f"{path} must hold a graph written by gdpnet or the arrays adj_data, adj_indices, adj_indptr and "
        f"adj_shape, found a, b",
    )


def test_an_npz_file_with_a_missing_array_is_refused(tmp_path):
    arrays = common_arrays()
    del arrays["adj_data"]
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(GraphError, match="must hold an array 'adj_data', found adj_indices"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("adj_indices", [7, 7]),
        ("adj_indptr", [0, 2, 1, 2]),
        ("attr_indices", [0, -1]),
        ("attr_indptr", [0, 9, 9, 9]),
        ("attr_indptr", [0, 2, 1, 2]),
    ],
)
def test_an_npz_file_with_impossible_numbers_is_refused(tmp_path, name, value):
    np.savez(tmp_path / "g.npz", **(common_arrays() | {name: np.array(value)}))
    with pytest.raises(GraphError, match="does not hold a usable graph"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("name", ["neighbour", "row_ptr", "labels", "edge_weight", "features", "split"])
def test_our_own_npz_file_is_refused_if_an_array_was_cut(tmp_path, name):
    write_npz(noisy(small_graph()), tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "g.npz", **(arrays | {name: arrays[name][:-1]}))
    with pytest.raises(GraphError, match=r"^\S*g\.npz (is damaged|does not hold)"):
        read_graph(tmp_path / "g.npz")


def test_a_layout_from_the_future_is_refused(tmp_path):
    np.savez(tmp_path / "g.npz", gdpnet_graph=np.array(99))
    path = tmp_path / "g.npz"
    refused(path, f"{path} does not hold a usable graph: its layout must be version 1, found 99")


@pytest.mark.parametrize("keep", [0, 3, 100, -30])
def test_a_truncated_npz_file_is_refused(tmp_path, keep):
    path = tmp_path / "g.npz"
    write_npz(small_graph(), path)
    path.write_bytes(path.read_bytes()[:keep])
    refused(path, f"{path} cannot be read as an npz file: it is truncated, damaged or something else")


def test_a_single_array_or_a_pickle_called_npz_is_refused(tmp_path):
    path = tmp_path / "g.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    refused(path, f"{path} cannot be read as an npz file: it is truncated, damaged or something else")


# --- bad input, one sentence each ---


def test_a_path_that_is_not_there_is_refused(tmp_path):
    refused(tmp_path / "nowhere", f"there is no file or folder {tmp_path / 'nowhere'}")


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "graph.doc"
    path.write_text("hello")
    refused(
        path,
        f"a graph must be a folder with tables of nodes and edges, a table of edges, or a .npz file, found {path}",
    )


@pytest.mark.parametrize(("nodes", "found"), [(NODES, "nodes.csv"), (None, "nothing")])
def test_a_folder_without_an_edge_table_is_refused(tmp_path, nodes, found):
    path = folder(tmp_path, nodes, edges=None)
    refused(
        path,
        f"{path} must hold a table of edges, such as edges.csv or edges.parquet, and one of nodes, found {found}",
    )


def test_two_node_tables_are_refused(tmp_path):
    write_table(pa.table({"id": ["a"]}), folder(tmp_path) / "nodes.parquet")
    refused(tmp_path, f"{tmp_path} must hold one table 'nodes', found nodes.csv and nodes.parquet")


def test_features_in_two_places_are_refused(tmp_path):
    path = folder(tmp_path)
    (path / "features.csv").write_text("node,feature,value\na,0,1\n")
    refused(
        path,
        f"features must be in one place, found {path / 'features.csv'} and "
        f"column 'age' of {path / 'nodes.csv'}",
    )


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (
            NODES,
            "src,target\na,b\n",
            "{edges} must have a column 'source', or another that --column source=NAME names; did you mean 'src'?",
        ),
        (
            NODES,
            "x,y\na,b\n",
            "{edges} must have a column 'source', or another that --column source=NAME names; known are x, y",
        ),
        (
            "who,f\na,1\n",
            EDGES,
            "{nodes} must have a column 'id', or another that --column node=NAME names; known are f, who",
        ),
        ("id,f,id\na,1,b\n", EDGES, "{nodes} must have one column 'id', found 2"),
        (
            NODES,
            EDGES + "c,zz\n",
            "both ends of every edge in {edges} must be nodes of nodes.csv, found 1 edge with 1 unknown id, such "
            "as 'zz' (first in row 3); --drop-unknown (in Python drop_unknown=True) leaves them out",
        ),
        (
            NODES,
            "source,target\na,b\n,c\n",
            "both ends of every edge in {edges} must be nodes of nodes.csv, found 1 edge without one of its ids "
            "(first in row 2); --drop-unknown (in Python drop_unknown=True) leaves them out",
        ),
        (
            "id,f\na,1\nb,2\n,3\n",
            EDGES,
            "column 'id' of {nodes} must name a node in every row, found nothing in row 3",
        ),
        (
            "id,f\na,1\nb,2\na,3\nc,4\n",
            EDGES,
            "{nodes} does not hold usable nodes: node ids must be unique, found 'a' 2 times: keep one row per node",
        ),
        (
            "id,f\n",
            "source,target\n",
            "{nodes} does not hold usable nodes: the graph is empty: it has no node",
        ),
        (
            "id,split,f\na,train,1\nb,trian,2\nc,,3\n",
            EDGES,
            "column 'split' of {nodes} must hold train, validation, test or nothing, found 'trian'; "
            "did you mean 'train'?",
        ),
        (
            NODES,
            "source,target,weight\na,b,1\nb,c,heavy\n",
            "column 'weight' of {edges} must hold numbers, found 'heavy' in row 2; "
            "--no-weights (in Python weights=False) leaves the weights out",
        ),
        (
            NODES,
            "source,target,weight\na,b,1\nb,c,\n",
            "column 'weight' of {edges} must hold a finite number in every row, found nothing in row 2; "
            "--no-weights (in Python weights=False) leaves the weights out",
        ),
        ("", EDGES, "{nodes} cannot be read as a CSV table: Empty CSV file"),
        (
            "id,f\na,1\nb\n",
            EDGES,
            "{nodes} cannot be read as a CSV table: CSV parse error: Expected 2 columns, got 1: b",
        ),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, nodes, edges, sentence):
    path = folder(tmp_path, nodes, edges)
    refused(path, sentence.format(nodes=path / "nodes.csv", edges=path / "edges.csv"))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (Columns(label="lable"), "{nodes} must have a column 'lable'; did you mean 'label'?"),
        (Columns(split="part"), "{nodes} must have a column 'part'; known are age, id, label, split"),
        (Columns(features=("agee",)), "{nodes} must have a column 'agee'; did you mean 'age'?"),
        (Columns(drop=("agee",)), "{nodes} must have a column 'agee'; did you mean 'age'?"),
        (Columns(text=("titel",)), "{nodes} must have a column 'titel'; known are age, id, label, split"),
    ],
)
def test_a_column_that_the_user_names_must_be_there_and_fit(tmp_path, columns, sentence):
    path = folder(tmp_path)
    refused(path, sentence.format(nodes=path / "nodes.csv"), columns=columns)


@pytest.mark.parametrize("keep", [0, 3, -5])
def test_a_truncated_parquet_file_is_refused(tmp_path, keep):
    write_tables(small_graph(), tmp_path, "parquet")
    path = tmp_path / "edges.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(GraphError, match=r"edges.parquet cannot be read as a PARQUET table: Parquet [^\n]*$"):
        read_graph(tmp_path)


def test_a_parquet_file_with_a_changed_page_is_refused(tmp_path):
    values = np.arange(1000.0)
    path = tmp_path / "nodes.parquet"
    write_table(pa.table({"id": np.arange(1000), "f": values}), path)
    start = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[start + 100 : start + 110] = b"tampered!!"
    path.write_bytes(content)
    (tmp_path / "edges.csv").write_text("source,target\n")
    with pytest.raises(GraphError, match="cannot be read"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (("1", "", "3"), {"f", "f is missing"}),
        (("1", "-inf", "3"), {"f", "f is missing"}),
        (("red", "blue", "red"), {"f=red", "f=blue"}),
        (("2020-01-01", "2020-01-02", "2020-01-05"), {"f"}),
        (("yes", "no", "no"), {"f"}),
    ],
)
def test_columns_of_any_kind_become_features(tmp_path, cells, found):
    rows = "".join(
        f"{name},{cell},{number}\n" for name, cell, number in zip("abc", cells, (5, 6, 7), strict=True)
    )
    graph = read_graph(folder(tmp_path, f"id,f,g\n{rows}"))
    assert set(graph.feature_names) == found | {"g"}
    assert bool(torch.isfinite(graph.features).all())


def test_feature_columns_are_chosen_by_pattern_and_left_out_by_name(tmp_path):
    path = folder(tmp_path, "id,w1,w2,v\na,1,0,5\nb,0,1,6\nc,0,0,7\n")
    assert read_graph(path, columns=Columns(features=("w*",))).feature_names == ("w1", "w2")
    assert read_graph(path, columns=Columns(drop=("w1",))).table.columns.column_names == ["w2", "v"]


def test_the_columns_of_a_table_are_written_as_they_came(tmp_path):
    graph = read_graph(folder(tmp_path, "id,town,age\na,Rome,20\nb,,31\nc,Oslo,\n"))
    write_tables(graph, tmp_path / "again", "csv")
    again = read_graph(tmp_path / "again")
    assert again.table.columns.to_pydict() == {"town": ["Rome", "", "Oslo"], "age": [20, 31, None]}
    assert_same(again, graph)


def test_the_encoding_is_fitted_on_training_nodes_alone(tmp_path):
    rows = "a,train,1\nb,train,200\nc,train,3000\nd,test,{}\n"
    one, other = (
        read_graph(folder(tmp_path / str(last), "id,split,x\n" + rows.format(last), "source,target\na,b\n"))
        for last in (4, 10**9)
    )
    assert one.table.encoding == other.table.encoding


def test_a_table_of_which_no_column_can_be_used_gives_one_hot_features(tmp_path):
    graph = read_graph(folder(tmp_path, "id,same\na,x\nb,x\nc,x\n"))
    assert not graph.has_features
    assert ONE_HOT_NOTE in graph.notes


def test_ids_and_labels_that_are_fractions_are_refused(tmp_path):
    path = tmp_path / "nodes.parquet"
    write_table(pa.table({"source": ["a"], "target": ["b"]}), tmp_path / "edges.parquet")
    write_table(pa.table({"id": [0.5, 1.0], "f": [1, 2]}), path)
    refused(tmp_path, f"column 'id' of {path} must hold text or whole numbers, found 0.5")
    write_table(pa.table({"id": ["a", "b"], "label": [0.5, 1.0], "f": [1, 2]}), path)
    sentence = f"column 'label' of {path} must hold names or whole numbers, found fractions"
    hint = ": --task regression predicts numbers (in Python read_graph(..., task='regression'))"
    refused(tmp_path, sentence + hint)


def test_a_long_feature_table_must_name_known_nodes_features_and_numbers(tmp_path):
    path = folder(tmp_path, "id\na\nb\nc\n") / "features.csv"
    path.write_text("node,feature,value\nq,0,1\n")
    refused(
        tmp_path,
        f"column 'node' of {path} must name nodes of nodes.csv, found 1 row that does not, such as 'q' in row 1; "
        "--drop-unknown (in Python drop_unknown=True) leaves them out",
    )
    path.write_text("node,feature,value\na,,1\n")
    refused(tmp_path, f"column 'feature' of {path} must name a feature in every row, found a row with none")
    path.write_text("node,feature,value\na,0,much\n")
    refused(tmp_path, f"column 'value' of {path} must hold numbers, found 'much' in row 1")


# --- writing ---


def test_the_edge_table_names_source_and_target_by_id():
    graph = small_graph().keep_edges(torch.tensor([True, False, False, True, False, False]))
    assert edge_table(graph).to_pydict() == {"source": ["007", 'say "x"'], "target": ["n1", "007"]}


def test_tables_are_written_to_csv_or_parquet_only(tmp_path):
    with pytest.raises(
        GraphError, match=r"^a table must be written to a .csv or .parquet file, found edges.txt$"
    ):
        write_table(pa.table({"a": [1]}), tmp_path / "edges.txt")
    with pytest.raises(GraphError, match=r"^the format of tables must be csv or parquet, found 'xml'$"):
        write_tables(small_graph(), tmp_path, "xml")
    with pytest.raises(GraphError, match=r"^a graph must be written to a .npz file, found graph.dat$"):
        write_npz(small_graph(), tmp_path / "graph.dat")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extra", [{"weight": np.ones(6)}, {"p": np.ones(2)}])
def test_extra_edge_columns_must_have_their_own_name_and_one_value_per_edge(tmp_path, extra):
    with pytest.raises(GraphError, match="an extra edge column must have a name of its own"):
        write_tables(small_graph(), tmp_path, "csv", extra)
    assert list(tmp_path.iterdir()) == []


def test_tables_are_not_mixed_with_those_of_another_graph(tmp_path):
    write_tables(small_graph(sparse=True), tmp_path, "csv")
    with pytest.raises(
        GraphError, match=r"features.csv is from another graph and would be read with this one"
    ):
        write_tables(small_graph(), tmp_path, "csv")
    assert_same(read_graph(tmp_path), small_graph(sparse=True))


def test_tables_are_written_over_those_of_the_same_kind(tmp_path):
    write_tables(small_graph(), tmp_path, "csv")
    write_tables(small_graph(node_ids=["p", "q", "r", "s"]), tmp_path, "csv")
    assert read_graph(tmp_path).node_ids.tolist() == ["p", "q", "r", "s"]


# --- whole or not at all ---


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_successful_write_replaces_the_file_and_makes_its_folder(tmp_path):
    path = tmp_path / "deep" / "result.txt"
    for text in ("first", "second"):
        with atomic_path(path) as temporary:
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "first"
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_is_reported_in_one_sentence(tmp_path):
    path = tmp_path / "result.txt"

    def write() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28]")

    with pytest.raises(GDPNetError, match=f"^cannot write {re.escape(str(path))}: No space left on device$"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_reported_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "nodes.csv"
    with pytest.raises(GDPNetError, match=f"^cannot write {re.escape(str(path))}: "):
        write_table(pa.table({"a": [1]}), path)
