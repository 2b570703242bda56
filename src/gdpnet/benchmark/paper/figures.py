"""The paper's figures, drawn from records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gdpnet.benchmark.figures import new_figure, panels, save_figure
from gdpnet.benchmark.paper.artefacts import MAPPED, METHODS_DRAWN
from gdpnet.benchmark.paper.artefacts import SWEEP as ARTEFACTS
from gdpnet.benchmark.paper.tables import CLEAN, NAMES, TABLES
from gdpnet.benchmark.record_types import as_records_must_be
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.robustness import SWEEP, Row, summarise

Metrics = dict[tuple[str, str], Record]
"""The metrics of artefacts, by dataset and method."""

SHARES = (0.0, 0.3, 0.5, 0.7, 0.9)
"""Shares of the training labels that are hidden, for the curve over training data."""

DISCOUNTS = ("0", "0.5", "0.9", "0.95", "1")
EPOCHS = ("5", "10", "20", "40", "80")

SENTENCES = {
    "maps.png": "Test nodes by t-SNE of their representations, coloured by class. Below each map: the silhouette "
    "score of the classes among the representations.",
    "shares.png": "Share of neighbours selected: distribution over nodes, one panel per dataset.",
    "training_share.png": "Micro-F1 on test against the share of training nodes whose labels are known.",
    "discount.png": "Micro-F1 on test of GDPNet without its GCN head, against the discount of its rewards.",
    "epochs.png": "Micro-F1 on test of GDPNet without its GCN head, against the number of epochs of both phases.",
    "convergence.png": "Validation F1, mean reward and share of neighbours kept, from the first, random policy on.",
    "seconds.png": "Seconds per epoch, on the machine and device of the records.",
    "reliability.png": "Share of genuine edges per keep probability, after doubling the number of edges with random "
    "links; on the diagonal it is perfectly calibrated. One line per seed.",
}
"""The caption of each figure."""


@as_records_must_be()
def draw_all(records: list[Record], folder: Path) -> list[Path]:
    """Draw every figure for which there are records; return their paths."""
    artefacts = ARTEFACTS.latest(records)
    metrics = {place: record["metrics"] for place, record in artefacts.items()}
    devices = {place: record.get("device") for place, record in artefacts.items()}
    rows = summarise(records)
    drawn: dict[str, Figure] = {
        "maps.png": _maps(metrics),
        "shares.png": _shares(metrics),
        "training_share.png": _training_share(rows),
        "discount.png": _variants(rows, "gdpnet:discount-", DISCOUNTS, "discount"),
        "epochs.png": _variants(rows, "gdpnet:epochs-", EPOCHS, "epochs of both phases"),
        "convergence.png": _convergence(metrics),
        "seconds.png": _seconds(metrics, devices),
        "reliability.png": _reliability(records),
    }
    return [save_figure(figure, folder / name) for name, figure in drawn.items() if figure.axes]


def _datasets(metrics: Metrics, key: str, method: str | None = None) -> list[str]:
    """Return the datasets on which a method, or any, has a metric."""
    known = {place for place, found in metrics.items() if found.get(key)}
    return sorted({dataset for dataset, name in known if method in (None, name)})


def _curve(axes: Axes, rows: list[Row], at: list[float], **style: Any) -> None:
    deviations = [row.deviation for row in rows]
    axes.errorbar(at, [row.mean for row in rows], yerr=deviations, marker="o", capsize=2, **style)
    axes.set_ylabel("micro-F1 on test")


def _maps(metrics: Metrics) -> Figure:
    datasets = _datasets(metrics, "points")
    if not datasets:
        return Figure()
    figure = Figure(figsize=(2.9 * len(MAPPED), 2.9 * len(datasets)), layout="constrained")
    grid = figure.subplots(len(datasets), len(MAPPED), squeeze=False)
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, method in zip(row, MAPPED, strict=True):
            axes.set(xticks=[], yticks=[], title=f"{dataset}, {NAMES[method]}")
            found = metrics.get((dataset, method), {})
            if not found.get("points"):
                axes.set_xlabel("not run")
                continue
            points, labels = np.array(found["points"]), np.array(found["labels"])
            colours = matplotlib.colormaps["tab10" if labels.max() < 10 else "tab20"]
            axes.scatter(points[:, 0], points[:, 1], s=3, c=[colours(label % colours.N) for label in labels])
            score = found["silhouette"]
            axes.set_xlabel("" if score is None else f"silhouette {score:.3f}")
    return figure


def _shares(metrics: Metrics) -> Figure:
    def draw(axes: Axes, dataset: str) -> None:
        counts = np.array(metrics[(dataset, "gdpnet")]["shares"], dtype=float)
        edges = np.linspace(0.0, 1.0, counts.size + 1)
        density = counts / counts.sum() * counts.size
        axes.bar(edges[:-1], density, width=np.diff(edges), align="edge", color="tab:blue", edgecolor="white")
        axes.set(xlabel="share of neighbours selected", ylabel="density over nodes")

    return panels(_datasets(metrics, "shares", "gdpnet"), draw)


def _training_share(rows: list[Row]) -> Figure:
    hidden = [row for row in rows if row.noise == "hidden-labels" and row.seeds]

    def draw(axes: Axes, dataset: str) -> None:
        for place, method in enumerate(TABLES["table2"]):
            mine = [row for row in hidden if (row.graph, row.method) == (dataset, method)]
            if mine:
                mine = sorted(mine, key=lambda row: -row.rate)
                style = {"color": f"C{place}", "linewidth": 2.2 if method == "gdpnet" else 1.1}
                _curve(
                    axes, mine, [1.0 - row.rate for row in mine], label=NAMES[method], markersize=3, **style
                )
        axes.set_xlabel("share of training labels")

    figure = panels(sorted({row.graph for row in hidden}), draw, height=4.2)
    if figure.axes:
        named = {
            label: line
            for axes in figure.axes
            for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        columns = min(len(named), 2 * len(figure.axes))
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def _seeds(numbers: list[int]) -> str:
    """Return the number of seeds, or the least and the most."""
    count = str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)} to {max(numbers)}"
    return "1 seed" if count == "1" else f"{count} seeds"


def _variants(rows: list[Row], prefix: str, values: tuple[str, ...], title: str) -> Figure:
    """Draw one line per dataset over the values of a setting."""
    mine = {(row.graph, row.method): row for row in rows if (row.noise, row.rate) == CLEAN and row.seeds}
    lines = {
        graph: {float(value): mine[place] for value in values if (place := (graph, prefix + value)) in mine}
        for graph in sorted({graph for graph, _ in mine})
    }
    lines = {graph: line for graph, line in lines.items() if len(line) > 1}
    if not lines:
        return Figure()
    figure, axes = new_figure(6.4, 3.6)
    for graph, line in lines.items():
        label = f"{graph} ({_seeds([row.seeds for row in line.values()])})"
        _curve(axes, list(line.values()), list(line), label=label)
    axes.set_xlabel(title)
    figure.legend(loc="outside right upper")
    return figure


def _convergence(metrics: Metrics) -> Figure:
    datasets = _datasets(metrics, "history", "gdpnet")
    keys = {"validation F1": "validation_f1", "mean reward": "reward", "share kept": "kept_share"}

    def draw(axes: Axes, title: str) -> None:
        for dataset in datasets:
            found = metrics[(dataset, "gdpnet")]
            line = found["history"][keys[title]][found["warmup"] :]
            axes.plot(range(1, len(line) + 1), line, label=dataset)
        axes.set_xlabel("epoch of the policy")

    figure = panels(list(keys) if datasets else [], draw, width=11 / 3, height=3.6)
    if figure.axes:
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(datasets))
    return figure


def _seconds(metrics: Metrics, devices: dict[tuple[str, str], str | None]) -> Figure:
    def draw(axes: Axes, dataset: str) -> None:
        methods = [name for name in METHODS_DRAWN if metrics.get((dataset, name), {}).get("epochs")]
        found = [metrics[(dataset, name)] for name in methods]
        seconds = [one["seconds"] / one["epochs"] for one in found]
        axes.barh([NAMES[name] for name in methods], seconds, color="tab:blue")
        where = sorted({str(devices[(dataset, name)]) for name in methods})
        axes.set(title=f"{dataset}, on {' and '.join(where)}", xscale="log", xlabel="seconds per epoch")
        axes.grid(visible=False, axis="y")

    return panels(_datasets(metrics, "epochs"), draw)


def _reliability(records: list[Record]) -> Figure:
    mine = [
        record
        for record in SWEEP.newest(records)
        if (record["method"], record["noise"], record["rate"]) == ("gdpnet", "random-links", 1.0)
        and record["metrics"].get("reliability")
    ]

    def draw(axes: Axes, dataset: str) -> None:
        for record in mine:
            if record["graph"] == dataset:
                chance, genuine, _ = zip(*record["metrics"]["reliability"], strict=True)
                axes.plot(chance, genuine, color="tab:blue", alpha=0.5, marker=".", linewidth=1)
        axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--")
        axes.set(xlabel="keep probability", ylabel="share of genuine edges")

    return panels(sorted({record["graph"] for record in mine}), draw, height=3.6)
