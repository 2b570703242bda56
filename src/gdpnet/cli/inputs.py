"""Open the graph that a command names, and the model of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdpnet.cli.options import (
    Device,
    GraphSource,
)
from gdpnet.data.datasets.citation import DATASETS
from gdpnet.data.graph import Graph
from gdpnet.data.io.open import open_graph
from gdpnet.errors import RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import RunFolder, open_run


def open_named(graph: str, source: GraphSource, split: str, seed: int) -> Graph:
    """Open a graph as the options say."""
    return open_graph(
        graph,
        data_dir=source.data_dir,
        columns=source.columns,
        directed=bool(source.directed),
        split=split,
        seed=seed,
    )


def absolute_name(graph: str) -> str:
    """Return a name as it is, and a path so that it can be found from elsewhere."""
    known = graph in DATASETS or graph == "synthetic"
    return graph if known else str(Path(graph).resolve())


def model_and_graph(
    path: Path, graph: str | None, device: Device, source: GraphSource
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run, and a graph: the one named or the run's own.

    Unless the options say otherwise, edges keep their direction if they did when the run was trained.
    """
    run = RunFolder(path)
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}")
    model = GDPNet.load(run.model, device=device.value)
    about: dict[str, Any] = (
        open_run(path)[2] if run.about.is_file() else {"graph": "synthetic", "seed": model.seed}
    )
    name = about["graph"] if graph is None else graph
    same = absolute_name(name) == about["graph"]
    split, seed = (about.get("split", "paper"), about["seed"]) if same else ("paper", model.seed)
    record = about.get("source", {})
    source = source.or_from(record) if same else source
    source = source.directed_as(record)
    return model, open_named(name, source, split, seed), name
