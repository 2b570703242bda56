"""Hold out edges for link prediction; they are neither candidates nor messages in training."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, find_edge_columns
from gdpnet.data.io.node_ids import read_ids
from gdpnet.data.io.table_file import open_table
from gdpnet.errors import GraphError

LEAST_LINKS = 20
"""The smallest number of links to split: 5 % of fewer is less than one."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes, and whether each is an edge."""

    ends: Int[Tensor, "2 pairs"]
    linked: Bool[Tensor, "pairs"]


@dataclass(frozen=True)
class LinkSplit:
    """The graph of the training edges, and the pairs to validate and test on."""

    train: Graph
    validation: Pairs
    test: Pairs


def check_mutual(graph: Graph) -> None:
    """Refuse a graph with one-way edges."""
    if graph.is_directed:
        raise GraphError("edges must run both ways for link prediction, found a graph with one-way edges")


def check_links(graph: Graph) -> None:
    """Refuse a directed graph, and one with too few links to hold some out."""
    check_mutual(graph)
    links = graph.num_edges // 2
    if links < LEAST_LINKS:
        raise GraphError(
            f"there must be at least {LEAST_LINKS} links to split into training, validation and test, found {links}"
        )


def split_links(graph: Graph, seed: int, validation: float = 0.05, test: float = 0.1) -> LinkSplit:
    """Hold out shares of the links and as many non-adjacent pairs, with torch_geometric's RandomLinkSplit.

    The split depends on the seed alone, and the caller's random state is kept. Negative pairs are distinct and not
    adjacent in the whole graph.
    """
    check_links(graph)
    links = graph.num_edges // 2
    free = graph.num_nodes * (graph.num_nodes - 1) // 2 - links
    held_out = int(links * validation) + int(links * test)
    if free < held_out:
        raise GraphError(
            f"there must be as many pairs of nodes without a link as links are held out, {held_out}, found "
            f"{free}"
        )
    from torch_geometric.data import Data
    from torch_geometric.transforms import RandomLinkSplit

    data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes, x=torch.zeros(0))
    transform = RandomLinkSplit(validation, test, is_undirected=True, add_negative_train_samples=False)
    with _seeded(seed):
        parts = transform(data)
    held = torch.cat([part.edge_label_index[:, part.edge_label > 0] for part in parts[1:]], dim=1)
    pairs = (Pairs(part.edge_label_index, part.edge_label > 0) for part in parts[1:])
    return LinkSplit(without_links(graph, held), *pairs)


def without_links(graph: Graph, ends: Int[Tensor, "2 links"]) -> Graph:
    """Return the graph without some links, in both directions."""
    both = torch.cat([ends, ends.flip(0)], dim=1)
    taken = torch.isin(graph.target * graph.num_nodes + graph.neighbour, both[1] * graph.num_nodes + both[0])
    return graph.keep_edges(~taken)


def links_of(graph: Graph) -> Int[Tensor, "2 links"]:
    """Return each link once, from the lower to the higher node."""
    once = graph.neighbour < graph.target
    return torch.stack([graph.neighbour[once], graph.target[once]])


def read_ends(path: Path, graph: Graph) -> Int[Tensor, "2 pairs"]:
    """Read pairs of nodes, by their ids, from the columns source and target, or the like, of a table."""
    file = open_table(path)
    columns, _ = find_edge_columns(USUAL_COLUMNS, file.names, path.name)
    names = (columns.source, columns.target)
    table, _ = file.read(text=names)
    ids = [read_ids(table, name, path).to_pylist() for name in names]
    return torch.stack([graph.numbers_of(column) for column in ids])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators that torch_geometric uses, and restore their state."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - torch_geometric uses the global ones
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))  # noqa: NPY002 - the same
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002 - the same
