"""Passes that write what the user asked for: edges with their probabilities, embeddings, and predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import cut_rows, owners_of
from gdpnet.data.features import Features
from gdpnet.data.prepare import Prepared, Readers
from gdpnet.inference.edge_tables import Decided, decided_edges
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.genuine import Parts, genuine_probability
from gdpnet.inference.passes.edges import decide_on
from gdpnet.inference.passes.heads import heads_of
from gdpnet.inference.passes.job import Job, Output
from gdpnet.inference.passes.local import LocalBlock, Weights, local_block, weights_after
from gdpnet.inference.passes.nodes import both_ways
from gdpnet.inference.select import Selected
from gdpnet.inference.tally import Tally
from gdpnet.inference.threshold import edge_weights
from gdpnet.representation.regression import Regression

_EDGES_AT_ONCE = 1 << 15
"""Edges whose targets are embedded at once, by every fold model."""

Some = tuple[Prepared, Tensor, Tensor]
"""Some targets as a graph of its own, their places in it, and the weights of their edges."""


def decide_block(job: Job, number: int, out: Output) -> None:
    """Write the final decisions on a block's edges and what follows for its targets alone."""
    chosen, ensemble = decide_on(job, number), job.model.ensemble
    if job.kind == "embed":
        found = torch.cat([ensemble.local(*some)[0] for some in _targets(job, number, chosen)])
        columns = {f"h{place}": column for place, column in enumerate(found.cpu().numpy().T)}
        out.shard(pa.table({"id": _ids(job, number)} | columns))
        return
    out.save("decision", chosen.probability)
    if job.kind == "predict":
        found = torch.cat([ensemble.local(*some)[1] for some in _targets(job, number, chosen)])
        out.save("local", found)
    elif job.needs_classes:
        aggregators = job.model.networks.aggregators
        found = torch.cat([aggregate(aggregators, *some)[1] for some in _targets(job, number, chosen)])
        out.save("classes", found)


def _targets(job: Job, number: int, chosen: Selected) -> Iterator[Some]:
    """Yield a block's targets, some at a time, with what reads the features of the nodes around them."""
    (first, last), source = job.blocks[number], job.source
    reverse, weights = job.files.block("reverse", number), weights_after(job, number)
    share, start = chosen.weight(job.model.config.inference.mode), int(source.row_ptr[first])
    for low, high in cut_rows(source.row_ptr[first : last + 1], _EDGES_AT_ONCE):
        block = (first + low, first + high)
        edges = source.edges_of(block)
        some = slice(edges.start - start, edges.stop - start)
        few = weights and Weights(weights.own[some], weights.reverse[some], weights.whole)
        local = local_block(job, block, reverse[some], few, torch.zeros(edges.stop - edges.start, 0))
        yield replace(local.prepared, readers=_readers(job, local)), local.targets, share[some]


def _readers(job: Job, local: LocalBlock) -> Readers:
    """Return what reads the features and the neighbourhood means of nodes of a block, by their places in it."""
    device = job.model.device

    def features(place: Tensor) -> Features:
        return job.rows_of(local.nodes[place.cpu()]).to(device)

    def neighbourhood(place: Tensor) -> Features:
        return job.files.rows("neighbourhood", local.nodes[place.cpu()]).to(device)

    return Readers(features, neighbourhood if job.two_hops else None)


def _ids(job: Job, number: int) -> Any:
    return job.source.names_of(np.arange(*job.blocks[number]))


def write_edges(job: Job, number: int, out: Output) -> None:
    """Write the shard of a block's edges, and what was counted of them."""
    settings, source, block = job.about, job.source, job.blocks[number]
    edges, least = source.edges_of(block), float(settings["threshold"])
    value = (
        both_ways(job, "decision", number) if settings["symmetric"] else job.files.block("decision", number)
    )
    weight = None
    if source.has("edge_weight"):
        share = edge_weights(value, least) if job.plan["weigh"] else value
        weight = share.numpy() * source.weight_of(edges).numpy()
    genuine = _genuine(job, number) if job.has_evidence else None
    decided = Decided(value.numpy(), (value >= least).numpy(), weight, genuine)
    names, target, neighbour = _names_around(job, number)
    table = pa.table({"source": names.take(neighbour), "target": names.take(target)})
    out.shard(decided_edges(table, decided, all_edges=settings["all_edges"]))
    tally = Tally()
    spurious = source.spurious_of(edges).numpy() if source.has("spurious") else None
    tally.add(decided.probability, decided.kept, spurious)
    out.save("tally", torch.from_numpy(tally.packed(by_probability=spurious is not None)))


def _names_around(job: Job, number: int) -> tuple[Any, Any, Any]:
    """Return the ids of a block's nodes and of their neighbours, and the places of each edge's ends among them."""
    first, last = job.blocks[number]
    edges = job.source.edges_of((first, last))
    nodes, place = np.unique(
        np.concatenate([np.arange(first, last), job.source.neighbours_of(edges).numpy()]), return_inverse=True
    )
    target = owners_of(job.source.row_ptr[first : last + 1].diff()).numpy()
    return job.source.names_of(nodes), pa.array(place[target]), pa.array(place[last - first :])


def _genuine(job: Job, number: int) -> Float[np.ndarray, "block"]:
    """Return the probability that a block's edges are genuine."""
    networks, source, (first, last) = job.model.networks, job.source, job.blocks[number]
    device = job.model.device
    parts = Parts(*(both_ways(job, name, number).to(device) for name in ("evidence", "decision")))
    target, neighbour = owners_of(source.row_ptr[first : last + 1].diff()), torch.zeros(0, dtype=torch.long)
    if not job.needs_classes:
        return genuine_probability(networks, parts, None, (target, target)).cpu().numpy()
    neighbour = source.neighbours_of(source.edges_of((first, last)))
    nodes, place = torch.unique(torch.cat([torch.arange(first, last), neighbour]), return_inverse=True)
    ends = (place[target].to(device), place[last - first :].to(device))
    classes = job.files.dense_rows("classes", nodes).to(device)
    return genuine_probability(networks, parts, classes, ends).cpu().numpy()


def write_predictions(job: Job, number: int, out: Output) -> None:
    """Write the shard of a block's predictions."""
    model, nodes = job.model, slice(*job.blocks[number])
    others = {name: job.files.block(name, number).to(model.device) for name in heads_of(job)}
    heads = {"trees": model.networks.trees, "linear": model.networks.linear}
    for name, head in heads.items():
        if head is not None and getattr(model.weights, name) > 0:
            own = job.source.rows.slice(nodes)
            assert isinstance(own, Tensor), "these heads read dense features"
            others[name] = head.to_probabilities(own.to(model.device, torch.float32))
    local = job.files.block("local", number).to(model.device)
    found = model.ensemble.add_others(local, others)
    out.shard(pa.table({"id": _ids(job, number)} | prediction_columns(model.task, model, found)))


def prediction_columns(task: Any, model: Any, found: Float[Tensor, "nodes classes"]) -> dict[str, np.ndarray]:
    """Return the columns of a table of predictions: numbers with two quantiles, or classes with probabilities."""
    if isinstance(task, Regression):
        low, high = (task.quantile(found, share).cpu().numpy() for share in (0.1, 0.9))
        return {"prediction": task.mean(found).cpu().numpy(), "low": low, "high": high}
    probability = found.cpu().numpy()
    columns = {f"p_{label}": column for label, column in zip(model.classes, probability.T, strict=True)}
    return {"predicted": model.named(probability)} | columns
