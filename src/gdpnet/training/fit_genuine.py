"""Learn which edges are genuine: fit the evidence model, and combine it with the policy.

The policy decides on a copy of the graph with injected random edges, as it would when the graph is cleaned. A logistic
regression of evidence and keep probability tells these edges from the others. No label is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet._core.roc import roc_auc
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import as_read
from gdpnet.errors import GraphError
from gdpnet.inference.evidence import Links, evidence_of
from gdpnet.inference.genuine import genuine_inputs
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import edges_of, select, with_neighbours
from gdpnet.inference.unsupervised import reduce_features
from gdpnet.representation.evidence import Calibration
from gdpnet.training.callbacks import Steps
from gdpnet.training.fit_evidence import Perturbed, calibrate, fit_evidence

NOTHING_TO_LEARN = (
    "there are no genuine probabilities: the graph has too few edges, or nearly all that there can be"
)


def fit_genuine(
    networks: Networks, graph: Graph, whole: Prepared, config: Config, key: Key, steps: Steps
) -> None:
    """Fit the evidence model to a graph and combine it with the policy; the networks hold the result.

    ``whole`` is the prepared graph. Without a policy nothing is fitted.
    """
    about = "evidence", "learning which edges are genuine"
    if not config.evidence.use or networks.policy is None or steps.skips(*about):
        return
    with steps.run(*about) as step:
        networks.evidence = fit_evidence(whole, config, key.fold_in("evidence"))
        if networks.evidence is None:
            step.result = NOTHING_TO_LEARN
            return
        found = _decide_on_injected(networks, graph, whole, config, key.fold_in("genuine"))
        if found is None:
            step.result = "evidence alone: no edges can be injected for the policy to decide on"
            return
        share = networks.evidence.second_calibration.noise_share
        networks.genuine, step.result = _combine(found, share)


@dataclass(frozen=True)
class Decided:
    """Some edges of a perturbed graph: evidence and decisions as logits, and which edges are the graph's own."""

    inputs: Float[Tensor, "some 2"]
    own: Bool[Tensor, "some"]


@torch.no_grad()
def _decide_on_injected(
    networks: Networks, graph: Graph, whole: Prepared, config: Config, key: Key
) -> Decided | None:
    """Let the policy decide on a perturbed copy of the graph, or on the edges of some of its nodes."""
    try:
        noisy = corrupt(replace(graph, truth=None), "random-links", config.evidence.rate, key.seed32).graph
    except GraphError:  # nearly complete graph
        return None
    read = as_read(noisy, config)
    read = read if networks.basis is None else reduce_features(read, networks.basis.cpu())
    perturbed = prepare(read, config, whole.device)
    own = Perturbed.of(Links.of(perturbed, config), Links.of(whole, config)).own.to(whole.device)
    targets = _some_nodes(perturbed, config.evidence.targets, key)
    asked, aggregators = with_neighbours(perturbed, targets), networks.aggregators
    chosen = select(networks.policy, aggregators, perturbed, asked, config, key.fold_in("predict"))
    keep = perturbed.on_edges(perturbed.symmetrise(chosen.probability))
    assert networks.evidence is not None
    inputs = genuine_inputs(evidence_of(networks.evidence, perturbed, config), keep)
    decided = torch.zeros(perturbed.neighbour.numel(), dtype=torch.bool, device=whole.device)
    decided[edges_of(perturbed, targets)[1]] = True
    decided = perturbed.on_edges(decided)
    return Decided(inputs[decided], own[decided])


def _some_nodes(prepared: Prepared, most: int, key: Key) -> Int[Tensor, "some"]:
    order = torch.randperm(prepared.num_nodes, generator=key.fold_in("nodes").generator())
    return order[:most].sort().values.to(prepared.device)


def _combine(found: Decided, noise_share: Float[Tensor, ""]) -> tuple[Calibration | None, str]:
    """Fit the combination; of a part that is better alone, nothing but that part is read.

    The share of noise is that of the evidence: the policy has been trained on some of the own edges, and on none of
    the injected ones, so that its scores are not quite comparable.
    """
    if not bool(found.own.any()) or bool(found.own.all()):
        return None, "evidence alone: no injected edge was decided on"
    both = Calibration(2).to(found.own.device)
    calibrate(both, found.inputs, found.own, noise_share)
    alone = [float(roc_auc(found.own, found.inputs[:, place])) for place in (0, 1)]
    together = float(roc_auc(found.own, both.log_ratio(found.inputs)))
    scores = f"ROC AUC on injected edges {alone[0]:.3f} by evidence, {alone[1]:.3f} by the policy"
    if together >= max(alone):
        return both, f"policy and evidence together: {scores}, {together:.3f} by both"
    better = int(alone[1] > alone[0])
    part = torch.zeros(2, device=found.own.device).index_fill(0, torch.tensor(better), 1.0)
    calibrate(both, found.inputs * part, found.own, noise_share)
    return both, f"{('evidence', 'the policy')[better]} alone: {scores}"
