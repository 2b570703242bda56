"""Pictures of a comparison: F1 of every method against the rate of noise."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from gdpnet.benchmark.figures import save_figure
from gdpnet.benchmark.robustness import Row


def draw_curves(rows: list[Row], folder: Path) -> list[Path]:
    """Draw one picture for each graph and noise; return where they lie."""
    paths = []
    rows = [row for row in rows if row.seeds]
    for graph, noise in sorted({(row.graph, row.noise) for row in rows}):
        chosen = [row for row in rows if (row.graph, row.noise) == (graph, noise)]
        name = f"robustness_{graph}_{noise}.png".replace(" ", "_").replace("/", "_")
        paths.append(save_figure(_curves(graph, noise, chosen), folder / name))
    return paths


def _curves(graph: str, noise: str, rows: list[Row]) -> Figure:
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    last = max(row.rate for row in rows)
    order = sorted({row.method for row in rows}, key=lambda name: -_at(rows, name, last))
    for place, method in enumerate(order):
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
    axes.set_xlabel(f"{noise}, rate")
    axes.set_ylabel("micro-F1 on test")
    axes.set_title(f"{graph}: mean and deviation over {max(row.seeds for row in rows)} seeds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _at(rows: list[Row], method: str, rate: float) -> float:
    return next((row.mean for row in rows if row.method == method and row.rate == rate), 0.0)
