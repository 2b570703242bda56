"""Parts of the server that need no process."""

import asyncio
import socket
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.cli import main
from gdpnet.data.features import SparseRows, to_dense
from gdpnet.data.graph import Graph
from gdpnet.data.tables.edge_columns import read_edge_columns
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.errors import ConfigError
from helpers.commands import refuse
from helpers.server import need_server

need_server()

# these imports need the packages, so they come after the check
from starlette.types import Scope  # noqa: E402

from gdpnet.web.server.guard import Access, is_loopback  # noqa: E402
from gdpnet.web.server.limits import Limits  # noqa: E402
from gdpnet.web.server.node_features import edge_rows, node_rows  # noqa: E402
from gdpnet.web.server.pages import policy_for  # noqa: E402
from gdpnet.web.server.payload import Question  # noqa: E402
from gdpnet.web.server.problems import ProblemError  # noqa: E402
from gdpnet.web.server.process import listen  # noqa: E402
from gdpnet.web.server.questions import read_question  # noqa: E402
from gdpnet.web.server.served import NodeIndex, Served  # noqa: E402


def scope(path: str = "/v1/model", **headers: str) -> Scope:
    """Return a request as the guard sees it."""
    given = {"host": "127.0.0.1:80"} | headers
    return {"type": "http", "path": path, "headers": [(n.encode(), v.encode()) for n, v in given.items()]}


def test_numbers_as_ids_are_found_without_an_index():
    index = NodeIndex(np.arange(200))
    assert index.find(["0", "199", "200", "007", "-1", "1.0", "٣", ""]) == [0, 199, *[None] * 6]
    assert index.containing("19", 50) == [19, *range(190, 200)]
    assert index.containing("0", 50) == [0]
    assert index.containing("x", 50) == []


@pytest.mark.parametrize(
    ("words", "ours"), [((), True), (("--tables", "store.tables"), False), (("--tables", "other"), False)]
)
def test_a_folder_for_tables_is_the_users_own_if_the_command_names_it(words, ours, tmp_path, monkeypatch):
    for name in ("run", "store"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    given = []
    monkeypatch.setattr("gdpnet.web.server.process.serve", lambda place, *others: given.append(place))
    assert main(["serve", "run", "--graph", "store", *words]) == 0
    assert given[0].keeps_tables_beside is ours


@given(
    st.lists(st.text(min_size=1, max_size=5).filter(lambda one: "\0" not in one), unique=True, min_size=1),
    st.text(),
)
def test_text_ids_are_found_and_others_are_not(ids, other):
    index = NodeIndex(np.array(ids, dtype=object))
    assert index.find(ids) == list(range(len(ids)))
    if other not in ids and "\0" not in other:
        assert index.find([other]) == [None]
    wanted = ids[0][:1].casefold()
    found = index.containing(ids[0][:1], len(ids))
    assert sorted(found) == [number for number, one in enumerate(ids) if wanted in one.casefold()]


def test_ids_are_found_in_any_case_the_whole_id_first_then_those_that_begin_with_it():
    index = NodeIndex(np.array(["a say", "say so", "Say", "other"], dtype=object))
    assert index.containing("SAY", 50) == [2, 1, 0]
    assert index.containing("say", 2) == [2, 1]
    assert index.containing("x", 50) == []


def test_edge_features_are_given_as_in_the_table_and_no_number_may_be_left_out():
    graph = Graph.build([[0], [1]], np.zeros((2, 1), dtype=np.float32))
    columns = {"edge_features": torch.zeros(2, 3), "edge_feature_names": ("amount", "kind=pay", "kind=loan")}
    graph = replace(graph, **columns)
    rows = edge_rows([{"amount": 2.0, "kind": "loan"}, {"amount": 1.0}, [3.0, 1.0, 0.0]], graph)
    assert rows.tolist() == [[2.0, 0.0, 1.0], [1.0, 0.0, 0.0], [3.0, 1.0, 0.0]]
    known = r"kind: it must be a type of the stored edges \(pay, loan\)"
    for row, rule in (({}, "found no 'amount'"), ({"amount": 1.0, "kind": "gift"}, known)):
        with pytest.raises(ProblemError, match=rule):
            edge_rows([row], graph)
    with pytest.raises(ProblemError, match=r"edges\.0\.features: numbers must be finite"):
        edge_rows([[3e38, 3e38, 0.0]], graph)


def test_rows_of_an_edge_table_are_given_as_they_stand_in_it():
    """Numbers that are missing, and types that are whole numbers, booleans or rare."""
    kinds = [f"k{number}" for number in range(60)]
    table = pa.table(
        {
            "amount": [*np.arange(59.0), None],
            "type": [number % 3 for number in range(60)],
            "ok": [str(number % 2 == 0).lower() for number in range(60)],
            "kind": kinds,
        }
    )
    found = read_edge_columns(table)
    columns = {"edge_features": torch.from_numpy(found.values), "edge_feature_names": found.names}
    pairs = [[0] * 60, list(range(1, 61))]
    graph = replace(Graph.build(pairs, np.zeros((61, 1), dtype=np.float32), directed=True), **columns)
    given = table.to_pylist()
    for row in given:
        row["ok"] = row["ok"] == "true"
    assert torch.equal(edge_rows(given, graph), columns["edge_features"])
    assert (
        edge_rows([{"amount": 1.0, "ok": False, "kind": "never seen"}], graph)[
            0, list(found.names).index("kind=other")
        ]
        == 1
    )
    assert not edge_rows([{"amount": 1.0, "ok": False, "kind": None}], graph)[0, 1:].any()
    with pytest.raises(ProblemError, match="'type=1' is given twice"):
        edge_rows([{"amount": 1.0, "ok": True, "type": 1, "type=1": 1.0}], graph)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (1e300, "it must be at most 3e+38, found 1e+300"),
        ([1.0, 2.0], "it must be one value, found a list"),
        ("\ud800", "found half of a character"),
    ],
)
def test_a_cell_that_no_table_holds_is_named(value, rule):
    table = pa.table({"age": [20.0, 40.0, 60.0, 90.0]})
    fitted = NodeTable.fit(table, np.ones(4, dtype=bool))
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((4, 1), dtype=np.float32)).with_table(fitted)
    with pytest.raises(ProblemError) as found:
        node_rows([{"age": value}], graph)
    assert found.value.broken[0].field == "nodes.0.features.age"
    assert rule in found.value.detail


def test_features_of_a_table_are_given_by_its_columns_and_encoded_as_it_was():
    table = pa.table({"age": [20.0, 40.0, 60.0, 90.0], "city": ["Oslo", "Rome", "Oslo", "Rome"]})
    fitted = NodeTable.fit(table, np.ones(4, dtype=bool))
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((4, 1), dtype=np.float32)).with_table(fitted)
    wanted = fitted.encoding.transform(pa.table({"age": [40.0], "city": ["Rome"]}))
    assert np.allclose(node_rows([{"age": 40, "city": "Rome"}], graph).numpy(), wanted)
    with pytest.raises(ProblemError, match="found no 'city'"):
        node_rows([{"age": 40}], graph)
    with pytest.raises(ProblemError, match="all columns of the stored graph's table, found no 'age', 'city'"):
        node_rows([{"colour": 1}, {"age": 40}], graph)
    with pytest.raises(ProblemError, match=r"nodes\.1\.features"):
        node_rows([{"age": 40, "city": "Rome"}, {"age": "old", "city": "Rome"}], graph)


def test_a_vector_may_have_a_name_as_in_graphstorm():
    graph = Graph.build([[0], [1]], np.ones((2, 3), dtype=np.float32))
    assert node_rows([{"feat": [1.0, 2.0, 3.0]}], graph).tolist() == [[1.0, 2.0, 3.0]]
    with pytest.raises(ProblemError, match="columns have no names"):
        node_rows([{"a": 1.0, "b": 2.0}], graph)


def test_columns_that_sparse_features_leave_out_are_zero():
    rows = SparseRows(torch.tensor([0, 1, 2]), torch.tensor([0, 2]), torch.full((2,), 0.5), 3)
    graph = replace(Graph.build([[0], [1]], rows), feature_names=("a", "b", "c"))
    found = node_rows([{"c": 1, "b": 2.0}, [0.0, 0.0, 3.0], {"a": 1e-60}], graph)
    assert isinstance(found, SparseRows)
    assert to_dense(found).tolist() == [[0.0, 2.0, 1.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
    assert found.column.tolist() == [1, 2, 2]  # ascending, without zeros
    with pytest.raises(ProblemError, match=r"nodes\.1\.features: numbers must be finite"):
        node_rows([{"a": 1.0}, {"a": 3e38}], graph)


def test_rows_of_a_million_sparse_columns_are_never_dense():
    width = 1 << 20
    rows = SparseRows(torch.tensor([0, 1, 2]), torch.tensor([0, 2]), torch.full((2,), 0.5), width)
    names = tuple(f"w{number}" for number in range(width))
    graph = replace(Graph.build([[0], [1]], rows), feature_names=names)
    tracemalloc.start()
    found = node_rows([{"w1": 1.0, f"w{width - 1}": 2.0}] * 100, graph)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.shape, found.value.sum().item()) == ((100, width), 300.0)
    assert most < 300e6  # dense rows are 800 MB


def test_columns_that_a_table_does_not_have_are_refused_but_for_its_id_label_and_split():
    table = pa.table({"age": [20.0, 40.0, 60.0, 90.0], "same": ["x"] * 4})
    fitted = NodeTable.fit(table, np.ones(4, dtype=bool))
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((4, 1), dtype=np.float32)).with_table(fitted)
    row = {"id": "new", "label": None, "split": "test", "same": "x", "age": 40.0}
    assert torch.equal(node_rows([row], graph), node_rows([{"age": 40.0}], graph))
    with pytest.raises(ProblemError, match=r"nodes\.1\.features: there is no column 'foo'"):
        node_rows([row, {"age": 40.0, "foo": 1.0}], graph)


def test_errors_below_graph_name_it():
    graph = Graph.build([[0], [1]], np.ones((2, 2), dtype=np.float32))
    served = Served.__new__(Served)  # no model is asked
    served.graph, served.index, served.directed = graph, NodeIndex(graph.node_ids), False
    node = {"node_id": "x", "features": [1.0, 2.0]}
    edge = {"src_node_id": "x", "dest_node_id": "0"}
    for nodes, edges, field in (
        ([node | {"node_id": "y"}, node | {"features": [1.0]}], [edge], "graph.nodes.1.features"),
        ([node, node], [edge], "graph.nodes.1.node_id"),
        ([node], [edge, edge | {"dest_node_id": "z"}], "graph.edges.1.dest_node_id"),
        ([node], [edge | {"weight": 1.0}], "graph.edges.0.weight"),
    ):
        above = {"nodes": [node | {"node_id": "above"}], "targets": [0]}
        question = Question.model_validate(above | {"graph": {"nodes": nodes, "edges": edges}})
        with pytest.raises(ProblemError) as found:
            read_question(question, served, Limits())
        assert found.value.broken[0].field == field
        assert found.value.detail.startswith(field)


def test_a_featureless_graph_gets_new_nodes_without_features():
    graph = Graph.build([[0], [1]], SparseRows.identity(2))
    assert not graph.has_features
    assert node_rows([[], {}], graph).shape == (2, 1)
    with pytest.raises(ProblemError, match="left out"):
        node_rows([[1.0, 0.0]], graph)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("10.0.0.1", False), ("localhost.example", False)],
)  # fmt: skip
def test_addresses_that_others_can_reach_are_known(host, expected):
    assert is_loopback(host) == expected
    if not expected:
        with pytest.raises(ConfigError, match="needs a token"):
            Access(host)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "known.example"])
def test_known_hosts_are_answered(host):
    Access("127.0.0.1", ("Known.example",)).check(scope(host=host))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example"])
def test_other_hosts_are_refused_by_name(host):
    with pytest.raises(ProblemError, match="--allowed-host"):
        Access("127.0.0.1").check(scope(host=host))


@pytest.mark.parametrize("host", ["", "[::1", "a b<script>"])
def test_a_host_that_is_no_name_is_refused_without_advice_to_allow_it(host):
    with pytest.raises(ProblemError, match="the Host header must be the name of a host"):
        Access("127.0.0.1").check(scope(host=host))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:81", "file://"])
def test_pages_of_other_sites_are_refused(origin):
    with pytest.raises(ProblemError, match="another site"):
        Access("127.0.0.1").check(scope(origin=origin))


def test_a_policy_lists_the_scripts_of_a_page():
    policy = policy_for("<script>alert(1)</script><p>")
    # the SHA-256 of alert(1), in base 64
    assert "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" in policy
    assert "script-src 'none'" in policy_for("<p>")


def test_limits_must_be_above_zero():
    with pytest.raises(ConfigError, match="--max-edges must be above 0 and finite"):
        Limits(max_edges=0)


@pytest.mark.slow
def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for name in [name for name in sys.modules if name.startswith("gdpnet.web.server")]:
        monkeypatch.delitem(sys.modules, name)
    said = refuse(capsys, "serve", tmp_path, "--graph", tmp_path)
    assert "pip install 'gdpnet[serve]'" in said


@pytest.mark.slow
def test_nothing_else_imports_the_packages_of_the_server():
    program = "import sys, gdpnet.estimator, gdpnet.cli.app, gdpnet.inference.local; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"fastapi", "uvicorn", "prometheus_client", "starlette"}.isdisjoint(names.split())


def test_the_help_names_the_extra(capsys):
    assert main(["serve", "--help"]) == 0
    assert "gdpnet[serve]" in capsys.readouterr().out


def test_answers_are_sent_at_once():
    """Nagle's algorithm would hold back the second part of an answer until the first one is acknowledged."""

    async def has_no_delay() -> bool:
        found = asyncio.get_running_loop().create_future()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport):
                accepted = transport.get_extra_info("socket")
                found.set_result(bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
                transport.close()

        bound = listen("127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Accepted, sock=bound)
        async with server:
            writer = (await asyncio.open_connection(*bound.getsockname()))[1]
            answer = await asyncio.wait_for(found, 10)
            writer.close()
            return answer

    assert asyncio.run(has_no_delay())
