"""The page about serving, and the example of a client, against a real server."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gdpnet import read_graph
from gdpnet.data.io.store import open_store, write_store
from helpers.server import ServerProcess, need_server
from helpers.small import FAST, fitted

need_server()

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = [block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "curl" in block]


@pytest.fixture(scope="module")
def numbered(place, tmp_path_factory):
    """Return a server whose nodes are called by their numbers."""
    base = tmp_path_factory.mktemp("numbered")
    graph = open_store(place / "store")
    write_store(replace(graph, node_ids=np.arange(graph.num_nodes)), base / "store")
    running = ServerProcess(place / "run", base / "store", base / "log")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def of_own_data(tmp_path_factory):
    """Return a server of the graph that the page on own data writes."""
    base = tmp_path_factory.mktemp("own")
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    subprocess.run([sys.executable, "-c", program], cwd=base, timeout=60, check=True)
    graph = read_graph(base / "mygraph")
    (base / "run").mkdir()
    fitted(graph, FAST).save(base / "run" / "model.safetensors")
    write_store(graph, base / "store")
    running = ServerProcess(base / "run", base / "store", base / "log")
    yield running
    assert running.stop() == 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("block", BLOCKS)
def test_the_curl_commands_of_the_page_are_answered(block, of_own_data):
    for command in re.findall(r"curl .*?(?=\ncurl |\Z)", block, re.DOTALL):
        words = command.replace("127.0.0.1:8765", f"127.0.0.1:{of_own_data.port}")
        said = subprocess.run(
            ["bash", "-c", words], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        answer = json.loads(said)
        assert "title" not in answer, answer  # no problem
        assert answer.keys() & {"results", "model", "node_id"}


def test_the_page_shows_curl_commands():
    assert len(BLOCKS) == 3


def test_the_example_of_a_client_runs(numbered):
    command = [sys.executable, ROOT / "examples" / "client.py", "--url", numbered.url, "--node", "7"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r"model \w{16} on 60 nodes", said)
    assert re.search(r"its edge to 7: (kept|dropped), keep probability \d\.\d\d", said)


def test_the_table_of_limits_has_the_defaults():
    from gdpnet.web.server.limits import Limits

    for name, value in vars(Limits()).items():
        option = "--" + name.replace("_", "-")
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{option}`")]
        assert f"| {value:,.0f} |" in row
