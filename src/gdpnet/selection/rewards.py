"""The reward of keeping a neighbour, one pure function per kind. Dropping a neighbour and ending have reward zero."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

_SMALL = 1e-6


def paper_reward(
    score: Float[Tensor, "decisions"], kept_scores: Float[Tensor, "decisions"]
) -> Float[Tensor, "decisions"]:
    """Return r = f(u) / (sum of f over the kept neighbours and u), equation (5) read literally.

    f(u), the ``score``, is f_c of the target with u alone; ``kept_scores`` is its sum over those kept before.
    """
    return score / (kept_scores + score).clamp(min=_SMALL)


def counterfactual_reward(
    score: Float[Tensor, "decisions"],
    alone: Float[Tensor, "decisions"],
    kept_scores: Float[Tensor, "decisions"],
) -> Float[Tensor, "decisions"]:
    """Return r = (f(u) - f(none)) / (sum of f over the kept neighbours + max(f(u), f(none))).

    Negative if u hurts, and within ±1: with f(u) alone in the denominator, a miss (f(u) = 0) would be unbounded.
    """
    return (score - alone) / (kept_scores + score.maximum(alone)).clamp(min=_SMALL)


def marginal_reward(
    before: Float[Tensor, "decisions"], after: Float[Tensor, "decisions"], clip: float
) -> Float[Tensor, "decisions"]:
    """Return r = log p(y | S and u) - log p(y | S), clipped to ±clip; its sum is the task's objective.

    ``before`` is the probability of the true class with the neighbours S kept so far, ``after`` that with u as well.
    """
    gain = after.clamp(min=_SMALL).log() - before.clamp(min=_SMALL).log()
    return gain.clamp(-clip, clip)
