"""Passes that write tables of nodes: projected features, sums over neighbours, and neighbourhood means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, owners_of, sum_by_owner, symmetrise
from gdpnet.data.features import Features, SparseRows, normalise, stack_rows, to_sparse
from gdpnet.data.neighbour_sums import add_rows
from gdpnet.data.row_products import row_dots, side_of
from gdpnet.data.sums_in_parts import EDGES_AT_ONCE, RowsOf, add_in_parts, add_long_row, mix_in_parts
from gdpnet.inference.passes.job import Job, Output

_ROWS_AT_ONCE = 1 << 16
_LEAST_ROWS = 16
"""Products of fewer rows round in another way, so that they are padded with zeros."""


def project_block(job: Job, number: int, out: Output) -> None:
    """Write the projections of a block's nodes by the first aggregator."""
    aggregators, first_model = job.model.networks.aggregators, slice(0, 1)
    projections = {"own": aggregators.project_message}
    if aggregators.self_weight is not None:
        projections["own_self"] = aggregators.project_own
    for name, project in projections.items():
        parts = [project(rows, first_model)[:count, 0] for rows, count in _padded_rows(job, number)]
        out.save(name, torch.cat(parts))


def _padded_rows(job: Job, number: int) -> Iterator[tuple[Features, int]]:
    """Yield the features of a block's nodes, some at a time, and how many of them there are."""
    kind, device = job.model.config.features.normalise, job.model.device
    for nodes in _ranges(*job.blocks[number]):
        rows = normalise(job.source.rows.slice(nodes), kind).to(device)
        yield padded(rows), rows.shape[0]


def padded(rows: Features) -> Features:
    """Return rows whose products round as those of many rows do."""
    lacking = max(0, _LEAST_ROWS - rows.shape[0])
    return rows if isinstance(rows, SparseRows) else F.pad(rows, (0, 0, 0, lacking))


def _ranges(first: int, last: int) -> Iterator[slice]:
    for start in range(first, last, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, last))


def project_features(
    job: Job, number: int, weight: Float[Tensor, "features out"]
) -> Float[Tensor, "nodes out"]:
    """Return the features of a block's nodes times a matrix."""
    from gdpnet.representation.sparse import times

    return torch.cat([times(rows, weight)[:count] for rows, count in _padded_rows(job, number)])


def sum_block(job: Job, number: int, out: Output) -> None:
    """Write sums over all neighbours of a block's nodes: of unit rows, of weights, and means of projections."""
    bounds, neighbour, weight = links_of(job, number)
    if job.has_structure or job.has_evidence:
        rows_of = job.unit_rows_of if job.has_structure else job.evidence_rows_of
        save_sums(job, number, out, "sums", rows_of, bounds, neighbour)
    if job.two_hops and job.model.networks.policy is not None:
        out.save("whole", 1.0 + row_sums(weight, bounds))
        out.save("message", _mixed(job, number, "own", bounds, neighbour, weight))


def links_of(
    job: Job, number: int
) -> tuple[Int[Tensor, "offsets"], Int[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Return the offsets, the neighbours and the weights in the graph of a block's edges."""
    (first, last), source = job.blocks[number], job.source
    edges = source.edges_of((first, last))
    bounds = source.row_ptr[first : last + 1] - edges.start
    return bounds, source.neighbours_of(edges), source.weight_of(edges)


def save_sums(
    job: Job, number: int, out: Output, name: str, rows_of: RowsOf, bounds: Tensor, neighbour: Tensor
) -> None:
    """Write the sum of the neighbours' unit rows, and its products, for each node of a block."""
    nodes = torch.arange(*job.blocks[number])
    unit = rows_of(nodes)
    if isinstance(unit, SparseRows):
        total = _sparse_sums(nodes, bounds, neighbour, rows_of)
    else:
        total = add_in_parts(bounds, neighbour, None, rows_of, unit.shape[1])
    out.save(name, total)
    sides, place = (side_of(unit), side_of(total)), torch.arange(nodes.numel())
    pairs = ((0, 0), (1, 1), (0, 1))
    found = [row_dots(sides[one], place, sides[other], place) for one, other in pairs]
    out.save(f"{name}_products", torch.stack(found, dim=1))


def mean_block(job: Job, number: int, out: Output) -> None:
    """Write the weights of a block's edges after the context pass, and neighbourhood means with these weights."""
    bounds, neighbour, weight = links_of(job, number)
    if job.needs_context:
        name = "context_weight" if job.model.config.inference.mode == "greedy" else "context"
        share = job.files.block(name, number)
        if job.model.config.inference.symmetrise:
            share = both_ways(job, name, number)
        weight = share * weight if job.source.has("edge_weight") else share
    out.save("weight", weight)
    out.save("whole_kept", 1.0 + row_sums(weight, bounds))
    if job.model.networks.policy is not None:
        out.save("message_kept", _mixed(job, number, "own", bounds, neighbour, weight))
    if job.reads_neighbourhoods:
        own = job.rows_of(torch.arange(*job.blocks[number]))
        out.save("neighbourhood", mix_in_parts(own, job.rows_of, bounds, neighbour, weight))


def both_ways(job: Job, name: str, number: int) -> Float[Tensor, "block"]:
    """Return the mean of the values of each edge of a block and of its reverse edge."""
    reverse = job.files.block("reverse", number)
    own, other = job.files.block(name, number), job.files.of_edges(name, reverse)
    count = own.numel()
    return symmetrise(torch.cat([own, other]), torch.where(reverse >= 0, torch.arange(count) + count, -1))


def row_sums(weight: Float[Tensor, "edges"], bounds: Int[Tensor, "offsets"]) -> Float[Tensor, "rows"]:
    """Return the sum of the weights of each node's edges."""
    return sum_by_owner(weight, owners_of(bounds.diff()), bounds.numel() - 1)


def _mixed(job: Job, number: int, name: str, bounds: Tensor, neighbour: Tensor, weight: Tensor) -> Features:
    """Return the mean of each node's row of a table, which weighs one, and its neighbours' weighted rows."""
    rows_of = partial(job.files.dense_rows, name)
    return mix_in_parts(job.files.block(name, number), rows_of, bounds, neighbour, weight)


def _sparse_sums(nodes: Tensor, bounds: Tensor, neighbour: Tensor, rows_of: RowsOf) -> Features:
    """Return the sums of the neighbours' sparse rows; a long row is added up in parts."""
    parts: list[Features] = []
    for first, last in cut_rows(bounds, EDGES_AT_ONCE):
        edges = slice(int(bounds[first]), int(bounds[last]))
        if edges.stop - edges.start > EDGES_AT_ONCE:
            parts.append(to_sparse(add_long_row(neighbour[edges], None, rows_of)))
            continue
        around, place = torch.unique(torch.cat([nodes[first:last], neighbour[edges]]), return_inverse=True)
        here, length = place[: last - first], torch.zeros_like(around)
        length[here] = bounds[first : last + 1].diff()
        total = add_rows(rows_of(around), offsets_of(length), place[last - first :])
        assert isinstance(total, SparseRows)
        parts.append(total.take(here))
    return stack_rows(parts)
