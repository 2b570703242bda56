"""Accuracy under attack over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gdpnet.benchmark.attacks.attacker import CLEAN
from gdpnet.benchmark.attacks.trials import SWEEP
from gdpnet.benchmark.record_types import as_records_must_be
from gdpnet.benchmark.records import Record

WORST = "worst"
"""In a table, for each seed the attack that did most harm."""


@dataclass(frozen=True)
class Row:
    """One cell of a table over seeds."""

    graph: str
    setting: str
    method: str
    attack: str
    rate: float
    seeds: int
    failed: int
    mean: float
    deviation: float
    edges: dict[str, float]
    """Means over seeds of the budget and of the numbers of edges."""


COUNTS = ("budget", "edges_before", "edges_added", "edges_removed", "edges_after")


@as_records_must_be()
def summarise(records: Iterable[Record]) -> list[Row]:
    """Return mean and standard deviation of accuracy over seeds, also of the worst attack for each seed."""
    newest = SWEEP.newest(records)

    def row(mean: Record, deviation: Record, **about: Any) -> Row:
        edges = {name: mean[name] for name in COUNTS}
        return Row(**about, mean=mean["micro_f1"], deviation=deviation["micro_f1"], edges=edges)

    return SWEEP.summarise([*newest, *_worst(newest)], ("micro_f1", *COUNTS), row)


def _worst(records: Iterable[Record]) -> list[Record]:
    """Return, for each seed, the record of the attack that did most harm, under the name of `WORST`."""
    found: dict[tuple[Any, ...], Record] = {}
    for one in records:
        place = tuple(one[name] for name in ("graph", "setting", "rate", "method", "seed"))
        score = one["metrics"].get("micro_f1")
        if score is None or one["attack"] == CLEAN:
            continue
        if place not in found or score < found[place]["metrics"]["micro_f1"]:
            found[place] = one
    settings = {"attack": WORST, "config": {}, "attack_settings": {}}
    return [one | settings for one in found.values()]
