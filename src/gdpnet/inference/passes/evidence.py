"""Passes of the evidence model: the graph without suspected edges, and the score of every edge in both graphs."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, owners_of
from gdpnet.data.pair_features import PairTables, pairs_between, rarity_of
from gdpnet.inference.evidence import STATE
from gdpnet.inference.passes.edges import pieces, structure_of
from gdpnet.inference.passes.job import Job, Output
from gdpnet.inference.passes.nodes import both_ways, save_sums


def clean_block(job: Job, number: int, out: Output) -> None:
    """Write the edges of a block that the first score trusts, and the sums over these neighbours."""
    evidence, source, (first, last) = job.model.networks.evidence, job.source, job.blocks[number]
    assert evidence is not None
    edges = source.edges_of((first, last))
    trusted = evidence.is_trusted(both_ways(job, "score", number).to(evidence.device)).cpu()
    owner = owners_of(source.row_ptr[first : last + 1].diff())[trusted]
    length = torch.bincount(owner, minlength=last - first)
    neighbour = source.neighbours_of(edges)[trusted]
    out.save("cleaned_degree", length)
    out.save("cleaned_neighbour", neighbour.to(source.index_type))
    links = (offsets_of(length), neighbour)
    save_sums(job, number, out, "cleaned_sums", job.evidence_rows_of, *links)


def join_cleaned(job: Job, number: int, out: Output) -> None:
    """Write the cleaned edges of all blocks in one file each: offsets, neighbours, and Adamic-Adar weights."""
    lengths = [job.files.block("cleaned_degree", block) for block in range(len(job.blocks))]
    nodes, totals = job.blocks[-1][1], [0, *torch.stack([one.sum() for one in lengths]).cumsum(0).tolist()]
    out.save_joined("cleaned_rarity", torch.float32, nodes, (rarity_of(one) for one in lengths))
    offsets = (
        offsets_of(one)[int(place > 0) :] + before
        for place, (one, before) in enumerate(zip(lengths, totals[:-1], strict=True))
    )
    out.save_joined("cleaned_row_ptr", torch.long, nodes + 1, offsets)
    links = (job.files.block("cleaned_neighbour", block) for block in range(len(job.blocks)))
    out.save_joined("cleaned_links", job.source.index_type, totals[-1], links)


def score_block(job: Job, number: int, out: Output) -> None:
    """Write the evidence score of a block's edges, each in its own direction."""
    evidence = job.model.networks.evidence
    assert evidence is not None
    found = []
    for edges in pieces(job.source.edges_of(job.blocks[number])):
        target, neighbour = job.source.targets_of(edges), job.source.neighbours_of(edges)
        found.append(pairs_between(_cleaned_tables(job, target, neighbour), target, neighbour))
    columns = (structure_of(job, number), torch.cat(found))
    out.save("evidence", evidence.second_score(*(one.to(evidence.device) for one in columns)))


def _cleaned_tables(job: Job, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]) -> PairTables:
    nodes = torch.unique(torch.cat([target, neighbour]))
    row_ptr = job.files.block("cleaned_row_ptr", 0)
    products: Float[Tensor, "nodes 3"] = job.files.dense_rows("cleaned_sums_products", nodes)
    unit, length, inner = products.t().contiguous()
    return PairTables(
        STATE,
        row_ptr,
        job.files.links("cleaned_links", row_ptr, nodes),
        job.evidence_rows_of(nodes),
        job.files.rows("cleaned_sums", nodes),
        nodes=nodes,
        rarity=job.files.block("cleaned_rarity", 0),
        products_of_rows=(unit, length, inner),
    )
