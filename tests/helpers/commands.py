"""Run commands as a user would, and read what they say and write."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq

from gdpnet.cli import main


def call(capsys, *words: object) -> tuple[int, str, str]:
    """Run a command; return its exit code and what it wrote to stdout and stderr."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def succeed(capsys, *words: object) -> str:
    code, out, err = call(capsys, *words)
    assert (code, err) == (0, "")
    return out


def refuse(capsys, *words: object) -> str:
    """Run a command that must fail; return its one sentence."""
    code, _, err = call(capsys, *words)
    assert code == 2
    assert err.startswith("gdpnet: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err.removeprefix("gdpnet: ").rstrip("\n")


def last_record(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


def rows_of(path: Path) -> list[dict]:
    """Read a CSV file as text, or a Parquet file."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
