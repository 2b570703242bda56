"""Rewards of keeping a neighbour, computed from the class probabilities of the aggregators."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet.config import RewardSettings
from gdpnet.representation.tasks import CLASSIFICATION, Task
from gdpnet.selection.episodes import View
from gdpnet.selection.rewards import counterfactual_reward, marginal_reward, paper_reward


@torch.no_grad()
def score_alone(
    view: View,
    settings: RewardSettings,
    row: Int[Tensor, "n"],
    label: Shaped[Tensor, "n *any"],
    message: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return f_c of each target with one neighbour alone; zeros for the marginal reward, which needs none."""
    if settings.kind == "marginal":
        return torch.zeros_like(counted)
    return task.score(view.observe(row, message, counted)[1], label, settings.score)


@torch.no_grad()
def gain_if_kept(
    view: View,
    settings: RewardSettings,
    row: Int[Tensor, "n"],
    label: Shaped[Tensor, "n *any"],
    message: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    *,
    sums: Float[Tensor, "n width"],
    counts: Float[Tensor, "n"],
    score: Float[Tensor, "n"],
    kept_scores: Float[Tensor, "n"],
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return the reward of keeping a neighbour, given those that the target has kept before.

    Args:
        view: maps a target and its kept neighbours to class probabilities.
        settings: the kind of reward, and its bounds.
        row: the row of the target in the view.
        label: the class of the target, or another label that the task defines.
        message: what the neighbour adds to the running sum.
        counted: what the neighbour adds to the count: its weight, or one.
        sums: the running sum over neighbours kept before.
        counts: the number, or total weight, of neighbours kept before.
        score: `score_alone` of the neighbour.
        kept_scores: the sum of `score_alone` over neighbours kept before.
        task: defines f_c.
    """
    if settings.kind == "marginal":
        before = task.score(view.observe(row, sums, counts)[1], label, "probability")
        after = task.score(view.observe(row, sums + message, counts + counted)[1], label, "probability")
        return marginal_reward(before, after, settings.clip)
    if settings.kind == "paper":
        return paper_reward(score, kept_scores)
    none_kept = view.observe(row, torch.zeros_like(message), torch.zeros_like(counts))[1]
    return counterfactual_reward(score, task.score(none_kept, label, settings.score), kept_scores)
