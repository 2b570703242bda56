"""Tasks that read no label: link prediction and clustering.

The policy is rewarded for what the model itself finds. Clusters, or communities, are found by k-means on reduced
features propagated over the kept edges; for clustering an encoder of Deep Graph Infomax reads these rows first. They
stand for labels and are found again every few epochs as the policy learns. Each search starts from the last centres,
so that a cluster keeps its number. For clustering all nodes are targets. For link prediction a share of the edges,
the supervision edges, is taken out of the graph that episodes run on; the target of a node is the distribution of its
supervision edges over the communities.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import as_read
from gdpnet.inference.networks import Networks
from gdpnet.inference.threshold import KEEP_ALL, Choice, guarded
from gdpnet.inference.unsupervised import (
    fit_basis,
    propagated_features,
    propagation_over,
    reduce_features,
)
from gdpnet.representation.propagation import Encoder, fit_encoder
from gdpnet.representation.tasks import Clustering, Partners
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData, cut_into_folds
from gdpnet.training.find_clusters import clusters_of, group_rows
from gdpnet.training.state import Finalised, TrainingState
from gdpnet.training.strategy import TrainingTask


class UnlabelledTask(TrainingTask):
    """A task whose labels follow from the clusters, or communities, that the model finds."""

    task: type[Clustering | Partners]
    encoder: Encoder | None = None

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the whole graph; refuse one with fewer nodes than clusters."""
        clusters_of(graph, config)
        return graph

    def take_out(self, graph: Graph) -> tuple[Graph, Int[Tensor, "targets"]]:
        """Return the graph that episodes run on, and its targets: here all of it."""
        return graph, torch.arange(graph.num_nodes)

    def labels_of(self, cluster: Int[Tensor, "nodes"]) -> Shaped[Tensor, "nodes *any"]:
        """Return the labels that follow from the cluster of each node: here the clusters themselves."""
        return cluster

    def gather(self) -> TrainingData:
        """Return training data without validation nodes, its first labels found over all edges."""
        config, device, self.key = self.config, self.device, Key.of(self.seed).fold_in(self.config.task.kind)
        task, read = self.task(clusters_of(self.graph, config)), as_read(self.graph, config)
        self.basis = fit_basis(read, config.task.rank)
        graph = reduce_features(read, self.basis)
        inner, targets = self.take_out(graph)
        labels, nothing = task.truth(graph).to(device), torch.zeros(0, dtype=torch.long, device=device)
        data = TrainingData(
            train=prepare(inner, config, device),
            injected=(),
            labels=labels,
            targets=targets.to(device),
            fold=cut_into_folds(graph.num_nodes, targets, config, self.seed).to(device),
            whole=prepare(graph, config, device),
            seen=torch.arange(graph.num_nodes, device=device),
            validation=nothing,
            validation_labels=labels[nothing],
            task=task,
        )
        everything = torch.ones(data.train.neighbour.numel(), device=device)
        if self.task is Clustering:
            self.encoder = fit_infomax(data.whole, everything, config, self.key)
        return replace(data, labels=self._find(data, everything, None))

    @property
    def class_names(self) -> list[str]:
        """Return a number for each cluster."""
        return [str(number) for number in range(clusters_of(self.graph, self.config))]

    def update_targets(self, state: TrainingState) -> Shaped[Tensor, "nodes *any"]:
        """Find clusters again over the edges that the policy keeps now."""
        data, stream = self.data, self.key.fold_in("targets", state.epoch)
        chosen = self.decide_all(state, data.train, stream, data.fold_model)
        before = data.labels if state.truth is None else state.truth
        return self._find(data, data.train.symmetrise(chosen.probability), before)

    def _find(
        self, data: TrainingData, weight: Float[Tensor, "edges"], before: Shaped[Tensor, "nodes *any"] | None
    ) -> Shaped[Tensor, "nodes *any"]:
        """Find clusters over weighted edges; start from the mean rows of each label before, if there are any."""
        rows = propagated_features(data.train, weight, self.config.propagation, self.encoder)
        count = data.task.outputs(self.graph)
        start: Tensor | int = count
        if before is not None:
            share = before if before.dim() == 2 else F.one_hot(before, count).to(rows.dtype)
            start = (share.t() @ rows) / share.sum(dim=0).clamp(min=1e-6)[:, None]
        return self.labels_of(group_rows(rows, start, self.config.clusters.restarts, self.key)[0])

    def default_threshold(self, networks: Networks, probability: Float[Tensor, "edges"] | None) -> Choice:
        """Return the threshold if no label says which is best, given the keep probabilities of the graph's edges."""
        if networks.policy is None or probability is None:
            return Choice(KEEP_ALL)
        settings = self.config.threshold
        return guarded(probability, settings.without_validation, settings.min_kept)


class ClustersTask(UnlabelledTask):
    """Clustering: the clusters found so far stand for labels."""

    task = Clustering

    def finalise(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Fit an encoder to the kept edges, and find the clusters of its embeddings."""
        config, stream, whole = self.config, key.fold_in("finalise"), data.whole
        with steps.run("decisions", "deciding on every edge"):
            chosen = self.decide_all(networks, whole, stream, data.fold_model_in_whole)
        weight = whole.symmetrise(chosen.probability)
        with steps.run("encoder", "fitting the encoder to the kept edges"):
            networks.encoder = fit_infomax(whole, weight, config, key)
        with steps.run("clusters", "finding the clusters") as step:
            rows = propagated_features(whole, weight, config.propagation, networks.encoder)
            count = networks.aggregators.classes
            networks.centres = group_rows(rows, count, config.clusters.restarts, key)[1]
            step.result = f"{count:,} clusters"
        return Finalised(self.default_threshold(networks, whole.on_edges(weight)))


def fit_infomax(prepared: Prepared, weight: Float[Tensor, "edges"], config: Config, key: Key) -> Encoder:
    """Fit an encoder to reduced features and weighted edges."""
    assert isinstance(prepared.features, Tensor)
    propagation = propagation_over(prepared, weight, config.propagation)
    return fit_encoder(prepared.features, propagation, config.clusters, key.fold_in("infomax").seed32)
