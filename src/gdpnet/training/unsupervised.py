"""Tasks that read no label: what training is told instead of labels.

Clusters, or communities, are found by k-means on condensed features spread over what the policy keeps; for clusters
an encoder that tells true from shuffled features reads these rows first. They take the place of labels, are found
anew every few epochs as the policy learns, and each search begins at the centres of the last, so that a cluster
keeps its number. For clusters all nodes are targets. For links a share of them, the *told* links, is taken out of the
graph that episodes are played on; what is true of a node is where its told partners are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from sklearn.cluster import KMeans
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.config import Config
from gdpnet.data.features import SparseRows, normalise, project
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import links_of, without_links
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.errors import ConfigError, GraphError
from gdpnet.inference.select import select
from gdpnet.representation.infomax import Encoder, fit_encoder
from gdpnet.representation.propagation import Spread
from gdpnet.representation.tasks import Clustering, Partners
from gdpnet.training.data import Scene, cut_into_folds
from gdpnet.training.trainer import TrainingState

UNLABELLED = ("links", "clusters")
"""Kinds of task that read no label."""

_COMMUNITIES = 16
_TOLD = 0.3
_SEED = 1 << 23
_RESTARTS = 10


def fit_basis(graph: Graph, rank: int) -> Float[Tensor, "features rank"]:
    """Return the directions that hold most of a graph's feature rows, each scaled to length one."""
    rows = normalise(graph.features, "l2")
    table = rows.to_scipy() if isinstance(rows, SparseRows) else rows.numpy()
    _, _, directions = randomized_svd(table, min(rank, *table.shape), random_state=0)
    return torch.from_numpy(np.ascontiguousarray(directions.T, dtype=np.float32))


def condense(graph: Graph, basis: Float[Tensor, "features rank"]) -> Graph:
    """Return the graph with its feature rows along the basis."""
    return replace(graph, features=project(normalise(graph.features, "l2"), basis))


def clusters_of(graph: Graph, config: Config) -> int:
    """Return how many clusters to find, or say why they cannot be found."""
    links = config.task.kind == "links"
    if config.policy.hops > 1 and config.training.selection:
        raise ConfigError(f"policy.hops must be 1 where the task is {config.task.kind}: it reads links alone")
    count = config.task.clusters or (min(_COMMUNITIES, graph.num_nodes) if links else graph.num_classes)
    if count == 0:
        raise ConfigError("task.clusters must say how many clusters to find: the graph names no classes")
    if count > graph.num_nodes:
        raise GraphError(
            f"there must be at least as many nodes as clusters ({count}), found {graph.num_nodes}"
        )
    return count


@dataclass(frozen=True)
class Study:
    """What training sees of a graph without labels, and how it is told what to learn."""

    scene: Scene
    told: Int[Tensor, "2 told"]
    config: Config
    seed: int
    encoder: Encoder | None
    """For clusters: how rows are read, fitted to all links."""

    def renew(self, state: TrainingState) -> Shaped[Tensor, "nodes *any"]:
        """Find clusters, or communities, anew over what the policy keeps now."""
        train = self.scene.train
        everyone = torch.arange(train.num_nodes, device=train.device)
        seed = self.seed * 1_000_003 + state.epoch + _SEED
        chosen = select(
            state.policy, state.aggregators, train, everyone, self.config, seed, self.scene.member
        )
        before = self.scene.labels if state.truth is None else state.truth
        weight = train.both_ways(chosen.probability)
        return _find(self.scene, self.told, weight, before, self.seed, self.encoder)


def begin_study(graph: Graph, config: Config, seed: int, device: torch.device) -> Study:
    """Cut the told links out of a condensed graph, find clusters over all links, and cut the targets into folds."""
    count = clusters_of(graph, config)
    if config.task.kind == "clusters":
        told, inner = torch.zeros(2, 0, dtype=torch.long), graph
        targets = torch.arange(graph.num_nodes)
    else:
        links = links_of(graph)
        order = torch.randperm(links.shape[1], generator=torch.Generator().manual_seed(seed + _SEED))
        told = links[:, order[: max(1, int(_TOLD * links.shape[1]))]]
        inner, targets = without_links(graph, told), torch.unique(told)
    scene = Scene(
        train=prepare(inner, config, device),
        injected=(),
        labels=torch.zeros(graph.num_nodes, device=device),
        targets=targets.to(device),
        fold=cut_into_folds(graph.num_nodes, targets, config, seed).to(device),
        whole=prepare(graph, config, device),
        seen=torch.arange(graph.num_nodes, device=device),
        validation=torch.zeros(0, dtype=torch.long, device=device),
        validation_labels=torch.zeros(0, dtype=torch.long, device=device),
        task=Clustering(count) if config.task.kind == "clusters" else Partners(count),
    )
    told = told.to(device)
    everything = torch.ones(inner.num_edges, device=device)
    encoder = encoder_over(scene.whole, everything, seed) if config.task.kind == "clusters" else None
    truth = _find(scene, told, everything, None, seed, encoder)
    return Study(replace(scene, labels=truth), told, config, seed, encoder)


def encoder_over(prepared: Prepared, weight: Float[Tensor, "edges"], seed: int) -> Encoder:
    """Fit an encoder to condensed features and weighted links."""
    assert isinstance(prepared.features, Tensor)
    spread = Spread.over(prepared.row_ptr, prepared.neighbour, prepared.weighed(weight))
    return fit_encoder(prepared.features, spread, seed + _SEED)


def spread_rows(
    prepared: Prepared, weight: Float[Tensor, "edges"], encoder: Encoder | None = None
) -> Float[Tensor, "nodes width"]:
    """Return feature rows spread over weighted links, and read by an encoder if there is one, each of length one.

    Clusters are found in them.
    """
    assert isinstance(prepared.features, Tensor)
    spread = Spread.over(prepared.row_ptr, prepared.neighbour, prepared.weighed(weight))
    if encoder is not None:
        return encoder.embed(prepared.features, spread)
    return F.normalize(spread(prepared.features), dim=1)


def group_rows(
    rows: Float[Tensor, "nodes width"], centres: Float[Tensor, "clusters width"] | int, seed: int
) -> tuple[Int[Tensor, "nodes"], Float[Tensor, "clusters width"]]:
    """Find clusters by k-means, from some centres on or from ten random starts; return numbers and centres."""
    host = rows.cpu().numpy()
    if isinstance(centres, int):
        found = KMeans(centres, n_init=_RESTARTS, random_state=seed).fit(host)
    else:
        found = KMeans(len(centres), init=centres.cpu().numpy(), n_init=1, random_state=seed).fit(host)
    numbers = torch.from_numpy(found.labels_).long().to(rows.device)
    return numbers, torch.from_numpy(found.cluster_centers_.astype(np.float32)).to(rows.device)


def _find(
    scene: Scene,
    told: Int[Tensor, "2 told"],
    weight: Float[Tensor, "edges"],
    before: Shaped[Tensor, "nodes *any"] | None,
    seed: int,
    encoder: Encoder | None,
) -> Shaped[Tensor, "nodes *any"]:
    """Return what is true of each node: its cluster, or the share of its told links into each community."""
    rows, count = spread_rows(scene.train, weight, encoder), clusters_in(scene)
    start: Tensor | int = count if before is None else _centres(rows, before, count)
    numbers, _ = group_rows(rows, start, seed)
    if isinstance(scene.task, Clustering):
        return numbers
    place = F.one_hot(numbers, count).to(rows.dtype)
    both = torch.cat([told, told.flip(0)], dim=1)
    total = sum_by_owner(place[both[0]], both[1], len(rows))
    return total / total.sum(dim=1, keepdim=True).clamp(min=1.0)


def clusters_in(scene: Scene) -> int:
    """Return the number of clusters or communities of a scene's task."""
    task = scene.task
    assert isinstance(task, Clustering | Partners)
    return task.clusters if isinstance(task, Clustering) else task.communities


def _centres(
    rows: Float[Tensor, "nodes width"], truth: Shaped[Tensor, "nodes *any"], count: int
) -> Float[Tensor, "clusters width"]:
    """Return the mean row of each cluster, or of the nodes whose partners are in each community."""
    share = F.one_hot(truth, count).to(rows.dtype) if truth.dim() == 1 else truth
    return (share.t() @ rows) / share.sum(dim=0).clamp(min=1e-6)[:, None]
