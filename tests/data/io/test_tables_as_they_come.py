"""Tables are read as other programs write them, and what was guessed is said in a note."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gdpnet.data.io.dialect import find_dialect
from gdpnet.data.io.files import Columns, read_graph, write_tables
from gdpnet.data.io.table_file import open_table
from gdpnet.errors import GraphError
from helpers.graphs import assert_same, small_graph

NODES = "id,label,split,age\na,x,train,1\nb,y,val,2.5\nc,,,3\n"
EDGES = "source,target\na,b\nb,c\n"


def folder(tmp_path: Path, **tables: str | bytes) -> Path:
    """Write tables by name, dots in it as double underscores, compressed if it ends so."""
    for name, content in ({"edges__csv": EDGES} | tables).items():
        path = tmp_path / name.replace("__", ".")
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return tmp_path


def dialect(tmp_path: Path, text: str) -> str:
    (tmp_path / "t.csv").write_text(text)
    return find_dialect(tmp_path / "t.csv").delimiter


# --- files ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nodes__csv", NODES),
        ("nodes__tsv", NODES.replace(",", "\t")),
        ("nodes__txt", NODES.replace(",", "|")),
        ("nodes__csv__gz", NODES),
        ("nodes__tsv__gz", NODES.replace(",", "\t")),
        ("nodes__csv", NODES.replace(",", ";").replace("2.5", "2,5")),
        ("nodes__csv", NODES.replace(",", "\t").replace("2.5", "2,5")),
        ("nodes__csv", NODES.encode("utf-8-sig")),
        ("nodes__csv", NODES.encode("utf-16")),
        ("nodes__csv__gz", b"\xfe\xff" + NODES.encode("utf-16-be")),
        ("nodes__csv", NODES.replace("\n", "\r\n")),
        ("nodes__csv", NODES.replace("id,label", ' "id" , label ').replace(' "id" ', '" id "')),
        ("Nodes__CSV", NODES),
    ],
)
def test_a_table_is_read_in_the_form_it_has(tmp_path, name, content):
    graph = read_graph(folder(tmp_path, **{name: content}))
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.class_names == ("x", "y")
    assert graph.split.tolist() == [1, 2, 0]
    assert graph.features.tolist() == [[1.0], [2.5], [3.0]]
    assert graph.feature_names == ("age",)


@pytest.mark.parametrize("form", ["folder", "spark"])
def test_a_folder_of_parquet_parts_is_one_table(tmp_path, form):
    whole = pa.table({"id": [1, 2, 3, 4], "f": [1.0, 2.0, 3.0, 4.0]})
    parts = tmp_path / ("nodes" if form == "folder" else "nodes.parquet")
    parts.mkdir()
    for start in (2, 0):
        pq.write_table(whole.slice(start, 2), parts / f"part-0000{start}.snappy.parquet")
    (parts / "_SUCCESS").touch()
    graph = read_graph(folder(tmp_path, edges__csv="source,target\n1,4\n"))
    assert graph.node_ids.tolist() == [1, 2, 3, 4]
    assert graph.features.flatten().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_empty_folder_beside_the_tables_is_no_table(tmp_path):
    (tmp_path / "nodes").mkdir()
    assert read_graph(folder(tmp_path, nodes__csv=NODES)).num_nodes == 3


def test_a_damaged_compressed_table_is_refused(tmp_path):
    path = folder(tmp_path, nodes__csv__gz=NODES * 100) / "nodes.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GraphError, match=r"nodes.csv.gz cannot be read as a CSV table: "):
        read_graph(tmp_path)


def test_two_forms_of_a_table_are_refused(tmp_path):
    folder(tmp_path, nodes__csv=NODES, nodes__tsv__gz=NODES)
    with pytest.raises(GraphError, match=r"must hold one table 'nodes', found nodes.csv and nodes.tsv.gz"):
        read_graph(tmp_path)


def test_tables_are_not_written_beside_those_in_another_form(tmp_path):
    folder(tmp_path, nodes__tsv=NODES)
    with pytest.raises(GraphError, match=r"nodes.tsv is from another graph"):
        write_tables(small_graph(), tmp_path, "parquet")


def test_a_path_may_be_text(tmp_path):
    write_tables(small_graph(), tmp_path / "mygraph", "csv")
    assert_same(read_graph(str(tmp_path / "mygraph")), small_graph())


# --- delimiter ---


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("id\na\nb\n", ","),
        ("", ","),
        ('id,"name; first; last",f\na,"x; y; z",1\n', ","),
        ("id;price, in euro\na;1,5\n", ";"),
        ("id;lat,lon;f\na;1,2;3\nb;1;3\n", ";"),
        ('id\ttext\na\t"one, two, three"\nb\tfour, five\n', "\t"),
        ("id|note\na|x, y\n", "|"),
        ('id,note\na,"two\nlines; here"\n', ","),
    ],
)
def test_the_delimiter_is_found(tmp_path, text, delimiter):
    assert dialect(tmp_path, text) == delimiter


@pytest.mark.parametrize("content", ["1,2\n2,3\n", ",0,1\n0,5,6\n", "1;2,5\n"])
def test_a_table_without_names_of_columns_is_refused(tmp_path, content):
    with pytest.raises(GraphError, match=r"edges.csv must begin with a row of column names, such as source,"):
        read_graph(folder(tmp_path, nodes__csv=NODES, edges__csv=content))


def test_numbers_may_name_some_columns(tmp_path):
    assert read_graph(folder(tmp_path, nodes__csv="id,0,1\na,1,2\nb,3,4\nc,5,6\n")).feature_names == (
        "0",
        "1",
    )


# --- decimal commas and encodings ---


def test_decimal_commas_are_read_where_they_cannot_be_delimiters_and_said(tmp_path):
    nodes = "id;label;f;g;h\n1,5;1,5;0,25;-1,5e3;2.5\nb;2;NA;2;1\nc;2;,5;3,;1\n"
    path = folder(tmp_path, nodes__csv=nodes, edges__csv="source,target\n")
    table, notes = open_table(path / "nodes.csv").read(text=("id", "label"))
    assert table.to_pydict() == {
        "id": ["1,5", "b", "c"],
        "label": ["1,5", "2", "2"],
        "f": [0.25, None, 0.5],
        "g": [-1500.0, 2.0, 3.0],
        "h": [2.5, 1.0, 1.0],
    }
    assert notes == ("decimal commas were read in nodes.csv: f, g",)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_a_file_that_is_not_utf_8_is_read_as_latin_1_and_this_is_said(tmp_path, encoding):
    nodes = "id,label,größe\ncafé,naïf,1\nb,x,2\nc,x,3\n".encode(encoding)
    graph = read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv="source,target\ncafé,b\n"))
    assert graph.node_ids.tolist() == ["café", "b", "c"]
    assert graph.class_names == ("naïf", "x")
    assert graph.feature_names == ("größe",)
    assert "nodes.csv is not UTF-8 and was read as latin-1" in graph.notes


def test_the_euro_sign_of_windows_and_bytes_that_no_code_page_has_are_read(tmp_path):
    graph = read_graph(folder(tmp_path, nodes__csv=b"id,f\n\x80,1\nb,2\nc,3\n", edges__csv="source,target\n"))
    assert graph.node_ids.tolist()[0] == "€"
    graph = read_graph(folder(tmp_path, nodes__csv=b"id,f\n\x81\xe9,1\nb,2\n", edges__csv="source,target\n"))
    assert graph.node_ids.tolist()[0] == "\x81é"


def test_utf_16_without_a_mark_is_refused(tmp_path):
    with pytest.raises(GraphError, match=r"nodes.csv must be text in UTF-8, found other bytes"):
        read_graph(folder(tmp_path, nodes__csv=NODES.encode("utf-16-le")))


# --- names of columns ---


@pytest.mark.parametrize(
    "ends", ["src,dst", "from,to", "u,v", "source_id,target_id", "Source,Target", "From Node,To-Node"]
)
def test_common_names_of_the_ends_are_found_and_said(tmp_path, ends):
    graph = read_graph(folder(tmp_path, nodes__csv=NODES, edges__csv=EDGES.replace("source,target", ends)))
    assert graph.num_edges == 4
    source, target = ends.split(",")
    assert (
        f"columns '{source}' and '{target}' of edges.csv are read as source and target of edges"
        in graph.notes
    )


@pytest.mark.parametrize("name", ["node", "node_id", "name", "ID", "Node ID"])
def test_common_names_of_the_id_are_found_and_said(tmp_path, name):
    graph = read_graph(folder(tmp_path, nodes__csv=NODES.replace("id", name)))
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert (
        f"column '{name}' of nodes.csv is read as the id; --column node=NAME chooses another" in graph.notes
    )


@pytest.mark.parametrize("name", ["class", "y", "target", "Label"])
def test_common_names_of_the_label_are_found_and_said(tmp_path, name):
    graph = read_graph(folder(tmp_path, nodes__csv=NODES.replace("label", name)))
    assert graph.class_names == ("x", "y")
    assert graph.feature_names == ("age",)
    assert (
        f"column '{name}' of nodes.csv is read as the label; --column label=NAME chooses another"
        in graph.notes
    )


def test_a_label_is_not_guessed_beside_one_or_among_named_features_or_coordinates(tmp_path):
    graph = read_graph(folder(tmp_path, nodes__csv="id,label,class\na,x,1\nb,y,2\nc,y,3\n"))
    assert graph.feature_names == ("class",)
    path = folder(tmp_path, nodes__csv="id,x,y\na,1,1\nb,1,2\nc,1,3\n")
    assert read_graph(path).feature_names == ("x", "y")
    path = folder(tmp_path, nodes__csv="id,class\na,1\nb,2\nc,3\n")
    graph = read_graph(path, columns=Columns(features=("class",)))
    assert (graph.num_classes, graph.feature_names) == (0, ("class",))


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (
            NODES,
            "src,dst,from,to\n",
            "edges.csv must have columns 'source' and 'target', found src/dst and from/to",
        ),
        (
            "node,node_id\na,b\n",
            EDGES,
            "nodes.csv must have one column for the node, found 'node' and 'node_id'",
        ),
        (
            "id,Label,LABEL\na,b,c\n",
            EDGES,
            "nodes.csv must have one column for the label, found 'Label' and 'LABEL'",
        ),
    ],
)
def test_names_that_are_not_clear_are_refused(tmp_path, nodes, edges, sentence):
    with pytest.raises(GraphError, match=sentence):
        read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv=edges))


def test_names_that_the_user_gives_are_not_replaced(tmp_path):
    with pytest.raises(GraphError, match="must have a column 'sender'"):
        read_graph(folder(tmp_path, nodes__csv=NODES), columns=Columns(source="sender"))


@pytest.mark.parametrize("value", ["1e300", "-4e38"])
def test_a_number_to_predict_that_is_infinite_is_refused_with_its_node(tmp_path, value):
    (tmp_path / "nodes.csv").write_text(f"id,label,x\na,1,1\nb,{value},2\nc,3,3\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(
        GraphError, match=r"column 'label' of .*nodes\.csv must hold numbers .* for node 'b'$"
    ):
        read_graph(tmp_path, task="regression")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"or_usual": True}, "there is no column role 'or_usual'"),
        ({"features": 5}, "the column role 'features' must be names of columns, found 5"),
        ({"drop": ["x", 5]}, r"the column role 'drop' must be names of columns, found \('x', 5\)"),
        ({"source": 5}, "the column role 'source' must be the name of a column, found 5"),
        ({"edge_features": "no"}, "the column role 'edge_features' must be true or false, found 'no'"),
    ],
)
def test_roles_that_there_are_not_or_that_name_no_column_are_refused(columns, sentence):
    with pytest.raises(GraphError, match=sentence) as refusal:
        Columns.of(columns)
    assert "or_usual," not in str(refusal.value)


def test_an_unknown_role_is_refused_with_the_roles_that_there_are():
    with pytest.raises(
        GraphError, match="there is no column role 'foo'; known are category, drop"
    ) as refusal:
        Columns.of({"foo": "x"})
    assert "or_usual" not in str(refusal.value)


def test_both_ends_of_an_edge_in_one_column_are_refused(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match=r"must be two columns of edges\.csv, found 'source' for both"):
        read_graph(tmp_path, columns={"source": "source", "target": "source"})


@pytest.mark.parametrize(
    ("value", "found"), [(np.nan, "nan"), (np.inf, "inf"), (None, "nothing"), (1e300, r"1e\+300")]
)
def test_features_that_a_file_calls_its_own_must_be_finite(value, found, tmp_path):
    nodes = pa.table({"id": ["a", "b"], "f0": pa.array([1.0, value], pa.float64())})
    pq.write_table(nodes.replace_schema_metadata({b"gdpnet": b"features"}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match=rf"column 'f0' of the nodes must hold finite .* {found} in row 2$"):
        read_graph(tmp_path)


def test_features_that_a_file_calls_its_own_must_be_numbers(tmp_path):
    nodes = pa.table({"id": ["a", "b"], "f0": ["1", "2"]})
    pq.write_table(nodes.replace_schema_metadata({b"gdpnet": b"features"}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(
        GraphError, match=r"column 'f0' of the nodes must hold finite numbers, .* found string"
    ):
        read_graph(tmp_path)


def test_points_between_thousands_are_read_beside_decimal_commas(tmp_path):
    nodes = "id;v;n\na;1.000,5;1.000\nb;2,25;7,5\nc;-1.234.567,5;\n"
    edges = "source;target;weight\na;b;1,5\nb;c;1.000,25\n"
    graph = read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv=edges))
    assert graph.table.columns.column("v").to_pylist() == [1000.5, 2.25, -1234567.5]
    assert graph.table.columns.column("n").to_pylist() == [1000.0, 7.5, None]
    assert graph.edge_weight.tolist() == [1.5, 1.5, 1000.25, 1000.25]


def test_points_between_digits_are_left_alone_without_a_decimal_comma(tmp_path):
    nodes = "id;v\na;1.000.000\nb;2.000.000\n"
    graph = read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv="source;target\na;b\n"))
    assert graph.table.columns.column("v").to_pylist() == ["1.000.000", "2.000.000"]


def test_a_row_that_is_too_long_is_called_so(tmp_path):
    with pytest.raises(GraphError, match="a row must have less than 1 MiB, found a longer one"):
        read_graph(folder(tmp_path, nodes__csv=f"id,t\na,{'x' * (3 << 20)}\nb,y\nc,y\n"))
