"""Tables 2 and 3 of the paper, from records of trials on graphs to which nothing was added."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from gdpnet.benchmark.paper.reported import (
    DATASETS,
    NAMES,
    TABLE_2,
    TABLE_3,
    Reported,
    reported,
)
from gdpnet.benchmark.robustness import methods_apart, newest_records

TABLES = {
    "table2": ("lr", "gat", "gcn", "fastgcn", "graphsage", "graphsage-sampled", "gdpnet-ro", "gdpnet"),
    "table3": ("gcn", "gdpnet>gcn", "graphsage", "gdpnet>graphsage"),
}
"""The methods of each table, in the paper's order; beside the paper's GraphSAGE one on all neighbours."""

TITLES = {
    "table2": "Table 2: node classification, micro-F1 on test nodes",
    "table3": "Table 3: networks on the original and on the cleaned graph, micro-F1 on test nodes",
}

_REPORTED: dict[str, Reported] = {"table2": TABLE_2, "table3": TABLE_3}

CLEAN = ("random-links", 0.0)
"""How records name a graph to which nothing was added."""

OURS = ("gdpnet-ro", "gdpnet")

APART = " †"
"""Marks what was run with other settings than GDPNet's own."""


@dataclass(frozen=True)
class Cell:
    """One method on one dataset: scores by seed, how many trials failed, and what the paper has."""

    method: str
    dataset: str
    scores: dict[int, float]
    failed: int
    paper: str
    apart: bool = False
    """Whether it was run with other settings than GDPNet's, beside what a variant changes."""

    @property
    def mean(self) -> float:
        """Return the mean over trials."""
        return float(np.mean(list(self.scores.values()))) if self.scores else float("nan")

    @property
    def text(self) -> str:
        """Return mean, deviation and number of trials; what failed is said."""
        if not self.scores:
            return "failed" if self.failed else ""
        values = np.array(list(self.scores.values()))
        spread = f" ± {values.std(ddof=1):.3f}" if values.size > 1 else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{values.mean():.3f}{spread} ({values.size}{failed}){APART if self.apart else ''}"


@dataclass(frozen=True)
class Table:
    """A table of the paper, with what was measured here."""

    name: str
    datasets: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods that have a trial anywhere."""
        return tuple(name for name in TABLES[self.name] if any(self._has(name, one) for one in self.datasets))

    def _has(self, method: str, dataset: str) -> bool:
        cell = self.cells[(method, dataset)]
        return bool(cell.scores) or cell.failed > 0

    def best(self, dataset: str) -> str | None:
        """Return the method of best mean on a dataset."""
        means = {name: self.cells[(name, dataset)].mean for name in TABLES[self.name]}
        known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        return max(known, key=lambda name: known[name]) if known else None

    def comparison(self, dataset: str) -> str:
        """Say how GDPNet stands to the best baseline on the seeds that both have, by a paired t-test."""
        rivals = [self.cells[(name, dataset)] for name in TABLES[self.name] if name not in OURS]
        rivals = [cell for cell in rivals if cell.scores]
        mine = self.cells[("gdpnet", dataset)].scores if self.name == "table2" else {}
        if not mine or not rivals:
            return ""
        rival = max(rivals, key=lambda cell: cell.mean)
        seeds = sorted(set(mine) & set(rival.scores))
        difference = np.array([mine[seed] - rival.scores[seed] for seed in seeds])
        against = f"against {NAMES[rival.method]}"
        if difference.size < 2 or not difference.any():
            return f"{against}: too few common trials to test"
        chance = float(
            ttest_rel([mine[seed] for seed in seeds], [rival.scores[seed] for seed in seeds]).pvalue
        )
        return f"{difference.mean():+.3f} {against}, p = {chance:.2g} ({difference.size} pairs)"


def make_table(name: str, records: Iterable[dict[str, Any]], datasets: Iterable[str] = DATASETS) -> Table:
    """Gather the newest record of every trial of a table's methods, without noise and on the paper's splits."""
    datasets = tuple(datasets)
    cells = {}
    records = list(records)
    apart = methods_apart(records)
    clean = [record for record in newest_records(records) if (record["noise"], record["rate"]) == CLEAN]
    for method in TABLES[name]:
        for dataset in datasets:
            mine = [one for one in clean if one["method"] == method and one["graph"] == dataset]
            scores = {
                one["seed"]: one["metrics"]["micro_f1"] for one in mine if "error" not in one["metrics"]
            }
            failed = sum("error" in one["metrics"] for one in mine)
            paper = reported(_REPORTED[name], method, dataset)
            cells[(method, dataset)] = Cell(
                method, dataset, scores, failed, paper, (dataset, CLEAN[0], method) in apart
            )
    return Table(name, datasets, cells)
