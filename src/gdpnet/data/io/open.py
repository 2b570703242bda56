"""One name or path in, one graph out."""

from __future__ import annotations

from pathlib import Path

from gdpnet.data.datasets.citation import DATASETS, load_dataset
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import USUAL_COLUMNS, Columns, read_graph
from gdpnet.errors import DatasetError, nearest


def open_graph(
    name: str,
    *,
    data_dir: Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    directed: bool = False,
    split: str = "paper",
    seed: int = 0,
) -> Graph:
    """Open a dataset by name, the generated graph by ``synthetic``, or files by their path."""
    check_name(name)
    if name == "synthetic":
        return synthetic_graph(seed=seed)
    if name in DATASETS:
        return load_dataset(name, data_dir, split=split, seed=seed)
    return read_graph(Path(name), columns=columns, directed=directed)


def check_name(name: str) -> None:
    """Refuse a name that is neither a dataset's nor a path that is there."""
    path = Path(name)
    if name == "synthetic" or name in DATASETS or path.exists():
        return
    if path.suffix or len(path.parts) > 1:
        raise DatasetError(f"there is no file or folder {name}")
    raise DatasetError(
        f"there is no dataset, file or folder '{name}'{nearest(name, [*DATASETS, 'synthetic'])}"
    )
