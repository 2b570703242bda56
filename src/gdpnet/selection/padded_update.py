"""The update of the policy in steps of fixed shapes, which a GPU replays as CUDA graphs.

It gives what `gdpnet.selection.update` gives, up to rounding. The host does not wait for the device after every pass:
all passes are launched, and the state of the policy and its optimiser is copied after each. If the mean KL turns out
to be beyond the limit after some pass, the passes after it are undone, and that one is halved as usual.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.replay import Replayed, Replays, addresses, state_of, step_with
from gdpnet.config import PPOSettings
from gdpnet.selection.buffer import Batch, cut_bounds, log_probabilities, score_batch, score_candidates
from gdpnet.selection.padded import PaddedBatches, Sizes, needed_sizes
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Advantages, Scored, joint_entropy, joint_kl
from gdpnet.selection.surrogate import surrogate_and_slopes

_MOST_PAIRS = 1 << 21
"""Roll-outs with more pairs, padding included, are updated without padding, which bounds the memory."""

HALVINGS = 8
"""A step that is still beyond the limit after so many halvings is undone."""


class PaddedUpdate:
    """The two steps of an update, a gradient step on one batch and the mean KL, on tensors of fixed sizes."""

    def __init__(
        self,
        policy: Policy,
        optimiser: torch.optim.Optimizer,
        like: Batch,
        sizes: Sizes,
        settings: PPOSettings,
        stream: torch.cuda.Stream | None,
    ) -> None:
        self.policy, self.optimiser, self.settings = policy, optimiser, settings
        self.batches = PaddedBatches(like.play, sizes, like)
        self.weights = list(policy.parameters())
        self.loss, self.kl = (torch.zeros((), dtype=torch.double, device=like.drew.device) for _ in range(2))
        decisions, pairs = sizes.batches * sizes.decisions, sizes.all_pairs
        self.old = [like.drew.new_zeros(count) for count in (pairs, decisions, decisions)]
        self.step = Replayed(self._step, stream)
        self.measure_kl = Replayed(self._measure_kl, stream)
        self.memory: tuple[object, ...] = ()

    def fits(
        self,
        policy: Policy,
        optimiser: torch.optim.Optimizer,
        like: Batch,
        sizes: Sizes,
        settings: PPOSettings,
    ) -> bool:
        """Return whether the steps can be used again: same networks in the same memory, same constants."""
        return (
            self.policy is policy
            and self.optimiser is optimiser
            and self.settings == settings
            and self.batches.play == like.play
            and self.batches.sizes == sizes
            and self.memory == addresses(self.weights, self.optimiser)
        )

    def _step(self) -> None:
        """Take a gradient step on the next batch."""
        batch, advantage, real, count = self.batches.next()
        with torch.enable_grad():
            score, ending = score_candidates(self.policy, batch)
            gain, of_score, of_ending = _slopes(batch, score, ending, advantage, self.settings.clip)
            outputs, slopes = [score], [of_score / -count]
            if ending.requires_grad:
                outputs, slopes = [*outputs, ending], [*slopes, of_ending / -count]
            total = gain.sum()
            if self.settings.entropy:
                entropy = self.settings.entropy * joint_entropy(log_probabilities(batch, score, ending))
                bonus = (entropy * real).sum()
                outputs, slopes = [*outputs, bonus], [*slopes, -1.0 / count[0]]
                total = total + bonus.detach()
            gradients = torch.autograd.grad(outputs, self.weights, slopes, allow_unused=True)
        step_with(self.optimiser, self.weights, gradients, most=1.0)
        self.loss.sub_((total / count)[0])

    @torch.no_grad()
    def _measure_kl(self) -> None:
        """Compute the exact KL of the joint action, averaged over all decisions."""
        batch, real = self.batches.all()
        new = score_batch(self.policy, batch)
        score, ending, log_total = self.old
        old = Scored(batch.play, batch.owner, score, ending, log_total, log_total, log_total)
        self.kl.copy_((joint_kl(old, new) * real).double().sum() / real.sum())

    @torch.no_grad()
    def begin(self, whole: Batch, advantage: Advantages, bounds: Tensor) -> None:
        """Take in a roll-out, and score it under the policy that acted."""
        self.batches.fill(whole, advantage, bounds)
        acted = score_batch(self.policy, self.batches.all()[0])
        for kept, value in zip(self.old, (acted.score, acted.ending, acted.log_total), strict=True):
            kept.copy_(value)

    def run(self, batches: int, generator: torch.Generator) -> tuple[float, float, int, int]:
        """Take all passes; return the mean loss, the mean KL, and the number of passes and of halvings."""
        weights, states, outcomes = [_flat(self.weights)], [], []
        orders, draws = self._draw_orders(batches, generator)
        for order in orders:
            self.batches.begin_pass(order)
            self.loss.zero_()
            for _ in range(batches):
                self.step()
            self.measure_kl()
            states.append(_flat(state_of(self.weights, self.optimiser)))
            weights.append(_flat(self.weights))
            outcomes += [self.loss.clone(), self.kl.clone()]
        self.memory = addresses(self.weights, self.optimiser)
        told = torch.stack(outcomes).tolist()  # the host waits for the device here, and nowhere before
        losses, divergences = told[::2], told[1::2]
        limit = self.settings.kl_limit
        beyond = next((number for number, kl in enumerate(divergences) if not kl <= limit), None)
        if beyond is None:
            passes, divergence, halvings = len(losses), divergences[-1] if divergences else 0.0, 0
        else:
            passes = beyond + 1
            _restore(state_of(self.weights, self.optimiser), states[beyond])
            generator.set_state(draws[beyond])  # as if the passes after it had not been
            accepted = divergences[beyond - 1] if beyond else 0.0
            divergence, halvings = self._backtrack(weights[beyond], weights[passes])
            divergence = divergence if divergence <= limit else accepted
        return sum(losses[:passes]) / (passes * batches), divergence, passes, halvings

    def _draw_orders(
        self, batches: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "passes batches"], list[Tensor]]:
        """Draw the order of the batches in each pass; return them with the generator's state after each."""
        orders, draws = [], []
        for _ in range(self.settings.passes):
            orders.append(torch.randperm(batches, generator=generator))
            draws.append(generator.get_state())
        # a blocking copy would wait for all that was launched before
        return torch.stack(orders).to(self.loss.device, non_blocking=True), draws

    @torch.no_grad()
    def _backtrack(self, accepted: Tensor, weights: Tensor) -> tuple[float, int]:
        """Halve the step of a pass until the mean KL is within the limit; undo it after eight halvings."""
        tried, divergences = [], []
        for _ in range(HALVINGS):
            weights = accepted + 0.5 * (weights - accepted)
            _restore(self.weights, weights)
            self.measure_kl()
            tried.append(weights)
            divergences.append(self.kl.clone())
        for halving, divergence in enumerate(torch.stack(divergences).tolist()):
            if divergence <= self.settings.kl_limit:
                _restore(self.weights, tried[halving])
                return divergence, halving + 1
        _restore(self.weights, accepted)
        return math.inf, HALVINGS + 1


def padded_update(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    whole: Batch,
    advantage: Advantages,
    settings: PPOSettings,
    generator: torch.Generator,
    replays: Replays,
) -> tuple[float, float, int, int] | None:
    """Improve the policy on a gathered roll-out; return `PaddedUpdate.run`, or None if padding would be too large."""
    bounds = cut_bounds(whole.begins, settings.batch_size)
    sizes = needed_sizes(bounds).rounded()
    if sizes.all_pairs > _MOST_PAIRS:
        return None
    steps = replays.find(
        PaddedUpdate,
        lambda kept: kept.fits(policy, optimiser, whole, sizes, settings),
        lambda: PaddedUpdate(
            policy,
            optimiser,
            whole,
            sizes,
            settings,
            replays.stream_for(optimiser, whole.drew.device),
        ),
    )
    steps.begin(whole, advantage, bounds)
    return steps.run(sizes.batches, generator)


@torch.no_grad()
def _slopes(
    batch: Batch, score: Tensor, ending: Tensor, advantage: Advantages, clip: float
) -> tuple[Tensor, Tensor, Tensor]:
    return surrogate_and_slopes(batch, score, ending, advantage, clip)


def _flat(tensors: Sequence[Tensor]) -> Float[Tensor, "numbers"]:
    """Return a copy of some tensors as one vector."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


@torch.no_grad()
def _restore(tensors: Sequence[Tensor], flat: Float[Tensor, "numbers"]) -> None:
    """Write a vector back into the tensors that it was copied from."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view_as(tensor))
