"""One update of the policy with the formulas of `gdpnet.selection.ppo`.

The KL limit is enforced: after every pass the exact mean KL over all visited states is measured. A step beyond the
limit is halved towards the last policy within it until it complies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.config import PPOSettings
from gdpnet.selection.buffer import (
    Batch,
    cut_batch,
    gather_batch,
    log_probabilities,
    score_batch,
    score_candidates,
)
from gdpnet.selection.episodes import View
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Advantages, Scored, advantages, clipped_surrogate, joint_entropy, joint_kl
from gdpnet.selection.rollout import Rollout


@dataclass(frozen=True)
class Update:
    """The outcome of one update."""

    loss: float
    kl: float
    passes: int
    backtracks: int


def update_policy(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    rollout: Rollout,
    view: View,
    reward_if_kept: Float[Tensor, "decisions"],
    settings: PPOSettings,
    generator: torch.Generator,
) -> Update:
    """Improve the policy on one roll-out, within the KL limit around the policy that acted."""
    if rollout.decisions == 0:
        return Update(0.0, 0.0, 0, 0)
    with torch.no_grad():
        advantage = advantages(
            rollout, reward_if_kept, settings.discount, exact=settings.advantage == "exact"
        )
        shuffled = torch.randperm(rollout.episodes.count, generator=generator).to(rollout.episode.device)
        whole = gather_batch(policy, rollout, view, shuffled)
        batches = cut_batch(whole, settings.batch_size)
        # small products fit into the cache of a CPU; on a GPU few large ones are faster
        scored_in = batches if whole.chosen.device.type == "cpu" else cut_batch(whole)
        old = [score_batch(policy, batch) for batch in scored_in]
    losses: list[Tensor] = []
    divergence, passes, backtracks = 0.0, 0, 0
    while passes < settings.passes and not backtracks:
        accepted, accepted_kl = [weight.detach().clone() for weight in policy.parameters()], divergence
        order = torch.randperm(len(batches), generator=generator).tolist()
        losses += [_step(policy, optimiser, batches[number], advantage, settings) for number in order]
        divergence = _mean_kl(policy, scored_in, old)
        passes += 1
        if not divergence <= settings.kl_limit:  # also true for NaN
            divergence, backtracks = _backtrack(policy, accepted, scored_in, old, settings.kl_limit)
            divergence = divergence if divergence <= settings.kl_limit else accepted_kl
    # the host waits for the device here, not after every step
    return Update(float(torch.stack(losses).mean()), divergence, passes, backtracks)


def _step(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    advantage: Advantages,
    settings: PPOSettings,
) -> Float[Tensor, ""]:
    """Take one gradient step on a batch; return its loss."""
    score, ending = score_candidates(policy, batch)
    gain: Tensor = Gain.apply(score, ending, batch, advantage, settings.clip)
    if settings.entropy:
        gain = gain + settings.entropy * joint_entropy(log_probabilities(batch, score, ending)).mean()
    optimiser.zero_grad(set_to_none=True)
    (-gain).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimiser.step()
    return -gain.detach()


class Gain(torch.autograd.Function):
    """The mean clipped surrogate of a batch as a function of the scores of its candidates.

    The gradient is written out: the log-probability of a draw has derivative one by its own score and minus the
    draw's probability by each score; that of keep-or-drop, the probability of the other action. This takes a third
    fewer small operations than automatic differentiation, and on a GPU their number is the time of the update.
    """

    @staticmethod
    def forward(
        ctx: Any, score: Tensor, ending: Tensor, batch: Batch, advantage: Advantages, clip: float
    ) -> Float[Tensor, ""]:
        """Return the mean over decisions, and save its derivatives."""
        play, scored = batch.play, log_probabilities(batch, score, ending)
        gain, slope = clipped_surrogate(
            scored.keep_log_prob, batch.keep_log_prob, advantage.keep[batch.chosen], clip
        )
        of_taken = slope * batch.sign * (1.0 - scored.keep_log_prob.exp())
        of_score, of_ending = torch.zeros_like(score), torch.zeros_like(ending)
        if play.learned_order:
            order, slope = clipped_surrogate(
                scored.order_log_prob, batch.order_log_prob, advantage.order[batch.chosen], clip
            )
            gain, of_taken = gain * batch.drew + order, (of_taken + slope) * batch.drew
            chance = (score - scored.log_total.index_select(0, batch.owner)).exp()
            of_score = -slope.index_select(0, batch.owner) * chance
            if play.can_end:
                of_ending = slope * (1.0 - batch.drew - (ending - scored.log_total).exp())
        ctx.save_for_backward(of_score.index_add_(0, batch.taken, of_taken), of_ending)
        return gain.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives of the mean."""
        of_score, of_ending = ctx.saved_tensors
        share = gradients[0] / of_ending.numel()
        return of_score * share, of_ending * share, None, None, None


@torch.no_grad()
def _mean_kl(policy: Policy, batches: list[Batch], old: list[Scored]) -> float:
    """Return the exact KL of the joint action, averaged over all decisions."""
    parts = [
        joint_kl(before, score_batch(policy, batch)).sum() for batch, before in zip(batches, old, strict=True)
    ]
    return float(torch.stack(parts).double().sum()) / sum(batch.chosen.numel() for batch in batches)


@torch.no_grad()
def _backtrack(
    policy: Policy, accepted: list[Tensor], batches: list[Batch], old: list[Scored], limit: float
) -> tuple[float, int]:
    """Halve the step of the last pass until the mean KL is within the limit; undo it after eight halvings."""
    for halving in range(1, 9):
        for weight, before in zip(policy.parameters(), accepted, strict=True):
            weight.copy_(before + 0.5 * (weight - before))
        divergence = _mean_kl(policy, batches, old)
        if divergence <= limit:
            return divergence, halving
    for weight, before in zip(policy.parameters(), accepted, strict=True):
        weight.copy_(before)
    return torch.inf, 9
