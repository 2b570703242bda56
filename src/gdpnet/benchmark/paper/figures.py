"""The paper's figures, drawn from records alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gdpnet.benchmark.figures import save_figure
from gdpnet.benchmark.paper.artefacts import MAPPED, METHODS_DRAWN, portraits_of
from gdpnet.benchmark.paper.reported import NAMES
from gdpnet.benchmark.paper.tables import CLEAN, TABLES
from gdpnet.benchmark.robustness import Row, newest_records, summarise

Portraits = dict[tuple[str, str], dict[str, Any]]

SHARES = (0.0, 0.3, 0.5, 0.7, 0.9)
"""Shares of the training labels that are hidden, for the curve over training data."""

DISCOUNTS = ("0", "0.5", "0.9", "0.95", "1")
EPOCHS = ("5", "10", "20", "40", "80")

SENTENCES = {
    "maps.png": "Test nodes by t-SNE of their representations, coloured by class; below each map the silhouette "
    "score of the classes among the representations themselves.",
    "shares.png": "How many of a node's neighbours are selected: the spread over nodes, a dataset a panel.",
    "training_share.png": "Micro-F1 on test against the share of training nodes whose labels are known.",
    "discount.png": "Micro-F1 on test of GDPNet, convolutions left out, against the discount of its rewards.",
    "epochs.png": "Micro-F1 on test of GDPNet, convolutions left out, against the number of turns of the two phases.",
    "convergence.png": "Validation F1, mean reward and share of neighbours kept, from the first, random policy on.",
    "seconds.png": "Seconds an epoch, on the machine and device of the records.",
    "reliability.png": "How often links of a keep probability are genuine, with as many random links added as there "
    "were: on the diagonal the probability can be believed. A line a seed.",
}
"""What each picture shows."""


def draw_all(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw every figure that the records have something for; return where they lie."""
    portraits, rows = portraits_of(records), summarise(records)
    drawn: dict[str, Figure | None] = {
        "maps.png": _maps(portraits),
        "shares.png": _shares(portraits),
        "training_share.png": _training_share(rows),
        "discount.png": _variants(rows, "gdpnet:discount-", DISCOUNTS, "discount"),
        "epochs.png": _variants(rows, "gdpnet:epochs-", EPOCHS, "turns of the two phases"),
        "convergence.png": _convergence(portraits),
        "seconds.png": _seconds(portraits),
        "reliability.png": _reliability(records),
    }
    return [save_figure(figure, folder / name) for name, figure in drawn.items() if figure is not None]


def _datasets(portraits: Portraits, method: str | None = None, key: str | None = None) -> list[str]:
    return sorted(
        {
            graph
            for (graph, name), record in portraits.items()
            if (method is None or name == method) and (key is None or record["metrics"].get(key))
        }
    )


def _panels(names: list[str], draw: Callable[[Axes, str], None], height: float = 3.2) -> Figure | None:
    """Draw one panel a name, side by side."""
    if not names:
        return None
    figure = Figure(figsize=(3.6 * len(names), height), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        draw(axes, name)
    return figure


def _maps(portraits: Portraits) -> Figure | None:
    datasets = _datasets(portraits, key="points")
    if not datasets:
        return None
    figure = Figure(figsize=(2.9 * len(MAPPED), 2.9 * len(datasets)), layout="constrained")
    grid = figure.subplots(len(datasets), len(MAPPED), squeeze=False)
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, method in zip(row, MAPPED, strict=True):
            axes.set(xticks=[], yticks=[], title=f"{dataset}, {NAMES[method]}")
            record = portraits.get((dataset, method))
            if record is None or not record["metrics"].get("points"):
                axes.set_xlabel("not run")
                continue
            points, labels = np.array(record["metrics"]["points"]), np.array(record["metrics"]["labels"])
            colours = matplotlib.colormaps["tab10" if labels.max() < 10 else "tab20"]
            axes.scatter(points[:, 0], points[:, 1], s=3, c=[colours(label % colours.N) for label in labels])
            score = record["metrics"]["silhouette"]
            axes.set_xlabel("" if score is None else f"silhouette {score:.3f}")
    return figure


def _shares(portraits: Portraits) -> Figure | None:
    def draw(axes: Axes, dataset: str) -> None:
        counts = np.array(portraits[(dataset, "gdpnet")]["metrics"]["shares"], dtype=float)
        edges = np.linspace(0.0, 1.0, counts.size + 1)
        density = counts / counts.sum() * counts.size
        axes.bar(edges[:-1], density, width=np.diff(edges), align="edge", color="tab:blue", edgecolor="white")
        axes.set(title=dataset, xlabel="share of neighbours selected", ylabel="density over nodes")
        axes.grid(alpha=0.3)

    return _panels(_datasets(portraits, "gdpnet", "shares"), draw)


def _training_share(rows: list[Row]) -> Figure | None:
    hidden = [row for row in rows if row.noise == "hidden-labels" and row.seeds]

    def draw(axes: Axes, dataset: str) -> None:
        for place, method in enumerate(TABLES["table2"]):
            mine = sorted(
                (row for row in hidden if row.graph == dataset and row.method == method),
                key=lambda row: -row.rate,
            )
            if mine:
                axes.errorbar(
                    [1.0 - row.rate for row in mine],
                    [row.mean for row in mine],
                    yerr=[row.deviation for row in mine],
                    label=NAMES[method],
                    color=f"C{place}",
                    linewidth=2.2 if method == "gdpnet" else 1.1,
                    marker="o",
                    markersize=3,
                    capsize=2,
                )
        axes.set(title=dataset, xlabel="share of training labels", ylabel="micro-F1 on test")
        axes.grid(alpha=0.3)

    figure = _panels(sorted({row.graph for row in hidden}), draw, 4.2)
    if figure is not None:
        named = {label: line for axes in figure.axes for line, label in zip(*_legend_of(axes), strict=True)}
        columns = min(len(named), 2 * len(figure.axes))
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def _legend_of(axes: Axes) -> tuple[list[Any], list[str]]:
    return axes.get_legend_handles_labels()


def _seeds(numbers: list[int]) -> str:
    """Say how many seeds there were, or the least and the most."""
    count = str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)} to {max(numbers)}"
    return "1 seed" if count == "1" else f"{count} seeds"


def _variants(rows: list[Row], prefix: str, values: tuple[str, ...], title: str) -> Figure | None:
    """Draw one line a dataset over the values of a setting."""
    mine = {(row.graph, row.method): row for row in rows if (row.noise, row.rate) == CLEAN and row.seeds}
    lines = {
        graph: [(value, mine[(graph, prefix + value)]) for value in values if (graph, prefix + value) in mine]
        for graph in sorted({graph for graph, _ in mine})
    }
    lines = {graph: line for graph, line in lines.items() if len(line) > 1}
    if not lines:
        return None
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for graph, line in lines.items():
        axes.errorbar(
            [float(value) for value, _ in line],
            [row.mean for _, row in line],
            yerr=[row.deviation for _, row in line],
            label=f"{graph} ({_seeds([row.seeds for _, row in line])})",
            marker="o",
            capsize=2,
        )
    axes.set(xlabel=title, ylabel="micro-F1 on test")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    return figure


def _convergence(portraits: Portraits) -> Figure | None:
    datasets = _datasets(portraits, "gdpnet", "history")
    if not datasets:
        return None
    titles = {"validation_f1": "validation F1", "reward": "mean reward", "kept_share": "share kept"}
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for dataset in datasets:
            metrics = portraits[(dataset, "gdpnet")]["metrics"]
            line = metrics["history"][key][metrics["warmup"] :]
            axes.plot(range(1, len(line) + 1), line, label=dataset)
        axes.set(title=title, xlabel="epoch of the policy")
        axes.grid(alpha=0.3)
    figure.legend(*_legend_of(figure.axes[0]), loc="outside lower center", ncols=len(datasets))
    return figure


def _seconds(portraits: Portraits) -> Figure | None:
    def draw(axes: Axes, dataset: str) -> None:
        seconds = {
            method: portraits[(dataset, method)]["metrics"]["seconds"]
            / portraits[(dataset, method)]["metrics"]["epochs"]
            for method in METHODS_DRAWN
            if (dataset, method) in portraits and portraits[(dataset, method)]["metrics"].get("epochs")
        }
        axes.barh([NAMES[method] for method in seconds], list(seconds.values()), color="tab:blue")
        devices = {portraits[(dataset, method)]["device"] for method in seconds}
        axes.set(title=f"{dataset}, on {' and '.join(sorted(devices))}", xscale="log")
        axes.set_xlabel("seconds an epoch")
        axes.grid(alpha=0.3, axis="x")

    return _panels(_datasets(portraits, key="epochs"), draw)


def _reliability(records: list[dict[str, Any]]) -> Figure | None:
    mine = [
        record
        for record in newest_records(records)
        if record["method"] == "gdpnet"
        and (record["noise"], record["rate"]) == ("random-links", 1.0)
        and record["metrics"].get("reliability")
    ]

    def draw(axes: Axes, dataset: str) -> None:
        for record in mine:
            if record["graph"] == dataset:
                chance, genuine, _ = zip(*record["metrics"]["reliability"], strict=True)
                axes.plot(chance, genuine, color="tab:blue", alpha=0.5, marker=".", linewidth=1)
        axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--")
        axes.set(title=dataset, xlabel="keep probability", ylabel="share of genuine links")
        axes.grid(alpha=0.3)

    return _panels(sorted({record["graph"] for record in mine}), draw, 3.6)
