"""Graphs, models and run folders that commands name: open, continue and save them.

Imports torch, so commands import this module when they run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.files import write_json
from gdpnet.cli.options import GraphSource
from gdpnet.config import Config
from gdpnet.data.datasets.known import DATASETS
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import Columns
from gdpnet.data.io.open import open_graph
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import RunFolder, check_same_graph, open_run
from gdpnet.training.data import part_for_scoring


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
    path: Path, graph: str | None, device: str, source: GraphSource
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run and a graph, by default the run's own; return both and the name of the graph.

    Unless the options say otherwise, edges are directed if they were when the run was trained.
    """
    run = RunFolder(path)
    model = GDPNet.load(run.model, device=device)
    about: dict[str, Any] = (
        open_run(path)[2] if run.about.is_file() else {"graph": "synthetic", "seed": model.seed}
    )
    name = about["graph"] if graph is None else graph
    same = absolute_name(name) == about["graph"]
    split, seed = (about.get("split", "paper"), about["seed"]) if same else ("paper", model.seed)
    source = source.or_from(about.get("source", {}), same_graph=same)
    return model, open_named(name, source, split, seed), name


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


def continue_run(out: Path, graph: str, source: GraphSource) -> tuple[RunFolder, Config, Graph, int]:
    """Open a run to continue and its graph; return both with the settings and the seed."""
    run, settings, about = open_run(out)
    source = source.or_from(about.get("source", {}))
    loaded = open_named(graph, source, about.get("split", "paper"), about["seed"])
    check_same_graph(about, loaded)
    return run, settings, loaded, about["seed"]


def part_to_score(graph: Graph, part: Graph, settings: Config, seed: int) -> Graph:
    """Return the graph to score on: a sampled part if training uses one, which is said."""
    if part is graph:
        return graph
    train, validation = (part.nodes_in(name).numel() for name in ("train", "validation"))
    print(
        f"  note: training uses a sampled part of {part.num_nodes:,} nodes, with {train:,} training and "
        f"{validation:,} validation nodes (training.max_nodes)"
    )
    return part_for_scoring(graph, settings.training.max_nodes, settings.training.part_fan_out, seed)


def save_run(model: GDPNet, graph: Graph, run: RunFolder) -> dict[str, Any]:
    """Write the model, its scores on a graph, its figures and suspected label errors; return the scores."""
    from gdpnet.benchmark.evaluation import evaluate
    from gdpnet.benchmark.figures import draw_run

    print("scoring the model and drawing its figures ...", flush=True)
    model.save(run.model)
    kind, predictor = model.config_.task.kind, model.predictor(graph)
    validation = "validation_score" if kind == "links" else "validation_f1"
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_, validation: model.validation_f1_}
    metrics |= _report_suspected(model, run)
    if kind in ("links", "clusters") or bool((graph.labels[graph.nodes_in("test")] >= 0).any()):
        metrics |= evaluate(predictor)
    write_json(run.metrics, metrics)
    draw_run(predictor, run.figures)
    return metrics


def _report_suspected(model: GDPNet, run: RunFolder) -> dict[str, int]:
    """Write and count the suspected label errors, if there are any."""
    if not model.suspected_labels_:
        return {}
    table = pa.Table.from_pylist([one._asdict() for one in model.suspected_labels_])
    write_table(table, run.suspected)
    count = len(model.suspected_labels_)
    print(
        f"note: {count:,} training labels are suspected to be wrong and were not used after the warm-up, see "
        f"{run.suspected} (training.label_error_gap)"
    )
    return {"suspected_labels": count}
