"""Pair features: how similar the two nodes of an edge are, by features and by structure, before any learning.

They use no labels and leave the edge itself out, so they mean the same on an unseen graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, owners_of
from gdpnet._core.device import has_triton
from gdpnet.data.features import Features, normalise
from gdpnet.data.graph import Graph
from gdpnet.data.neighbour_sums import add_rows
from gdpnet.data.row_products import Rows, Side, common_columns, row_dots, side_of

Nodes = Int[Tensor, "some"]
Values = Float[Tensor, "some"]
"""One node, or one value, per edge of a block."""

PAIR_NAMES = {
    "paper": (),
    "pairs": ("feature cosine",),
    "structure": (
        "feature cosine",
        "common neighbours",
        "Adamic-Adar",
        "target to neighbour's neighbourhood",
        "neighbour to target's neighbourhood",
        "neighbourhood to neighbourhood",
        "target degree",
        "neighbour degree",
    ),
}
PAIR_NAMES["neighbourhood"] = (
    *PAIR_NAMES["structure"],
    "neighbourhood classes agree",
    "neighbourhood embeddings agree",
    "confidence of target's neighbourhood",
)
PAIR_NAMES["trust"] = (
    *PAIR_NAMES["neighbourhood"],
    "target's other kept edges",
    "neighbour's other kept edges",
)
"""The columns of `pair_features` by the policy's ``state`` setting.

Columns beyond ``structure`` depend on what was learned and on what other nodes selected: they are zero here and are
filled in when candidates are encoded.
"""

DISTANCE = "hops beyond the first"
"""The first column if candidates may be farther away than direct neighbours."""


@dataclass(frozen=True)
class PairTables:
    """The graph and the node tables from which pair features are computed."""

    state: str
    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    unit: Features | None
    """Feature rows scaled to length one."""
    neighbourhood: Features | None
    """The sum of these rows over the neighbours of each node; None if the state does not look at it."""
    edge_features: Float[Tensor, "edges columns"] | None = None
    """The edges' own features, which come before the columns of the state; None if edges have none."""
    nodes: Int[Tensor, "rows"] | None = None
    """The nodes that the rows are of, ascending; None if there is a row for every node."""
    rarity: Float[Tensor, "nodes"] | None = None
    """The Adamic-Adar weight of every node, where it was computed elsewhere."""
    products_of_rows: tuple[Values, Values, Values] | None = None
    """`own_products`, where they were computed elsewhere."""

    def rows_of(self, nodes: Nodes) -> Nodes:
        """Return the place of the rows of some nodes."""
        return nodes if self.nodes is None else torch.searchsorted(self.nodes, nodes)

    def degree_of(self, nodes: Nodes) -> Values:
        """Return the degree of some nodes."""
        if self.nodes is None:
            return self.row_ptr.diff()[nodes].float()
        return (self.row_ptr[nodes + 1] - self.row_ptr[nodes]).float()

    @cached_property
    def unit_side(self) -> Side:
        """Return the unit rows, prepared for inner products."""
        assert self.unit is not None
        return side_of(self.unit)

    @cached_property
    def neighbourhood_side(self) -> Side:
        """Return the neighbourhood sums, prepared for inner products."""
        assert self.neighbourhood is not None
        return side_of(self.neighbourhood)

    @cached_property
    def own_products(self) -> tuple[Values, Values, Values]:
        """Return the squared length of each unit row, and of each neighbourhood sum, and the product of both."""
        if self.products_of_rows is not None:
            return self.products_of_rows
        count = self.row_ptr.numel() - 1 if self.nodes is None else self.nodes.numel()
        nodes = torch.arange(count, device=self.row_ptr.device)
        unit, total = (self.unit_side, nodes), (self.neighbourhood_side, nodes)
        return row_dots(*unit, *unit), row_dots(*total, *total), row_dots(*unit, *total)

    def to(self, device: torch.device) -> PairTables:
        """Return the tables on another device."""
        if device == self.row_ptr.device:
            return self
        tables, edges = (self.unit, self.neighbourhood), self.edge_features
        unit, neighbourhood = (None if table is None else table.to(device) for table in tables)
        links = self.row_ptr.to(device), self.neighbour.to(device)
        edges = None if edges is None else edges.to(device)
        return PairTables(self.state, *links, unit, neighbourhood, edges)

    def edges_of(self, first: int, last: int) -> slice:
        """Return the edges of the nodes from ``first`` up to ``last``."""
        return slice(int(self.row_ptr[first]), int(self.row_ptr[last]))

    def ends_of(self, first: int, last: int) -> tuple[Nodes, Nodes]:
        """Return the target and the neighbour of these edges."""
        target = owners_of(self.row_ptr[first : last + 1].diff()) + first
        return target, self.neighbour[self.edges_of(first, last)].long()

    def reverse_edges_of(self, first: int, last: int) -> Int[Tensor, "some"]:
        """Return the reverse edge of each of these edges, -1 if there is none."""
        target, neighbour = self.ends_of(first, last)
        return find_in_rows(self.row_ptr, self.neighbour, neighbour, target)


def pair_names(state: str, hops: int = 1, edge_features: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of the pair features that the policy observes, those of the edges themselves before others."""
    return (*(() if hops == 1 else (DISTANCE,)), *edge_features, *PAIR_NAMES[state])


def pair_tables(graph: Graph, state: str, unit: Features | None = None) -> PairTables:
    """Compute the tables that a state needs; ``unit`` rows are used if given."""
    links = (graph.row_ptr, graph.neighbour)
    edges = None if graph.edge_features is None else graph.edge_features.to(graph.row_ptr.device)
    if state == "paper":
        return PairTables(state, *links, None, None, edges)
    unit = normalise(graph.features, "l2") if unit is None else unit
    return PairTables(state, *links, unit, None if state == "pairs" else add_rows(unit, *links), edges)


def pair_features(graph: Graph, state: str) -> Float[Tensor, "edges pairs"]:
    """Return one row per edge: its own features, if any, and the columns of `PAIR_NAMES` for this state."""
    return pairs_of(pair_tables(graph, state), 0, graph.num_nodes)[0]


def pairs_of(tables: PairTables, first: int, last: int) -> tuple[Float[Tensor, "some pairs"], Nodes]:
    """Return the pair features and the reverse edges of the targets from ``first`` up to ``last``."""
    target, neighbour = tables.ends_of(first, last)
    own = None if tables.edge_features is None else tables.edge_features[tables.edges_of(first, last)]
    on_gpu = tables.row_ptr.is_cuda and isinstance(tables.unit, Tensor) and has_triton()
    found = products_on_gpu(tables, first, last) if on_gpu and tables.neighbourhood is not None else None
    columns, reverse_edge = pairs_of_edges(tables, target, neighbour, found)
    return _after(own, columns), reverse_edge


def pairs_of_edges(
    tables: PairTables, target: Nodes, neighbour: Nodes, found: PairProducts | None = None
) -> tuple[Float[Tensor, "some pairs"], Nodes]:
    """Return the columns of the state of some edges, and their reverse edges; ``found`` are their products."""
    if tables.neighbourhood is None:
        reverse_edge = find_in_rows(tables.row_ptr, tables.neighbour, neighbour, target)
        return _few_columns(tables, target, neighbour), reverse_edge
    found = products(tables, target, neighbour) if found is None else found
    return _columns(tables, target, neighbour, found, torch.ones_like(found.cosine)), found.reverse_edge


def pairs_between(tables: PairTables, target: Nodes, neighbour: Nodes) -> Float[Tensor, "some pairs"]:
    """Return the pair features of any pairs of nodes; those that are not adjacent have edge features of zero."""
    edge, own = find_in_rows(tables.row_ptr, tables.neighbour, target, neighbour), None
    if tables.edge_features is not None:
        own = tables.edge_features.new_zeros(edge.numel(), tables.edge_features.shape[1])
        own[edge >= 0] = tables.edge_features[edge[edge >= 0]]
    if tables.neighbourhood is None:
        return _after(own, _few_columns(tables, target, neighbour))
    direct = (edge >= 0).float()
    return _after(own, _columns(tables, target, neighbour, products(tables, target, neighbour), direct))


def _after(
    own: Float[Tensor, "some columns"] | None, pairs: Float[Tensor, "some state"]
) -> Float[Tensor, "some pairs"]:
    """Put the features of the edges themselves before other pair features."""
    return pairs if own is None else torch.cat([own, pairs], dim=1)


def _few_columns(tables: PairTables, target: Nodes, neighbour: Nodes) -> Float[Tensor, "some pairs"]:
    """Return the columns of states that use no structure."""
    if tables.unit is None:
        return torch.zeros(target.numel(), 0, device=target.device)
    rows = (tables.unit_side, tables.rows_of(target), tables.unit_side, tables.rows_of(neighbour))
    return row_dots(*rows)[:, None]


def _columns(
    tables: PairTables, target: Nodes, neighbour: Nodes, found: PairProducts, direct: Values
) -> Float[Tensor, "some pairs"]:
    """Return the columns of some pairs; ``direct`` is one for a pair whose neighbour has an edge to the target."""
    columns = [
        found.cosine,
        found.common.log1p(),
        found.adamic_adar.log1p(),
        *_neighbourhood_cosines(tables, target, neighbour, found, direct),
        tables.degree_of(target).log1p(),
        tables.degree_of(neighbour).log1p(),
    ]
    learned = len(PAIR_NAMES[tables.state]) - len(columns)
    return torch.stack(columns + [torch.zeros_like(found.cosine)] * learned, dim=1)


class PairProducts(NamedTuple):
    """Counts and inner products of the two nodes of each edge."""

    common: Values
    adamic_adar: Values
    cosine: Values
    near: Values
    """Inner product of the target's unit row and the neighbour's neighbourhood sum."""
    far: Values
    """Inner product of the neighbour's unit row and the target's neighbourhood sum."""
    between: Values
    """Inner product of both neighbourhood sums."""
    reverse_edge: Nodes


def products(tables: PairTables, target: Nodes, neighbour: Nodes) -> PairProducts:
    """Compute the products of some edges with tensor operations on any device: the reference."""
    unit, neighbourhood = tables.unit_side, tables.neighbourhood_side
    one, other = tables.rows_of(target), tables.rows_of(neighbour)
    return PairProducts(
        *_common_neighbours(tables, target, neighbour),
        row_dots(unit, one, unit, other),
        row_dots(unit, one, neighbourhood, other),
        row_dots(neighbourhood, one, unit, other),
        row_dots(neighbourhood, one, neighbourhood, other),
        find_in_rows(tables.row_ptr, tables.neighbour, neighbour, target),
    )


def products_on_gpu(tables: PairTables, first: int, last: int) -> PairProducts:
    """Compute the products of the edges of some targets on an NVIDIA GPU; features must be dense."""
    from gdpnet.data.pair_kernel import launch_pairs

    target, first_edge = tables.ends_of(first, last)[0], tables.edges_of(first, last).start
    columns, reverse_edge = launch_pairs(tables, _rarity(tables), target, first_edge)
    return PairProducts._make([*columns.unbind(), reverse_edge])


def _neighbourhood_cosines(
    tables: PairTables, target: Nodes, neighbour: Nodes, found: PairProducts, direct: Values
) -> tuple[Values, Values, Values]:
    """Return the cosines of each edge's nodes and neighbourhoods, each neighbourhood without the other node.

    With S_u the sum of the unit features of u's neighbours, the cosine of v and u's neighbourhood is
    (x_v S_u - x_v x_v) / |S_u - x_v|, which needs inner products only. If no edge runs that way (``mutual`` is zero
    for v to u, ``direct`` for u to v), v is not in u's neighbourhood and nothing is subtracted.
    """
    unit, length, inner = tables.own_products
    target, neighbour = tables.rows_of(target), tables.rows_of(neighbour)
    mutual = (found.reverse_edge >= 0).float()
    near = found.near - mutual * unit[target]
    far = found.far - direct * unit[neighbour]
    near_length = (length[neighbour] - mutual * (2.0 * near + unit[target])).clamp(min=0.0).sqrt()
    far_length = (length[target] - direct * 2.0 * far - direct * unit[neighbour]).clamp(min=0.0).sqrt()
    both = found.between - direct * inner[neighbour] + mutual * (direct * found.cosine - inner[target])
    return _ratio(near, near_length), _ratio(far, far_length), _ratio(both, near_length * far_length)


def _ratio(part: Values, whole: Values) -> Values:
    return torch.where(whole > 1e-4, part / whole.clamp(min=1e-4), torch.zeros_like(part)).clamp(-1.0, 1.0)


def _common_neighbours(tables: PairTables, target: Nodes, neighbour: Nodes) -> tuple[Values, Values]:
    """Return the number of common neighbours of each edge, and their Adamic-Adar sum of 1 / log degree."""
    return common_columns(Rows(tables.row_ptr, tables.neighbour), _rarity(tables), target, neighbour)


def _rarity(tables: PairTables) -> Float[Tensor, "nodes"]:
    """Return the Adamic-Adar weight of each node as a common neighbour: 1 / log degree."""
    return rarity_of(tables.row_ptr.diff()) if tables.rarity is None else tables.rarity


def rarity_of(degree: Int[Tensor, "nodes"]) -> Float[Tensor, "nodes"]:
    """Return 1 / log degree, the Adamic-Adar weight of nodes of some degrees."""
    return 1.0 / degree.float().clamp(min=2.0).log()
