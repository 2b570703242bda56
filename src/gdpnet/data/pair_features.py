"""What can be said of an edge before any learning: how alike its two nodes are, and how the graph sees them.

Everything here is label-free and leaves the edge itself out, so it means the same on an unseen graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, owners_of
from gdpnet._core.device import has_triton
from gdpnet.data.features import Features, add_rows, normalise
from gdpnet.data.graph import Graph
from gdpnet.data.row_products import Rows, Side, matches, row_dots, side_of

PAIR_NAMES = {
    "paper": (),
    "pairs": ("feature cosine",),
    "structure": (
        "feature cosine",
        "common neighbours",
        "Adamic-Adar",
        "target to neighbour's circle",
        "neighbour to target's circle",
        "circle to circle",
        "target degree",
        "neighbour degree",
    ),
}
PAIR_NAMES["circles"] = (
    *PAIR_NAMES["structure"],
    "circles' classes agree",
    "circles' embeddings agree",
    "target's circle is sure",
)
PAIR_NAMES["trust"] = (
    *PAIR_NAMES["circles"],
    "target's other trusted links",
    "neighbour's other trusted links",
)
"""The columns of `pair_features`, by the policy's `state` setting.

Those beyond `structure` depend on what was learned and on what the nodes around have selected: they are zero here
and are filled in when a neighbour is met.
"""

DISTANCE = "hops beyond the first"
"""The first column where candidates may be farther away than direct neighbours."""


@dataclass(frozen=True)
class PairTables:
    """What pair features are made of: the graph, and tables of its nodes; none of edges."""

    state: str
    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    unit: Features | None
    """Feature rows of length one."""
    circle: Features | None
    """Their sum over each node's neighbours."""

    @cached_property
    def unit_side(self) -> Side:
        """Return the rows of length one, ready for inner products."""
        assert self.unit is not None
        return side_of(self.unit)

    @cached_property
    def circle_side(self) -> Side:
        """Return the sums, likewise."""
        assert self.circle is not None
        return side_of(self.circle)

    @cached_property
    def unit_length(self) -> Float[Tensor, "nodes"]:
        """Return the squared length of each row; nothing or one."""
        return self._dots(self.unit_side, self.unit_side)

    @cached_property
    def circle_length(self) -> Float[Tensor, "nodes"]:
        """Return the squared length of each sum."""
        return self._dots(self.circle_side, self.circle_side)

    @cached_property
    def inner(self) -> Float[Tensor, "nodes"]:
        """Return the inner product of each node's row and its sum."""
        return self._dots(self.unit_side, self.circle_side)

    def _dots(self, left: Side, right: Side) -> Float[Tensor, "nodes"]:
        everyone = torch.arange(self.row_ptr.numel() - 1, device=self.row_ptr.device)
        return row_dots(left, everyone, right, everyone)

    def to(self, device: torch.device) -> PairTables:
        """Return the tables on another device."""
        if device == self.row_ptr.device:
            return self
        parts = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "state"}
        moved: dict[str, Any] = {
            name: None if part is None else part.to(device) for name, part in parts.items()
        }
        return type(self)(state=self.state, **moved)

    def edges_of(self, first: int, last: int) -> slice:
        """Return the edges of the nodes from ``first`` up to ``last``."""
        return slice(int(self.row_ptr[first]), int(self.row_ptr[last]))

    def ends_of(self, first: int, last: int) -> tuple[Int[Tensor, "some"], Int[Tensor, "some"]]:
        """Return the target and the neighbour of these edges."""
        target = owners_of(self.row_ptr[first : last + 1].diff()) + first
        return target, self.neighbour[self.edges_of(first, last)].long()

    def back_of(self, first: int, last: int) -> Int[Tensor, "some"]:
        """Return for each of these edges the one that runs the other way, -1 for none."""
        target, neighbour = self.ends_of(first, last)
        return find_in_rows(self.row_ptr, self.neighbour, neighbour, target)


def pair_names(state: str, hops: int = 1) -> tuple[str, ...]:
    """Return the columns that the policy is shown of a pair, by its state and how far candidates may be."""
    return PAIR_NAMES[state] if hops == 1 else (DISTANCE, *PAIR_NAMES[state])


def pair_tables(graph: Graph, state: str, unit: Features | None = None) -> PairTables:
    """Make the tables that a state needs; rows of length one are taken over if they are there already."""
    row_ptr, neighbour = graph.row_ptr, graph.neighbour
    if state == "paper":
        return PairTables(state, row_ptr, neighbour, None, None)
    unit = normalise(graph.features, "l2") if unit is None else unit
    if state == "pairs":
        return PairTables(state, row_ptr, neighbour, unit, None)
    circle = add_rows(unit, row_ptr, neighbour)
    return PairTables(state, row_ptr, neighbour, unit, circle)


def pair_features(graph: Graph, state: str) -> Float[Tensor, "edges pairs"]:
    """Return one row an edge, with the columns that `PAIR_NAMES` gives for this state."""
    return pairs_of(pair_tables(graph, state), 0, graph.num_nodes)[0]


def pairs_of(
    tables: PairTables, first: int, last: int
) -> tuple[Float[Tensor, "some pairs"], Int[Tensor, "some"]]:
    """Return the pair features of the edges of some targets, and the edge that runs the other way, -1 for none."""
    target, neighbour = tables.ends_of(first, last)
    if tables.unit is None or tables.circle is None:
        back = find_in_rows(tables.row_ptr, tables.neighbour, neighbour, target)
        return _few_columns(tables, target, neighbour), back
    on_chip = tables.row_ptr.is_cuda and isinstance(tables.unit, Tensor) and has_triton()
    found = look_on_chip(tables, first, last) if on_chip else look(tables, target, neighbour)
    mutual = (found.back >= 0).float()
    return _columns(tables, target, neighbour, found, torch.ones_like(mutual), mutual), found.back


def pairs_between(
    tables: PairTables, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]
) -> Float[Tensor, "some pairs"]:
    """Return the pair features of any two nodes, linked or not."""
    if tables.unit is None or tables.circle is None:
        return _few_columns(tables, target, neighbour)
    found = look(tables, target, neighbour)
    there = find_in_rows(tables.row_ptr, tables.neighbour, target, neighbour)
    direct, mutual = (there >= 0).float(), (found.back >= 0).float()
    return _columns(tables, target, neighbour, found, direct, mutual)


def _few_columns(
    tables: PairTables, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]
) -> Float[Tensor, "some pairs"]:
    """Return the columns of states that do not look at the graph around."""
    if tables.unit is None:
        return torch.zeros(target.numel(), 0, device=target.device)
    return row_dots(tables.unit_side, target, tables.unit_side, neighbour)[:, None]


def _columns(
    tables: PairTables,
    target: Int[Tensor, "some"],
    neighbour: Int[Tensor, "some"],
    found: Looked,
    direct: Float[Tensor, "some"],
    mutual: Float[Tensor, "some"],
) -> Float[Tensor, "some pairs"]:
    """Return the columns of some pairs; those with an edge to the target are ``direct``, from it ``mutual``."""
    degree = tables.row_ptr.diff()
    columns = [
        found.cosine,
        found.common.log1p(),
        found.adamic_adar.log1p(),
        *_circle_cosines(tables, target, neighbour, found, direct, mutual),
        degree[target].float().log1p(),
        degree[neighbour].float().log1p(),
    ]
    later = len(PAIR_NAMES[tables.state]) - len(columns)
    columns += [torch.zeros_like(found.cosine)] * later
    return torch.stack(columns, dim=1)


class Looked(NamedTuple):
    """What is found of edges by looking at the rows of their two nodes."""

    common: Float[Tensor, "some"]
    adamic_adar: Float[Tensor, "some"]
    cosine: Float[Tensor, "some"]
    near: Float[Tensor, "some"]
    """Inner product of the target and the sum over the neighbour's neighbours."""
    far: Float[Tensor, "some"]
    """Inner product of the neighbour and the sum over the target's neighbours."""
    between: Float[Tensor, "some"]
    """Inner product of both sums."""
    back: Int[Tensor, "some"]


def look(tables: PairTables, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]) -> Looked:
    """Look at some edges with plain tensors, on any device: the reference."""
    unit, circle = tables.unit_side, tables.circle_side
    return Looked(
        *_common_neighbours(tables, target, neighbour),
        row_dots(unit, target, unit, neighbour),
        row_dots(unit, target, circle, neighbour),
        row_dots(unit, neighbour, circle, target),
        row_dots(circle, target, circle, neighbour),
        find_in_rows(tables.row_ptr, tables.neighbour, neighbour, target),
    )


def look_on_chip(tables: PairTables, first: int, last: int) -> Looked:
    """Look at the edges of some targets on an NVIDIA GPU, a warp an edge; features must be dense."""
    from gdpnet.data.pair_kernel import launch_pairs

    target, edges = tables.ends_of(first, last)[0], tables.edges_of(first, last)
    assert isinstance(tables.unit, Tensor)
    assert isinstance(tables.circle, Tensor)
    columns, back = launch_pairs(
        tables.row_ptr, tables.neighbour, tables.unit, tables.circle, _rarity(tables), target, edges.start
    )
    common, rare, cosine, near, far, between = columns.unbind()
    return Looked(common, rare, cosine, near, far, between, back)


def _circle_cosines(
    tables: PairTables,
    target: Int[Tensor, "some"],
    neighbour: Int[Tensor, "some"],
    found: Looked,
    direct: Float[Tensor, "some"],
    mutual: Float[Tensor, "some"],
) -> tuple[Float[Tensor, "some"], Float[Tensor, "some"], Float[Tensor, "some"]]:
    """Compare each node of an edge, and its circle, with the other's circle: its neighbours but for this one.

    With S_u the sum of the unit features of u's neighbours, v's cosine to u's circle is
    (x_v S_u - x_v x_v) / |S_u - x_v|; only inner products are needed. Where no edge runs that way (``mutual``
    is zero for v to u, ``direct`` for u to v), the node is not in the other's circle and nothing is taken out of it.
    """
    unit, length, inner = tables.unit_length, tables.circle_length, tables.inner
    near = found.near - mutual * unit[target]
    far = found.far - direct * unit[neighbour]
    near_length = (length[neighbour] - mutual * (2.0 * near + unit[target])).clamp(min=0.0).sqrt()
    far_length = (length[target] - direct * 2.0 * far - direct * unit[neighbour]).clamp(min=0.0).sqrt()
    both = found.between - direct * inner[neighbour] + mutual * (direct * found.cosine - inner[target])
    return (
        _ratio(near, near_length),
        _ratio(far, far_length),
        _ratio(both, near_length * far_length),
    )


def _ratio(part: Float[Tensor, "edges"], whole: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
    return torch.where(whole > 1e-4, part / whole.clamp(min=1e-4), torch.zeros_like(part)).clamp(-1.0, 1.0)


def _common_neighbours(
    tables: PairTables, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]
) -> tuple[Float[Tensor, "some"], Float[Tensor, "some"]]:
    """Count the common neighbours of each edge's nodes, plainly and each by 1 / log of its degree."""
    rarity = _rarity(tables)
    common = torch.zeros(target.numel(), dtype=torch.double, device=target.device)
    adamic_adar = torch.zeros_like(common)
    rows = Rows(tables.row_ptr, tables.neighbour, partial(find_in_rows, tables.row_ptr, tables.neighbour))
    for edge, place, _ in matches(rows, target, rows, neighbour):
        common.index_add_(0, edge, common.new_ones(1).expand_as(edge))
        adamic_adar.index_add_(0, edge, rarity[tables.neighbour[place]].double())
    return common.float(), adamic_adar.float()


def _rarity(tables: PairTables) -> Float[Tensor, "nodes"]:
    """Return what each node counts for as a common neighbour: 1 / log of its degree."""
    return 1.0 / tables.row_ptr.diff().float().clamp(min=2.0).log()
