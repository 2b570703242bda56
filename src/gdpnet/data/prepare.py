"""Prepare a graph for episodes: normalised features, pair features and neighbourhood means, on one device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, offsets_of, owners_of, ranges, sum_rows, symmetrise
from gdpnet.config import Config
from gdpnet.data.features import Features, normalise, on_device, take_rows
from gdpnet.data.graph import Graph, Part
from gdpnet.data.khop import reach
from gdpnet.data.neighbour_sums import mix_into, mix_rows
from gdpnet.data.pair_features import PAIR_NAMES, PairTables, pair_tables, pairs_between, pairs_of
from gdpnet.data.sums_in_parts import RowsOf


@dataclass(frozen=True)
class Readers:
    """Where rows of nodes come from that are in no table: functions that read those of some nodes, which ascend."""

    features: RowsOf
    neighbourhood: RowsOf | None = None
    """None with one hop, where nodes send their features."""


@dataclass(frozen=True)
class Prepared:
    """A graph on a device, ready for episodes.

    The candidates of target v are ``neighbour[row_ptr[v] : row_ptr[v + 1]]``: its neighbours or, with
    ``policy.hops > 1``, also nodes farther away. An edge is a position in ``neighbour``.

    A large graph is prepared block by block: ``reverse_edge`` and ``pairs`` then describe only the edges of some
    consecutive targets. All other fields describe the whole graph.
    """

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    reverse_edge: Int[Tensor, "block"]
    """For each edge of the block, the edge from its target to its neighbour; -1 if there is none."""
    features: Features
    """One row per node, normalised."""
    pairs: Float[Tensor, "block pairs"]
    """For each edge of the block, the pair features of target and neighbour, which the policy observes."""
    mean_weight: Float[Tensor, "edges"] | None = None
    """The weight of each edge in the mean over a node and its neighbours, which the node sends as its message.

    It is the share of the edge that is kept times ``graph_weight``; None with one hop: nodes send their features.
    """
    neighbourhood_weight: Float[Tensor, "nodes"] | None = None
    """The total weight of that mean per node: one for the node itself plus its edges' ``mean_weight``."""
    first_edge: int = 0
    """The number of the block's first edge."""
    edge: Int[Tensor, "graph_edges"] | None = None
    """The position of each edge of the graph among the candidates; None if candidates are the neighbours."""
    graph_weight: Float[Tensor, "edges"] | None = None
    """The edge weights of the graph itself, one for farther candidates; None for an unweighted graph."""
    own: Features | None = None
    """The features before they were normalised, on the host; None for a graph that is read block by block."""
    edge_columns: int = 0
    """How many of the pair features, the first ones after the distance, are features of the edges themselves."""
    neighbourhood_rows: Features | None = None
    """`neighbourhood` where it was computed elsewhere."""
    numbers: tuple[Int[Tensor, "nodes"], Int[Tensor, "edges"]] | None = None
    """The numbers of nodes and edges in the graph that this is a part of; random draws are keyed by them."""
    readers: Readers | None = None
    """What reads features and neighbourhoods if these are too many to hold at once; ``features`` are then empty."""

    @cached_property
    def neighbourhood(self) -> Features:
        """Return the message that each node sends before the target's share is taken out.

        With one hop it is the node's features; with two, their weighted mean over the node and its neighbours. It is
        computed when it is first asked for: means of projected rows often do without it.
        """
        if self.neighbourhood_rows is not None:
            return self.neighbourhood_rows
        if self.mean_weight is None:
            return self.features
        return mix_rows(self.features, self.row_ptr, self.neighbour, self.mean_weight)

    @property
    def has_neighbourhood(self) -> bool:
        """Return whether `neighbourhood` takes no computation."""
        return self.is_neighbourhood_given or "neighbourhood" in self.__dict__

    @property
    def is_neighbourhood_given(self) -> bool:
        """Return whether `neighbourhood` is the features, or was computed elsewhere."""
        return self.mean_weight is None or self.neighbourhood_rows is not None or self.readers is not None

    def features_of(self, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the features of some nodes, in the order given; those that are read must ascend."""
        return take_rows(self.features, nodes) if self.readers is None else self.readers.features(nodes)

    def neighbourhood_of(self, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the rows of `neighbourhood` of some nodes, computed for these alone unless all are known."""
        if self.readers is not None:
            return (self.readers.neighbourhood or self.readers.features)(nodes)
        if self.mean_weight is None or self.has_neighbourhood:
            return take_rows(self.neighbourhood, nodes)
        start = self.row_ptr[nodes]
        length = self.row_ptr[nodes + 1] - start
        edge = ranges(start, length)[1]
        links = (offsets_of(length), self.neighbour[edge], self.mean_weight[edge])
        return mix_into(take_rows(self.features, nodes), self.features, *links)

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def learned_pairs(self) -> int:
        """Return how many of the pair features, the last ones, depend on what was learned and selected."""
        columns = self.pairs.shape[1] - (self.edge is not None) - self.edge_columns
        return max(0, columns - len(PAIR_NAMES["structure"])) if self.mean_weight is not None else 0

    @property
    def edge_features_in_pairs(self) -> slice:
        """Return the pair features that are features of the edges themselves."""
        first = int(self.edge is not None)
        return slice(first, first + self.edge_columns)

    @property
    def device(self) -> torch.device:
        """Return the device."""
        return self.row_ptr.device

    @property
    def block(self) -> slice:
        """Return the edges of the block."""
        return slice(self.first_edge, self.first_edge + self.reverse_edge.numel())

    @property
    def block_target(self) -> Int[Tensor, "block"]:
        """Return the target of each edge of the block."""
        if self.reverse_edge.numel() == self.neighbour.numel():
            return owners_of(self.row_ptr.diff(), self.neighbour.numel())
        ends = torch.tensor([self.block.start, self.block.stop], device=self.device)
        first, last = torch.searchsorted(self.row_ptr, ends).tolist()
        return owners_of(self.row_ptr[first : last + 1].diff()) + first

    @property
    def linked(self) -> Float[Tensor, "edges"]:
        """Return one for each candidate that is a direct neighbour, zero for a farther one."""
        if self.edge is None:
            return torch.ones(self.neighbour.numel(), device=self.device)
        return torch.zeros(self.neighbour.numel(), device=self.device).index_fill_(0, self.edge, 1.0)

    def on_edges(self, value: Float[Tensor, "block"]) -> Float[Tensor, "graph_edges"]:
        """Return, from one value per candidate, the values of the graph's own edges."""
        return value if self.edge is None else value[self.edge]

    def weighed(self, share: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        """Return the weight of each edge in a mean: the share of it that is kept times its graph weight."""
        return share if self.graph_weight is None else share * self.graph_weight

    def symmetrise(self, value: Float[Tensor, "edges"]) -> Float[Tensor, "block"]:
        """Give both directions of an edge the mean of their values; a one-way edge keeps its own."""
        return symmetrise(value, self.reverse_edge, self.first_edge)

    def share_of_target(
        self, edge: Int[Tensor, "n"], node: Int[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None:
        """Return, per edge, the target's weight in its neighbour's mean and the total weight of that mean.

        A target receives nothing of itself: its features are taken out of its neighbour's mean. With W the total
        weight and k the target's weight in it, the message is (W mean - k target) / (W - k).
        """
        if self.mean_weight is None or self.neighbourhood_weight is None:
            return None
        reverse_edge = self.reverse_edge[edge - self.first_edge]
        own = torch.where(reverse_edge >= 0, self.mean_weight[reverse_edge.clamp(min=0)], 0.0)
        return own, self.neighbourhood_weight[node]


def prepare(graph: Graph, config: Config, device: torch.device) -> Prepared:
    """Normalise features, compute pair features, and move everything to the device.

    A GPU computes the pair features itself if dense features fit on it and candidates are direct neighbours.
    """
    far, own = config.policy.hops > 1 and config.training.selection, graph.features
    graph, place = replace(graph, neighbour=graph.neighbour.long()), torch.device("cpu")
    if not far and device.type != "cpu":
        features = on_device(graph.features, device)
        if isinstance(features, Tensor):
            graph, place = replace(graph, features=features), device
    prepared, tables = prepare_nodes(graph, config, place)
    if far:
        prepared = _within_reach(prepared, tables, config)
    else:
        prepared = with_block(prepared, tables, 0, graph.num_nodes)
    return with_full_neighbourhoods(_moved(prepared, own, None, device), config)


def prepare_part(graph: Graph, part: Part, config: Config, device: torch.device) -> Prepared:
    """Prepare the surroundings of some nodes; ``graph`` is the part's, as a model reads it.

    Edges of nodes that do not decide have pair features of zero: nobody looks at them.
    """
    graph = replace(graph, neighbour=graph.neighbour.long())
    looked_at = part.deciding.numel() > 0
    prepared, tables = prepare_nodes(graph, config, torch.device("cpu"), looked_at=looked_at)
    target, neighbour = tables.ends_of(0, graph.num_nodes)
    deciding = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill_(0, part.deciding, True)
    some = deciding[target].nonzero().flatten()
    pairs = prepared.pairs.new_zeros(target.numel(), prepared.pairs.shape[1])
    pairs[some] = pairs_between(tables, target[some], neighbour[some])
    prepared = replace(prepared, pairs=pairs, reverse_edge=tables.reverse_edges_of(0, graph.num_nodes))
    return with_full_neighbourhoods(_moved(prepared, graph.features, (part.node, part.edge), device), config)


def _moved(
    prepared: Prepared,
    own: Features,
    numbers: tuple[Int[Tensor, "nodes"], Int[Tensor, "edges"]] | None,
    device: torch.device,
) -> Prepared:
    """Move a prepared graph to a device; ``own`` are the features before they were normalised."""
    names = ("row_ptr", "neighbour", "reverse_edge", "pairs", "edge", "graph_weight")
    parts = {name: getattr(prepared, name) for name in names}
    moved = {name: part.to(device) for name, part in parts.items() if part is not None}
    moved |= {"features": on_device(prepared.features, device)}
    if numbers is not None:
        moved |= {"numbers": (numbers[0].to(device), numbers[1].to(device))}
    return replace(prepared, own=own, **moved)


def _within_reach(prepared: Prepared, tables: PairTables, config: Config) -> Prepared:
    """Add the nodes within ``policy.hops`` as candidates; their distance becomes the first pair feature."""
    wide = reach(tables.row_ptr, tables.neighbour, config.policy.hops, config.policy.far_candidates)
    target = owners_of(wide.row_ptr.diff())
    beyond, weight = (wide.distance - 1).float()[:, None], prepared.graph_weight
    return replace(
        prepared,
        row_ptr=wide.row_ptr,
        neighbour=wide.neighbour,
        reverse_edge=find_in_rows(wide.row_ptr, wide.neighbour, wide.neighbour, target),
        pairs=torch.cat([beyond, pairs_between(tables, target, wide.neighbour)], dim=1),
        edge=wide.edge,
        graph_weight=None if weight is None else torch.ones(len(target)).index_copy(0, wide.edge, weight),
    )


def bring_dense(graph: Graph, device: torch.device) -> Graph:
    """Move edges and dense features to a GPU; a graph with sparse features stays where it is."""
    if device.type == "cpu" or not isinstance(graph.features, Tensor):
        return graph
    there = {name: getattr(graph, name).to(device) for name in ("row_ptr", "neighbour", "features")}
    return replace(graph, **there)


def prepare_nodes(
    graph: Graph, config: Config, device: torch.device, *, looked_at: bool = True
) -> tuple[Prepared, PairTables]:
    """Prepare the node features, and the tables from which blocks of edges are prepared.

    Dense features are processed on the device, sparse ones on the host. The tables are empty if nobody decides, so
    that no pair is looked at.
    """
    graph = bring_dense(graph, device)
    features = normalise(graph.features, config.features.normalise)
    state = config.policy.state
    if not (config.training.selection and looked_at):
        state, graph = "paper", replace(graph, edge_features=None)
    tables = pair_tables(graph, state, features if config.features.normalise == "l2" else None)
    tables = tables.to(device)
    shared = tables.unit if config.features.normalise == "l2" else None
    features = features.to(device) if shared is None else shared
    edge_columns = 0 if tables.edge_features is None else tables.edge_features.shape[1]
    nothing = torch.zeros(0, edge_columns + len(PAIR_NAMES[state]), device=device)
    row_ptr, weight = tables.row_ptr, graph.edge_weight
    weight = None if weight is None else weight.to(device, torch.float32)
    prepared = Prepared(row_ptr, tables.neighbour, row_ptr[:0], features, nothing)
    return replace(prepared, graph_weight=weight, edge_columns=edge_columns), tables


def with_block(prepared: Prepared, tables: PairTables, first: int, last: int) -> Prepared:
    """Set the block to the edges of the targets from ``first`` up to ``last``."""
    pairs, reverse_edge = pairs_of(tables, first, last)
    start = tables.edges_of(first, last).start
    return replace(prepared, pairs=pairs, reverse_edge=reverse_edge, first_edge=start)


def with_full_neighbourhoods(prepared: Prepared, config: Config) -> Prepared:
    """Compute neighbourhood means over all neighbours, as used before any selection; unchanged with one hop."""
    if config.representation.hops == 1:
        return prepared
    return with_neighbourhoods(prepared, prepared.linked)


def with_neighbourhoods(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Compute neighbourhood means in which each edge counts by ``weight``, the share of it that is kept."""
    return with_mean_weight(prepared, prepared.weighed(weight))


def with_mean_weight(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Compute neighbourhood means in which each edge weighs ``weight``."""
    whole = 1.0 + sum_rows(weight, prepared.row_ptr)
    return replace(prepared, neighbourhood_rows=None, mean_weight=weight, neighbourhood_weight=whole)
