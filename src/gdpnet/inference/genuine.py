"""The probability that an edge is genuine: evidence and the policy's keep probability together."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.inference.networks import Networks
from gdpnet.representation.evidence import logit


def genuine_inputs(
    score: Float[Tensor, "edges"], keep_probability: Float[Tensor, "edges"]
) -> Float[Tensor, "edges 2"]:
    """Return what the combination reads: the logits of evidence score and keep probability."""
    return torch.stack([logit(score), logit(keep_probability)], dim=1)


@torch.no_grad()
def genuine_probability(
    networks: Networks, score: Float[Tensor, "edges"], keep_probability: Float[Tensor, "edges"]
) -> Float[Tensor, "edges"]:
    """Return the probability that edges are genuine, given evidence and decisions, both alike in both directions.

    Without a fitted combination the evidence alone says it.
    """
    assert networks.evidence is not None
    if networks.genuine is None:
        return networks.evidence.genuine(score)
    return networks.genuine(genuine_inputs(score, keep_probability))
