"""The probability that an edge is genuine: evidence, the policy and predicted classes together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows
from gdpnet.config import Config
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import aggregate, edges_at_once
from gdpnet.inference.evidence import evidence_of
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.evidence import logit
from gdpnet.selection.policy import agreement

NAMES = ("evidence", "the policy", "predicted classes")
"""The parts that the combination reads, in this order."""

_EDGES_AT_ONCE = 1 << 15
"""Edges whose targets are embedded at once, by every fold model; more of them project fewer nodes twice."""

_LEAST_AGREEMENT = 0.01


class Parts(NamedTuple):
    """What is known of some edges, alike in both directions: the evidence score, and the keep probability."""

    score: Float[Tensor, "edges"]
    keep_probability: Float[Tensor, "edges"]


def genuine_inputs(
    parts: Parts, target: Float[Tensor, "edges classes"], neighbour: Float[Tensor, "edges classes"]
) -> Float[Tensor, "edges parts"]:
    """Return the parts as logits: evidence score, keep probability, agreement of the classes of both nodes."""
    agree = agreement(target, neighbour).clamp(_LEAST_AGREEMENT, 1.0 - _LEAST_AGREEMENT)
    return torch.stack([logit(parts.score), logit(parts.keep_probability), logit(agree)], dim=1)


@torch.no_grad()
def genuine_probability(
    networks: Networks,
    parts: Parts,
    classes: Float[Tensor, "nodes classes"] | None,
    ends: tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]],
) -> Float[Tensor, "edges"]:
    """Return the probability that edges are genuine, given the class probabilities of all nodes.

    Without a fitted combination, or without classes, the evidence alone says it.
    """
    assert networks.evidence is not None
    if networks.genuine is None or classes is None:
        return networks.evidence.genuine(parts.score)
    target, neighbour = ends
    return networks.genuine(genuine_inputs(parts, classes[target], classes[neighbour]))


def evidence_in(
    networks: Networks, prepared: Prepared, config: Config, some: Int[Tensor, "some"] | None = None
) -> Float[Tensor, "edges"] | None:
    """Return the evidence score of every edge of a graph, or of some; None if there is no evidence model."""
    return None if networks.evidence is None else evidence_of(networks.evidence, prepared, config, some)


def genuine_of(
    networks: Networks,
    selected: Selected,
    score: Float[Tensor, "edges"],
    ends: tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]],
    mode: str,
    nodes: Int[Tensor, "some"] | None = None,
) -> Float[Tensor, "edges"]:
    """Return the probability that every edge of a graph in memory is genuine, given the evidence score.

    It is right for edges that both nodes have decided on, and if some ``nodes`` are given for those between them.
    """
    prepared, classes = selected.prepared, None
    keep = prepared.on_edges(prepared.symmetrise(selected.probability))
    if networks.genuine is not None and nodes is None:
        classes = local_classes(networks.aggregators, selected, mode, 0, prepared.num_nodes)
    elif networks.genuine is not None and nodes is not None:
        found = aggregate(networks.aggregators, prepared, nodes, selected.weight(mode))[1]
        classes = found.new_zeros(prepared.num_nodes, found.shape[1]).index_copy(0, nodes, found)
    target, neighbour = (end.long().to(keep.device) for end in ends)
    return genuine_probability(networks, Parts(score, keep), classes, (target, neighbour))


@torch.no_grad()
def local_classes(
    aggregators: Aggregators, selected: Selected, mode: str, first: int, last: int
) -> Float[Tensor, "targets classes"]:
    """Return the aggregators' class probabilities of the nodes from ``first`` up to ``last``, some at a time."""
    prepared, weight, parts = selected.prepared, selected.weight(mode), []
    most = edges_at_once(aggregators, prepared, _EDGES_AT_ONCE)
    for low, high in cut_rows(prepared.row_ptr[first : last + 1], most):
        nodes = torch.arange(first + low, first + high, device=prepared.device)
        parts.append(aggregate(aggregators, prepared, nodes, weight)[1])
    return torch.cat(parts)
