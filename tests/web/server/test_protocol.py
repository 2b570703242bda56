"""What the server accepts, refuses, tells and logs."""

import base64
import http.client
import json
import shutil
import signal
import socket
import threading
import time
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from gdpnet.data.io.store import open_store
from gdpnet.estimator import GDPNet
from gdpnet.web.explorer.page import json_text
from gdpnet.web.explorer.payload import build_summary
from helpers.commands import refuse
from helpers.server import PATIENCE, ServerProcess, need_server

need_server()

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-tests-0123456789"
ROW = [0.1, 0.2, 0.3, 0.4, 0.5]


def node(**changed: object) -> dict:
    return {"node_id": "x", "features": ROW} | changed


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        ({}, "targets", "must be given"),
        ({"targets": []}, "targets", "there must be at least 1, found 0"),
        ({"targets": [1.5]}, "targets.0", "text of 1 to 1,000 characters, or a whole number, or an object"),
        ({"targets": [""]}, "targets.0", "text of 1 to 1,000 characters"),
        ({"targets": [{"node_id": "n1", "type": 3}]}, "targets.0.type", "no such field"),
        ({"targets": ["n1"], "request_uid": "u" * 201}, "request_uid", "it must have at most 200 characters"),
        ({"targets": ["x"], "nodes": [node(node_id=1.5)]}, "nodes.0.node_id", "text of 1 to 1,000 characters"),
        ({"targets": ["x"], "nodes": [node(features="red")]}, "nodes.0.features", "a list of numbers, or an obj"),
        ({"targets": ["x"], "nodes": [node(features=[*ROW[:4], "red"])]}, "nodes.0.features.4", "finite number"),
        ({"targets": ["x"], "nodes": [node(features={"legs": {}})]}, "nodes.0.features.legs", "finite number, text"),
        ({"targets": ["x"], "nodes": [node(features=[*ROW[:4], 1e30])]}, "nodes.0.features", "squares must add up"),
        ({"targets": ["n1"], "edges": [{"src_node_id": "n1", "dest_node_id": "n2", "weight": -1}]},
         "edges.0.weight", "it should be greater than 0"),
        ({"targets": ["nobody"]}, "targets.0", "found 'nobody'"),
        ({"targets": ["n1"], "edges": [{"src_node_id": "n1", "dest_node_id": "z"}]}, "edges.0.dest_node_id", "'z'"),
        ({"targets": ["x"], "nodes": [node(features=ROW[:3])]}, "nodes.0.features", "5 numbers, one per"),
        ({"targets": ["x"], "nodes": [node(features={"wings": 1.0})]}, "nodes.0.features", "found no 'legs'"),
        ({"targets": ["x"], "nodes": [node(features={"tail": 1.0})]}, "nodes.0.features", "no column 'tail'"),
        ({"targets": ["x"], "nodes": [node(features=[*ROW[:4], 1e300])]}, "nodes.0.features", "finite"),
        ({"targets": ["x"], "nodes": [node(), node()]}, "nodes.1.node_id", "found 'x' twice"),
        ({"targets": ["x"], "nodes": [node(node_id="n1")]}, "nodes.0.node_id", "the stored graph has 'n1'"),
        ({"targets": ["x"], "nodes": [node(feature=ROW)]}, "nodes.0.feature", "no such field"),
        ({"targets": ["n1"], "edges": [{"src_node_id": "n1", "dest_node_id": "n2", "weight": 2.0}]},
         "edges.0.weight", "no weight"),
        ({"targets": ["n1"], "edges": [{"src_node_id": "n1", "dest_node_id": "n2", "features": [1.0]}]},
         "edges.0.features", "left out"),
        ({"targets": ["n1"] * 1001}, "targets", "at most 1,000"),
        ({"targets": ["n1"], "\n": 7}, '"\\n"', "no such field"),
        ({"targets": ["n1"], "": 7}, '""', "no such field"),
    ],
)  # fmt: skip
def test_a_bad_request_is_answered_with_its_field_and_the_rule(server, body, field, rule):
    answer = server.refused("/v1/predict", body)
    assert answer["status"] == 422
    assert [one["field"] for one in answer["errors"]] == [field]  # once, however many forms were tried
    assert rule in answer["errors"][0]["rule"]
    assert len(answer["detail"]) <= 300


@pytest.mark.parametrize(
    "text",
    [b"{", b'{"targets": ["n1"], "nodes": NaN}', b"[" * 5_000, b"\xff\xfe", b'"n1"', b"null", b"9" * 5_000],
)
def test_a_body_that_is_no_question_is_refused(server, text):
    answer = server.refused("/v1/predict", text)
    assert answer["status"] in (400, 422)
    assert all("must" in one["rule"] or "should" in one["rule"] for one in answer["errors"])
    assert server.results("predict", targets=["n1"])


def test_what_is_no_json_or_no_object_is_said_of_the_body(server):
    found = server.refused("/v1/predict", b'{"targets": [')
    assert found["errors"] == [
        {"field": "body", "rule": "it must be JSON, found a mistake at character 13: Expecting value"}
    ]
    for body, kind in ((b"[1, 2]", "application/json"), (b'{"targets": ["n1"]}', "text/plain")):
        (error,) = server.refused("/v1/predict", body, **{"Content-Type": kind})["errors"]
        assert error["field"] == "body"
        assert "Content-Type: application/json" in error["rule"]


def test_what_answers_get_answers_head_without_a_body(server):
    for path, status in (("/healthz", 200), ("/", 200), ("/v1/model", 200), ("/v1/predict", 405)):
        connection = http.client.HTTPConnection(server.host, server.port)
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, b"")
        if status == 200:
            assert int(answer.headers["Content-Length"]) > 0
        connection.close()
    found = server.ask("GET", "/metrics")[1]
    assert 'gdpnet_requests_total{method="HEAD",route="/healthz",status="200"}' in found


def test_numbers_that_are_not_finite_are_refused(server):
    text = json.dumps({"targets": ["x"], "nodes": [node(features=[float("nan")] * 5)]}).encode()
    assert server.refused("/v1/predict", text)["status"] == 422


def test_a_request_that_is_too_large_is_refused_whether_or_not_it_says_so(server):
    large = {"targets": ["n1"], "request_uid": "x" * 200_000}
    answer = server.refused("/v1/predict", large)
    assert (answer["status"], "--max-bytes" in answer["detail"]) == (413, True)
    status, answer, _ = server.ask("POST", "/v1/predict", None, {"Content-Length": "999999999"})
    assert status == 413


def test_a_client_that_sends_all_of_a_body_that_is_too_large_reads_the_answer(place, tmp_path):
    server = ServerProcess(place / "run", place / "store", tmp_path / "log", "--max-bytes", 2_000_000)
    for _ in range(3):
        assert server.refused("/v1/predict", b" " * 12_000_000)["status"] == 413
    assert server.stop() == 0


def test_a_stored_node_is_found_by_an_id_with_a_slash(server):
    name = "<script>alert(1)</script>"
    status, answer, _ = server.ask("GET", f"/v1/nodes/{quote(name, safe='')}")
    assert (status, answer["node_id"]) == (200, name)


def test_unknown_routes_methods_and_nodes_are_problems_too(server):
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/v1/predict", 405),
        ("GET", "/v1/nodes/nobody", 404),
        ("GET", "/v1/explorer/neighbourhood?node=nobody", 404),
        ("GET", "/v1/explorer/neighbourhood", 422),
    ):
        found, answer, headers = server.ask(method, path)
        assert (found, answer["status"]) == (status, status), path
        assert headers.get_content_type() == "application/problem+json"


def test_another_host_or_origin_is_refused_and_no_answer_is_shared_with_other_sites(server):
    status, answer, headers = server.ask("GET", "/v1/model", headers={"Host": "evil.example"})
    assert (status, "--allowed-host evil.example" in answer["detail"]) == (421, True)
    assert headers["Access-Control-Allow-Origin"] is None
    assert server.ask("POST", "/v1/reload", headers={"Origin": "http://evil.example"})[0] == 403
    own = {"Origin": server.url}
    assert server.ask("POST", "/v1/predict", {"targets": ["n1"]}, own)[0] == 200


def test_model_and_nodes_are_told(server):
    about = server.ask("GET", "/v1/model")[1]
    assert about["classes"] == ["bird", "cat", 'the "third"']
    assert about["features"]["names"] == ["wings", "legs", "fur", "weight", "age"]
    assert (about["graph"]["nodes"], about["limits"]["max_bytes"]) == (60, 100_000)
    found = server.ask("GET", "/v1/nodes/n3")[1]
    assert (found["node_id"], found["label"], found["degree"]) == ("n3", "bird", len(found["neighbours"]))


def test_health_metrics_and_documentation_are_there(server):
    assert server.ask("GET", "/healthz")[1] == {"status": "ok"}
    assert server.ask("GET", "/readyz")[1] == {"status": "ready"}
    server.results("predict", targets=["n1"])
    text = server.ask("GET", "/metrics")[1]
    assert 'gdpnet_requests_total{method="POST",route="/v1/predict",status="200"}' in text
    described = server.ask("GET", "/openapi.json")[1]
    assert {"/v1/predict", "/v1/embed", "/v1/denoise", "/v1/explain", "/v1/reload"} <= set(described["paths"])
    status, page, headers = server.ask("GET", "/docs")
    assert status == 200
    assert "src_node_id" in page
    assert "http" not in page.replace("http-equiv", "")  # nothing comes from elsewhere
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_explorer_has_a_policy_and_data_that_no_id_can_break(server):
    status, page, headers = server.ask("GET", "/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "'unsafe-eval'" not in policy
    assert "GDPNet explorer" in page
    assert server.ask("GET", "/v1/explorer/summary")[1]["format"] == "gdpnet-explorer"
    (found,) = server.ask("GET", "/v1/explorer/search?q=%3Cscript")[1]
    assert found["id"] == "<script>alert(1)</script>"
    assert [one["id"] for one in server.ask("GET", "/v1/explorer/search?q=N3")[1]][:2] == ["n3", "n30"]
    assert [one["id"] for one in server.ask("GET", "/v1/explorer/search?q=SCRIPT")[1]] == [found["id"]]
    status, around, _ = server.ask("GET", "/v1/explorer/neighbourhood?node=n3")
    assert status == 200
    assert around["format"] == "gdpnet-explorer"


def test_the_model_is_judged_on_the_whole_stored_graph(server, place):
    summary = build_summary(GDPNet.load(place / "run", device="cpu"), open_store(place / "store"))
    status, found, _ = server.ask("GET", "/v1/explorer/judge")
    assert status == 200
    expected = json.loads(json_text({name: summary[name] for name in ("judge", "lists")}))
    assert found == expected
    assert server.ask("GET", "/v1/explorer/summary")[1]["can_judge"] is True


def test_a_graph_beyond_the_limit_is_not_judged(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--max-surroundings", 20)
    assert running.ask("GET", "/v1/explorer/summary")[1]["can_judge"] is False
    status, found, _ = running.ask("GET", "/v1/explorer/judge")
    assert (status, found["status"]) == (422, 422)
    assert "--max-surroundings" in found["detail"]
    assert running.stop() == 0


def test_logs_are_lines_of_json_without_features_ids_or_tokens(server):
    server.results(
        "predict", nodes=[node(node_id="secret-id", features=[0.123456789] * 5)], targets=["secret-id"]
    )
    server.refused("/v1/predict", {"targets": ["secret-target"]})
    server.ask("GET", "/v1/nodes/secret-node", headers={"Authorization": "Bearer secret-token"})
    assert server.ask("GET", "/healthz")[0] == 200
    lines = [json.loads(line) for line in server.logged().splitlines()]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert "/v1/nodes/{node_id}" in [line.get("route") for line in lines]
    assert "secret" not in server.logged()
    assert "0.1234" not in server.logged()


def test_an_address_that_others_can_reach_needs_a_token(place, capsys, monkeypatch):
    monkeypatch.delenv("GDPNET_TOKEN", raising=False)
    words = ("serve", place / "run", "--graph", place / "store")
    said = refuse(capsys, *words, "--host", "0.0.0.0")
    assert "needs a token" in said
    monkeypatch.setenv("GDPNET_TOKEN", "short")
    assert "at least 16" in refuse(capsys, *words)
    assert "--token-file" in refuse(capsys, *words, "--token-file", place / "nowhere")


def test_what_cannot_be_served_is_refused_at_once(place, capsys, tmp_path):
    assert "gdpnet store" in refuse(capsys, "serve", place / "run", "--graph", tmp_path)
    assert "--max-nodes must be above 0" in refuse(
        capsys, "serve", place / "run", "--graph", place / "store", "--max-nodes", "0"
    )


def test_the_token_guards_every_route_but_health(place, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    words = ("--token-file", tmp_path / "token", "--allowed-host", "gdpnet.example")
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", *words)
    assert running.ask("GET", "/healthz")[0] == 200
    for method, path in (("GET", "/"), ("GET", "/v1/model"), ("GET", "/metrics"), ("GET", "/openapi.json"),
                         ("GET", "/docs"), ("POST", "/v1/predict"), ("POST", "/v1/reload"), ("GET", "/nothing"),
                         ("GET", "/healthz/"), ("GET", "//healthz")):  # fmt: skip
        assert running.ask(method, path)[0] == 401, path
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for given, status in ((f"Bearer {TOKEN}", 200), (f"Bearer {TOKEN}x", 401), ("Bearer ", 401),
                          (f"Basic {basic}", 200), ("Basic %%%", 401), (TOKEN, 401)):  # fmt: skip
        assert running.ask("GET", "/v1/model", headers={"Authorization": given})[0] == status, given
    named = {"Host": "gdpnet.example", "Authorization": f"Bearer {TOKEN}"}
    assert running.ask("GET", "/v1/model", headers=named)[0] == 200
    assert TOKEN not in running.logged()
    assert running.stop() == 0


def test_more_requests_than_allowed_at_a_time_are_refused_and_others_are_answered(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--max-requests", 1)
    try:
        found: list[int] = []
        many = {"targets": [f"n{number}" for number in range(59)] * 8}
        threads = [
            threading.Thread(target=lambda: found.append(running.ask("POST", "/v1/explain", many)[0]))
            for _ in range(6)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert set(found) == {200, 429}
        assert running.ask("GET", "/healthz")[0] == 200
    finally:
        assert running.stop() == 0


def test_bodies_that_are_read_are_bounded_too(place, tmp_path):
    """Slow senders hold what they have sent in memory."""
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--max-requests", 1)
    begun = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(socket.create_connection((running.host, running.port)))
            connection.sendall(begun)
        until = time.monotonic() + PATIENCE
        while (found := running.ask("POST", "/v1/predict", {"targets": ["n1"]}))[0] != 429:
            assert time.monotonic() < until
        assert "--max-requests" in found[1]["detail"]
        assert running.ask("GET", "/readyz")[0] == 200
    while running.ask("POST", "/v1/predict", {"targets": ["n1"]})[0] != 200:
        assert time.monotonic() < until
    assert running.stop() == 0


def test_a_request_that_takes_too_long_is_ended_and_the_next_one_is_answered(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--seconds", 0.2)
    try:
        many = {"targets": [f"n{number}" for number in range(59)] * 16}
        status, answer = running.ask("POST", "/v1/explain", many)[:2]
        assert status == 503, answer
        assert running.ask("GET", "/healthz")[0] == 200
    finally:
        assert running.stop() == 0


def test_sigterm_answers_what_was_asked_and_exits_with_zero(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log")
    answers: list[int] = []
    many = {"targets": [f"n{number}" for number in range(59)]}
    thread = threading.Thread(target=lambda: answers.append(running.ask("POST", "/v1/explain", many)[0]))
    thread.start()
    while "gdpnet_requests_in_flight 1.0" not in running.ask("GET", "/metrics")[1] and thread.is_alive():
        pass
    code = running.stop()
    thread.join()
    assert (code, answers) == (0, [200])


def test_a_reload_exchanges_the_model_and_a_broken_one_is_refused(place, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(place / "run", run)
    running = ServerProcess(run, place / "store", tmp_path / "log")
    first = running.results("embed", targets=["n3"])
    shutil.copy(place / "other" / "model.safetensors", run / "model.safetensors")
    status, answer, _ = running.ask("POST", "/v1/reload")
    assert status == 200
    second = running.results("embed", targets=["n3"])
    assert first != second
    (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes()[:-100])
    refused = running.refused("/v1/reload", None)
    assert (refused["status"], "the old model and graph stay" in refused["detail"]) == (409, True)
    assert running.ask("GET", "/v1/model")[1]["model"] == answer["model"]
    assert running.results("embed", targets=["n3"]) == second
    shutil.copy(place / "run" / "model.safetensors", run / "model.safetensors")
    running.process.send_signal(signal.SIGHUP)
    until = 600
    while running.results("embed", targets=["n3"]) != first and until:
        until -= 1
    assert running.results("embed", targets=["n3"]) == first
    assert running.stop() == 0
