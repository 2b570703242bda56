"""Figures of a comparison: F1 of every method against the rate of noise."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from gdpnet.benchmark.figures import new_figure, save_figure
from gdpnet.benchmark.robustness import Row


def draw_curves(rows: list[Row], folder: Path) -> list[Path]:
    """Draw one figure per graph and noise; return their paths."""
    paths = []
    rows = [row for row in rows if row.seeds]
    for graph, noise in sorted({(row.graph, row.noise) for row in rows}):
        chosen = [row for row in rows if (row.graph, row.noise) == (graph, noise)]
        name = f"robustness_{graph}_{noise}.png".replace(" ", "_").replace("/", "_")
        paths.append(save_figure(_curves(graph, noise, chosen), folder / name))
    return paths


def _curves(graph: str, noise: str, rows: list[Row]) -> Figure:
    figure, axes = new_figure(8.0, 5.0)
    highest = max(row.rate for row in rows)
    last = {row.method: row.mean for row in rows if row.rate == highest}
    methods = sorted({row.method for row in rows}, key=lambda name: -last.get(name, 0.0))
    for place, method in enumerate(methods):
        mine = sorted((row for row in rows if row.method == method), key=lambda row: row.rate)
        ours = method.startswith("gdpnet")
        axes.errorbar(
            [row.rate for row in mine],
            [row.mean for row in mine],
            yerr=[row.deviation for row in mine],
            label=method,
            color=f"C{place % 10}",
            linewidth=2.4 if ours else 1.2,
            linestyle="-" if ours else ("--", ":", "-.")[place // 10 % 3],
            marker="o" if ours else ".",
            capsize=2,
        )
    seeds = max(row.seeds for row in rows)
    title = f"{graph}: mean and standard deviation over {seeds} seeds"
    axes.set(title=title, xlabel=f"{noise}, rate", ylabel="micro-F1 on test")
    axes.legend(fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
