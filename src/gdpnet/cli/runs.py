"""Graphs, models and run folders that commands name: open, continue and save them.

Imports torch, so commands import this module when they run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.files import write_json
from gdpnet.cli.options import GraphSource
from gdpnet.cli.output import note
from gdpnet.config import Config, toml_text
from gdpnet.data.datasets.known import DATASETS
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import Columns
from gdpnet.data.io.open import open_graph
from gdpnet.errors import ConfigError, GDPNetError
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import RunFolder, check_same_graph, extend_run, is_same_graph, open_run
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


def open_as_trained(graph: str, source: GraphSource, about: Mapping[str, Any]) -> Graph:
    """Open the graph of a run with its split; without one if it had none, before splits were drawn."""
    opened = open_named(graph, source, about.get("split", "paper"), about["seed"])
    if about.get("draws_split"):
        return opened
    unsplit = replace(opened, split=torch.zeros_like(opened.split))
    return unsplit if is_same_graph(about, unsplit) else opened


def absolute_name(graph: str) -> str:
    """Return the name of a dataset unchanged, and a path as an absolute one."""
    known = graph in DATASETS or graph == "synthetic"
    return graph if known else str(Path(graph).resolve())


def model_and_graph(
    path: Path, graph: str | None, device: str, source: GraphSource, split: str | None = None
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run and a graph, by default the run's own; return both and the name of the graph.

    Unless the options say otherwise, edges are directed if they were when the run was trained, and the run's own
    graph has the split that it was trained with.
    """
    run = RunFolder(path)
    model = GDPNet.load(run.model, device=device)
    about: dict[str, Any] = (
        open_run(path)[2] if run.about.is_file() else {"graph": "synthetic", "seed": model.seed}
    )
    name = about["graph"] if graph is None else graph
    same = absolute_name(name) == about["graph"]
    source = source.or_from(about.get("source", {}), same_graph=same)
    if same and split is None:
        return model, open_as_trained(name, source, about), name
    return model, open_named(name, source, split or "paper", about["seed"] if same else model.seed), name


def graph_of_run(path: Path) -> tuple[Graph | None, str]:
    """Open the graph that a run was trained on; None and the reason if it is not there or has changed."""
    about = open_run(path)[2]
    try:
        source = GraphSource().or_from(about.get("source", {}))
        graph = open_as_trained(about["graph"], source, about)
        check_same_graph(about, graph)
    except (GDPNetError, OSError) as error:
        return None, f"The graph of the run cannot be described: {error}."
    return graph, ""


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


def continue_run(
    out: Path,
    graph: str,
    source: GraphSource,
    settings_from: Callable[[Config], Config],
    given: Mapping[str, Any],
) -> tuple[RunFolder, Config, Graph, int]:
    """Open a run to continue and its graph; return both with the settings and the seed.

    ``settings_from`` returns the settings that are asked for, from those of the run. They must be the run's, except
    for more epochs; so must the ``given`` seed and split, if they are not None.
    """
    run, own, about = open_run(out)
    asked = settings_from(own)
    known = {"seed": about["seed"], "split": about.get("split", "paper")}
    _check_same_settings(own, asked)
    for name, value in given.items():
        if value not in (None, known[name]):
            raise ConfigError(
                f"with --resume, --{name} must be that of the run, {known[name]}, found {value}; leave it out or "
                "choose another --out"
            )
    loaded = open_as_trained(graph, source.or_from(about.get("source", {})), about)
    check_same_graph(about, loaded)
    if asked != own:
        extend_run(run, asked)
    return run, asked, loaded, about["seed"]


def _check_same_settings(own: Config, asked: Config) -> None:
    """Refuse settings that differ from those of a run; more epochs are allowed."""
    for section, values in asked.to_dict().items():
        for key, value in values.items():
            name, known = f"{section}.{key}", own.to_dict()[section][key]
            if value == known or (name == "training.epochs" and value > known):
                continue
            raise ConfigError(
                f"with --resume, {name} must be that of the run, {toml_text(known)}, found {toml_text(value)}; only "
                "training.epochs may be larger: leave the setting out or choose another --out"
            )


def finished_metrics(run: RunFolder) -> dict[str, Any] | None:
    """Return the scores of a run that is finished, None for one that is not."""
    if not (run.metrics.is_file() and run.model.is_file()):
        return None
    metrics: dict[str, Any] = json.loads(run.metrics.read_text(encoding="utf-8"))
    return metrics


def part_to_score(graph: Graph, part: Graph, settings: Config, seed: int) -> Graph:
    """Return the graph to score on: a sampled part if training uses one, which is said."""
    if part is graph:
        return graph
    train, validation = (part.nodes_in(name).numel() for name in ("train", "validation"))
    note(
        f"  note: training uses a sampled part of {part.num_nodes:,} nodes, with {train:,} training and "
        f"{validation:,} validation nodes (training.max_nodes)"
    )
    return part_for_scoring(graph, settings.training.max_nodes, settings.training.part_fan_out, seed)


def save_run(model: GDPNet, graph: Graph, run: RunFolder) -> dict[str, Any]:
    """Write the model, its scores on a graph, its figures and suspected label errors; return the scores."""
    from gdpnet.benchmark.evaluation import evaluate
    from gdpnet.benchmark.figures import draw_run

    model.save(run.model)
    kind, predictor = model.config_.task.kind, model.predictor(graph)
    validation = "validation_score" if kind == "links" else "validation_f1"
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_, validation: model.validation_f1_}
    metrics |= _report_suspected(model, run)
    if kind in ("links", "clusters") or bool((graph.labels[graph.nodes_in("test")] >= 0).any()):
        metrics |= evaluate(predictor)
    draw_run(predictor, run.figures)
    write_json(run.metrics, metrics)  # last: a run with its metrics is finished
    return metrics


def _report_suspected(model: GDPNet, run: RunFolder) -> dict[str, int]:
    """Write and count the suspected label errors, if there are any."""
    if not model.suspected_labels_:
        return {}
    table = pa.Table.from_pylist([one._asdict() for one in model.suspected_labels_])
    write_table(table, run.suspected)
    count = len(model.suspected_labels_)
    note(
        f"note: {count:,} training labels are suspected to be wrong and were not used after the warm-up, see "
        f"{run.suspected} (training.label_error_gap)"
    )
    return {"suspected_labels": count}
