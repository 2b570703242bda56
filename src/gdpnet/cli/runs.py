"""Graphs, models and run folders that commands name: open, continue and save them.

Imports torch, so commands import this module when they run.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.files import is_address, read_some
from gdpnet._core.limits import MOST_LIST_BYTES
from gdpnet.cli.options import GraphSource
from gdpnet.cli.progress import doing
from gdpnet.config import Config, toml_text
from gdpnet.data.datasets.known import NAMED
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import Columns
from gdpnet.data.io.open import open_graph
from gdpnet.data.labels import check_classes
from gdpnet.data.splits import ALL_TEST
from gdpnet.data.validation import SPLITS, id_text
from gdpnet.errors import ConfigError, GDPNetError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.training.run_folder import (
    RunFolder,
    check_same_graph,
    describe_settings,
    extend_run,
    has_settings,
    is_same_graph,
    open_run,
    read_metrics,
)


def open_named(graph: str, source: GraphSource, split: str, seed: int, task: str | None = None) -> Graph:
    """Open a graph as the options say; for the task regression labels are numbers."""
    with doing("reading the graph"):
        return open_graph(
            graph,
            data_dir=source.data_dir,
            columns=Columns(**source.columns),
            directed=bool(source.directed),
            weights=source.weights is not False,
            drop_unknown=bool(source.drop_unknown),
            split=split,
            seed=seed,
            task=task,
        )


def open_for(task: str | None, graph: str, source: GraphSource, split: str, seed: int) -> Graph:
    """Open a graph for a task, classification by default; refuse numbers as classes, as training does."""
    opened = open_named(graph, source, split, seed, task)
    if task in (None, "classification") and opened.targets is None:
        check_classes(opened)
    return opened


def open_as_trained(graph: str, source: GraphSource, about: Mapping[str, Any], task: str) -> Graph:
    """Open the graph of a run with its split; without one if it had none, before splits were drawn."""
    opened = open_named(graph, source, about.get("split", "paper"), about["seed"], task)
    if about.get("draws_split"):
        return opened
    unsplit = replace(opened, split=torch.zeros_like(opened.split))
    return unsplit if is_same_graph(about, unsplit) else opened


def check_features(source: GraphSource, graph: Graph) -> None:
    """Refuse to replace the features of a graph that has some."""
    if source.missing is not None and graph.has_features:
        raise ConfigError(
            f"--features {source.missing} is for graphs without features: leave it out, this graph has "
            f"{graph.num_features}"
        )


def absolute_name(graph: str) -> str:
    """Return the name of a dataset unchanged, and a path as an absolute one."""
    known = graph in NAMED or graph == "synthetic" or is_address(graph)
    return graph if known else str(Path(graph).resolve())


def model_and_graph(
    path: Path,
    graph: str | None,
    device: str,
    source: GraphSource,
    split: str | None = None,
    *,
    scored: bool = False,
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run and a graph, by default the run's own; return both and the name of the graph.

    Unless the options say otherwise, edges are directed if they were when the run was trained, and the run's own
    graph has the split that it was trained with.
    """
    run = RunFolder(path)
    model = GDPNet.load(run.model, device=device)
    about = _about_of(run, graph, model.seed)
    name = about["graph"] if graph is None else graph
    same = absolute_name(name) == about["graph"]
    source, kind = source.or_from(about.get("source", {}), same_graph=same), model.config_.task.kind
    if same and split is None:
        opened = open_as_trained(name, source, about, kind)
        if about.get("draws_split"):
            is_whole = opened.num_nodes <= model.config_.training.max_nodes
            opened = _with_own_split(opened, run, is_same=is_whole and is_same_graph(about, opened))
        return model, opened, name
    if scored and same and split is not None:
        raise ConfigError(
            f"--split {split} would draw test nodes that the run may have trained on: leave it out or name another "
            "graph"
        )
    # all labelled nodes of another graph are new to the model, and score it
    usual, seed = ("paper", about["seed"]) if same else (ALL_TEST, model.seed)
    return model, open_named(name, source, split or usual, seed, kind), name


def _about_of(run: RunFolder, graph: str | None, seed: int) -> dict[str, Any]:
    """Return the description of a run, or of a demo; one of nothing for a model alone, if a graph is named."""
    if run.about.is_file():
        return open_run(run.path)[2]
    if graph is None and not run.is_demo:
        raise RunFolderError(
            f"{run.path} has no {run.about.name}, which says what graph the run was trained on: name a graph, or "
            "bring the file back"
        )
    return {"graph": "synthetic" if run.is_demo else "", "seed": seed}


def _with_own_split(graph: Graph, run: RunFolder, *, is_same: bool) -> Graph:
    """Return a graph with the split of a run; one that is the same and was scored whole must have it already."""
    found = with_split_of(graph, run)
    if is_same and not torch.equal(found.split, graph.split):
        raise _changed(run)
    return found


def with_split_of(graph: Graph, run: RunFolder) -> Graph:
    """Return a graph that was read without a split with that of a run, by node id."""
    if not run.split.is_file():
        return graph
    try:
        with run.split.open(encoding="utf-8", newline="") as file:
            known = {row["id"]: row["split"] for row in csv.DictReader(file)}
        codes = [SPLITS.index(known.get(name, "none")) for name in id_text(graph.node_ids).tolist()]
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise _changed(run) from error
    return replace(graph, split=torch.tensor(codes, dtype=graph.split.dtype))


def _changed(run: RunFolder) -> RunFolderError:
    return RunFolderError(
        f"{run.split} must be a table of id and split (train, validation, test), as the run wrote it; it was "
        "changed or damaged"
    )


def graph_of_run(path: Path) -> tuple[Graph | None, str]:
    """Open the graph that a run was trained on; None and the reason if it is not there or has changed."""
    _, settings, about = open_run(path)
    try:
        source = GraphSource().or_from(about.get("source", {}))
        graph = open_as_trained(about["graph"], source, about, settings.task.kind)
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
        names += _lines_of(file)
    names = [name for name in names if name]
    if not names:
        raise ConfigError("--nodes and --nodes-from must name at least one node, found none")
    return graph.numbers_of(names)


def _lines_of(file: Path) -> list[str]:
    """Return the lines of a list of node ids, which may be a pipe."""
    try:
        content = read_some(file, MOST_LIST_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--nodes-from must be a text file with one node id per line, found {file}"
        ) from error
    if len(content) > MOST_LIST_BYTES:
        raise ConfigError(f"--nodes-from must have at most {MOST_LIST_BYTES:,} bytes, found more in {file}")
    return [line.strip() for line in text.splitlines()]


def continue_run(
    out: Path,
    graph: str,
    source: GraphSource,
    settings_from: Callable[[Config], Config],
    given: Mapping[str, Any],
) -> tuple[RunFolder, Config, Graph, int]:
    """Open a run to continue and its graph; return both with the settings and the seed.

    ``settings_from`` returns the settings that are asked for, from those of the run. They must be the run's, except
    for more epochs or more time; so must the ``given`` seed and split, if they are not None.
    """
    run, own, about = open_run(out)
    run.check_files()
    asked = settings_from(own)
    known = {"seed": about["seed"], "split": about.get("split", "paper")}
    _check_same_settings(own, asked)
    for name, value in given.items():
        if value not in (None, known[name]):
            raise ConfigError(
                f"with --resume, --{name} must be that of the run, {known[name]}, found {value}; leave it out or "
                "choose another --out"
            )
    loaded = open_as_trained(graph, source.or_from(about.get("source", {})), about, own.task.kind)
    check_same_graph(about, loaded)
    if asked != own or not run.config.is_file():
        extend_run(run, asked, about)
    elif not has_settings(about, asked):
        describe_settings(run, asked, about)
    return run, asked, loaded, about["seed"]


def _check_same_settings(own: Config, asked: Config) -> None:
    """Refuse settings that differ from those of a run; more epochs and more time are allowed."""
    for section, values in asked.to_dict().items():
        for key, value in values.items():
            name, known = f"{section}.{key}", own.to_dict()[section][key]
            longer = value > known or value == 0 if name == "training.seconds" and known else False
            if value == known or longer or (name == "training.epochs" and value > known):
                continue
            raise ConfigError(
                f"with --resume, {name} must be that of the run, {toml_text(known)}, found {toml_text(value)}; only "
                "training.epochs and training.seconds may be larger: leave the setting out or choose another --out"
            )


def finished_metrics(run: RunFolder) -> dict[str, Any] | None:
    """Return the scores of a run that is finished, None for one that is not."""
    if not (run.metrics.is_file() and run.model.is_file()):
        return None
    return read_metrics(run)
