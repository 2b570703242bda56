"""Explain a prediction: the decisions on one node's neighbours, in order, and what each contributed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import Selected, play_of, roll_outs, select_context
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import Rollout


@dataclass(frozen=True)
class Decision:
    """One neighbour: when it was drawn, its probabilities, the action, and its contribution."""

    step: int | None
    """Position in the order, from 1; None if the episode ended before."""
    neighbour: str
    distance: int
    """Hops from the node; one for a direct neighbour."""
    draw_probability: float | None
    keep_probability: float
    kept: bool
    contribution: float
    """Change of the predicted class's probability by the first aggregator if this neighbour is kept."""
    weight: float | None = None
    """Weight of the edge, if the graph is weighted."""


@dataclass(frozen=True)
class Explanation:
    """The prediction of one node and the decisions behind it."""

    node: str
    predicted: str
    """The class; without labels the likeliest community, of the node (clusters) or its partners (links)."""
    probability: float
    """Probability of the predicted class, by the whole ensemble."""
    probability_alone: float
    """The same from the node's own features alone."""
    ended_early: bool
    decisions: tuple[Decision, ...]
    cluster: str | None = None
    """The cluster that `predict` returns, for the task clusters; communities are numbered separately."""


@torch.no_grad()
def explain_node(
    model: TrainedModel, prepared: Prepared, graph: Graph, node: int, decided: Selected | None
) -> Explanation:
    """Play the node's greedy episode and describe it.

    Predictions average over sampled episodes by default, so the greedy episode may differ where the policy is
    unsure. ``decided`` are the decisions that the GCN head reads, if it is used.
    """
    config, policy, aggregators = model.config, model.networks.policy, model.networks.aggregators
    target = torch.tensor([node], device=prepared.device)
    key = Key.of(model.seed).fold_in("predict")
    play = play_of(config, greedy=True)
    if policy is not None:
        _, prepared = select_context(policy, aggregators, prepared, target, config, key)
    view = make_view(aggregators, prepared)
    if policy is None:
        rollouts = [_keep_all(view, prepared, target, play)]
    else:
        seed = key.fold_in("decide").seed32
        rollouts = list(roll_outs(policy, view, prepared, target, config, play, seed))
    nothing = torch.zeros(prepared.neighbour.numel(), device=prepared.device)
    weight = nothing.clone()
    for rollout in rollouts:
        weight[rollout.episodes.edge] = rollout.selected.float()
    ensemble = model.ensemble
    alone, final = (ensemble.local(prepared, target, kept)[1] for kept in (nothing, weight))
    if decided is not None:
        alone = ensemble.add_gcn(alone, decided, target, isolated=node)
        final = ensemble.add_gcn(final, decided, target)
    predicted = int(final[0].argmax())
    decisions = [_decisions(rollout, view, prepared, graph, predicted) for rollout in rollouts]
    return Explanation(
        node=str(graph.node_ids[node]),
        predicted=str(model.classes[predicted]),
        probability=float(final[0, predicted]),
        probability_alone=float(alone[0, predicted]),
        ended_early=any(bool(rollout.is_ending.any()) for rollout in rollouts),
        decisions=tuple(chain(*decisions)),
    )


def _keep_all(view: View, prepared: Prepared, target: Tensor, play: Play) -> Rollout:
    """Return the episode of a model without selection: all neighbours kept, ordered by node number."""
    bound = max(prepared.neighbour.numel(), 1)
    episodes = begin_episodes(prepared.row_ptr, prepared.neighbour, target, max_candidates=bound, seed=0)
    step = torch.arange(episodes.row.numel(), device=prepared.device)
    certain = torch.zeros(step.numel(), device=prepared.device)
    kept = torch.ones_like(step, dtype=torch.bool)
    return Rollout(
        episodes=episodes,
        encoded=view.encode(episodes),
        play=play,
        episode=torch.zeros_like(step),
        step=step,
        candidate=step,
        kept=kept,
        order_log_prob=certain,
        keep_log_prob=certain,
        visited_at=step,
        selected=kept,
        keep_probability=certain + 1.0,
    )


def _decisions(
    rollout: Rollout, view: View, prepared: Prepared, graph: Graph, predicted: int
) -> list[Decision]:
    """List the visited neighbours in order, then those that the episode did not reach."""
    sums, counts = rollout.states
    visited = ~rollout.is_ending
    drawn = rollout.candidate[visited]
    row = rollout.episodes.target_row[rollout.episode[visited]]
    sums, counts = sums[visited], counts[visited]
    before = view.observe(row, sums, counts)[1][:, predicted]
    message, counted = rollout.encoded.message[drawn], rollout.encoded.counted[drawn]
    after = view.observe(row, sums + message, counts + counted)[1][:, predicted]
    edge, weight, keep = rollout.episodes.edge, rollout.encoded.weight, rollout.keep_probability.tolist()
    names = graph.node_ids[prepared.neighbour[edge].cpu().numpy()]
    away = [1] * len(names) if prepared.edge is None else (1 + prepared.pairs[edge, 0]).long().tolist()
    weights = [None] * len(names) if weight is None else weight.tolist()

    def decision(
        place: int, step: int | None = None, draw: float | None = None, kept: bool = False, gain: float = 0.0
    ) -> Decision:
        return Decision(step, str(names[place]), away[place], draw, keep[place], kept, gain, weights[place])

    draw = rollout.order_log_prob[visited].exp()
    columns = (drawn, rollout.step[visited] + 1, draw, rollout.kept[visited], after - before)
    missed = sorted(set(range(len(names))) - set(drawn.tolist()))
    listed = zip(*(column.tolist() for column in columns), strict=True)
    return [decision(*one) for one in listed] + [decision(place) for place in missed]
