"""What is told of routes, and of models that lack something, is what is answered."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import write_store
from helpers.server import ServerProcess, need_server
from helpers.small import FAST, fitted

need_server()

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def resolved(schema: dict, whole: dict) -> dict:
    """Return a schema behind its reference."""
    return whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema


def agrees(value: object, schema: dict, whole: dict) -> bool:
    """Return whether the fields of a value, at any depth, are those that a schema describes."""
    schema = resolved(schema, whole)
    if isinstance(value, list):
        return all(agrees(one, schema.get("items", {}), whole) for one in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        needed = set(schema.get("required", ()))
        return needed <= set(value) and all(
            agrees(one, known[name], whole) for name, one in value.items() if name in known
        )
    return True


def test_answers_are_as_described(server):
    whole = server.ask("GET", "/openapi.json")[1]
    assert "HTTPValidationError" not in whole["components"]["schemas"]
    asked = {
        f"/v1/{one}": ("POST", {"targets": ["n1"]}) for one in ("predict", "embed", "denoise", "explain")
    }
    asked |= dict.fromkeys(("/v1/model", "/v1/nodes/{node_id}", "/healthz", "/readyz"), ("GET", None))
    for path, (method, body) in asked.items():
        status, answer, _ = server.ask(method, path.replace("{node_id}", "n1"), body)
        described = whole["paths"][path][method.lower()]["responses"]
        schema = described["200"]["content"]["application/json"]["schema"]
        assert status == 200
        assert agrees(answer, schema, whole), path
        assert set(answer) <= set(resolved(schema, whole)["properties"]), path
        assert "application/problem+json" in described["421"]["content"]
    asks = whole["paths"]["/v1/predict"]["post"]
    assert {"401", "403", "408", "413", "422", "429", "503"} <= set(asks["responses"])
    assert resolved(asks["requestBody"]["content"]["application/json"]["schema"], whole)["required"] == [
        "targets"
    ]
    wrong = server.refused("/v1/predict", {})
    assert set(wrong) == set(whole["components"]["schemas"]["Problem"]["properties"])


def test_a_graph_without_features_has_no_width_and_the_client_gives_none(place, tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 30, size=(2, 90))
    graph = Graph.build(pairs, SparseRows.identity(30), np.arange(30) % 2, split=np.arange(30) % 3 + 1)
    model = fitted(graph, FAST.with_values({"features": {"missing": "structural"}}), 0)
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.safetensors")
    write_store(graph, tmp_path / "store")
    running = ServerProcess(tmp_path / "run", tmp_path / "store", tmp_path / "log")
    assert running.ask("GET", "/v1/model")[1]["features"]["width"] == 0
    command = [sys.executable, ROOT / "examples" / "client.py", "--url", running.url, "--node", "7"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "its edge to 7" in said
    assert running.stop() == 0


def test_a_model_of_numbers_has_no_classes_and_the_client_prints_the_number(tmp_path):
    rng = np.random.default_rng(0)
    pairs, rows = rng.integers(0, 30, size=(2, 90)), rng.normal(size=(30, 4)).astype(np.float32)
    graph = Graph.build(pairs, rows, targets=rows.sum(axis=1), split=np.arange(30) % 3 + 1)
    (tmp_path / "run").mkdir()
    model = fitted(graph, FAST.with_values({"task": {"kind": "regression", "bins": 4}}))
    model.save(tmp_path / "run" / "model.safetensors")
    write_store(graph, tmp_path / "store")
    running = ServerProcess(tmp_path / "run", tmp_path / "store", tmp_path / "log")
    assert running.ask("GET", "/v1/model")[1]["classes"] == []
    command = [sys.executable, ROOT / "examples" / "client.py", "--url", running.url, "--node", "7"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r"^7: -?\d+\.\d+", said, re.MULTILINE)
    assert running.stop() == 0
