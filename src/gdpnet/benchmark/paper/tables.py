"""Tables 2 and 3 of the paper, from records of trials on graphs without noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_rel

from gdpnet.benchmark.paper.reported import DATASETS, NAMES, TABLE_2, TABLE_3, Reported, reported
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.robustness import SWEEP, methods_apart

TABLES = {
    "table2": ("lr", "gat", "gcn", "fastgcn", "graphsage", "graphsage-sampled", "gdpnet-ro", "gdpnet"),
    "table3": ("gcn", "gdpnet>gcn", "graphsage", "gdpnet>graphsage"),
}
"""The methods of each table, in the paper's order, with GraphSAGE on all and on sampled neighbours."""

TITLES = {
    "table2": "Table 2: node classification, micro-F1 on test nodes",
    "table3": "Table 3: networks on the original and on the cleaned graph, micro-F1 on test nodes",
}

_REPORTED: dict[str, Reported] = {"table2": TABLE_2, "table3": TABLE_3}

CLEAN = ("random-links", 0.0)
"""Noise and rate in the records of a graph without noise."""

OURS = ("gdpnet-ro", "gdpnet")

APART = " †"
"""Marks a variant that was run with other settings than GDPNet."""


@dataclass(frozen=True)
class Cell:
    """One method on one dataset: scores by seed, the number of failed trials, and the paper's figure."""

    method: str
    dataset: str
    scores: dict[int, float]
    failed: int
    paper: str
    apart: bool = False
    """Whether it was run with other settings than GDPNet, apart from the changes of a variant."""

    @property
    def mean(self) -> float:
        """Return the mean over trials."""
        return float(np.mean(list(self.scores.values()))) if self.scores else float("nan")

    @property
    def text(self) -> str:
        """Return mean, standard deviation, number of trials and number of failures."""
        if not self.scores:
            return "failed" if self.failed else ""
        values = np.array(list(self.scores.values()))
        spread = f" ± {values.std(ddof=1):.3f}" if values.size > 1 else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{values.mean():.3f}{spread} ({values.size}{failed}){APART if self.apart else ''}"


@dataclass(frozen=True)
class Table:
    """A table of the paper, with the scores of the records."""

    name: str
    datasets: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods that have a trial on any dataset."""
        run = {place[0] for place, cell in self.cells.items() if cell.text}
        return tuple(name for name in TABLES[self.name] if name in run)

    def best(self, dataset: str) -> str | None:
        """Return the method of highest mean on a dataset."""
        means = {name: self.cells[(name, dataset)].mean for name in TABLES[self.name]}
        known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        return max(known, key=lambda name: known[name]) if known else None

    def comparison(self, dataset: str) -> str:
        """Compare GDPNet with the best baseline on the seeds that both have, by a paired t-test."""
        baselines = [self.cells[(name, dataset)] for name in TABLES[self.name] if name not in OURS]
        baselines = [cell for cell in baselines if cell.scores]
        ours = self.cells[("gdpnet", dataset)].scores if self.name == "table2" else {}
        if not ours or not baselines:
            return ""
        best = max(baselines, key=lambda cell: cell.mean)
        seeds = sorted(set(ours) & set(best.scores))
        mine, other = (np.array([scores[seed] for seed in seeds]) for scores in (ours, best.scores))
        against = f"against {NAMES[best.method]}"
        if len(seeds) < 2 or not (mine - other).any():
            return f"{against}: too few common trials to test"
        p = float(ttest_rel(mine, other).pvalue)
        return f"{(mine - other).mean():+.3f} {against}, p = {p:.2g} ({len(seeds)} pairs)"


def make_table(name: str, records: Iterable[Record], datasets: Iterable[str] = DATASETS) -> Table:
    """Return a table from the newest record of every trial without noise and on the paper's splits."""
    datasets = tuple(datasets)
    cells = {}
    records = list(records)
    apart = methods_apart(records)
    clean = [record for record in SWEEP.newest(records) if (record["noise"], record["rate"]) == CLEAN]
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
