"""Explanations on the screen and in tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from gdpnet.cli.output import print_table
from gdpnet.data.extended import ExtendedGraph
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.errors import printable
from gdpnet.estimator import GDPNet
from gdpnet.inference.explanation import MOST_ROWS, Decision, Explanation
from gdpnet.inference.local import LocalPredictor

_LEFT_OUT = ("neighbour", "contribution", "edge_features", "task")
"""Fields of a decision that are written first, as words of the evidence, or not at all."""

_CHUNK = 1 << 16
"""Rows that are held as Python values."""

_TYPES = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string()}


def explain_some(
    model: GDPNet, graph: Graph, asked: Tensor | None, *, as_served: bool
) -> Iterator[Explanation]:
    """Explain some nodes, all by default, from the whole graph or from their surroundings."""
    if as_served and asked is not None:
        return LocalPredictor(model.trained_, ExtendedGraph(graph)).explain(asked)
    return model.explain_nodes(graph, asked)


def print_explanation(found: Explanation) -> None:
    """Print an explanation; of a node with many neighbours those that add most."""
    print("\n  ".join(printable(line) for line in found.summary))
    header, rows = found.table(MOST_ROWS)
    if rows:
        print_table(found.title, header, rows, text=len(header), fold=True)
    for line in found.rest(MOST_ROWS):
        print(f"{line}; --json has all of them")


def write_explanations(explanations: Iterable[Explanation], out: Path) -> tuple[int, int]:
    """Write explanations as one table; return the number of nodes and of rows."""
    count, parts, columns = 0, list[pa.Table](), _columns()
    chunk = list[dict[str, Any]]()
    for one in explanations:
        count += 1
        chunk += _rows(one)
        if len(chunk) > _CHUNK:
            parts.append(pa.Table.from_pylist(chunk, schema=columns))
            chunk = []
    table = pa.concat_tables([*parts, pa.Table.from_pylist(chunk, schema=columns)])
    write_table(table, out)
    return count, len(table)


def _columns() -> pa.Schema:
    """Return the columns of the table: those of the node first, then what each decision is about."""
    text, number = pa.string(), pa.float64()
    about = {"node": text, "node_predicted": text, "explained": text, "value": number}
    about |= {"neighbour": text, "contribution": number}
    rest = {
        one.name: _TYPES[str(one.type).split(" | ")[0]]
        for one in fields(Decision)
        if one.name not in _LEFT_OUT
    }
    return pa.schema([*about.items(), *rest.items(), ("evidence", text)])


def _rows(one: Explanation) -> Iterator[dict[str, Any]]:
    """Return a row for the node alone, and one for each neighbour."""
    about: dict[str, Any] = {"node": one.node, "node_predicted": one.predicted, "value": one.value}
    about["explained"] = one.explained or None
    yield about | {"contribution": one.value_alone}
    for decision in one.decisions:
        yield about | vars(decision) | {"evidence": decision.evidence}
