"""Tasks that read no label: link prediction and clustering.

The policy is rewarded for what the model itself finds. Clusters, or communities, are found by k-means on reduced
features propagated over the kept edges; for clustering an encoder of Deep Graph Infomax reads these rows first. They
stand for labels and are found again every few epochs as the policy learns. Each search starts from the last centres,
so that a cluster keeps its number. For clustering all nodes are targets. For link prediction a share of the edges,
the supervision edges, is taken out of the graph that episodes run on; the target of a node is the distribution of its
supervision edges over the communities.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.cluster import KMeans
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.errors import ConfigError, GraphError
from gdpnet.inference.select import select
from gdpnet.representation.infomax import Encoder, fit_encoder
from gdpnet.representation.propagation import Propagation
from gdpnet.representation.tasks import Clustering, Partners
from gdpnet.training.data import TrainingData, cut_into_folds
from gdpnet.training.state import TrainingState


def communities_of(graph: Graph, config: Config) -> int:
    """Return the number of communities that link prediction finds, or refuse it."""
    return _checked_count(
        config.task.clusters or min(config.links.communities, graph.num_nodes), graph, config
    )


def clusters_of(graph: Graph, config: Config) -> int:
    """Return the number of clusters to find, or refuse it."""
    return _checked_count(config.task.clusters or graph.num_classes, graph, config)


def _checked_count(count: int, graph: Graph, config: Config) -> int:
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


def unlabelled_data(
    inner: Graph,
    graph: Graph,
    targets: Int[Tensor, "targets"],
    task: Clustering | Partners,
    config: Config,
    seed: int,
    device: torch.device,
) -> TrainingData:
    """Gather training data without validation nodes; its labels are still to be found."""
    nothing = torch.zeros(0, dtype=torch.long, device=device)
    return TrainingData(
        train=prepare(inner, config, device),
        injected=(),
        labels=task.truth(graph).to(device),
        targets=targets.to(device),
        fold=cut_into_folds(graph.num_nodes, targets, config, seed).to(device),
        whole=prepare(graph, config, device),
        seen=torch.arange(graph.num_nodes, device=device),
        validation=nothing,
        validation_labels=task.truth(graph).to(device)[nothing],
        task=task,
    )


def kept_while_training(
    state: TrainingState, data: TrainingData, config: Config, key: Key
) -> Float[Tensor, "edges"]:
    """Return the keep probability of every training edge under the policy as it is now."""
    train = data.train
    all_nodes = torch.arange(train.num_nodes, device=train.device)
    stream = key.fold_in("targets", state.epoch)
    chosen = select(state.policy, state.aggregators, train, all_nodes, config, stream, data.fold_model)
    return train.symmetrise(chosen.probability)


def fit_infomax(prepared: Prepared, weight: Float[Tensor, "edges"], config: Config, key: Key) -> Encoder:
    """Fit an encoder to reduced features and weighted edges."""
    assert isinstance(prepared.features, Tensor)
    propagation = Propagation.over(
        prepared.row_ptr, prepared.neighbour, prepared.weighed(weight), config.propagation
    )
    return fit_encoder(prepared.features, propagation, config.clusters, key.fold_in("infomax").seed32)


def group_rows(
    rows: Float[Tensor, "nodes width"],
    centres: Float[Tensor, "clusters width"] | int,
    restarts: int,
    key: Key,
) -> tuple[Int[Tensor, "nodes"], Float[Tensor, "clusters width"]]:
    """Find clusters by k-means, from given centres or from random starts; return cluster numbers and centres."""
    host, seed = rows.cpu().numpy(), key.fold_in("k-means").seed32
    if isinstance(centres, int):
        found = KMeans(centres, n_init=restarts, random_state=seed).fit(host)
    else:
        found = KMeans(len(centres), init=centres.cpu().numpy(), n_init=1, random_state=seed).fit(host)
    numbers = torch.from_numpy(found.labels_).long().to(rows.device)
    return numbers, torch.from_numpy(found.cluster_centers_.astype(np.float32)).to(rows.device)


def mean_rows(
    rows: Float[Tensor, "nodes width"], share: Float[Tensor, "nodes clusters"]
) -> Float[Tensor, "clusters width"]:
    """Return the mean row of each cluster, or of the nodes whose partners are in each community."""
    return (share.t() @ rows) / share.sum(dim=0).clamp(min=1e-6)[:, None]
