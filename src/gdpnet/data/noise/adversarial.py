"""Adversarial edge changes that mislead a graph convolutional network (PRBCD and GRBCD, Geisler et al. 2021)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gdpnet.data.features import Features, normalise, project
from gdpnet.data.graph import Graph
from gdpnet.data.noise.links import Links, relinked
from gdpnet.data.noise.registry import Noise, Noisy, check_rate, compare
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError

WIDTH = 16
"""Width of the attacked network."""

EPOCHS = 100
"""Training epochs of the attacked network."""

STEPS = 125
"""Steps of an attack."""

BLOCK = 100_000
"""Pairs of nodes that an attack considers per step, or four times its budget if that is more."""


class Surrogate(nn.Module):
    """A two-layer graph convolutional network whose input is projected first, so that it may be sparse."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, WIDTH)))
        self.first = GCNConv(WIDTH, WIDTH)
        self.second = GCNConv(WIDTH, classes)

    def forward(
        self,
        hidden: Float[Tensor, "nodes hidden"],
        edge_index: Int[Tensor, "2 edges"],
        edge_weight: Float[Tensor, "edges"] | None = None,
    ) -> Float[Tensor, "nodes classes"]:
        """Return log-probabilities of the classes from projected features."""
        hidden = F.dropout(hidden, training=self.training)
        hidden = F.dropout(self.first(hidden, edge_index, edge_weight).relu(), training=self.training)
        return F.log_softmax(self.second(hidden, edge_index, edge_weight), dim=1)

    def project(self, features: Features) -> Float[Tensor, "nodes hidden"]:
        """Return the input of `forward`."""
        return project(normalise(features, "l2"), self.weight)


def train_surrogate(graph: Graph, device: torch.device) -> Surrogate:
    """Train the attacked network on the labelled training nodes, with torch's global random generator."""
    train = graph.nodes_in("train")
    train = train[graph.labels[train] != UNKNOWN]
    if train.numel() == 0 or graph.num_classes < 2:
        raise GraphError("an attack needs labelled training nodes of two classes or more")
    train, labels, features = train.to(device), graph.labels.to(device), graph.features.to(device)
    edges = graph.edge_index.to(device)
    model = Surrogate(graph.num_features, graph.num_classes).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    model.train()
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = F.nll_loss(model(model.project(features), edges)[train], labels[train])
        loss.backward()
        optimiser.step()
    return model.eval()


def attack_links(
    graph: Graph, rate: float, seed: int, device: torch.device, *, greedy: bool = False
) -> Noisy:
    """Add and remove links so that a network trained on the graph fails on its test nodes.

    At most ``rate`` times the number of links change. For a test node without a label, the attack is against the
    class that the network predicts. Edge weights are ignored.
    """
    kind = "grbcd" if greedy else "prbcd"
    check_rate(kind, rate)
    if graph.nodes_in("test").numel() == 0:
        raise GraphError("an attack needs test nodes to mislead, found none")
    links = Links.of(graph)
    budget = round(rate * links.count)
    if budget == 0:
        return compare(graph, graph)
    nodes = graph.num_nodes
    most = nodes * (nodes - 1) // 4  # a random block of pairs, sampled with replacement, must hold the budget
    if budget > most:
        raise GraphError(
            f"{kind}={rate:g} must change {budget:,} links, but at most {most:,} can change among {nodes:,} nodes"
        )
    # the attack uses the global generators of torch, whose state is restored
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model = train_surrogate(graph, device)
        edges = _attacked_edges(model, graph, budget, greedy, links.directed, device)
    return compare(graph, _with_edges(graph, links, edges.cpu().numpy(), seed))


def attacks(device: torch.device) -> dict[str, Noise]:
    """Return the attacks by name: with projected gradients, and greedy."""
    kinds = {"prbcd": False, "grbcd": True}
    return {kind: partial(attack_links, device=device, greedy=greedy) for kind, greedy in kinds.items()}


def _attacked_edges(
    model: Surrogate, graph: Graph, budget: int, greedy: bool, directed: bool, device: torch.device
) -> Int[Tensor, "2 edges"]:
    """Return the edges of the attacked graph."""
    edges, labels = graph.edge_index.to(device), graph.labels.to(device)
    with torch.no_grad():
        hidden = model.project(graph.features.to(device))
        labels = torch.where(labels == UNKNOWN, model(hidden, edges).argmax(dim=1), labels)
    settings = {"epochs": STEPS, "is_undirected": not directed, "log": False}
    attack = _attack_of(greedy)(model, max(BLOCK, 4 * budget), **settings)
    changed, _ = attack.attack(hidden, edges, labels, budget, graph.nodes_in("test").to(device))
    return changed


def _attack_of(greedy: bool) -> Any:
    with warnings.catch_warnings():
        # torch_geometric warns that its contributed models may change
        warnings.filterwarnings("ignore", message="'torch_geometric.contrib'", category=UserWarning)
        from torch_geometric.contrib.nn import GRBCDAttack, PRBCDAttack
    return GRBCDAttack if greedy else PRBCDAttack


def _with_edges(graph: Graph, links: Links, edges: np.ndarray, seed: int) -> Graph:
    """Return the graph with exactly these edges; old ones keep their weights."""
    old = graph.target.numpy() * graph.num_nodes + graph.neighbour.numpy()
    new = np.unique(edges[1] * graph.num_nodes + edges[0])
    fresh = np.setdiff1d(new, old, assume_unique=True)
    added = np.stack([fresh % graph.num_nodes, fresh // graph.num_nodes])
    added = added if links.directed else added[:, added[0] < added[1]]
    return relinked(graph, links, np.isin(old, new), added, np.random.default_rng(seed))
