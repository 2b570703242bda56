"""A graph made ready for episodes: on its device, features normalised, pair features and circles computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import both_ways, find_in_rows, owners_of, sum_rows
from gdpnet.config import Config
from gdpnet.data.features import Features, mix_rows, normalise, on_device
from gdpnet.data.graph import Graph
from gdpnet.data.khop import reach
from gdpnet.data.pair_features import PAIR_NAMES, PairTables, pair_tables, pairs_between, pairs_of


@dataclass(frozen=True)
class Prepared:
    """A graph on a device, with normalised features and pair features, ready for episodes.

    What is told of edges, ``back`` and ``pairs``, may be told of a block of them alone: of the edges of some targets
    that follow one another, beginning with edge number ``first_edge``. All else is of the whole graph.
    """

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    back: Int[Tensor, "block"]
    """The edge that runs the other way; -1 where there is none."""
    features: Features
    pairs: Float[Tensor, "block pairs"]
    circle: Features
    """What a node can give: its features, or with two hops their mean over itself and its neighbours."""
    edge_weight: Float[Tensor, "edges"] | None = None
    """With two hops, the weight of each edge in that mean."""
    circle_weight: Float[Tensor, "nodes"] | None = None
    """With two hops, the whole weight of each node's circle: its own, one, and that of its edges."""
    first_edge: int = 0
    edge: Int[Tensor, "graph_edges"] | None = None
    """Where candidates may be farther away than neighbours, the place of each edge of the graph among them."""
    given_weight: Float[Tensor, "edges"] | None = None
    """The weight of each edge as the graph gives it; nothing where all edges weigh one."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def learned_pairs(self) -> int:
        """Return how many of the pair features, the last ones, compare what the circles of both nodes say."""
        columns = self.pairs.shape[1] - (self.edge is not None)
        return max(0, columns - len(PAIR_NAMES["structure"])) if self.edge_weight is not None else 0

    @property
    def device(self) -> torch.device:
        """Return where the graph lies."""
        return self.row_ptr.device

    @property
    def block(self) -> slice:
        """Return the edges that ``back`` and ``pairs`` are told of."""
        return slice(self.first_edge, self.first_edge + self.back.numel())

    @property
    def block_target(self) -> Int[Tensor, "block"]:
        """Return the target of each edge of the block."""
        edges = self.block
        first, last = torch.searchsorted(
            self.row_ptr, torch.tensor([edges.start, edges.stop], device=self.device)
        ).tolist()
        bounds = self.row_ptr[first : last + 1]
        return owners_of(bounds.diff()) + first

    @property
    def linked(self) -> Float[Tensor, "edges"]:
        """Return one for each candidate that is a direct neighbour, zero for those farther away."""
        if self.edge is None:
            return torch.ones(self.neighbour.numel(), device=self.device)
        return torch.zeros(self.neighbour.numel(), device=self.device).index_fill_(0, self.edge, 1.0)

    def on_edges(self, value: Float[Tensor, "block"]) -> Float[Tensor, "graph_edges"]:
        """Return of the numbers of all candidates those of the graph's own edges."""
        return value if self.edge is None else value[self.edge]

    def weighed(self, share: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        """Return how much of each edge counts in a mean: what is kept of it times the weight it came with."""
        return share if self.given_weight is None else share * self.given_weight

    def both_ways(self, value: Float[Tensor, "edges"]) -> Float[Tensor, "block"]:
        """Give both directions of a link the mean of their two values; one without a way back keeps its own."""
        return both_ways(value, self.back, self.first_edge)

    def share_of_target(
        self, edge: Int[Tensor, "n"], node: Int[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None:
        """Return the weight of each edge's target in its neighbour's circle, and the circle's whole weight."""
        if self.edge_weight is None or self.circle_weight is None:
            return None
        back = self.back[edge - self.first_edge]
        return torch.where(back >= 0, self.edge_weight[back.clamp(min=0)], 0.0), self.circle_weight[node]


def prepare(graph: Graph, config: Config, device: torch.device) -> Prepared:
    """Normalise features, compute pair features, and bring everything to the device.

    A GPU computes them itself where features lie there in full and candidates are direct neighbours.
    """
    far = config.policy.hops > 1 and config.training.selection
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
    names = ("row_ptr", "neighbour", "back", "pairs", "edge", "given_weight")
    parts = {name: getattr(prepared, name) for name in names}
    moved = {name: part.to(device) for name, part in parts.items() if part is not None}
    features = on_device(prepared.features, device)
    return in_first_circles(replace(prepared, **moved, features=features, circle=features), config)


def _within_reach(prepared: Prepared, tables: PairTables, config: Config) -> Prepared:
    """Make candidates of the nodes within some hops, tell how far away each is, and let those from afar weigh one."""
    wide = reach(tables.row_ptr, tables.neighbour, config.policy.hops, config.policy.far_candidates)
    target = owners_of(wide.row_ptr.diff())
    beyond, weight = (wide.distance - 1).float()[:, None], prepared.given_weight
    return replace(
        prepared,
        row_ptr=wide.row_ptr,
        neighbour=wide.neighbour,
        back=find_in_rows(wide.row_ptr, wide.neighbour, wide.neighbour, target),
        pairs=torch.cat([beyond, pairs_between(tables, target, wide.neighbour)], dim=1),
        edge=wide.edge,
        given_weight=None if weight is None else torch.ones(len(target)).index_copy(0, wide.edge, weight),
    )


def bring_dense(graph: Graph, device: torch.device) -> Graph:
    """Bring the edges and dense features of a graph to a GPU whole; one with sparse features stays."""
    if device.type == "cpu" or not isinstance(graph.features, Tensor):
        return graph
    there = {name: getattr(graph, name).to(device) for name in ("row_ptr", "neighbour", "features")}
    return replace(graph, **there)


def prepare_nodes(graph: Graph, config: Config, device: torch.device) -> tuple[Prepared, PairTables]:
    """Prepare what belongs to nodes alone, and the tables that blocks of edges are prepared from.

    Dense features are worked on where they will lie; what is made of sparse ones is made on the host.
    """
    graph = bring_dense(graph, device)
    features = normalise(graph.features, config.features.normalise)
    state = config.policy.state if config.training.selection else "paper"
    tables = pair_tables(graph, state, features if config.features.normalise == "l2" else None)
    tables = tables.to(device)
    shared = tables.unit if config.features.normalise == "l2" else None
    features = features.to(device) if shared is None else shared
    nothing = torch.zeros(0, len(PAIR_NAMES[state]), device=device)
    row_ptr, weight = tables.row_ptr, graph.edge_weight
    weight = None if weight is None else weight.to(device, torch.float32)
    prepared = Prepared(row_ptr, tables.neighbour, row_ptr[:0], features, nothing, features)
    return replace(prepared, given_weight=weight), tables


def with_block(prepared: Prepared, tables: PairTables, first: int, last: int) -> Prepared:
    """Tell of the edges of the targets from ``first`` up to ``last``."""
    pairs, back = pairs_of(tables, first, last)
    return replace(prepared, pairs=pairs, back=back, first_edge=tables.edges_of(first, last).start)


def in_first_circles(prepared: Prepared, config: Config) -> Prepared:
    """With two hops, let every node give the mean over itself and all its neighbours, before any is selected."""
    if config.representation.hops == 1:
        return prepared
    return with_circle(prepared, prepared.linked)


def with_circle(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Let every node give the mean over itself and its neighbours, each weighted by what is kept of its edge."""
    weight = prepared.weighed(weight)
    circle = mix_rows(prepared.features, prepared.row_ptr, prepared.neighbour, weight)
    whole = 1.0 + sum_rows(weight, prepared.row_ptr)
    return replace(prepared, circle=circle, edge_weight=weight, circle_weight=whole)


def given_to_target(
    circle: Float[Tensor, "n *width"],
    target: Float[Tensor, "n *width"],
    share: tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None,
) -> Float[Tensor, "n *width"]:
    """Take the target's own part out of the mean that its neighbour gives, so that nothing comes back to it.

    With W the weight of the neighbour's circle and k the target's in it: (W mean - k target) / (W - k).
    """
    if share is None:
        return circle
    own, whole = (part.reshape(-1, *[1] * (circle.dim() - 1)) for part in share)
    return (circle * whole - target * own) / (whole - own).clamp(min=0.5)
