"""Represent nodes by AGG, the reader or both, from neighbours that were selected already."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges
from gdpnet.data.features import Features, mix_into, take_rows
from gdpnet.data.prepare import Prepared, given_to_target
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.representation.hopwise import Reader

_EDGES_AT_ONCE = 1 << 17


@torch.no_grad()
def represent(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "block"],
    reader: Reader | None = None,
    batch: int = 16384,
) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
    """Return the representations of some targets from their weighted neighbours, and their log-probabilities.

    AGG has the say, or the reader, or both vote. Representations are those of member 0 of AGG, unless the reader
    alone has the say; the probability of a class is the mean over all members.
    """
    embeddings, chances = [], []
    for part in torch.split(targets, batch):
        hidden, votes = _say(aggregators, prepared, part, edge_weight, reader)
        embeddings.append(hidden)
        chances.append(votes.log())
    if not embeddings:
        return aggregators.bias.new_zeros(0, aggregators.width), aggregators.bias.new_zeros(
            0, aggregators.classes
        )
    return torch.cat(embeddings), torch.cat(chances)


def _say(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "block"],
    reader: Reader | None,
) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
    """Return the representations and class probabilities of some targets, by those who have the say."""
    share = 0.0 if reader is None else float(reader.share)
    if reader is None or share < 1.0:
        hidden, votes = see(aggregators, prepared, targets, edge_weight)
        chance = votes.mean(dim=1)
        if reader is None:
            return hidden[:, 0], chance
    read = reader.embed(rings_of(prepared, targets, edge_weight))
    said = reader.votes(read).mean(dim=1)
    return (read[:, 0], said) if share == 1.0 else (hidden[:, 0], torch.lerp(chance, said, share))


def rings_of(
    prepared: Prepared, targets: Int[Tensor, "targets"], edge_weight: Float[Tensor, "block"]
) -> list[Features]:
    """Return what a reader reads of some targets: their features, and the means over what was selected, ring by ring.

    The second ring, with two hops alone, is the mean over the first ring's mean and what the neighbours give.
    """
    start = prepared.row_ptr[targets]
    owner, edge = ranges(start, prepared.row_ptr[targets + 1] - start)
    edge, owner, weight = _weighing(prepared, edge, owner, edge_weight[edge - prepared.first_edge])
    row_ptr = offsets_of(torch.bincount(owner, minlength=targets.numel()))
    links = (row_ptr, prepared.neighbour[edge], weight)
    own = take_rows(prepared.features, targets)
    first = mix_into(own, prepared.features, *links)
    if prepared.edge_weight is None:
        return [own, first]
    return [own, first, mix_into(first, prepared.circle, *links)]


def _weighing(
    prepared: Prepared, edge: Int[Tensor, "n"], owner: Int[Tensor, "n"], share: Float[Tensor, "n"]
) -> tuple[Int[Tensor, "m"], Int[Tensor, "m"], Float[Tensor, "m"]]:
    """Return the edges of which anything is kept, with their owners, and their weights in a mean."""
    kept = share > 0
    edge, owner, weight = edge[kept], owner[kept], share[kept]
    return edge, owner, weight if prepared.given_weight is None else weight * prepared.given_weight[edge]


def see(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "block"],
) -> tuple[Float[Tensor, "targets members width"], Float[Tensor, "targets members classes"]]:
    """Return every member's embeddings and class probabilities."""
    owner, edge = ranges(prepared.row_ptr[targets], prepared.row_ptr[targets + 1] - prepared.row_ptr[targets])
    edge, owner, weight = _weighing(prepared, edge, owner, edge_weight[edge - prepared.first_edge])
    own_rows = take_rows(prepared.features, targets)
    own = aggregators.project_own(own_rows)
    single = own if aggregators.self_weight is None else aggregators.project_given(own_rows)
    total, whole = torch.zeros_like(own), own.new_zeros(targets.numel())
    for some, of, by in zip(
        edge.split(_EDGES_AT_ONCE), owner.split(_EDGES_AT_ONCE), weight.split(_EDGES_AT_ONCE), strict=True
    ):
        nodes, place = torch.unique(prepared.neighbour[some], return_inverse=True)
        circle = aggregators.project_given(take_rows(prepared.circle, nodes))
        share = prepared.share_of_target(some, prepared.neighbour[some])
        given = given_to_target(circle[place], single[of], share)
        added, weighed = add_neighbours(given, of, by, targets.numel())
        total, whole = total + added, whole + weighed
    embedded = aggregators.embed(own, total, whole, aggregators.bias)
    return embedded, aggregators.believe(aggregators.logits(embedded), dim=2)
