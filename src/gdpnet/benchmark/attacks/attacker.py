"""Run attacks by name on a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from gdpnet._core.device import pick_device
from gdpnet.benchmark.attacks.prbcd import attack_relaxed
from gdpnet.benchmark.attacks.problem import Found, Keys, Problem, Victim, random_pairs
from gdpnet.benchmark.attacks.search import attack_predictions
from gdpnet.benchmark.attacks.settings import AttackSettings
from gdpnet.data.graph import Graph
from gdpnet.data.noise.adversarial import attack_links
from gdpnet.errors import ConfigError, nearest

CLEAN = "none"
"""The attack of records on the clean graph, whose budget is zero."""

ATTACKS = {
    "random": "random flips",
    "transfer": "PRBCD on a GCN that is fitted for the attack",
    "adaptive": "PRBCD through the relaxed model",
    "search": "black-box search on predictions",
    "combined": "the search, from the flips of the adaptive attack",
}
"""Every attack by name."""


def check_attacks(names: Iterable[str]) -> None:
    """Refuse an attack that does not exist."""
    for name in names:
        if name not in ATTACKS:
            raise ConfigError(f"there is no attack '{name}'{nearest(name, ATTACKS)}")


class Attacker:
    """Attacks one fitted model on one graph; what was found is not searched for again."""

    def __init__(
        self,
        victim: Victim,
        graph: Graph,
        settings: AttackSettings,
        seed: int,
        transfer: Callable[[float], Keys],
    ) -> None:
        self.victim, self.graph, self.settings, self.seed = victim, graph, settings, seed
        self.transfer = transfer
        """The flips of the transfer attack with a budget; they do not depend on the model."""
        self.found: dict[tuple[str, float], Found] = {}

    def attack(self, attack: str, rate: float) -> Found:
        """Return what an attack found; the first time it runs."""
        if (attack, rate) not in self.found:
            self.found[attack, rate] = self._attack(attack, rate)
        return self.found[attack, rate]

    def _attack(self, attack: str, rate: float) -> Found:
        problem, settings, seed = Problem.of(self.graph, rate), self.settings, self.seed
        if problem.budget == 0 or attack == CLEAN:
            return self._judged(problem, problem.links[:0])
        if attack == "adaptive":
            return attack_relaxed(self.victim, problem, settings, seed)
        if attack == "search":
            return attack_predictions(self.victim, problem, settings, seed)
        if attack == "combined":
            start = self.attack("adaptive", rate).flips
            return attack_predictions(self.victim, problem, settings, seed, start)
        if attack == "transfer":
            return self._judged(problem, self.transfer(rate))
        return self._judged(problem, random_flips(problem, seed))

    def _judged(self, problem: Problem, flips: Keys) -> Found:
        """Return flips that were found without the method, with what it predicts."""
        scores = self.victim.scores(problem.flipped(flips))
        return Found(flips, problem.accuracy(scores), float(problem.loss(scores)), 1)


def random_flips(problem: Problem, seed: int) -> Keys:
    """Return random pairs of nodes, as many as the budget allows."""
    generator = torch.Generator().manual_seed(seed)
    pairs = random_pairs(problem.graph.num_nodes, 4 * problem.budget, generator)
    return pairs[torch.randperm(pairs.numel(), generator=generator)[: problem.budget]].sort().values


def transferred_flips(graph: Graph, rate: float, seed: int, device: str) -> Keys:
    """Return the flips that mislead a GCN which is fitted for the attack."""
    noisy = attack_links(graph, rate, seed, pick_device(device))
    ends = torch.cat([noisy.added, noisy.removed], dim=1)
    return (ends.amin(dim=0) * graph.num_nodes + ends.amax(dim=0)).sort().values
