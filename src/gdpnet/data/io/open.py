"""Open a graph by dataset name or path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import DATASETS, check_name
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns
from gdpnet.data.io.files import read_graph
from gdpnet.data.splits import ALL_TEST, USUAL_SHARES, has_split, parse_shares, with_split


def open_graph(
    name: str,
    *,
    data_dir: Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    directed: bool = False,
    weights: bool = True,
    drop_unknown: bool = False,
    split: str = "paper",
    seed: int = 0,
    task: str | None = None,
) -> Graph:
    """Open a dataset by its name, the synthetic graph by ``synthetic``, or files by their path.

    Files without a split get one, stratified by class: ``split`` has its shares in percent, such as ``60/20/20``.
    For the task ``regression`` labels are read as numbers.
    """
    check_name(name)
    if name == "synthetic":
        return synthetic_graph(seed=seed)
    if name in DATASETS:
        return load_dataset(name, data_dir, split=split, seed=seed)
    how: dict[str, Any] = {"columns": columns, "directed": directed}
    how |= {"weights": weights, "drop_unknown": drop_unknown}
    graph = read_graph(Path(name), **how, task=task)
    if has_split(graph) or not bool(graph.labelled.any()):
        return graph
    shares = parse_shares(split) if "/" in split else USUAL_SHARES
    graph = with_split(graph, shares, seed)
    if split == ALL_TEST:
        return graph.with_notes("no split is given: all labelled nodes test")
    return graph.with_notes(
        "no split is given: {:.0%} of the labelled nodes train, {:.0%} validate, {:.0%} test".format(*shares)
    )
