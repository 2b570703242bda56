"""Pictures of a run: training curves, the share of neighbours selected, a map of the embeddings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.manifold import TSNE

from gdpnet._core.files import atomic_path
from gdpnet.benchmark.evaluation import calibration, selected_shares
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.estimator import GDPNet
from gdpnet.inference.result import Denoised

matplotlib.use("Agg")

MAP_NODES = 2000
"""Most nodes drawn on the map; more are sampled down to this."""


def draw_run(model: GDPNet, graph: Graph, folder: Path) -> list[Path]:
    """Draw all pictures of a run."""
    denoised = model.denoise(graph)
    figures = {
        "training.png": training_curves(model.history_, model.best_epoch_),
        "selected_share.png": selected_share_histogram(graph, denoised),
        "embedding.png": embedding_map(model, graph),
    }
    if graph.truth is not None and bool(graph.truth.spurious.any()):
        figures["keep_probability.png"] = keep_probability_histogram(graph, denoised)
        figures["reliability.png"] = reliability_curve(graph, denoised)
    return [save_figure(figure, folder / name) for name, figure in figures.items()]


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture whole or not at all; return where it lies."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return path


def training_curves(history: list[dict[str, Any]], best_epoch: int) -> Figure:
    """Draw loss, validation F1, reward, kept share, KL and, where there are any, how injected links are told."""
    panels = [
        ("loss", "loss of the representation"),
        ("validation_f1", "micro-F1 on validation"),
        ("reward", "mean reward of a decision"),
        ("kept_share", "share of neighbours kept"),
        ("kl", "KL of the update"),
    ]
    if any(line.get("told") is not None for line in history):
        panels.append(("told", "injected links told (AUC)"))
    figure = Figure(figsize=(2.8 * len(panels), 3.2), layout="constrained")
    epochs = [line["epoch"] for line in history]
    for axes, (key, title) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.plot(
            epochs,
            [math.nan if line[key] is None else line[key] for line in history],
            color="tab:blue",
            linewidth=1.5,
        )
        axes.axvline(best_epoch, color="tab:red", linewidth=1, linestyle="--", label="best epoch")
        axes.set(title=title, xlabel="epoch")
        axes.grid(alpha=0.3)
    figure.axes[1].legend(frameon=False)
    return figure


def selected_share_histogram(graph: Graph, denoised: Denoised) -> Figure:
    """Draw how the share of selected neighbours spreads over nodes."""
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    axes.hist(
        selected_shares(graph, denoised),
        bins=np.linspace(0, 1, 21).tolist(),
        color="tab:blue",
        edgecolor="white",
    )
    axes.set(title="Neighbours selected", xlabel="share of a node's neighbours", ylabel="nodes")
    axes.grid(alpha=0.3)
    return figure


def keep_probability_histogram(graph: Graph, denoised: Denoised) -> Figure:
    """Draw the keep probabilities of genuine and of planted links."""
    assert graph.truth is not None
    spurious = graph.truth.spurious.numpy()
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    bins = np.linspace(0, 1, 26).tolist()
    axes.hist(
        denoised.keep_probability[~spurious], bins=bins, alpha=0.7, color="tab:blue", label="genuine links"
    )
    axes.hist(
        denoised.keep_probability[spurious], bins=bins, alpha=0.7, color="tab:red", label="planted links"
    )
    axes.axvline(denoised.threshold, color="black", linewidth=1, linestyle="--", label="threshold")
    axes.set(title="What the policy makes of each link", xlabel="keep probability", ylabel="edges")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    return figure


def embedding_map(model: GDPNet, graph: Graph) -> Figure:
    """Draw test nodes (all nodes without a test split) by t-SNE of their representations, coloured by class."""
    nodes = graph.nodes_in("test")
    nodes = nodes if nodes.numel() else (graph.split >= 0).nonzero().flatten()
    if nodes.numel() > MAP_NODES:
        nodes = nodes[:: -(-nodes.numel() // MAP_NODES)]
    points = flatten_points(model.embed(graph, nodes), model.seed)
    label = graph.labels[nodes].numpy()
    figure = Figure(figsize=(6.5, 5), layout="constrained")
    axes = figure.subplots()
    colours = matplotlib.colormaps["tab10" if graph.num_classes <= 10 else "tab20"]
    for number in [*range(graph.num_classes), UNKNOWN]:
        here = label == number
        if here.any():
            colour = "lightgrey" if number == UNKNOWN else colours(number % colours.N)
            name = "unknown" if number == UNKNOWN else graph.class_names[number]
            axes.scatter(points[here, 0], points[here, 1], s=8, color=colour, label=name)
    axes.set(title="Representations of test nodes (t-SNE)", xticks=[], yticks=[])
    axes.legend(frameon=False, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def flatten_points(points: np.ndarray, seed: int) -> np.ndarray:
    """Bring representations to two dimensions; by principal axes where they are too few, or too equal, for t-SNE."""
    centred = np.pad(points - points.mean(axis=0), ((0, 0), (0, max(0, 2 - points.shape[1]))))
    if points.shape[0] < 10 or np.allclose(centred, 0.0, atol=1e-5 * (1.0 + np.abs(points).max())):
        return centred @ np.linalg.svd(centred)[2][:2].T
    perplexity = min(30.0, (points.shape[0] - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(centred)


def reliability_curve(graph: Graph, denoised: Denoised) -> Figure:
    """Draw how often links of a keep probability are genuine: on the diagonal the probability can be believed."""
    found = calibration(graph, denoised)
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="perfectly calibrated")
    chance, genuine, count = zip(*found["reliability"], strict=True)
    size = 20 + 180 * np.sqrt(np.array(count) / max(count))
    axes.plot(chance, genuine, color="tab:blue", linewidth=1.5)
    axes.scatter(chance, genuine, s=size, color="tab:blue", alpha=0.6, label="links (area: how many)")
    axes.set(
        title=f"reliability of the keep probability (Brier score {found['brier']:.3f})",
        xlabel="keep probability",
        ylabel="share of genuine links",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axes.title.set_fontsize(10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left")
    return figure
