"""Find the weights of the heads on nodes that no head has learned.

Probabilities are mixed linearly, p = sum over heads of w_h p_h. The weights maximise the likelihood of the held-out
labels under a Dirichlet prior around the weights that would be used otherwise, which counts as some held-out nodes:
few nodes change little, and many decide.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gdpnet.config import EnsembleSettings
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.representation.tasks import Task, compare, reward_weight

_STEPS = 500
_TINY = 1e-9


def mixture_weights(
    likelihood: Float[Tensor, "n heads"],
    prior: Float[Tensor, "heads"],
    prior_nodes: float,
    node_weight: Float[Tensor, "n"] | None = None,
) -> Float[Tensor, "heads"]:
    """Return the most probable weights of a mixture, by expectation maximisation.

    w_h <- (sum over nodes of w_h l_nh / sum over heads of w l_n + m prior_h) / (nodes + m), with m prior nodes. A
    head without prior weight stays without weight.
    """
    likely = likelihood.double().clamp(min=_TINY)
    count = torch.ones_like(likely[:, 0]) if node_weight is None else node_weight.double()
    prior = prior.double() / prior.double().sum()
    weight = prior
    for _ in range(_STEPS):
        share = likely * weight
        share = share / share.sum(dim=1, keepdim=True)
        weight = (count @ share + prior_nodes * prior) / (count.sum() + prior_nodes)
    return weight


def weigh_heads(
    heads: dict[str, Float[Tensor, "n classes"]],
    labels: Shaped[Tensor, "n *any"],
    usual: HeadWeights,
    prior: HeadWeights,
    task: Task,
    settings: EnsembleSettings,
) -> HeadWeights:
    """Return the weights of some heads by their probabilities of held-out nodes.

    ``usual`` are the weights without the new heads, ``prior`` those around which all are searched. If the mixture is
    behind the usual one in the task's metric by more than a standard deviation, the usual weights are returned.
    """
    names = [name for name in heads if getattr(prior, name) > 0]
    likely = torch.stack([task.score(heads[name], labels, "probability") for name in names], dim=1)
    start = likely.new_tensor([getattr(prior, name) for name in names])
    node_weight = reward_weight(task, labels).expand(len(likely))
    found = mixture_weights(likely, start, settings.prior_nodes, node_weight)
    found = torch.where(found < settings.min_weight, 0.0, found)
    weights = HeadWeights(0.0)._replace(**dict(zip(names, (found / found.sum()).tolist(), strict=True)))
    lead = compare(task, mixed(heads, weights), mixed(heads, usual), labels)
    return usual if lead.difference < -lead.deviation else weights


def mixed(heads: dict[str, Float[Tensor, "n classes"]], weights: HeadWeights) -> Float[Tensor, "n classes"]:
    """Return the weighted mean of the heads' probabilities."""
    given = {name: getattr(weights, name) for name in heads}
    whole = sum(given.values())
    return torch.stack([heads[name] * (weight / whole) for name, weight in given.items()]).sum(dim=0)
