"""Projected randomised block coordinate descent (PRBCD, Geisler et al., 2021) through a relaxed model.

Every candidate pair has a flip probability. A step follows the gradient of the attacker's loss and projects onto the
budget: the probabilities add up to at most the number of flips. Candidates are all links and a block of random pairs;
pairs that get no probability are replaced by others. At the end sets of flips are drawn from the probabilities. The
model itself predicts each of these graphs, and the worst for it counts.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gdpnet._core.progress import advance
from gdpnet.benchmark.attacks.problem import Candidates, Found, Keys, Problem, Relaxed, Victim, random_pairs
from gdpnet.benchmark.attacks.settings import AttackSettings

_LEAST = 1e-7
"""The flip probability of a new candidate."""

_BISECTIONS = 60

Flips = Float[Tensor, "_"]
"""The flip probability of each candidate."""


def attack_relaxed(victim: Victim, problem: Problem, settings: AttackSettings, seed: int) -> Found:
    """Return the best flips that PRBCD finds through the victim's relaxed model."""
    generator = torch.Generator().manual_seed(seed)
    key, flip = _descend(victim, problem, settings, generator)
    return _best_sample(victim, problem, key, flip, settings, generator)


def project(flip: Flips, budget: int) -> Flips:
    """Return the nearest probabilities that sum to at most the budget: clamp(p - m, 0, 1) with the least m >= 0."""
    clamped = flip.clamp(0.0, 1.0)
    if float(clamped.sum()) <= budget:
        return clamped
    low, high = 0.0, float(flip.max())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if float((flip - middle).clamp(0.0, 1.0).sum()) > budget:
            low = middle
        else:
            high = middle
    return (flip - high).clamp(0.0, 1.0)


def link_weights(flip: Flips, is_link: Bool[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
    """Return the expected weight of each pair: its flip probability, or one less that if it is a link."""
    return torch.where(is_link, 1.0 - flip, flip)


def gradient_of(relaxed: Relaxed, problem: Problem, flip: Flips, is_link: Bool[Tensor, "pairs"]) -> Flips:
    """Return the gradient of the attacker's loss with respect to the flip probabilities."""
    flip = flip.detach().requires_grad_(True)
    with torch.enable_grad():
        loss = problem.loss(relaxed(link_weights(flip, is_link)))
    return torch.autograd.grad(loss, flip)[0]


def _descend(
    victim: Victim, problem: Problem, settings: AttackSettings, generator: torch.Generator
) -> tuple[Keys, Flips]:
    """Return the candidates and their flip probabilities after all steps."""
    nodes, last = problem.graph.num_nodes, int(settings.resampled * settings.steps)
    key, flip = problem.links, torch.full((problem.links.numel(),), _LEAST)
    key, flip = _replaced(problem, key, flip, settings.block, generator)
    is_link = problem.are_links(key)
    for step in range(settings.steps):
        if step % settings.refresh == 0:
            if 0 < step <= last:
                key, flip = _replaced(problem, key, flip, settings.block, generator)
                is_link = problem.are_links(key)
            near = problem.flipped(_drawn(key, flip, problem.budget, generator))
            relaxed = victim.relax(near, Candidates(key, nodes))
        # the step shrinks once candidates are no longer replaced
        rate = settings.step_size * problem.targets.numel() * problem.budget / nodes
        rate /= max(1.0, step - last + 1.0) ** 0.5
        flip = project(flip + rate * gradient_of(relaxed, problem, flip, is_link), problem.budget)
        advance(step + 1, settings.steps)
    return key, flip


def _replaced(
    problem: Problem, key: Keys, flip: Flips, block: int, generator: torch.Generator
) -> tuple[Keys, Flips]:
    """Keep all links and the better half of the other candidates, if they have a probability; draw new ones."""
    is_link = problem.are_links(key)
    others = (~is_link).nonzero().flatten()
    best = others[flip[others].argsort(descending=True, stable=True)][: block // 2]
    kept = torch.cat([is_link.nonzero().flatten(), best[flip[best] > _LEAST]])
    kept = kept[key[kept].argsort()]
    missing = block - (kept.numel() - int(is_link.sum()))
    fresh = random_pairs(problem.graph.num_nodes, missing, generator)
    merged = torch.unique(torch.cat([key[kept], fresh]))
    place = torch.searchsorted(merged, key[kept])
    return merged, torch.full((merged.numel(),), _LEAST).index_copy(0, place, flip[kept])


def _drawn(key: Keys, flip: Flips, budget: int, generator: torch.Generator) -> Keys:
    """Draw a set of flips within the budget, each with its probability."""
    drawn = key[torch.rand(flip.shape, generator=generator) < flip]
    order = torch.randperm(drawn.numel(), generator=generator)[:budget]
    return drawn[order].sort().values


def _best_sample(
    victim: Victim,
    problem: Problem,
    key: Keys,
    flip: Flips,
    settings: AttackSettings,
    generator: torch.Generator,
) -> Found:
    """Return the set of flips that does the model itself most harm: the most probable one, or one that is drawn."""
    probable = flip.argsort(descending=True, stable=True)[: problem.budget]
    sets = [key[probable[flip[probable] > _LEAST]].sort().values]
    sets += [_drawn(key, flip, problem.budget, generator) for _ in range(settings.samples - 1)]
    found = []
    for flips in sets:
        scores = victim.scores(problem.flipped(flips))
        found.append((problem.accuracy(scores), -float(problem.loss(scores))))
    best = min(range(len(sets)), key=found.__getitem__)
    agrees = agreement_on(victim, problem, sets[best])
    return Found(sets[best], found[best][0], -found[best][1], len(sets), agrees)


@torch.no_grad()
def agreement_on(victim: Victim, problem: Problem, flips: Keys) -> float:
    """Return the rank correlation of the relaxed model's margins with the model's own, with some pairs flipped."""
    graph = problem.flipped(flips)
    key = torch.unique(torch.cat([problem.links, flips]))
    present = problem.are_links(key) ^ torch.isin(key, flips)
    relaxed = victim.relax(graph, Candidates(key, graph.num_nodes))(present.float())
    margins = [problem.margins(scores.cpu()) for scores in (relaxed, victim.scores(graph))]
    ranks = torch.stack([one.argsort().argsort().double() for one in margins])
    return float(torch.corrcoef(ranks)[0, 1])
