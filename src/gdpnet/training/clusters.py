"""Clustering as a task: the clusters found so far stand for labels."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.schema import as_read
from gdpnet.inference.networks import Networks
from gdpnet.inference.unsupervised import fit_basis, propagated_features, reduce_features
from gdpnet.representation.tasks import Clustering, Task
from gdpnet.training.data import TrainingData
from gdpnet.training.finalise import Finalised, default_threshold, kept_edges
from gdpnet.training.state import TrainingState
from gdpnet.training.unsupervised import (
    clusters_of,
    fit_infomax,
    group_rows,
    kept_while_training,
    mean_rows,
    unlabelled_data,
)


class ClustersTask:
    """Clustering: the clusters found so far stand for labels."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        seed: int,
        device: torch.device,
        objective: Task | None,
        held_out: Pairs | None,
    ) -> None:
        self.graph, self.config, self.key = graph, config, Key.of(seed).fold_in("clusters")
        read, count = as_read(graph, config), clusters_of(graph, config)
        self.basis: Tensor | None = fit_basis(read, config.task.rank)
        reduced, all_nodes = reduce_features(read, self.basis), torch.arange(graph.num_nodes)
        data = unlabelled_data(reduced, reduced, all_nodes, Clustering(count), config, seed, device)
        everything = torch.ones(reduced.num_edges, device=device)
        self.encoder = fit_infomax(data.whole, everything, config, self.key)
        self.data = replace(data, labels=self._clusters(data, everything, None))

    @staticmethod
    def check(graph: Graph, config: Config, seed: int) -> None:
        """Refuse a graph with fewer nodes than clusters."""
        clusters_of(graph, config)

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the whole graph."""
        return graph

    @property
    def class_names(self) -> list[str]:
        """Return a number for each cluster."""
        return [str(number) for number in range(clusters_of(self.graph, self.config))]

    def update_targets(self, state: TrainingState) -> Int[Tensor, "nodes"]:
        """Find clusters again over the edges that the policy keeps now."""
        weight = kept_while_training(state, self.data, self.config, self.key)
        return self._clusters(self.data, weight, self.data.labels if state.truth is None else state.truth)

    def _clusters(
        self, data: TrainingData, weight: Float[Tensor, "edges"], before: Int[Tensor, "nodes"] | None
    ) -> Int[Tensor, "nodes"]:
        """Return the cluster of each node."""
        assert isinstance(data.task, Clustering)
        rows, count = (
            propagated_features(data.train, weight, self.config.propagation, self.encoder),
            data.task.clusters,
        )
        start: Tensor | int = count
        if before is not None:
            start = mean_rows(rows, F.one_hot(before, count).to(rows.dtype))
        return group_rows(rows, start, self.config.clusters.restarts, self.key)[0]

    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Fit an encoder to the kept edges, and find the clusters of its embeddings."""
        config, weight = self.config, kept_edges(networks, data, self.config, key)
        networks.encoder = fit_infomax(data.whole, weight, config, key)
        rows = propagated_features(data.whole, weight, config.propagation, networks.encoder)
        classes, restarts = networks.aggregators.classes, config.clusters.restarts
        networks.centres = group_rows(rows, classes, restarts, key)[1]
        return Finalised(default_threshold(networks, config))
