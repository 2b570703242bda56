"""A small noisy graph, settings that train quickly on it, and a comparison of two models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import write_tables
from gdpnet.estimator import GDPNet

FAST = Config().with_values(
    {
        "training": {"epochs": 2, "warmup": 1, "injected": 0.0},
        "representation": {"width": 8},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
        "hopwise": {"use": False},
        "gcn": {"use": False},
        "all_edges": {"use": False},
        "trees": {"use": False},
        "linear": {"use": False},
        "evidence": {"use": False},
    }
)


def noisy_graph(nodes: int = 80, seed: int = 0, links_per_node: float = 2.0) -> Graph:
    """Return a synthetic graph of three classes and 300 words; its ids are text that looks like numbers."""
    graph = synthetic_graph(
        SyntheticSettings(nodes=nodes, classes=3, words=300, links_per_node=links_per_node), seed
    )
    return replace(graph, node_ids=np.array([f"{number:03d}" for number in range(nodes)]))


def write_folder(folder: Path, graph: Graph | None = None) -> Path:
    """Write a graph (the small noisy one by default) as CSV tables."""
    write_tables(noisy_graph() if graph is None else graph, folder, "csv")
    return folder


def fitted(graph: Graph, config: Config = FAST, seed: int = 0) -> GDPNet:
    """Train a model on the CPU."""
    return GDPNet.from_config(config, seed=seed, device="cpu").fit(graph)


def weights(model: GDPNet) -> dict[str, torch.Tensor]:
    """Return all tensors of a model by name."""
    return model.trained_.networks.tensors()


def same_weights(left: GDPNet, right: GDPNet) -> bool:
    """Return whether two models have exactly the same tensors."""
    mine, other = weights(left), weights(right)
    return mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)
