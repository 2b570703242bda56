"""A black-box search for flips: the attacker sees predicted probabilities of graphs of its choice, and nothing else.

It holds one set of flips. A flip belongs to a test node that is meant to be misclassified by it, and adds or removes
a link of that node. In each round the flips that moved their node's margin least are replaced: new ones go to nodes
near their margin, since few flips can turn those. A round that does no harm is undone. The search may start with the
flips of another attack.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.progress import advance
from gdpnet.benchmark.attacks.problem import Found, Keys, Problem, Victim
from gdpnet.benchmark.attacks.settings import AttackSettings

_SHARES = {False: (0.5, 0.05), True: (0.1, 0.01)}
"""Share of the flips that are replaced in the first and in the last round, from nothing or from other flips."""

_REMOVED = 0.1
"""Share of the new flips that remove a link between nodes of one predicted class, if the node has any."""

_TRIES = 4
"""Draws for each flip that is wanted; those of equal pairs and of one class are left out."""


@dataclass(frozen=True)
class _State:
    """Flips, the node that each is meant for, and what the model predicts with them."""

    flips: Keys
    owner: Int[Tensor, "pairs"]
    scores: Float[Tensor, "nodes classes"]
    margins: Float[Tensor, "targets"]
    accuracy: float
    loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """Return what is compared: less is worse for the model."""
        return self.accuracy, -self.loss


def attack_predictions(
    victim: Victim, problem: Problem, settings: AttackSettings, seed: int, start: Keys | None = None
) -> Found:
    """Return the best flips that a search with some queries finds, from nothing or from the flips of ``start``."""
    generator = torch.Generator().manual_seed(seed)
    nothing = problem.links[:0]
    clean = best = _queried(victim, problem, nothing, nothing)
    if start is not None:
        best = _queried(victim, problem, start, nothing)
        best = replace(best, owner=_owners(problem, start, _moved(problem, clean, best)))
    first, last = _SHARES[start is not None]
    for query in range(1 if start is None else 2, settings.queries):
        done = query / settings.queries
        share = first * (last / first) ** done
        offered = _offer(problem, clean, best, share, generator)
        tried = _queried(victim, problem, *offered)
        best = tried if tried.rank < best.rank else best
        advance(query + 1, settings.queries)
    return Found(best.flips, best.accuracy, best.loss, settings.queries)


def _queried(victim: Victim, problem: Problem, flips: Keys, owner: Keys) -> _State:
    scores = victim.scores(problem.flipped(flips))
    margins = problem.margins(scores)
    return _State(flips, owner, scores, margins, problem.accuracy(scores), float(problem.loss(scores)))


def _offer(
    problem: Problem, clean: _State, best: _State, share: float, generator: torch.Generator
) -> tuple[Keys, Keys]:
    """Return a set of flips in which those that moved their node least are replaced."""
    moved = _moved(problem, clean, best)
    each = torch.bincount(best.owner, minlength=moved.numel()).clamp(min=1)
    worth = (moved / each)[best.owner]
    kept = worth.argsort(descending=True, stable=True)[: best.flips.numel() - int(share * best.flips.numel())]
    fresh, owner = _proposals(problem, best, problem.budget - kept.numel(), generator)
    flips, owner = torch.cat([best.flips[kept], fresh]), torch.cat([best.owner[kept], owner])
    flips, place = torch.unique(flips, return_inverse=True)
    return flips, torch.zeros_like(flips).index_copy(0, place, owner)


def _moved(problem: Problem, clean: _State, now: _State) -> Float[Tensor, "nodes"]:
    """Return how far the margin of each node fell, in tanh; less than any for nodes that are no targets."""
    fell = clean.margins.tanh() - now.margins.tanh()
    return torch.full((problem.graph.num_nodes,), -3.0).index_copy(0, problem.targets, fell)


def _owners(problem: Problem, flips: Keys, moved: Float[Tensor, "nodes"]) -> Keys:
    """Return the end of each flip whose margin fell further."""
    low, high = flips // problem.graph.num_nodes, flips % problem.graph.num_nodes
    return torch.where(moved[low] >= moved[high], low, high)


def _proposals(problem: Problem, state: _State, wanted: int, generator: torch.Generator) -> tuple[Keys, Keys]:
    """Draw flips for targets that are still correct, the nearer to their margin the likelier."""
    nodes, predicted = problem.graph.num_nodes, state.scores.argmax(dim=1)
    chance = torch.where(state.margins > 0, (-state.margins).exp(), 0.0)
    if wanted == 0 or float(chance.sum()) == 0.0:
        return problem.links[:0], problem.links[:0]
    drawn = torch.multinomial(chance, _TRIES * wanted, replacement=True, generator=generator)
    one = problem.targets[drawn]
    other = torch.randint(nodes, one.shape, generator=generator)
    removes = torch.rand(one.shape, generator=generator) < _REMOVED
    other = torch.where(removes, _random_neighbours(problem, one, generator), other)
    same = predicted[one] == predicted[other]
    key = torch.minimum(one, other) * nodes + torch.maximum(one, other)
    good = (one != other) & (same == removes) & (problem.are_links(key) == removes)
    good &= ~torch.isin(key, state.flips)
    return key[good][:wanted], one[good][:wanted]


def _random_neighbours(
    problem: Problem, node: Int[Tensor, "pairs"], generator: torch.Generator
) -> Int[Tensor, "pairs"]:
    """Return a random neighbour of each node, the node itself if it has none."""
    graph = problem.graph
    degree = graph.row_ptr.diff()[node]
    place = (torch.rand(node.shape, generator=generator) * degree).long().clamp(max=degree - 1)
    found = graph.neighbour.long()[(graph.row_ptr[node] + place).clamp(0, max(graph.num_edges - 1, 0))]
    return torch.where(degree > 0, found, node)
