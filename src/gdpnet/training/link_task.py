"""Link prediction as a task: communities of supervision edges stand for labels.

The link predictor makes embeddings whose inner products score pairs of nodes. Each step of its fit hides a share of
the edges and learns to tell them from random pairs; an edge counts by its keep probability. A predictor that weights
all edges alike is the other candidate. Validation pairs choose between them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet._core.fit import fit, fit_each
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs, check_links, links_of, split_links, without_links
from gdpnet.data.schema import as_read
from gdpnet.inference.networks import Networks
from gdpnet.inference.unsupervised import LinkGraph, link_scores, make_link_graph
from gdpnet.representation.propagation import LinkPredictor, inner_products
from gdpnet.representation.tasks import Partners
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData
from gdpnet.training.state import Finalised
from gdpnet.training.unsupervised import UnlabelledTask


class LinksTask(UnlabelledTask):
    """Link prediction: communities of supervision edges stand for labels."""

    task = Partners

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the whole graph; refuse one that is too small or whose edges cannot be held out."""
        check_links(UnlabelledTask.part_of(graph, config, seed))
        return graph

    def gather(self) -> TrainingData:
        """Hold out validation pairs, unless some are given; return the training data of the other edges."""
        if self.held_out is None:
            split = split_links(self.graph, self.seed, test=0.0)
            self.graph, self.held_out = split.train, split.validation
        return super().gather()

    def take_out(self, graph: Graph) -> tuple[Graph, Int[Tensor, "targets"]]:
        """Take out the supervision edges; their ends are the targets."""
        edges = links_of(graph)
        order = torch.randperm(edges.shape[1], generator=self.key.fold_in("supervision").generator())
        supervision = edges[:, order[: max(1, int(self.config.links.supervision * edges.shape[1]))]]
        self.supervision = supervision.to(self.device)
        return without_links(graph, supervision), torch.unique(supervision)

    def labels_of(self, cluster: Int[Tensor, "nodes"]) -> Float[Tensor, "nodes communities"]:
        """Return the share of each node's supervision edges into each community."""
        place = F.one_hot(cluster, len(self.class_names)).float()
        both = torch.cat([self.supervision, self.supervision.flip(0)], dim=1)
        total = sum_by_owner(place[both[0]], both[1], len(place))
        return total / total.sum(dim=1, keepdim=True).clamp(min=1.0)

    def finalise(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Fit the link predictor to the kept edges or to all, whichever is better on validation pairs."""
        config, kept, on_edges, pairs = self.config, None, None, self.held_out
        assert pairs is not None
        if networks.policy is not None:
            stream, fold_model = key.fold_in("finalise"), data.fold_model_in_whole
            with steps.run("decisions", "deciding on every edge"):
                chosen = self.decide_all(networks, data.whole, stream, fold_model)
            weight = data.whole.symmetrise(chosen.probability)
            on_edges, kept = data.whole.on_edges(weight), weight.cpu()
        graph, stream = as_read(self.graph, config), key.fold_in("links")
        with steps.run("link predictor", "fitting the link predictor") as step:
            found = fit_link_predictor(graph, kept, pairs, config, stream, networks.device)
            edges, step.score = "kept edges" if found.selects else "all edges alike", found.score
            step.result = f"{edges} did best; mean of ROC AUC and average precision {found.score:.3f}"
        networks.link_predictor = found.network
        threshold = self.default_threshold(networks, on_edges)
        return Finalised(threshold, selects=found.selects, score=found.score)


class FittedLinkPredictor(NamedTuple):
    """A fitted predictor, whether it weights edges by their keep probability, and its score on validation pairs."""

    network: LinkPredictor
    selects: bool
    score: float
    """The mean of ROC AUC and average precision."""


def fit_link_predictor(
    graph: Graph,
    probability: Float[Tensor, "edges"] | None,
    pairs: Pairs,
    config: Config,
    key: Key,
    device: torch.device,
) -> FittedLinkPredictor:
    """Fit a predictor to the kept edges and one to all edges; return the better on validation pairs.

    ``probability`` is that of keeping each edge, equal in both directions; None without a policy.
    """
    candidates = [(False, torch.ones(graph.num_edges))]
    if probability is not None:
        candidates.append((True, probability))

    def fit_one(selects: bool, weight: Float[Tensor, "edges"]) -> FittedLinkPredictor:
        link_graph = make_link_graph(graph, weight.to(device), config, device)
        return _fit(link_graph, pairs, config, key, selects=selects)

    found = fit_each([partial(fit_one, *candidate) for candidate in candidates])
    return max(found, key=lambda one: one.score)


def _fit(
    link_graph: LinkGraph, pairs: Pairs, config: Config, key: Key, *, selects: bool
) -> FittedLinkPredictor:
    settings, device = config.links, link_graph.weight.device
    network = LinkPredictor(link_graph.features.shape[1], settings.width, settings.length)
    network.initialise(key.fold_in("weights").generator())
    network = network.to(device)
    draws, whole = key.fold_in("hidden").generator(device), link_graph.propagation()

    def evaluate() -> tuple[float]:
        return (sum(link_scores(network.embed(link_graph.features, whole), pairs)) / 2,)

    found = fit(
        network,
        torch.optim.Adam(network.parameters(), lr=settings.learning_rate),
        lambda: _loss(network, link_graph, settings.hidden, draws),
        evaluate,
        steps=settings.steps,
        evaluate_every=settings.evaluate_every,
    )
    return FittedLinkPredictor(network, selects, found.score[0])


def _loss(
    network: LinkPredictor, link_graph: LinkGraph, share: float, draws: torch.Generator
) -> Float[Tensor, ""]:
    """Hide a share of the edges; return the weighted logistic loss of telling them from random pairs."""
    edges, device = link_graph.ends.shape[1], link_graph.weight.device
    hidden = torch.rand(edges, generator=draws, device=device) < share
    visible = link_graph.propagation(link_graph.weight * ~hidden[link_graph.link])
    embedded = network.embed(link_graph.features, visible)
    asked, weight = link_graph.ends[:, hidden], link_graph.link_weight[hidden]
    nodes = link_graph.row_ptr.numel() - 1
    others = torch.randint(0, nodes, asked.shape, generator=draws, device=device)
    positives = F.softplus(-inner_products(embedded, asked)) * weight
    negatives = F.softplus(inner_products(embedded, others))
    return positives.sum() / weight.sum().clamp(min=1e-6) + negatives.mean()
