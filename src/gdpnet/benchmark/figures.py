"""Figures of a run (training curves, share of neighbours selected, map of the embeddings) and of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE

from gdpnet._core.files import atomic_path
from gdpnet._core.words import counted
from gdpnet.benchmark.evaluation import calibration, selected_shares
from gdpnet.benchmark.score_tables import curve_names
from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.denoised import Denoised
from gdpnet.inference.predictor import Predictor

if TYPE_CHECKING:
    from gdpnet.benchmark.robustness import Row

matplotlib.use("Agg")

MAP_NODES = 2000
"""Largest number of nodes on the map; of more a subset is drawn."""

_MAP_STEPS = 500
"""Steps of t-SNE. Twice as many take twice as long, and place points hardly otherwise."""

_LARGEST_DRAWN = 1e100
"""Numbers beyond this, of which an axis cannot be made, are left out of curves."""


def draw_run(predictor: Predictor, folder: Path) -> list[Path]:
    """Draw all figures of a run; return their paths."""
    model, graph, denoised = predictor.model, predictor.graph, predictor.denoise()
    figures = {
        "training.png": training_curves(model.history, model.best_epoch),
        "selected_share.png": selected_share_histogram(graph, denoised),
        "embedding.png": embedding_map(predictor),
    }
    if graph.truth is not None and bool(graph.truth.spurious.any()):
        figures["keep_probability.png"] = keep_probability_histogram(graph, denoised)
        figures["reliability.png"] = reliability_curve(graph, denoised)
    return [save_figure(figure, folder / name) for name, figure in figures.items()]


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure atomically; return its path."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120, metadata={"Software": "GDPNet"})
    return path


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure and its axes with a grid."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def panels(
    names: Sequence[str], draw: Callable[[Axes, str], object], width: float = 3.6, height: float = 3.2
) -> Figure:
    """Draw one panel per name, side by side, each with a grid and its name as title."""
    figure = Figure(figsize=(width * len(names), height), layout="constrained")
    places = figure.subplots(1, len(names), squeeze=False)[0] if names else []
    for axes, name in zip(places, names, strict=True):
        axes.grid(alpha=0.3)
        axes.set_title(name)
        draw(axes, name)
    return figure


def training_curves(history: Sequence[dict[str, Any]], best_epoch: int) -> Figure:
    """Draw loss, validation F1, reward, kept share, KL and, if edges were injected, their AUC, per epoch."""
    injected = any(line.get("injected_auc") is not None for line in history)
    names = curve_names(history[-1].get("metric", "micro_f1") if history else "micro_f1")
    keys = {title: key for key, title in names.items() if key != "injected_auc" or injected}
    epochs = [_drawn(line["epoch"]) for line in history]

    def draw(axes: Axes, title: str) -> None:
        values = [_drawn(line.get(keys[title])) for line in history]
        axes.plot(epochs, values, color="tab:blue", linewidth=1.5)
        axes.axvline(_drawn(best_epoch), color="tab:red", linewidth=1, linestyle="--", label="best epoch")
        axes.set_xlabel("epoch")

    figure = panels(list(keys), draw, width=2.8)
    figure.axes[1].legend(frameon=False)
    return figure


def _drawn(value: float | None) -> float:
    """Return a number as a curve shows it; a gap where there is none, or one that no axis can have."""
    return math.nan if value is None or abs(value) > _LARGEST_DRAWN else value


def selected_share_histogram(graph: Graph, denoised: Denoised) -> Figure:
    """Draw the distribution over nodes of the share of neighbours selected."""
    figure, axes = new_figure(5.5, 4)
    bins = np.linspace(0, 1, 21).tolist()
    axes.hist(selected_shares(graph, denoised), bins=bins, color="tab:blue", edgecolor="white")
    axes.set(title="Neighbours selected", xlabel="share of a node's neighbours", ylabel="nodes")
    return figure


def keep_probability_histogram(graph: Graph, denoised: Denoised) -> Figure:
    """Draw the keep probabilities of genuine and of spurious edges."""
    assert graph.truth is not None
    spurious = graph.truth.spurious.numpy()
    figure, axes = new_figure(5.5, 4)
    bins = np.linspace(0, 1, 26).tolist()
    for edges, colour, label in ((~spurious, "tab:blue", "genuine"), (spurious, "tab:red", "spurious")):
        axes.hist(
            denoised.keep_probability[edges], bins=bins, alpha=0.7, color=colour, label=f"{label} edges"
        )
    axes.axvline(denoised.threshold, color="black", linewidth=1, linestyle="--", label="threshold")
    axes.set(title="Keep probabilities", xlabel="keep probability", ylabel="edges")
    axes.legend(frameon=False, loc="upper center")
    return figure


def embedding_map(predictor: Predictor) -> Figure:
    """Draw test nodes (all nodes without a test split) by t-SNE of their representations, coloured by class."""
    graph = predictor.graph
    nodes = graph.nodes_in("test")
    nodes = nodes if nodes.numel() else (graph.split >= 0).nonzero().flatten()
    if nodes.numel() > MAP_NODES:
        nodes = nodes[:: -(-nodes.numel() // MAP_NODES)]
    points = flatten_points(predictor.embeddings(nodes), predictor.model.seed)
    label = graph.labels[nodes].numpy()
    figure, axes = new_figure(6.5, 5)
    colours = matplotlib.colormaps["tab10" if graph.num_classes <= 10 else "tab20"]
    for number in [*range(graph.num_classes), UNKNOWN]:
        here = label == number
        if here.any():
            colour = "lightgrey" if number == UNKNOWN else colours(number % colours.N)
            name = "unknown" if number == UNKNOWN else graph.class_names[number]
            axes.scatter(points[here, 0], points[here, 1], s=8, color=colour, label=name)
    axes.set(title="Embeddings of test nodes (t-SNE)", xticks=[], yticks=[])
    axes.legend(frameon=False, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def flatten_points(points: np.ndarray, seed: int) -> np.ndarray:
    """Project representations to two dimensions by t-SNE, or by principal axes if they are too few or equal."""
    centred = np.pad(points - points.mean(axis=0), ((0, 0), (0, max(0, 2 - points.shape[1]))))
    if points.shape[0] < 10 or np.allclose(centred, 0.0, atol=1e-5 * (1.0 + np.abs(points).max())):
        return centred @ np.linalg.svd(centred)[2][:2].T
    perplexity = min(30.0, (points.shape[0] - 1) / 3)
    map_of = TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=_MAP_STEPS)
    return map_of.fit_transform(centred)


def reliability_curve(graph: Graph, denoised: Denoised) -> Figure:
    """Draw the share of genuine edges per keep probability; on the diagonal it is perfectly calibrated."""
    found = calibration(graph, denoised)
    figure, axes = new_figure(4.5, 4.5)
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="perfectly calibrated")
    chance, genuine, count = zip(*found["reliability"], strict=True)
    size = 20 + 180 * np.sqrt(np.array(count) / max(count))
    axes.plot(chance, genuine, color="tab:blue", linewidth=1.5)
    axes.scatter(chance, genuine, s=size, color="tab:blue", alpha=0.6, label="edges (area: number)")
    axes.set(xlabel="keep probability", ylabel="share of genuine edges", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"reliability of the keep probability (Brier score {found['brier']:.3f})", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    return figure


def draw_curves(rows: list[Row], folder: Path) -> list[Path]:
    """Draw one figure per graph and noise; return their paths."""
    paths = []
    rows = [row for row in rows if row.seeds]
    for graph, noise in sorted({(row.graph, row.noise) for row in rows}):
        chosen = [row for row in rows if (row.graph, row.noise) == (graph, noise)]
        paths.append(save_figure(_noise_curves(graph, noise, chosen), folder / curves_name(graph, noise)))
    return paths


def curves_name(graph: str, noise: str) -> str:
    """Return the file name of the curves of a graph and noise."""
    return f"robustness_{graph}_{noise}.png".replace(" ", "_").replace("/", "_")


def _noise_curves(graph: str, noise: str, rows: list[Row]) -> Figure:
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
    title = f"{graph}: mean and standard deviation over {counted(seeds, 'seed')}"
    axes.set(title=title, xlabel=f"{noise}, rate", ylabel="micro-F1 on test")
    axes.legend(fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
