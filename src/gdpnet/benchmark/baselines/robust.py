"""Networks that trust some neighbours more: GNNGuard, the soft median and Pro-GNN.

In GNNGuard (Zhang and Zitnik, 2020) neighbours weigh as much as they are similar, layer by layer. A soft median
(Geisler et al., 2021) is a mean in which a neighbour far from the median weighs less; neighbourhoods are padded to
the next power of two, so at most twice the values of the edges lie in memory.

Pro-GNN (Jin et al., 2020), with the package deeprobust, learns the adjacency matrix and the network together. It
holds a dense matrix and computes all its singular values every epoch, so that it is limited to graphs of a few
thousand nodes. It is transductive: it learns on the whole graph, including features and edges of test nodes, which
the other methods do not see.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.benchmark.baselines.filters import similarity_scores
from gdpnet.benchmark.baselines.fitting import (
    Fitted,
    Settings,
    Side,
    Task,
    choose,
    fit_network,
    inputs_of,
    seeded,
    unit_rows,
)
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import Links, normalised_adjacency, weights_of
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.representation.sparse import times

LEAST = 0.1
"""A cosine below this prunes the edge."""

MEMORY = 0.5
"""Share of the previous layer in the trust of a layer."""

TEMPERATURES = (0.5, 3.0)
"""Softness of the median, tried on validation; near zero only the neighbour nearest to it counts."""

MOST_NODES = 5000
"""Largest number of nodes for Pro-GNN."""


class GNNGuard(Stack):
    """Layers whose edges weigh as much as the cosine of their inputs; at first that of the raw features."""

    def _through(self, side: Side, layers: int) -> Any:
        links: Links = side.links
        rows: Any = side.features
        similarity, trust = links.weight, links.weight.new_zeros(0)
        for number, layer in enumerate(self.layers[:layers]):
            if number > 0:
                similarity = _cosines(links, self.activation(rows))
            fresh, own = trust_of(links, similarity)
            trust = fresh if number == 0 else MEMORY * trust + (1.0 - MEMORY) * fresh
            matrix = links.matrix.with_value(trust)
            rows = layer(
                self.between(rows, number),
                lambda message, matrix=matrix, own=own: times(matrix, message) + own * message,
            )
        return rows


def trust_of(
    links: Links, similarity: Float[Tensor, "edges"]
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "nodes 1"]]:
    """Return the weight of each neighbour, and of the node itself.

    With s the similarity where it is at least `LEAST` and N its number of such neighbours, a neighbour weighs
    s / Σs · N / (N + 1) and the node itself 1 / (N + 1).
    """
    similar = torch.where(similarity >= LEAST, similarity, 0.0)
    total = sum_by_owner(similar, links.target, links.num_nodes)
    count = sum_by_owner((similar > 0).float(), links.target, links.num_nodes)
    scale = count / (count + 1.0) / total.clamp(min=1e-6)
    return similar * scale[links.target], (1.0 / (count + 1.0))[:, None]


def guarded(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train GNNGuard, with the cosine of the raw features as edge weights."""
    inputs = inputs_of(task, device)
    links = (
        side.links.with_weight(similarity_scores(graph, "cosine").to(device))
        for side, graph in ((inputs.train, task.train), (inputs.whole, task.whole))
    )
    return fit_network(partial(GNNGuard, propagate=times), inputs.with_links(*links), settings, seed)


@torch.no_grad()
def _cosines(links: Links, rows: Tensor) -> Float[Tensor, "edges"]:
    unit = F.normalize(rows, dim=1)
    return (unit[links.target] * unit[links.neighbour]).sum(dim=1)


@dataclass(frozen=True)
class Neighbourhoods:
    """Neighbourhoods of similar size, one row per node: neighbours including itself, and GCN's weights.

    Padding has weight zero.
    """

    node: Int[Tensor, "rows"]
    neighbour: Int[Tensor, "rows size"]
    weight: Float[Tensor, "rows size"]


def neighbourhoods_of(graph: Graph, device: torch.device) -> list[Neighbourhoods]:
    """Group the nodes of a graph by the size of their neighbourhoods and pad these."""
    adjacency = normalised_adjacency(graph)
    length = np.diff(adjacency.indptr)
    power = np.ceil(np.log2(length)).astype(int)
    found = []
    for exponent in np.unique(power):
        node = np.flatnonzero(power == exponent)
        place = np.arange(2**exponent)[None, :]
        filled = place < length[node, None]
        position = np.where(filled, adjacency.indptr[node, None] + place, 0)
        neighbour = torch.from_numpy(adjacency.indices[position].astype(np.int64))
        weight = torch.from_numpy(np.where(filled, adjacency.data[position], 0.0).astype(np.float32))
        found.append(
            Neighbourhoods(torch.from_numpy(node).to(device), neighbour.to(device), weight.to(device))
        )
    return found


def soft_median(
    neighbourhoods: list[Neighbourhoods], message: Float[Tensor, "nodes width"], temperature: float = 1.0
) -> Float[Tensor, "nodes width"]:
    """Propagate with soft medians: Σa · Σ(s a h) / Σ(s a), with s = softmax(-|h - m| / (T √width)) and m the median.

    The weights a are GCN's and the median is taken dimension by dimension with them.
    """
    result = torch.empty_like(message)
    for near in neighbourhoods:
        rows = message[near.neighbour]  # rows size width
        median = _weighted_median(rows.detach(), near.weight)
        distance = (rows - median[:, None]).square().sum(dim=2).clamp(min=1e-12).sqrt()
        logits = -distance / (temperature * message.shape[1] ** 0.5)
        soft = logits.masked_fill(near.weight == 0.0, -torch.inf).softmax(dim=1) * near.weight
        share = soft / soft.sum(dim=1, keepdim=True) * near.weight.sum(dim=1, keepdim=True)
        result = result.index_copy(0, near.node, torch.einsum("rs,rsw->rw", share, rows))
    return result


def medians(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train a GCN of soft medians; the temperature is chosen."""
    links = (neighbourhoods_of(graph, device) for graph in (task.train, task.whole))
    inputs = inputs_of(task, device).with_links(*links)

    def fit(temperature: float) -> Fitted:
        build = partial(Stack, propagate=partial(soft_median, temperature=temperature))
        return fit_network(build, inputs, settings, seed)

    return choose("temperature", TEMPERATURES, settings, fit)


def _weighted_median(
    rows: Float[Tensor, "rows size width"], weight: Float[Tensor, "rows size"]
) -> Float[Tensor, "rows width"]:
    """Return in each dimension the first value, ascending, at which half of the weight is reached."""
    ordered, order = rows.transpose(1, 2).sort(dim=2)
    reached = weight[:, None, :].expand_as(ordered).gather(2, order).cumsum(dim=2)
    half = weight.sum(dim=1)[:, None, None] / 2
    first = (reached >= half * (1.0 - 1e-6)).to(torch.uint8).argmax(dim=2, keepdim=True)
    return ordered.gather(2, first)[:, :, 0]


def pro_gnn(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train Pro-GNN with the default loss weights of the package; it scores edges by their learned weights."""
    graph = task.whole
    if graph.num_nodes > MOST_NODES:
        raise GraphError(
            f"Pro-GNN holds a dense adjacency matrix: at most {MOST_NODES:,} nodes, found {graph.num_nodes:,}"
        )
    package = _package()
    features = unit_rows(graph).to(device)
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes)
    adjacency[graph.target, graph.neighbour] = weights_of(graph)
    labels, train = graph.labels.to(device), task.seen[task.targets].to(device)
    with seeded(seed, device), _quiet():
        widths, place = (graph.num_features, settings.width, graph.num_classes), str(device)
        network = package.GCN(*widths, dropout=settings.dropout, device=place)
        model = package.ProGNN(network, _arguments(settings), place)
        model.fit(features, adjacency.to(device), labels, train, task.validation.to(device))
    return _read(model, features, labels, task, settings)


@torch.no_grad()
def _read(model: Any, features: Tensor, labels: Tensor, task: Task, settings: Settings) -> Fitted:
    """Return the predictions of the best network on the best graph, and the learned edge weights."""
    model.model.eval()
    logits = model.model(features, model.best_graph).float()
    asked = task.validation.to(labels.device)
    f1 = float((logits[asked].argmax(dim=1) == labels[asked]).double().mean())
    loss = float(F.cross_entropy(logits[asked], labels[asked]))
    learned = model.estimator.estimated_adj.detach().cpu()
    target, neighbour = task.whole.target, task.whole.neighbour
    weight = (learned[target, neighbour] + learned[neighbour, target]) / 2
    return Fitted(logits.cpu(), f1, loss, settings.epochs, keep_score=weight, kept=weight > 0)


def _arguments(settings: Settings) -> Namespace:
    """Return the settings as the package reads them, with the loss weights of its example."""
    given = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay, "epochs": settings.epochs}
    weights = {"alpha": 5e-4, "beta": 1.5, "gamma": 1.0, "lambda_": 0.0, "phi": 0.0}
    steps = {"lr_adj": 0.01, "inner_steps": 2, "outer_steps": 1}
    return Namespace(**given, **weights, **steps, symmetric=False, only_gcn=False, debug=False)


def _package() -> Any:
    try:
        with _quiet():
            from deeprobust.graph import defense
    except ImportError as error:
        raise ConfigError(
            f"Pro-GNN needs the package deeprobust, pip install 'gdpnet[pro-gnn]' ({error})"
        ) from error
    return defense


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence what the package prints and warns of."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
