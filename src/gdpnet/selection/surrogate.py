"""The clipped surrogate of a batch as a function of the scores of its candidates, with its gradient written out."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.selection.buffer import Batch, log_probabilities
from gdpnet.selection.ppo import Advantages, clipped_surrogate


def surrogate_and_slopes(
    batch: Batch,
    score: Float[Tensor, "pairs"],
    ending: Float[Tensor, "n"],
    advantage: Advantages,
    clip: float,
) -> tuple[Float[Tensor, "n"], Float[Tensor, "pairs"], Float[Tensor, "n"]]:
    """Return the clipped surrogate of each decision, and the derivatives of their sum by each score.

    The log-probability of a draw has derivative one by its own score and minus the draw's probability by each score;
    that of keep-or-drop, the probability of the other action. ``advantage`` is that of these decisions.
    """
    play, scored = batch.play, log_probabilities(batch, score, ending)
    gain, slope = clipped_surrogate(scored.keep_log_prob, batch.keep_log_prob, advantage.keep, clip)
    of_taken = slope * batch.sign * (1.0 - scored.keep_log_prob.exp())
    of_score, of_ending = torch.zeros_like(score), torch.zeros_like(ending)
    if play.learned_order:
        order, slope = clipped_surrogate(scored.order_log_prob, batch.order_log_prob, advantage.order, clip)
        gain, of_taken = gain * batch.drew + order, (of_taken + slope) * batch.drew
        chance = (score - scored.log_total.index_select(0, batch.owner)).exp()
        of_score = -slope.index_select(0, batch.owner) * chance
        if play.can_end:
            of_ending = slope * (1.0 - batch.drew - (ending - scored.log_total).exp())
    return gain, of_score.index_add_(0, batch.taken, of_taken), of_ending


class Gain(torch.autograd.Function):
    """The mean clipped surrogate of a batch.

    Written out, the gradient takes a third fewer small operations than automatic differentiation.
    """

    @staticmethod
    def forward(
        ctx: Any, score: Tensor, ending: Tensor, batch: Batch, advantage: Advantages, clip: float
    ) -> Float[Tensor, ""]:
        """Return the mean over decisions, and save its derivatives."""
        worth = Advantages(advantage.order[batch.chosen], advantage.keep[batch.chosen])
        gain, of_score, of_ending = surrogate_and_slopes(batch, score, ending, worth, clip)
        ctx.save_for_backward(of_score, of_ending)
        return gain.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives of the mean."""
        of_score, of_ending = ctx.saved_tensors
        share = gradients[0] / of_ending.numel()
        return of_score * share, of_ending * share, None, None, None
