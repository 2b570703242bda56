"""How many clusters to find, and k-means from random starts or from given centres."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.cluster import KMeans
from torch import Tensor

from gdpnet._core.progress import advance, is_time_up
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError


def clusters_of(graph: Graph, config: Config) -> int:
    """Return the number of clusters, or of communities for link prediction, to find, or refuse it."""
    links = config.task.kind == "links"
    usual = min(config.links.communities, graph.num_nodes) if links else graph.num_classes
    count = config.task.clusters or usual
    if config.policy.hops > 1 and config.training.selection:
        raise ConfigError(
            f"policy.hops must be 1 for the task {config.task.kind}, found {config.policy.hops}"
        )
    if count == 0:
        raise ConfigError(
            "task.clusters must give the number of clusters, as the graph has no classes to count"
        )
    if count > graph.num_nodes:
        raise GraphError(
            f"there must be at least as many nodes as clusters ({count}), found {graph.num_nodes}"
        )
    return count


def group_rows(
    rows: Float[Tensor, "nodes width"],
    centres: Float[Tensor, "clusters width"] | int,
    restarts: int,
    key: Key,
) -> tuple[Int[Tensor, "nodes"], Float[Tensor, "clusters width"]]:
    """Find clusters by k-means, from given centres or from random starts; return cluster numbers and centres."""
    host, seed = rows.cpu().numpy(), key.fold_in("k-means").seed32
    if isinstance(centres, int):
        found = _best_of_starts(host, centres, restarts, seed)
    else:
        found = KMeans(len(centres), init=centres.cpu().numpy(), n_init=1, random_state=seed).fit(host)
    numbers = torch.from_numpy(found.labels_).long().to(rows.device)
    return numbers, torch.from_numpy(found.cluster_centers_.astype(np.float32)).to(rows.device)


def _best_of_starts(
    rows: Float[np.ndarray, "nodes width"], clusters: int, restarts: int, seed: int
) -> KMeans:
    """Return the best of some random starts of k-means, of fewer if the time is up."""
    random = np.random.RandomState(seed)
    best = KMeans(clusters, n_init=1, random_state=random).fit(rows)
    for number in range(1, restarts):
        if is_time_up():
            break
        advance(number, restarts)
        found = KMeans(clusters, n_init=1, random_state=random).fit(rows)
        best = min(best, found, key=lambda one: one.inertia_)
    return best
