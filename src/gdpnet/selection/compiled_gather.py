"""Gather the decisions of a roll-out for the compiled update of the policy: what `buffer.py` does with PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from gdpnet._core.threads import Team
from gdpnet.selection.engines.numba_update_arrays import SPARE_ROWS, Decisions, Inputs, Source
from gdpnet.selection.episodes import View
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Advantages
from gdpnet.selection.rollout import Rollout, decision_offsets


class Gathered(NamedTuple):
    """The decisions of a roll-out in the order of an update."""

    begins: Int[Tensor, "offsets 4"]
    """Where the decisions, pairs, candidates and states of each episode begin."""
    inputs: Inputs
    decisions: Decisions


@torch.no_grad()
def gather_decisions(
    policy: Policy,
    rollout: Rollout,
    view: View,
    advantage: Advantages,
    sequence: Int[Tensor, "episodes"],
    clip: float,
    team: Team,
) -> Gathered:
    """Recompute the observations of all episodes, and gather the inputs of their scores in the order given."""
    from gdpnet.selection.engines.numba_gather_kernel import gather_episodes

    begins = _begins(rollout, sequence)
    decisions, pairs, candidates, states = begins[-1].tolist()
    widths = policy.target_weight.shape[0], policy.neighbour_weight.shape[0]
    rows = states + SPARE_ROWS, candidates + SPARE_ROWS
    inputs = Inputs(*(np.empty(shape, np.float32) for shape in zip(rows, widths, strict=True)))
    found = Decisions(
        state_decision=np.full(states + 1, decisions),
        decision_pair=np.full(decisions + 1, pairs),
        place=np.empty(pairs, np.int64),
        agreement=np.empty(pairs, np.float32),
        taken=np.empty(decisions, np.int64),
        sign=np.empty(decisions, np.float32),
        order_log_prob=np.empty(decisions, np.float32),
        keep_log_prob=np.empty(decisions, np.float32),
        order_advantage=np.empty(decisions, np.float32),
        keep_advantage=np.empty(decisions, np.float32),
        score=np.empty(pairs, np.float32),
        ending=np.empty(states, np.float32),
        learned=rollout.play.learned_order,
        can_end=rollout.play.can_end,
        clip=np.float32(clip),
    )
    source = _source(policy, rollout, view, advantage)
    arrays = array_of(sequence), array_of(begins), source, inputs, found
    team.run(lambda begin, end: gather_episodes(begin, end, *arrays), 0, sequence.numel())
    return Gathered(begins, inputs, found)


def _begins(rollout: Rollout, sequence: Int[Tensor, "episodes"]) -> Int[Tensor, "offsets 4"]:
    """Return where the decisions, pairs, candidates and states of each episode go."""
    first, length = decision_offsets(rollout), rollout.episodes.length
    count = first.diff()
    # of n decisions, the one at step t has t candidates less
    pairs = count * length - count * (count - 1) // 2 if rollout.play.learned_order else count
    kept = torch.zeros(rollout.decisions + 1, dtype=torch.long)
    torch.cumsum(rollout.kept, 0, out=kept[1:])
    # a state begins with the episode, and after every kept neighbour but one that was drawn last
    states = 1 + kept[first[1:] - 1] - kept[first[:-1]]
    begins = torch.zeros(sequence.numel() + 1, 4, dtype=torch.long)
    sizes = torch.stack([count, pairs, length, states], dim=1)
    torch.cumsum(sizes.index_select(0, sequence), 0, out=begins[1:])
    return begins


def _source(policy: Policy, rollout: Rollout, view: View, advantage: Advantages) -> Source:
    """Return the roll-out as the kernel reads it."""
    encoded = rollout.encoded
    embedded, probabilities = rollout.observe(view)
    tensors = (
        decision_offsets(rollout),
        rollout.episodes.offsets,
        rollout.candidate,
        rollout.kept,
        rollout.visited_at,
        rollout.score,
        rollout.order_log_prob,
        rollout.keep_log_prob,
        advantage.order,
        advantage.keep,
        embedded,
        probabilities,
        rollout.states[1],
        encoded.embedded,
        encoded.probabilities,
        encoded.pairs,
        policy.pair_mean,
        policy.pair_scale,
    )
    return Source._make((*(array_of(one) for one in tensors), policy.extras))


def array_of(tensor: Tensor) -> NDArray:
    """Return a contiguous tensor's memory as a numpy array of at least one dimension."""
    return np.atleast_1d(tensor.detach().contiguous().numpy())
