"""Run commands as a user would, and read what they say and write."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq

from gdpnet.cli import main

NODES = "id,label,split,x,y\n" + "".join(
    f"{name},{'cat' if number % 2 else 'dog'},{split},{number % 2},{number}.5\n"
    for number, (name, split) in enumerate(
        [*((f"n{place}", "train") for place in range(6)), ("007", "validation"), ("a b", "test")]
    )
)
EDGES = "source,target\nn0,n1\nn2,n3\nn1,007\n007,a b\n"
"""The tables of a graph with eight nodes."""


def call(capsys, *words: object) -> tuple[int, str, str]:
    """Run a command; return its exit code and what it wrote to stdout and stderr."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def succeed(capsys, *words: object) -> str:
    """Run a command that must succeed; return its notes and progress, then its results."""
    code, out, err = call(capsys, *words)
    assert code == 0, err
    assert not any(line.startswith("gdpnet: ") for line in err.splitlines())
    return err + out


def refuse(capsys, *words: object, code: int = 2) -> str:
    """Run a command that must fail; return its one sentence, which comes after notes if it had begun."""
    found, out, err = call(capsys, *words)
    *notes, sentence = err.splitlines()
    assert (found, out) == (code, "")
    assert sentence.startswith("gdpnet: ")
    assert not any(line.startswith("gdpnet: ") for line in notes)
    assert "Traceback" not in err
    return sentence.removeprefix("gdpnet: ")


def train_words(base: Path, out: Path, graph: Path | None = None) -> list[str]:
    """Return the words that train a run with the settings in ``base``, by default on the graph there."""
    graph = base / "graph" if graph is None else graph
    return ["train", str(graph), "--out", str(out), "--config", str(base / "fast.toml"), "--device", "cpu"]


def write_csv_graph(tmp_path: Path, nodes: str, edges: str) -> Path:
    """Write a graph folder from the text of its tables."""
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


def last_record(out: str) -> dict:
    """Return the record of a command that ran with --json, from what `succeed` returned."""
    return json.loads(out.splitlines()[-1])


def rows_of(path: Path) -> list[dict]:
    """Read a CSV file as text, or a Parquet file."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
