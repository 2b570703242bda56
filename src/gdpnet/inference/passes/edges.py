"""Passes that write tables of edges: pair features, context decisions, and final decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.pair_features import PAIR_NAMES, PairTables, pairs_of_edges, rarity_of
from gdpnet.data.sums_in_parts import EDGES_AT_ONCE
from gdpnet.inference.evidence import COLUMNS, STATE
from gdpnet.inference.observation import NodeRows, make_views
from gdpnet.inference.passes.job import Job, Output
from gdpnet.inference.passes.local import LocalBlock, Weights, local_block, weights_after, weights_before
from gdpnet.inference.select import Localise, Selected, decide, keep_all
from gdpnet.selection.episodes import Episodes, View

_MOST_BYTES = 1 << 28
"""Rows of nodes that a block may hold at once; the rows of a larger one are read batch by batch."""

_NODES_AT_ONCE = 1 << 22

_MULTIPLE = 64
"""Edges that the processor may work on at a time, or a divisor of that."""


def write_rarity(job: Job, number: int, out: Output) -> None:
    """Write the Adamic-Adar weight of every node, in one file."""
    row_ptr = job.source.row_ptr
    count = row_ptr.numel() - 1
    parts = (
        rarity_of(row_ptr[start : start + _NODES_AT_ONCE + 1].diff())
        for start in range(0, count, _NODES_AT_ONCE)
    )
    out.save_joined("rarity", torch.float32, count, parts)


def pieces(edges: slice) -> Iterator[slice]:
    """Split edges into pieces of about equal size that are not too large.

    They begin at multiples of a number of edges, as the last ones of an array may round in another way.
    """
    count = edges.stop - edges.start
    size = max(1, -(-count // max(1, -(-count // EDGES_AT_ONCE))))
    size += -size % _MULTIPLE
    for start in range(edges.start, max(edges.stop, edges.start + 1), size):
        yield slice(start, min(start + size, edges.stop))


def pair_block(job: Job, number: int, out: Output) -> None:
    """Write the pair features of a block's edges that do not depend on what was learned, and the reverse edges."""
    found = [_pairs_of(job, edges) for edges in pieces(job.source.edges_of(job.blocks[number]))]
    columns, structure, reverse = (torch.cat(part) for part in zip(*found, strict=True))
    out.save("pairs", columns)
    out.save("reverse", reverse)
    if job.has_evidence:
        evidence = job.model.networks.evidence
        assert evidence is not None
        if not job.has_structure:
            out.save("structure", structure)
        out.save("score", evidence.first_score(structure.to(evidence.device)))


def _pairs_of(job: Job, edges: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return the stored pair features of some edges, the structural ones for evidence, and the reverse edges."""
    target, neighbour = job.source.targets_of(edges), job.source.neighbours_of(edges)
    nodes = torch.unique(torch.cat([target, neighbour]))
    columns, reverse = pairs_of_edges(_tables(job, job.state, nodes), target, neighbour)
    columns = columns[:, :COLUMNS]
    structure = columns[:, :0]
    if job.has_evidence and job.has_structure:
        structure = columns
    elif job.has_evidence:
        structure = pairs_of_edges(_tables(job, STATE, nodes, evidence=True), target, neighbour)[0]
    if job.source.has("edge_features") and job.model.networks.policy is not None:
        columns = torch.cat([job.source.edge_features_of(edges), columns], dim=1)
    return columns, structure, reverse


def _tables(job: Job, state: str, nodes: Int[Tensor, "nodes"], *, evidence: bool = False) -> PairTables:
    """Return what the pair features of edges among some nodes are computed from."""
    links = job.source.links_around(nodes)
    if state == "paper":
        return PairTables(state, *links, None, None, nodes=nodes)
    unit = job.evidence_rows_of(nodes) if evidence else job.unit_rows_of(nodes)
    if state == "pairs":
        return PairTables(state, *links, unit, None, nodes=nodes)
    return PairTables(
        state,
        *links,
        unit,
        job.files.rows("sums", nodes),
        nodes=nodes,
        rarity=job.files.block("rarity", 0),
        products_of_rows=_columns_of(job.files.dense_rows("sums_products", nodes)),
    )


def _columns_of(products: Float[Tensor, "nodes 3"]) -> tuple[Tensor, Tensor, Tensor]:
    unit, length, inner = products.t().contiguous()
    return unit, length, inner


def structure_of(job: Job, number: int) -> Float[Tensor, "block columns"]:
    """Return the structural pair features of a block's edges."""
    if not job.has_structure:
        return job.files.block("structure", number)
    return job.files.block("pairs", number)[:, -COLUMNS:]


def context_block(job: Job, number: int, out: Output) -> None:
    """Write what a block's targets decide while every neighbourhood still holds all neighbours."""
    reverse, edges = job.files.block("reverse", number), job.source.edges_of(job.blocks[number])
    local = _local(job, number, weights_before(job, edges, reverse))
    chosen = _play(job, local, "context", "message", job.model.config.inference.context_episodes)
    out.save("context", chosen.probability)
    if job.model.config.inference.mode == "greedy":
        out.save("context_weight", chosen.weight("greedy"))


def decide_on(job: Job, number: int) -> Selected:
    """Return the final decisions on a block's edges."""
    local = _local(job, number, weights_after(job, number))
    if job.model.networks.policy is None:
        return keep_all(local.prepared)
    chosen = _play(job, local, "decide", "message_kept", None)
    if not (job.needs_context and job.model.config.inference.symmetrise):
        return chosen
    first = job.files.of_edges("context", job.files.block("reverse", number)).to(chosen.probability)
    return chosen.averaged_with_reverse(torch.cat([torch.zeros_like(first), first]))


def _local(job: Job, number: int, weights: Weights | None) -> LocalBlock:
    """Return a block with its pair features; the columns that depend on what was learned are still zero."""
    pairs = job.files.block("pairs", number)
    own = 0 if job.model.networks.policy is None else job.source.edge_columns
    pairs = F.pad(pairs, (0, own + len(PAIR_NAMES[job.state]) - pairs.shape[1]))
    return local_block(job, job.blocks[number], job.files.block("reverse", number), weights, pairs, own)


def _play(job: Job, local: LocalBlock, stream: str, message: str, most_episodes: int | None) -> Selected:
    """Run the episodes of a block's targets."""
    policy, aggregators, config = job.model.networks.policy, job.model.networks.aggregators, job.model.config
    assert policy is not None
    localise, rows = None, None
    if 8 * local.nodes.numel() * aggregators.width > _MOST_BYTES:
        localise = _by_batch(job, local, message)
    else:
        rows = _rows(job, local.nodes, message)
    seed = job.key.fold_in(stream).seed32
    given = (local.prepared, local.targets, config, seed, None, most_episodes, rows, localise)
    return decide(policy, aggregators, *given)


def _rows(job: Job, nodes: Int[Tensor, "nodes"], message: str) -> NodeRows:
    """Return the projections of some nodes, with two hops also those of their neighbourhood means."""
    own, device = job.files.dense_rows("own", nodes), job.model.device
    sent = torch.cat([job.files.dense_rows(message, nodes), own]) if job.two_hops else own
    sent = sent.to(device)
    if job.model.networks.aggregators.self_weight is not None:
        return NodeRows(slice(0, 1), job.files.dense_rows("own_self", nodes).to(device), sent)
    return NodeRows(slice(0, 1), sent[-nodes.numel() :], sent)


def _by_batch(job: Job, local: LocalBlock, message: str) -> Localise:
    """Return a function that reads the rows of the nodes of some episodes alone."""
    views = make_views(job.model.networks.aggregators, local.prepared)

    def localise(episodes: Episodes) -> tuple[View, Episodes]:
        place = torch.unique(torch.cat([episodes.row, episodes.target_row]))
        view = views(_rows(job, local.nodes[place.cpu()], message))
        found = {name: torch.searchsorted(place, getattr(episodes, name)) for name in ("row", "target_row")}
        return view, replace(episodes, **found)

    return localise
