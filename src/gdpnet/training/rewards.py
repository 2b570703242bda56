"""What keeping a neighbour earns: the rewards of selection, scored by what representation believes."""

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
    given: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return f_c of each target with one neighbour alone; zeros for the marginal reward, which asks for none."""
    if settings.kind == "marginal":
        return torch.zeros_like(counted)
    return task.score(view.observe(row, given, counted)[1], label, settings.score)


@torch.no_grad()
def gain_if_kept(
    view: View,
    settings: RewardSettings,
    row: Int[Tensor, "n"],
    label: Shaped[Tensor, "n *any"],
    given: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    *,
    sums: Float[Tensor, "n width"],
    counts: Float[Tensor, "n"],
    score: Float[Tensor, "n"],
    kept_scores: Float[Tensor, "n"],
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return what keeping a neighbour earns a target that has kept some already.

    Args:
        view: what the classifier makes of a target and what it kept.
        settings: which reward, and its bounds.
        row: the target as its classifier sees it.
        label: what is true of the target, such as its class.
        given: what the neighbour adds to the running sum.
        counted: what it adds to the count: its weight, or one.
        sums: the running sum of what was kept before.
        counts: how many were kept before, by weight.
        score: `score_alone` of the neighbour.
        kept_scores: the sum of `score_alone` over what was kept before.
        task: whose f_c it is.
    """
    if settings.kind == "marginal":
        before = task.score(view.observe(row, sums, counts)[1], label, "probability")
        after = task.score(view.observe(row, sums + given, counts + counted)[1], label, "probability")
        return marginal_reward(before, after, settings.clip)
    if settings.kind == "paper":
        return paper_reward(score, kept_scores)
    nobody = view.observe(row, torch.zeros_like(given), torch.zeros_like(counts))[1]
    return counterfactual_reward(score, task.score(nobody, label, settings.score), kept_scores)
