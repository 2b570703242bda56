"""Open a graph by dataset name or path."""

from __future__ import annotations

from pathlib import Path

from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import DATASETS, check_name
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import USUAL_COLUMNS, Columns, read_graph


def open_graph(
    name: str,
    *,
    data_dir: Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    directed: bool = False,
    split: str = "paper",
    seed: int = 0,
    task: str | None = None,
) -> Graph:
    """Open a dataset by its name, the synthetic graph by ``synthetic``, or files by their path.

    For the task ``regression`` labels are read as numbers.
    """
    check_name(name)
    if name == "synthetic":
        return synthetic_graph(seed=seed)
    if name in DATASETS:
        return load_dataset(name, data_dir, split=split, seed=seed)
    return read_graph(Path(name), columns=columns, directed=directed, task=task)
