"""Attack fitted methods with growing budgets, and record how many test nodes they still classify correctly.

In *evasion* a method is fitted on the clean graph and then predicts the attacked one. In *poisoning* it is fitted
again on the graph that was attacked for evasion, and predicts that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from gdpnet._core.progress import part
from gdpnet.benchmark.ablations import VARIANTS, variant_of
from gdpnet.benchmark.attacks.attacker import CLEAN, Attacker, transferred_flips
from gdpnet.benchmark.attacks.problem import Keys, Problem, Victim
from gdpnet.benchmark.attacks.settings import AttackSettings
from gdpnet.benchmark.attacks.victims import fit_victim, settings_for
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.cases import Setting, open_case, protocol_of
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.sweep import FAILURES, Sweep, failure_of, record_of
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import compare, count_edges
from gdpnet.errors import ConfigError

SETTINGS = ("evasion", "poisoning")
"""When the graph is attacked: after a method is fitted, or before."""

SWEEP = Sweep(
    "attack",
    ("graph", "setting", "rate", "attack", "method"),
    ("graph", "setting", "attack", "method"),
    lambda record: [record["config"], record["attack_settings"]],
)


class Cell(NamedTuple):
    """One number of a table, apart from its method."""

    setting: str
    attack: str
    rate: float


@dataclass(frozen=True)
class Trial:
    """One method, fitted once on a clean graph, and its attacks."""

    case: Setting
    method: str
    cells: tuple[Cell, ...]
    config: Config
    attack: AttackSettings
    device: str
    searched: dict[str, Settings] = field(default_factory=dict)
    """Settings of baselines that `gdpnet tune` found, by method."""

    @property
    def stub(self) -> Record:
        """Return the record of the first cell without its metrics."""
        return self.stub_of(self.cells[0])

    def stub_of(self, cell: Cell) -> Record:
        """Return the record of a cell without its metrics."""
        about = self.case.to_record()
        about = {name: about[name] for name in ("graph", "content") if name in about}
        if self.method in VARIANTS:
            config: Record = variant_of(self.config, self.method).to_dict()
        else:
            config = asdict(settings_for(self.method, self.searched))
        place = {**cell._asdict(), "method": self.method, "seed": self.case.seed}
        return {
            "kind": SWEEP.kind,
            **about,
            **place,
            "config": config,
            "attack_settings": asdict(self.attack),
        }

    def run(self) -> list[Record]:
        """Return one record per cell."""
        parts, records = 1 + len(self.cells), []
        try:
            with part(0, parts):
                graph, seed = open_case(self.case), self.case.seed
                transfer = partial(_transferred, self.case, device=self.device)
                attacker = Attacker(self.fit(graph), graph, self.attack, seed, transfer)
        except FAILURES as error:
            return [failure_of(self.stub_of(cell), self.device, error) for cell in self.cells]
        protocol = {"protocol": protocol_of(graph, self.case)}
        for number, cell in enumerate(self.cells, start=1):
            with part(number, parts):
                stub = self.stub_of(cell) | protocol
                records.append(record_of(stub, self.device, partial(self._measure, attacker, cell)))
        return records

    def fit(self, graph: Graph) -> Victim:
        """Fit the method on a graph."""
        return fit_victim(self.method, graph, self.case.seed, self.config, self.searched, self.device)

    def _measure(self, attacker: Attacker, cell: Cell) -> Record:
        """Attack, and return the accuracy on test nodes with the counts of edges before and after."""
        start, graph = time.perf_counter(), attacker.graph
        problem, found = Problem.of(graph, cell.rate), attacker.attack(cell.attack, cell.rate)
        noisy = compare(graph, problem.flipped(found.flips))
        accuracy: float = found.accuracy
        metrics: Record = {"loss": found.loss, "queries": found.queries, "agreement": found.agreement}
        if cell.setting == "poisoning":
            scores = self.fit(noisy.graph).scores(noisy.graph)
            accuracy, metrics = problem.accuracy(scores), {"loss": float(problem.loss(scores))}
        counts = {"budget": problem.budget, **count_edges(graph, noisy)}
        return {"micro_f1": accuracy, **metrics, **counts, "seconds": round(time.perf_counter() - start, 1)}


@lru_cache(maxsize=16)
def _transferred(case: Setting, rate: float, device: str) -> Keys:
    """Return the flips of the transfer attack, which all methods of a case share."""
    return transferred_flips(open_case(case), rate, case.seed, device)


def cells_of(attacks: Iterable[str], rates: Iterable[float], settings: Iterable[str]) -> tuple[Cell, ...]:
    """Return the cells of one method: its accuracy on the clean graph, and every attack with every budget."""
    rates = list(rates)
    for rate in rates:
        if not 0.0 < rate <= 1.0:
            raise ConfigError(f"a budget must be a share of the links between 0 and 1, found {rate:g}")
    every = (Cell(*one) for one in product(settings, attacks, rates))
    return Cell("evasion", CLEAN, 0.0), *every


def plan(trials: Iterable[Trial], path: Path) -> list[Trial]:
    """Return the trials with those of their cells that a file of records lacks."""
    left = []
    for trial in trials:
        each = [replace(trial, cells=(cell,)) for cell in trial.cells]
        if missing := SWEEP.missing(each, path):
            left.append(replace(trial, cells=tuple(one.cells[0] for one in missing)))
    return left
