"""One update of the policy with the formulas of `gdpnet.selection.ppo`.

The KL limit is enforced: after every pass the exact mean KL over all visited states is measured. A step beyond the
limit is halved towards the last policy within it until it complies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.ranks import Ranks
from gdpnet._core.replay import Replays
from gdpnet._core.threads import Team, loop_threads
from gdpnet.config import PPOSettings
from gdpnet.selection.buffer import (
    Batch,
    cut_batch,
    gather_batch,
    log_probabilities,
    score_batch,
    score_candidates,
)
from gdpnet.selection.compiled_gather import gather_decisions
from gdpnet.selection.compiled_update import CompiledSteps, can_compile
from gdpnet.selection.episodes import View
from gdpnet.selection.padded_update import HALVINGS, padded_update
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Advantages, advantages, joint_entropy, joint_kl
from gdpnet.selection.rollout import Rollout
from gdpnet.selection.surrogate import Gain


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
    replays: Replays | None = None,
    ranks: Ranks | None = None,
) -> Update:
    """Improve the policy on one roll-out, within the KL limit around the policy that acted.

    With ``replays``, which keeps them between updates, steps have fixed shapes, as a GPU can replay them. The
    ``ranks`` step together, each on a batch of its own roll-out; the KL limit holds for all their decisions.
    """
    ranks = ranks or Ranks()
    if ranks.least(rollout.decisions) == 0:
        return Update(0.0, 0.0, 0, 0)
    with torch.no_grad():
        advantage = advantages(
            rollout, reward_if_kept, settings.discount, exact=settings.advantage == "exact"
        )
        shuffled = torch.randperm(rollout.episodes.count, generator=generator)
        shuffled = shuffled.to(rollout.episode.device, non_blocking=True)
        whole = None if replays is None else gather_batch(policy, rollout, view, shuffled)
    if replays is not None and whole is not None:
        found = padded_update(policy, optimiser, whole, advantage, settings, generator, replays)
        if found is not None:
            return Update(*found)
    if can_compile(policy, settings):
        with Team(loop_threads()) as team:
            gathered = gather_decisions(policy, rollout, view, advantage, shuffled, settings.clip, team)
            compiled = CompiledSteps(policy, optimiser, gathered, settings, team, ranks)
            return _run(policy, compiled, settings, generator, ranks)
    whole = gather_batch(policy, rollout, view, shuffled) if whole is None else whole
    ragged = RaggedSteps(policy, optimiser, whole, advantage, settings, ranks)
    return _run(policy, ragged, settings, generator, ranks)


class RaggedSteps:
    """The steps of an update with PyTorch, on any device."""

    @torch.no_grad()
    def __init__(
        self,
        policy: Policy,
        optimiser: torch.optim.Optimizer,
        whole: Batch,
        advantage: Advantages,
        settings: PPOSettings,
        ranks: Ranks,
    ) -> None:
        self.policy, self.optimiser, self.advantage, self.settings = policy, optimiser, advantage, settings
        self.ranks = ranks
        self.parts = cut_batch(whole, settings.batch_size)
        # small products fit into the cache of a CPU; on a GPU few large ones are faster
        self.scored_in = self.parts if whole.chosen.device.type == "cpu" else cut_batch(whole)
        self.old = [score_batch(policy, batch) for batch in self.scored_in]
        self.decisions = [batch.chosen.numel() for batch in self.parts]

    def step(self, number: int, decisions: int) -> Float[Tensor, ""]:
        """Take one gradient step on a batch, which all ranks together have so many decisions of; return its loss."""
        batch, settings = self.parts[number], self.settings
        score, ending = score_candidates(self.policy, batch)
        gain: Tensor = Gain.apply(score, ending, batch, self.advantage, settings.clip)
        if settings.entropy:
            gain = gain + settings.entropy * joint_entropy(log_probabilities(batch, score, ending)).mean()
        self.optimiser.zero_grad(set_to_none=True)
        (-gain).backward()
        self.ranks.average_gradients(list(self.policy.parameters()), self.decisions[number] / decisions)
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimiser.step()
        return -gain.detach()

    @torch.no_grad()
    def mean_kl(self) -> float:
        """Return the exact KL of the joint action, averaged over all decisions."""
        parts = [
            joint_kl(before, score_batch(self.policy, batch)).sum()
            for batch, before in zip(self.scored_in, self.old, strict=True)
        ]
        total, decisions = self.ranks.add(float(torch.stack(parts).double().sum()), sum(self.decisions))
        return total / decisions


def _run(
    policy: Policy,
    steps: RaggedSteps | CompiledSteps,
    settings: PPOSettings,
    generator: torch.Generator,
    ranks: Ranks,
) -> Update:
    """Take all passes, as long as the policy stays within the KL limit."""
    batches = ranks.least(len(steps.decisions))
    losses: list[Tensor] = []
    divergence, passes, backtracks = 0.0, 0, 0
    while passes < settings.passes and not backtracks:
        accepted, accepted_kl = [weight.detach().clone() for weight in policy.parameters()], divergence
        order = torch.randperm(len(steps.decisions), generator=generator)[:batches].tolist()
        together = ranks.add(*(steps.decisions[number] for number in order))
        losses += [steps.step(number, int(count)) for number, count in zip(order, together, strict=True)]
        divergence = steps.mean_kl()
        passes += 1
        if not divergence <= settings.kl_limit:  # also true for NaN
            divergence, backtracks = _backtrack(policy, steps, accepted, settings.kl_limit)
            divergence = divergence if divergence <= settings.kl_limit else accepted_kl
    # the host waits for the device here, not after every step
    return Update(float(torch.stack(losses).mean()), divergence, passes, backtracks)


@torch.no_grad()
def _backtrack(
    policy: Policy, steps: RaggedSteps | CompiledSteps, accepted: list[Tensor], limit: float
) -> tuple[float, int]:
    """Halve the step of the last pass until the mean KL is within the limit; undo it after eight halvings."""
    for halving in range(1, HALVINGS + 1):
        for weight, before in zip(policy.parameters(), accepted, strict=True):
            weight.copy_(before + 0.5 * (weight - before))
        divergence = steps.mean_kl()
        if divergence <= limit:
            return divergence, halving
    for weight, before in zip(policy.parameters(), accepted, strict=True):
        weight.copy_(before)
    return torch.inf, HALVINGS + 1
