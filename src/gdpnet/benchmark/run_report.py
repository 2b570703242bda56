"""The report of one run: its graph, scores, settings, curves and figures, as Markdown or as one HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet._core.files import write_text
from gdpnet._core.words import counted
from gdpnet.benchmark.figures import save_figure, training_curves
from gdpnet.benchmark.page import inlined, linked, page_of, table_lines
from gdpnet.benchmark.score_tables import (
    NESTED,
    check_table,
    confusion_table,
    folds_sentence,
    per_class_table,
    unknown_sentence,
)
from gdpnet.config import Config, toml_text
from gdpnet.data.graph import Graph
from gdpnet.data.validation import SPLITS
from gdpnet.errors import RunFolderError
from gdpnet.training.checkpoint import RunFolder, open_run

_WIDEST = 20
"""Confusion matrices of more classes are left out."""

_SENTENCES = {
    "training.png": "Training, epoch by epoch.",
    "selected_share.png": "Share of its neighbours that is selected for a node.",
    "embedding.png": "Map of the embeddings (t-SNE), coloured by class.",
    "keep_probability.png": "Keep probabilities of genuine and of spurious edges.",
    "reliability.png": "How often edges of a keep probability are genuine.",
}


@dataclass(frozen=True)
class RunReport:
    """What a report of a run says."""

    run: RunFolder
    config: Config
    about: Mapping[str, Any]
    history: tuple[dict[str, Any], ...]
    metrics: Mapping[str, Any]
    """The scores; empty if the run is not finished."""
    graph: Graph | None
    remark: str
    """Why there is no graph; empty if there is one."""


def is_run(path: Path) -> bool:
    """Return whether a folder holds a run."""
    return RunFolder(path).about.exists() or RunFolder(path).model.exists()


def read_run(path: Path, graph: Graph | None = None, remark: str = "") -> RunReport:
    """Read what a run folder holds; raise an error if no epoch was trained yet."""
    run, config, about = open_run(path)
    try:
        lines = run.history.read_text(encoding="utf-8").splitlines() if run.history.exists() else []
        history = tuple(json.loads(line) for line in lines)
        metrics = json.loads(run.metrics.read_text(encoding="utf-8")) if run.metrics.exists() else {}
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    if not history:
        raise RunFolderError(f"{path} has nothing to report: no epoch was trained yet")
    return RunReport(run, config, about, history, metrics, graph, remark)


def write_run_page(report: RunReport, out: Path, figures: Path) -> list[Path]:
    """Write the HTML page with the figures embedded; return the paths written."""
    pictures, drawn = _pictures(report, figures)
    text = run_markdown(report, {path: inlined(path) for path in pictures})
    write_text(out, page_of(text, f"GDPNet: {report.run.path.name}"))
    return [out, *drawn]


def write_run_markdown(report: RunReport, out: Path, figures: Path) -> list[Path]:
    """Write the Markdown that links to the figures; return the paths written."""
    pictures, drawn = _pictures(report, figures)
    write_text(out, run_markdown(report, {path: linked(path, out) for path in pictures}))
    return [out, *drawn]


def _pictures(report: RunReport, figures: Path) -> tuple[list[Path], list[Path]]:
    """Return the figures of a run, and those of them that were drawn now: the curves of an unfinished run."""
    found = [path for name in _SENTENCES if (path := report.run.figures / name).is_file()]
    if report.metrics and found:
        return found, []
    best = max(report.history, key=lambda line: line["validation_f1"] or 0.0)["epoch"]
    curves = training_curves(report.history, report.metrics.get("best_epoch") or best)
    drawn = [save_figure(curves, figures / "training.png")]
    return drawn, drawn


def run_markdown(report: RunReport, pictures: Mapping[Path, str]) -> str:
    """Return the report as Markdown."""
    lines = [f"# Run {_cell(report.run.path.name)}", "", _about(report), ""]
    lines += ["## Graph", "", *_graph_lines(report)]
    if report.metrics:
        lines += ["## Scores", "", *_score_lines(report.metrics)]
    lines += ["## Figures", ""]
    for path, link in pictures.items():
        lines += [f"![{_SENTENCES[path.name]}]({link})", "", _SENTENCES[path.name], ""]
    return "\n".join([*lines, *_settings_lines(report.config)])


def _score_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Return scores with their intervals, and those that are more than one number as tables and sentences."""
    intervals = metrics.get("intervals") or {}
    between = {name: f"{low:.4g} to {high:.4g}" for name, (low, high) in intervals.items()}
    rows = [
        (name.replace("_", " "), _number(value), between.get(name, ""))
        for name, value in metrics.items()
        if name not in NESTED
    ]
    lines = _table(("score", "value", "95 % interval"), rows)
    for name, said in (("cross_validation", folds_sentence), ("unknown_classes", unknown_sentence)):
        if found := metrics.get(name):
            text = said(found)
            lines += [f"{_cell(text[0].upper() + text[1:])}.", ""]
    tables = (
        ("Scores per class", "per_class", per_class_table),
        ("Confusion: a row per true class, a column per predicted one", "confusion", confusion_table),
        ("Check: simple methods on the same test nodes", "check", check_table),
    )
    for title, name, table in tables:
        found = metrics.get(name)
        if found and (name != "confusion" or len(found["classes"]) <= _WIDEST):
            header, cells = table(found)
            lines += [
                f"### {title}",
                "",
                *_table(map(_cell, header), ([_number(one) for one in row] for row in cells)),
            ]
    check = metrics.get("check") or {}
    return [*lines, *(f"- {_cell(sentence)}." for sentence in check.get("warnings", ())), ""]


def _about(report: RunReport) -> str:
    about, training = report.about, report.config.training
    epochs = counted(training.warmup + training.epochs, "epoch")
    state = "Finished" if report.metrics else "Not finished"
    return (
        f"{state} after {len(report.history)} of at most {epochs}. Task "
        f"{report.config.task.kind}, graph {_cell(about.get('graph'))}, split {_cell(about.get('split', 'paper'))}, "
        f"seed {about['seed']}, version {about.get('version', 'unknown')}."
    )


def _graph_lines(report: RunReport) -> list[str]:
    """Return the size of the graph and how many nodes each class has in each part of the split."""
    graph = report.graph
    if graph is None:
        return [report.remark, ""]
    edges = counted(graph.num_edges, "directed edge")
    size = f"{counted(graph.num_nodes, 'node')}, {edges}, {counted(graph.num_features, 'feature')}."
    parts = {"train": "training", "validation": "validation", "test": "test", "none": "no split"}
    codes = [SPLITS.index(part) for part in parts]
    names = [*enumerate(graph.class_names), (-1, "no label")]
    rows = [
        (str(name), *(f"{int(((graph.labels == number) & (graph.split == code)).sum()):,}" for code in codes))
        for number, name in names
    ]
    return [size, "", *_table(("class", *parts.values()), rows)]


def _settings_lines(config: Config) -> list[str]:
    """Return the settings that are not the defaults, then all of them."""
    usual = Config().to_dict()
    every = [
        (f"{section}.{key}", toml_text(value), toml_text(usual[section][key]))
        for section, values in config.to_dict().items()
        for key, value in values.items()
    ]
    changed = [row for row in every if row[1] != row[2]]
    lines = ["## Settings", ""]
    lines += _table(("changed setting", "value", "default"), changed) if changed else ["All defaults.", ""]
    return [*lines, "## All settings", "", *_table(("setting", "value", "default"), every)]


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    return table_lines(columns, [[_cell(value) for value in row] for row in rows])


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_number(one)}" for name, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: object) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", str(value))
