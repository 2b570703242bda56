"""The paper's claims about its reward, checked on real neighbourhoods.

The reward of keeping u after the set A is f(u) / (f(u) + sum of f over A), where f(u) is the probability of the
target's true class with u as its only neighbour. The paper claims that the sum of rewards R is a monotone set
function with diminishing returns, so that greedy selection comes within 1 - 1/e of the best set of a size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import torch

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.data.validation import UNKNOWN
from gdpnet.estimator import GDPNet
from gdpnet.inference.observation import make_view
from gdpnet.selection.episodes import begin_episodes

_ROUNDING = 1e-9


def total(scores: tuple[float, ...]) -> float:
    """Return R of neighbours kept in this order."""
    kept, reward = 0.0, 0.0
    for score in scores:
        kept += score
        reward += score / kept
    return reward


@dataclass(frozen=True)
class Check:
    """Whether each claim holds on one neighbourhood, and how far greedy selection is from the best."""

    node: str
    scores: tuple[float, ...]
    monotone: bool
    diminishing: bool
    """Along one order: the reward of a neighbour does not grow when more were kept before."""
    lowest: float
    highest: float
    """R of all neighbours in the worst and in the best order."""
    submodular: bool
    """Whether R in the best order of each set is submodular."""
    greedy_share: float
    """R of greedy selection as a share of the best, the least over all sizes."""


def _at(scores: tuple[float, ...], places: Iterable[int]) -> tuple[float, ...]:
    return tuple(scores[place] for place in places)


def check_neighbourhood(node: str, scores: tuple[float, ...]) -> Check:
    """Check every claim on the neighbours of one node, from f of each; all orders of all sets are tried."""
    places = range(len(scores))
    best = {
        frozenset(some): max(total(_at(scores, order)) for order in permutations(some))
        for size in range(len(scores) + 1)
        for some in combinations(places, size)
    }
    orders = [total(order) for order in permutations(scores)]
    gains = [
        [scores[last] / (scores[last] + sum(_at(scores, order[:size]))) for size in range(1, len(scores))]
        for last in places
        for order in permutations([place for place in places if place != last])
    ]
    return Check(
        node=node,
        scores=scores,
        monotone=all(
            best[some | {more}] >= best[some] - _ROUNDING
            for some in best
            for more in places
            if more not in some
        ),
        diminishing=all(later <= earlier + _ROUNDING for line in gains for earlier, later in pairwise(line)),
        lowest=min(orders),
        highest=max(orders),
        submodular=_is_submodular(best, len(scores)),
        greedy_share=_greedy_share(scores, best),
    )


def _is_submodular(value: dict[frozenset[int], float], count: int) -> bool:
    """Return whether value(A + c) - value(A) >= value(B + c) - value(B) for every A within B and c outside B."""
    return all(
        value[small | {more}] - worth >= value[large | {more}] - value[large] - _ROUNDING
        for small, worth in value.items()
        for large in value
        if small <= large
        for more in set(range(count)) - large
    )


def _greedy_share(scores: tuple[float, ...], best: dict[frozenset[int], float]) -> float:
    """Return the least share, over all sizes, of the best R that greedy selection reaches.

    The reward of any first neighbour is one; greedy takes the one of highest f, as the policy's order would. Later
    rewards f / (f + kept) grow with f, so that its order is that of f.
    """
    greedy, shares = tuple(sorted(scores, reverse=True)), [1.0]
    for size in range(1, len(scores) + 1):
        most = max(reward for some, reward in best.items() if len(some) == size)
        shares.append(total(greedy[:size]) / most)
    return min(shares)


def check_graph(graph: Graph, config: Config, seed: int, *, nodes: int = 100, most: int = 5) -> list[Check]:
    """Train AGG on all neighbours and check a sample of training nodes that have 2 to ``most`` neighbours."""
    heads = (f"{name}.use=false" for name in ("hopwise", "gcn", "all_edges", "trees", "linear"))
    literal = config.with_overrides(("training.selection=false", "representation.hops=1", *heads))
    model = GDPNet.from_config(literal, seed=seed, device="cpu").fit(graph)
    degree = graph.row_ptr.diff()
    train = graph.nodes_in("train")
    train = train[(degree[train] >= 2) & (degree[train] <= most) & (graph.labels[train] != UNKNOWN)]
    sample = train[torch.randperm(train.numel(), generator=torch.Generator().manual_seed(seed))[:nodes]]
    prepared = prepare(graph, literal, torch.device("cpu"))
    view = make_view(model.networks_.aggregators, prepared)
    episodes = begin_episodes(prepared.row_ptr, prepared.neighbour, sample, max_candidates=most, seed=0)
    row = episodes.target_row[episodes.owner]
    message = view.encode(episodes).message
    chance = view.observe(row, message, torch.ones(row.numel()))[1]
    score = chance.gather(1, graph.labels[episodes.target[episodes.owner]][:, None])[:, 0].double()
    return [
        check_neighbourhood(str(graph.node_ids[int(target)]), tuple(score[episodes.owner == place].tolist()))
        for place, target in enumerate(episodes.target)
    ]


def summary(checks: list[Check]) -> dict[str, Any]:
    """Return how often each claim holds, and the neighbourhood where R depends most on the order."""
    worst = max(checks, key=lambda one: one.highest - one.lowest)
    return {
        "neighbourhoods": len(checks),
        "monotone": sum(one.monotone for one in checks),
        "diminishing": sum(one.diminishing for one in checks),
        "order_matters": sum(one.highest - one.lowest > 1e-6 for one in checks),
        "submodular": sum(one.submodular for one in checks),
        "greedy_share": min(one.greedy_share for one in checks),
        "bound": 1.0 - 1.0 / math.e,
        "counter_example": vars(worst) | {"scores": [round(score, 4) for score in worst.scores]},
    }
