"""Open the graphs and models that commands name. Imports torch, so commands import this module when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor

from gdpnet.cli.options import Device, GraphSource
from gdpnet.data.datasets.known import DATASETS
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import Columns
from gdpnet.data.io.open import open_graph
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import RunFolder, open_run


def open_named(graph: str, source: GraphSource, split: str, seed: int) -> Graph:
    """Open a graph as the options say."""
    return open_graph(
        graph,
        data_dir=source.data_dir,
        columns=Columns(**source.columns),
        directed=bool(source.directed),
        split=split,
        seed=seed,
    )


def absolute_name(graph: str) -> str:
    """Return the name of a dataset unchanged, and a path as an absolute one."""
    known = graph in DATASETS or graph == "synthetic"
    return graph if known else str(Path(graph).resolve())


def model_and_graph(
    path: Path, graph: str | None, device: Device, source: GraphSource
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run and a graph, by default the run's own; return both and the name of the graph.

    Unless the options say otherwise, edges are directed if they were when the run was trained.
    """
    run = RunFolder(path)
    model = GDPNet.load(run.model, device=device.value)
    about: dict[str, Any] = (
        open_run(path)[2] if run.about.is_file() else {"graph": "synthetic", "seed": model.seed}
    )
    name = about["graph"] if graph is None else graph
    same = absolute_name(name) == about["graph"]
    split, seed = (about.get("split", "paper"), about["seed"]) if same else ("paper", model.seed)
    record = about.get("source", {})
    source = source.or_from(record) if same else source
    return model, open_named(name, source.directed_as(record), split, seed), name


def node_numbers(graph: Graph, ids: str | None, file: Path | None) -> Int[Tensor, "asked"] | None:
    """Return the numbers of the nodes named by --nodes and --nodes-from, in that order; None without either."""
    if ids is None and file is None:
        return None
    names = [] if ids is None else [name.strip() for name in ids.split(",")]
    if file is not None:
        try:
            names += [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--nodes-from must be a text file with one node id per line, found {file}"
            ) from error
    names = [name for name in names if name]
    if not names:
        raise ConfigError("--nodes and --nodes-from must name at least one node, found none")
    return graph.numbers_of(names)
