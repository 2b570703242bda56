"""Links held out to be foretold, for validation and test: none of them is a candidate or a message."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet.data.graph import Graph
from gdpnet.data.io.tables import read_ids, read_table
from gdpnet.data.noise.links import is_directed
from gdpnet.errors import GraphError

LEAST_LINKS = 20
"""Fewer links cannot be parted: 5 % of them is less than one."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes, and whether each is a link."""

    ends: Int[Tensor, "2 pairs"]
    linked: Bool[Tensor, "pairs"]


@dataclass(frozen=True)
class LinkSplit:
    """The graph of the training links alone, and the pairs to choose and to score on."""

    train: Graph
    validation: Pairs
    test: Pairs


def check_mutual(graph: Graph) -> None:
    """Refuse a graph with one-way edges."""
    if is_directed(graph):
        raise GraphError("links to be foretold must run both ways, found a graph with one-way edges")


def check_links(graph: Graph) -> None:
    """Refuse a graph whose links cannot be held out."""
    check_mutual(graph)
    links = graph.num_edges // 2
    if links < LEAST_LINKS:
        raise GraphError(
            f"there must be at least {LEAST_LINKS} links to split into training, validation and test, found {links}"
        )


def split_links(graph: Graph, seed: int, validation: float = 0.05, test: float = 0.1) -> LinkSplit:
    """Hold out shares of the links, and as many pairs that are no links, by torch_geometric's RandomLinkSplit.

    Draws follow the seed alone, and the random state of the caller is left as it was. A pair that is no link is none
    of the whole graph, and none stands twice.
    """
    check_links(graph)
    links, pairs = graph.num_edges // 2, graph.num_nodes * (graph.num_nodes - 1) // 2
    held_out = int(links * validation) + int(links * test)
    if pairs - links < held_out:
        raise GraphError(
            f"there must be as many pairs of nodes without a link as links are held out, {held_out}, found "
            f"{pairs - links}"
        )
    from torch_geometric.data import Data
    from torch_geometric.transforms import RandomLinkSplit

    data = Data(
        edge_index=torch.stack([graph.neighbour, graph.target]), num_nodes=graph.num_nodes, x=torch.zeros(0)
    )
    draw = RandomLinkSplit(validation, test, is_undirected=True, add_negative_train_samples=False)
    with _seeded(seed):
        parts = draw(data)
    held = torch.cat([part.edge_label_index[:, part.edge_label > 0] for part in parts[1:]], dim=1)
    return LinkSplit(without_links(graph, held), *(_pairs_of(part) for part in parts[1:]))


def without_links(graph: Graph, ends: Int[Tensor, "2 links"]) -> Graph:
    """Return the graph without some links, both ways of each."""
    both = torch.cat([ends, ends.flip(0)], dim=1)
    taken = torch.isin(graph.target * graph.num_nodes + graph.neighbour, both[1] * graph.num_nodes + both[0])
    return graph.keep_edges(~taken)


def links_of(graph: Graph) -> Int[Tensor, "2 links"]:
    """Return each link once, from the lower node to the higher."""
    once = graph.neighbour < graph.target
    return torch.stack([graph.neighbour[once], graph.target[once]])


def read_ends(path: Path, graph: Graph) -> Int[Tensor, "2 pairs"]:
    """Read pairs of nodes of a graph, named by their ids, from the columns source and target of a table."""
    names = ("source", "target")
    table = read_table(path, text=names)
    ids = [read_ids(table, name, path).to_pylist() for name in names]
    return torch.stack([graph.numbers_of(column) for column in ids])


def _pairs_of(part: Any) -> Pairs:
    return Pairs(part.edge_label_index, part.edge_label > 0)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators that torch_geometric draws from, and give them back as they were."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - it draws from the global ones
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the same
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002 - the same
