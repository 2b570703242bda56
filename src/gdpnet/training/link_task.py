"""Link prediction as a task: communities of supervision edges stand for labels."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs, check_links, links_of, split_links, without_links
from gdpnet.data.schema import as_read
from gdpnet.inference.networks import Networks
from gdpnet.inference.unsupervised import fit_basis, propagated_features, reduce_features
from gdpnet.representation.tasks import Partners, Task
from gdpnet.training.data import TrainingData
from gdpnet.training.finalise import Finalised, default_threshold, kept_edges
from gdpnet.training.fit_link_predictor import fit_link_predictor
from gdpnet.training.state import TrainingState
from gdpnet.training.unsupervised import (
    communities_of,
    group_rows,
    kept_while_training,
    mean_rows,
    unlabelled_data,
)


class LinksTask:
    """Link prediction: communities of supervision edges stand for labels."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        seed: int,
        device: torch.device,
        objective: Task | None,
        held_out: Pairs | None,
    ) -> None:
        if held_out is None:
            split = split_links(graph, seed, test=0.0)
            graph, held_out = split.train, split.validation
        self.graph, self.config, self.pairs = graph, config, held_out
        self.key = Key.of(seed).fold_in("links")
        read = as_read(graph, config)
        self.basis: Tensor | None = fit_basis(read, config.task.rank)
        reduced, count = reduce_features(read, self.basis), communities_of(graph, config)
        edges = links_of(reduced)
        order = torch.randperm(edges.shape[1], generator=self.key.fold_in("supervision").generator())
        supervision = edges[:, order[: max(1, int(config.links.supervision * edges.shape[1]))]]
        data = unlabelled_data(
            without_links(reduced, supervision),
            reduced,
            torch.unique(supervision),
            Partners(count),
            config,
            seed,
            device,
        )
        self.supervision = supervision.to(device)
        everything = torch.ones(data.train.neighbour.numel(), device=device)
        self.data = replace(data, labels=self._targets(data, everything, None))

    @staticmethod
    def check(graph: Graph, config: Config, seed: int) -> None:
        """Refuse a graph that is too small or whose edges cannot be held out."""
        communities_of(graph, config)
        check_links(graph)

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the whole graph."""
        return graph

    @property
    def class_names(self) -> list[str]:
        """Return a number for each community."""
        return [str(number) for number in range(communities_of(self.graph, self.config))]

    def update_targets(self, state: TrainingState) -> Float[Tensor, "nodes communities"]:
        """Find communities again over the edges that the policy keeps now."""
        weight = kept_while_training(state, self.data, self.config, self.key)
        return self._targets(self.data, weight, self.data.labels if state.truth is None else state.truth)

    def _targets(
        self,
        data: TrainingData,
        weight: Float[Tensor, "edges"],
        before: Float[Tensor, "nodes communities"] | None,
    ) -> Float[Tensor, "nodes communities"]:
        """Return the share of each node's supervision edges into each community."""
        assert isinstance(data.task, Partners)
        rows, count = propagated_features(data.train, weight, self.config.propagation), data.task.communities
        start: Tensor | int = count if before is None else mean_rows(rows, before)
        numbers, _ = group_rows(rows, start, self.config.clusters.restarts, self.key)
        place = F.one_hot(numbers, count).to(rows.dtype)
        both = torch.cat([self.supervision, self.supervision.flip(0)], dim=1)
        total = sum_by_owner(place[both[0]], both[1], len(rows))
        return total / total.sum(dim=1, keepdim=True).clamp(min=1.0)

    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Fit the link predictor to the kept edges or to all, whichever is better on validation pairs."""
        config = self.config
        kept = None if networks.policy is None else kept_edges(networks, data, config, key).cpu()
        graph = as_read(self.graph, config)
        found = fit_link_predictor(graph, kept, self.pairs, config, key.fold_in("links"), networks.device)
        networks.link_predictor = found.network
        return Finalised(default_threshold(networks, config), selects=found.selects, score=found.score)
