"""The report of one run: its graph, scores, settings, curves and figures, as Markdown or as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet._core.files import read_objects, write_text
from gdpnet._core.json_file import is_number
from gdpnet._core.words import counted
from gdpnet.benchmark.figures import save_figure, training_curves
from gdpnet.benchmark.page import as_text, inlined, linked, page_of, table_lines
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
from gdpnet.training.run_folder import RunFolder, open_run, read_metrics

_WIDEST = 20
"""Confusion matrices of more classes are left out."""

_MEASURED = ("epoch", "loss", "validation_f1", "reward", "kept_share", "kl")
"""What every epoch has measured."""

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
    history, metrics = tuple(_history_of(run)), read_metrics(run)
    if not history:
        raise RunFolderError(f"{path} has nothing to report: no epoch was trained yet")
    return RunReport(run, config, about, history, metrics, graph, remark)


def _history_of(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the epochs of a run; raise an error for a line that is no epoch."""
    for number, line in read_objects(run.history):
        for name in (*_MEASURED, "injected_auc"):
            value = line.get(name) if name == "injected_auc" else line.get(name, "")
            if value is not None and not is_number(value):
                raise RunFolderError(f"'{name}' in line {number} of {run.history} must be a number or null")
        if not isinstance(line.get("metric", ""), str):
            raise RunFolderError(f"'metric' in line {number} of {run.history} must be a text")
        yield line


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


def _drawn(run: RunFolder) -> list[Path]:
    return [path for name in _SENTENCES if (path := run.figures / name).is_file()]


def has_figures(report: RunReport) -> bool:
    """Return whether a run is finished and has its figures, so that none is drawn for its report."""
    return bool(report.metrics and _drawn(report.run))


def _pictures(report: RunReport, figures: Path) -> tuple[list[Path], list[Path]]:
    """Return the figures of a run, and those of them that were drawn now: the curves of an unfinished run."""
    if has_figures(report):
        return _drawn(report.run), []
    best = max(report.history, key=lambda line: line["validation_f1"] or 0.0)["epoch"]
    told = report.metrics.get("best_epoch") or best
    curves = training_curves(report.history, told if is_number(told) else best)
    drawn = [save_figure(curves, figures / "training.png")]
    return drawn, drawn


def run_markdown(report: RunReport, pictures: Mapping[Path, str]) -> str:
    """Return the report as Markdown."""
    lines = [f"# Run {as_text(report.run.path.name)}", "", _about(report), ""]
    lines += ["## Graph", "", *_graph_lines(report)]
    if report.metrics:
        lines += ["## Scores", "", *_checked_score_lines(report)]
    lines += ["## Figures", ""]
    for path, link in pictures.items():
        lines += [f"![{_SENTENCES[path.name]}]({link})", "", _SENTENCES[path.name], ""]
    return "\n".join([*lines, *_settings_lines(report.config)])


def _checked_score_lines(report: RunReport) -> list[str]:
    """Return the lines of the scores; raise an error of one sentence if they are not those that a run writes."""
    try:
        return _score_lines(report.metrics)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise RunFolderError(
            f"{report.run.metrics} must hold scores as a run writes them, found others ({type(error).__name__})"
        ) from error


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
            lines += [f"{as_text(text[0].upper() + text[1:])}.", ""]
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
                *_table(map(as_text, header), ([_number(one) for one in row] for row in cells)),
            ]
    check = metrics.get("check") or {}
    return [*lines, *(f"- {as_text(sentence)}." for sentence in check.get("warnings", ())), ""]


def _about(report: RunReport) -> str:
    about, training = report.about, report.config.training
    epochs = counted(training.warmup + training.epochs, "epoch")
    state = "Finished" if report.metrics else "Not finished"
    return (
        f"{state} after {len(report.history)} of at most {epochs}. Task "
        f"{report.config.task.kind}, graph {as_text(about['graph'])}, split {as_text(about.get('split', 'paper'))}, "
        f"seed {about['seed']}, version {as_text(about.get('version', 'unknown'))}."
    )


def _graph_lines(report: RunReport) -> list[str]:
    """Return the size of the graph and how many nodes each class has in each part of the split."""
    graph = report.graph
    if graph is None:
        return [as_text(report.remark), ""]
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
    return table_lines(columns, [[as_text(value) for value in row] for row in rows])


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_number(one)}" for name, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
