"""Learn which edges are genuine: fit the evidence model, and combine it with the policy.

The model decides on a copy of the graph with injected random edges, as it would when the graph is cleaned. A logistic
regression of evidence, keep probability and agreement of predicted classes tells these edges from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet._core.roc import roc_auc
from gdpnet.config import Config, EvidenceSettings
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import as_read
from gdpnet.inference.evidence import Links, evidence_of
from gdpnet.inference.genuine import NAMES, Parts, genuine_inputs, local_classes
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected, select, with_neighbours
from gdpnet.inference.unsupervised import reduce_features
from gdpnet.representation.evidence import Calibration, logit
from gdpnet.training.callbacks import Steps
from gdpnet.training.fit_evidence import (
    FittedEvidence,
    Perturbed,
    calibrate,
    fit_evidence,
    inject,
    match_share,
)

NOTHING_TO_LEARN = (
    "there are no genuine probabilities: the graph has too few edges, or nearly all that there can be"
)


EvidenceBegun: TypeAlias = Callable[[], FittedEvidence | None]
"""Waits for an evidence model that is being fitted."""


def begin_evidence(whole: Prepared, config: Config, key: Key, beside: Beside) -> EvidenceBegun:
    """Begin to fit the evidence model to a prepared graph; return what waits for it."""
    return beside.start("evidence", partial(fit_evidence, whole, config, key.fold_in("evidence")))


def fit_genuine(
    networks: Networks,
    graph: Graph,
    whole: Prepared,
    config: Config,
    key: Key,
    steps: Steps,
    begun: EvidenceBegun | None = None,
) -> Float[Tensor, "edges"] | None:
    """Fit the evidence model to a graph and combine it with the policy; the networks hold the result.

    ``whole`` is the prepared graph. Without a policy nothing is fitted. If the evidence model is being fitted
    already, ``begun`` waits for it. Returns the evidence score of every edge, if there is a model.
    """
    about = "evidence", "learning which edges are genuine"
    if not config.evidence.use or networks.policy is None or steps.skips(*about):
        return None
    with steps.run(*about, share=0.3) as step:
        fitted = fit_evidence(whole, config, key.fold_in("evidence")) if begun is None else begun()
        if fitted is None:
            step.result = NOTHING_TO_LEARN
            return None
        networks.evidence, score = fitted
        match_share(networks.evidence.second_calibration, logit(score)[:, None])
        found = _decide_on_injected(networks, graph, whole, config, key.fold_in("genuine"))
        if found is None:
            step.result = "evidence alone: no edges can be injected for the policy to decide on"
            return score
        networks.genuine, step.result = _combine(found, config.evidence)
    return score


@torch.no_grad()
def match_genuine(
    networks: Networks, selected: Selected, config: Config, score: Float[Tensor, "edges"] | None
) -> Float[Tensor, "edges"] | None:
    """Return the genuine probability of every edge of the graph that was decided on, and match their mean to it.

    There is none without an evidence model, and so without evidence scores.
    """
    if networks.evidence is None or score is None:
        return None
    prepared = selected.prepared
    if networks.genuine is None:
        return networks.evidence.genuine(score)
    keep = prepared.on_edges(prepared.symmetrise(selected.probability))
    classes = local_classes(networks.aggregators, selected, config.inference.mode, 0, prepared.num_nodes)
    links = Links.of(prepared, config)
    target, neighbour = (end.to(keep.device) for end in links.ends_of(links.everything))
    inputs = genuine_inputs(Parts(score, keep), classes[target], classes[neighbour])
    match_share(networks.genuine, inputs)
    return networks.genuine(inputs)


@dataclass(frozen=True)
class Decided:
    """Some edges of a perturbed graph: what is known of them as logits, and which are the graph's own."""

    inputs: Float[Tensor, "some parts"]
    own: Bool[Tensor, "some"]


@torch.no_grad()
def _decide_on_injected(
    networks: Networks, graph: Graph, whole: Prepared, config: Config, key: Key
) -> Decided | None:
    """Let the policy decide on a perturbed copy of the graph, or on the edges of some of its nodes."""
    noisy = inject(graph, config.evidence.rate, key.seed32)
    if noisy is None:
        return None
    read = as_read(noisy, config)
    read = read if networks.basis is None else reduce_features(read, networks.basis.cpu())
    perturbed = prepare(read, config, whole.device)
    own = Perturbed.of(Links.of(perturbed, config), Links.of(whole, config)).own.to(whole.device)
    some = _some_nodes(perturbed, config.evidence.targets, key)
    nodes = with_neighbours(perturbed, some)
    aggregators, stream = networks.aggregators, key.fold_in("predict")
    chosen = select(networks.policy, aggregators, perturbed, nodes, config, stream)
    is_drawn, is_asked = _flags(perturbed, some), _flags(perturbed, nodes)
    target, neighbour = noisy.target.to(whole.device), noisy.neighbour.long().to(whole.device)
    # not the edges between two neighbours of drawn nodes: these close triangles, which injected edges hardly do
    known = is_asked[target] & is_asked[neighbour] & (is_drawn[target] | is_drawn[neighbour])
    keep = perturbed.on_edges(perturbed.symmetrise(chosen.probability))
    assert networks.evidence is not None
    score = evidence_of(networks.evidence, perturbed, config)
    classes = local_classes(aggregators, chosen, config.inference.mode, 0, perturbed.num_nodes)
    target, neighbour = target[known], neighbour[known]
    inputs = genuine_inputs(Parts(score[known], keep[known]), classes[target], classes[neighbour])
    return Decided(inputs, own[known])


def _flags(prepared: Prepared, nodes: Int[Tensor, "some"]) -> Bool[Tensor, "nodes"]:
    """Return which nodes of a graph are among some."""
    flags = torch.zeros(prepared.num_nodes, dtype=torch.bool, device=prepared.device)
    flags[nodes] = True
    return flags


def _some_nodes(prepared: Prepared, most: int, key: Key) -> Int[Tensor, "some"]:
    order = torch.randperm(prepared.num_nodes, generator=key.fold_in("nodes").generator())
    return order[:most].sort().values.to(prepared.device)


def _combine(found: Decided, settings: EvidenceSettings) -> tuple[Calibration | None, str]:
    """Fit the combination; if one part is better alone, nothing but that part is read."""
    own, inputs = found.own, found.inputs
    if not bool(own.any()) or bool(own.all()):
        return None, "evidence alone: no injected edge was decided on"
    combined = Calibration(len(NAMES)).to(own.device)
    calibrate(combined, inputs, own, settings)
    alone = [float(roc_auc(own, inputs[:, place])) for place in range(len(NAMES))]
    together = float(roc_auc(own, combined.log_ratio(inputs)))
    each = ", ".join(f"{score:.3f} by {name}" for score, name in zip(alone, NAMES, strict=True))
    result = f"ROC AUC on injected edges {each}, {together:.3f} together"
    if together < max(alone):
        best = alone.index(max(alone))
        part = torch.zeros(len(NAMES), device=own.device)
        part[best] = 1.0
        calibrate(combined, inputs * part, own, settings)
        result += f": {NAMES[best]} alone"
    return combined, result
