"""The body of a question: what is large or wrong costs no more than its bytes."""

import json
import time

import pytest

from helpers.server import need_server

need_server()

# these imports need the packages, so they come after the check
from gdpnet.web.server.fields import broken_rules  # noqa: E402
from gdpnet.web.server.limits import Limits  # noqa: E402
from gdpnet.web.server.payload import CleaningQuestion, Question  # noqa: E402
from gdpnet.web.server.problems import ProblemError, problem_body  # noqa: E402
from gdpnet.web.server.reading import read_body  # noqa: E402

JSON = "application/json"
USUAL = Limits()


def refused(body: bytes, limits: Limits = USUAL) -> dict:
    """Read a body that must be refused; return the body of the answer."""
    with pytest.raises(ProblemError) as found:
        read_body(body, JSON, CleaningQuestion, limits)
    return problem_body(found.value.status, found.value.detail, found.value.broken)


def many(part: bytes, count: int) -> bytes:
    return b",".join([part] * count)


LARGE = {
    "targets without ids": b'{"targets": [' + many(b"{}", 100_000) + b"]}",
    "targets": b'{"targets": [' + many(b"1", 1_000_000) + b"]}",
    "texts": b'{"targets": [' + many(b'"[{"', 300_000) + b"]}",
    "nested targets": b'{"targets": [' + many(b"[]", 300_000) + b"]}",
    "nodes": b'{"targets": [1], "nodes": [' + many(b"1", 300_000) + b"]}",
    "edges below graph": b'{"targets": [1], "graph": {"edges": [' + many(b"1", 300_000) + b"]}}",
    "edges that are empty": b'{"targets": [1], "edges": [' + many(b"{}", 10_000) + b"]}",
    "unknown fields": json.dumps({str(one): 1 for one in range(100_000)}).encode(),
    "unknown fields of a node": json.dumps({"targets": [1], "nodes": [{str(n): 1 for n in range(100_000)}]}).encode(),
    "features": b'{"targets": [1], "nodes": [{"node_id": 2, "features": [' + many(b'"a"', 300_000) + b"]}]}",
    "features by name": json.dumps(
        {"targets": [1], "nodes": [{"node_id": 2, "features": {str(one): {} for one in range(20_000)}}]}
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_large_wrong_body_is_refused_at_once_with_few_errors(name):
    start = time.process_time()
    assert len(refused(LARGE[name])["errors"]) <= 20
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"targets": ["a"], "targets": ["b"]}', "targets"),
        (b'{"targets": ["a"], "nodes": [{"node_id": "b", "features": {"x y": 1, "x y": 2}}]}', '"x y"'),
    ],
)
def test_a_field_that_is_given_twice_is_refused(body, field):
    assert refused(body)["errors"] == [{"field": field, "rule": "it must be given once"}]


def test_rules_of_many_fields_are_found_in_one_pass():
    missing = [{"type": "missing", "loc": ("body", "nodes", one, "node_id")} for one in range(100_000)]
    start = time.process_time()
    found = broken_rules(missing)
    assert found[0].field == "nodes.0.node_id"
    assert time.process_time() - start < 2


def test_a_question_within_the_limits_is_read_whatever_brackets_its_texts_have():
    row = {"text": '[{"\\' * 5_000, "age": 31, "is_old": True, "city": None, "v": [1, 2.5]}
    given = {"targets": [7, {"node_id": "x"}], "nodes": [{"node_id": "x", "features": row}] * 5}
    found = read_body(
        json.dumps(given).encode(), "application/problem+json; charset=utf-8", Question, Limits()
    )
    assert found.target_ids == ["7", "x"]
    kept = found.nodes[0].features
    assert kept == row
    assert [type(one) for one in kept.values()] == [str, float, bool, type(None), list]


@pytest.mark.parametrize("value", ["1" + "0" * 400, "NaN", "Infinity", "[1, true]", "[[1]]", "{}"])
def test_a_value_by_name_that_no_column_holds_is_named(value):
    body = '{"targets": [1], "nodes": [{"node_id": 2, "features": {"a": 1, "b c": ' + value + "}}]}"
    (error,) = refused(body.encode())["errors"]
    assert error["field"] == 'nodes.0.features."b c"'
    assert "finite number, text" in error["rule"]


@pytest.mark.parametrize("body", [b"", b"null", b"3", b'"n1"', b"[1]"])
def test_a_body_that_is_no_object_is_said_so(body):
    assert refused(body)["errors"][0]["field"] == "body"


def test_limits_hold_wherever_the_lists_are():
    for given in ({"nodes": [1, 1, 1]}, {"graph": {"nodes": [1, 1, 1]}}):
        (error,) = refused(json.dumps({"targets": [1]} | given).encode(), Limits(max_nodes=2))["errors"]
        assert error["rule"] == "there must be at most 2 of them, found 3"


@pytest.mark.parametrize("field", ["nodes.0.node_id", "targets.0", "edges.0.src_node_id"])
def test_ids_have_no_nul(field):
    """An array of texts leaves out NUL at the end, so another id would be stored than was given."""
    wrong = "x\0"
    given = {
        "nodes": [{"node_id": wrong if field.startswith("nodes") else "x"}],
        "edges": [{"src_node_id": wrong if field.startswith("edges") else "x", "dest_node_id": "y"}],
        "targets": [wrong if field.startswith("targets") else "line\nbreak"],
    }
    (error,) = refused(json.dumps(given).encode())["errors"]
    assert (error["field"], "NUL" in error["rule"]) == (field, True)
