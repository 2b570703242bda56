"""Why: the decisions of one node's episode, in order, and what each neighbour contributed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import represent
from gdpnet.inference.gcn_head import SHARE
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import look_around, play_of, roll_outs
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.hopwise import Reader
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout


@dataclass(frozen=True)
class Decision:
    """One neighbour: when it was drawn, how surely, what was done with it and what it brought."""

    step: int | None
    """Place in the order from 1; nothing if the episode ended before."""
    neighbour: str
    distance: int
    """Hops from the node; one for a direct neighbour."""
    draw_probability: float | None
    keep_probability: float
    kept: bool
    contribution: float
    """Change of the predicted class's probability, to AGG's first member, by keeping this neighbour at this point."""
    weight: float | None = None
    """Weight of the link, where the graph has weights."""


@dataclass(frozen=True)
class Explanation:
    """How a node came to its prediction."""

    node: str
    predicted: str
    """The class; where no label was read, the community that AGG believes in, which earned the rewards: the node's
    own for clusters, that of its partners for links."""
    probability: float
    """Probability of the predicted class, by the vote of all that has a say: AGG, a reader, convolutions."""
    probability_alone: float
    """The same from the node's own features."""
    ended_early: bool
    decisions: tuple[Decision, ...]
    cluster: str | None = None
    """The cluster that `predict` gives, where the task is clusters; communities have numbers of their own."""


@torch.no_grad()
def explain_node(
    policy: Policy | None,
    aggregators: Aggregators,
    prepared: Prepared,
    graph: Graph,
    node: int,
    config: Config,
    classes: np.ndarray,
    seed: int,
    reader: Reader | None = None,
    deep: tuple[Tensor, Tensor] | None = None,
) -> Explanation:
    """Play the node's greedy episode and tell what happened.

    The greedy episode keeps or drops for good; the weights that `predict` uses by default are averages over
    sampled episodes, so that the two may differ where the policy is unsure. ``deep`` is what convolutions believe of
    the node without links and with those of the cleaned graph, where they vote.
    """
    target = torch.tensor([node], device=prepared.device)
    play = play_of(config, greedy=True)
    if policy is not None:
        _, prepared = look_around(policy, aggregators, prepared, target, config, seed)
    view = make_view(aggregators, prepared)
    if policy is None:
        rollouts = [_keep_all(view, prepared, target, play)]
    else:
        rollouts = list(roll_outs(policy, view, prepared, target, config, play, seed))
    nobody = torch.zeros(prepared.neighbour.numel(), device=prepared.device)
    weight = nobody.clone()
    for rollout in rollouts:
        weight[rollout.episodes.edge] = rollout.selected.float()
    alone, final = (
        represent(aggregators, prepared, target, kept, reader)[1][0].exp() for kept in (nobody, weight)
    )
    if deep is not None:
        alone, final = torch.lerp(alone, deep[0], SHARE), torch.lerp(final, deep[1], SHARE)
    predicted = int(final.argmax())
    decisions = [
        part for rollout in rollouts for part in _decisions(rollout, view, prepared, graph, predicted)
    ]
    return Explanation(
        node=str(graph.node_ids[node]),
        predicted=str(classes[predicted]),
        probability=float(final[predicted]),
        probability_alone=float(alone[predicted]),
        ended_early=any(bool(rollout.is_ending.any()) for rollout in rollouts),
        decisions=tuple(decisions),
    )


def _keep_all(view: View, prepared: Prepared, target: Tensor, play: Play) -> Rollout:
    """Play the episode of a model without selection: every neighbour in the order of its number, all kept."""
    bound = max(prepared.neighbour.numel(), 1)
    episodes = begin_episodes(prepared.row_ptr, prepared.neighbour, target, max_candidates=bound, seed=0)
    step = torch.arange(episodes.row.numel(), device=prepared.device)
    certain = torch.zeros(step.numel(), device=prepared.device)
    kept = torch.ones_like(step, dtype=torch.bool)
    return Rollout(
        episodes=episodes,
        met=view.meet(episodes),
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
    """List the visited neighbours in order, then those that the episode never reached."""
    sums, counts = rollout.states
    visited = ~rollout.is_ending
    drawn = rollout.candidate[visited]
    row = rollout.episodes.target_row[rollout.episode[visited]]
    sums, counts = sums[visited], counts[visited]
    before = view.observe(row, sums, counts)[1][:, predicted]
    after = view.observe(row, sums + rollout.met.given[drawn], counts + rollout.met.counted[drawn])[1][
        :, predicted
    ]
    names = graph.node_ids[prepared.neighbour[rollout.episodes.edge].cpu().numpy()]
    keep = rollout.keep_probability
    away = _distances(rollout, prepared)
    columns = zip(
        rollout.step[visited].tolist(),
        drawn.tolist(),
        rollout.order_log_prob[visited].exp().tolist(),
        rollout.kept[visited].tolist(),
        (after - before).tolist(),
        strict=True,
    )
    weight = rollout.met.weight
    weighs = [None] * len(names) if weight is None else weight.tolist()
    listed = [
        Decision(
            step + 1, str(names[place]), away[place], chance, float(keep[place]), kept, gain, weighs[place]
        )
        for step, place, chance, kept, gain in columns
    ]
    missed = sorted(set(range(len(names))) - set(drawn.tolist()))
    return listed + [
        Decision(None, str(names[place]), away[place], None, float(keep[place]), False, 0.0, weighs[place])
        for place in missed
    ]


def _distances(rollout: Rollout, prepared: Prepared) -> list[int]:
    """Return how many hops away each candidate is."""
    edge = rollout.episodes.edge
    if prepared.edge is None:
        return [1] * edge.numel()
    return (1 + prepared.pairs[edge, 0]).long().tolist()
