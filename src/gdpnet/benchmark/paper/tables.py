"""Tables 2 and 3 of the paper, from records of trials on graphs without noise, beside the paper's own figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import ttest_rel

from gdpnet.benchmark.record_types import as_records_must_be
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.robustness import SWEEP, methods_apart
from gdpnet.benchmark.sweep import has_ended

DATASETS = ("cora", "pubmed", "dblp", "citeseer")
"""In the paper's order."""

NAMES = {
    "lr": "LR",
    "gat": "GAT",
    "gcn": "GCN",
    "fastgcn": "FastGCN",
    "graphsage": "GraphSAGE",
    "graphsage-sampled": "GraphSAGE (sampled)",
    "gdpnet-ro": "GDPNet-RO",
    "gdpnet": "GDPNet",
    "gdpnet>gcn": "GCN on the cleaned graph",
    "gdpnet>graphsage": "GraphSAGE on the cleaned graph",
}
"""The name of a method in a table."""

REPORTED: dict[str, tuple[tuple[float, float], ...]] = {
    "lr": ((0.799, 0.0106), (0.871, 0.0082), (0.784, 0.0103), (0.813, 0.0058)),
    "gat": ((0.819, 0.0045), (0.778, 0.0071), (0.736, 0.0082), (0.719, 0.0050)),
    "gcn": ((0.838, 0.0050), (0.826, 0.0022), (0.805, 0.0217), (0.829, 0.0156)),
    "fastgcn": ((0.865, 0.0450), (0.867, 0.0105), (0.774, 0.0041), (0.779, 0.0053)),
    "graphsage": ((0.867, 0.0052), (0.854, 0.0087), (0.803, 0.0128), (0.910, 0.0073)),
    "gdpnet-ro": ((0.879, 0.0214), (0.880, 0.0251), (0.832, 0.0097), (0.952, 0.0115)),
    "gdpnet": ((0.881, 0.0031), (0.893, 0.0057), (0.836, 0.0057), (0.957, 0.0033)),
    "gdpnet>gcn": ((0.844, 0.0042), (0.838, 0.0037), (0.811, 0.0120), (0.834, 0.0206)),
    "gdpnet>graphsage": ((0.869, 0.0067), (0.865, 0.0057), (0.816, 0.0081), (0.937, 0.0070)),
}
"""Mean and standard deviation by method in both tables of the paper, in the order of the datasets."""

TABLES = {
    "table2": ("lr", "gat", "gcn", "fastgcn", "graphsage", "graphsage-sampled", "gdpnet-ro", "gdpnet"),
    "table3": ("gcn", "gdpnet>gcn", "graphsage", "gdpnet>graphsage"),
}
"""The methods of each table, in the paper's order, with GraphSAGE on all and on sampled neighbours."""

TITLES = {
    "table2": "Table 2: node classification, micro-F1 on test nodes",
    "table3": "Table 3: networks on the original and on the cleaned graph, micro-F1 on test nodes",
}

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
        cells = {name: self.cells[(name, dataset)] for name in TABLES[self.name]}
        known = {name: cell.mean for name, cell in cells.items() if cell.scores}
        return max(known, key=lambda name: known[name], default=None)

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


def reported(method: str, dataset: str) -> str:
    """Return the text of one cell in the paper; empty if it has none."""
    if method not in REPORTED or dataset not in DATASETS:
        return ""
    mean, deviation = REPORTED[method][DATASETS.index(dataset)]
    return f"{mean:.3f} ± {deviation:.3f}"


@as_records_must_be()
def make_table(name: str, records: Iterable[Record], datasets: Iterable[str] = DATASETS) -> Table:
    """Return a table from the newest record of every trial without noise and on the paper's splits."""
    records, datasets, cells = list(records), tuple(datasets), {}
    apart = methods_apart(records)
    clean = [record for record in SWEEP.newest(records) if (record["noise"], record["rate"]) == CLEAN]
    for place in product(TABLES[name], datasets):
        method, dataset = place
        mine = [one for one in clean if (one["method"], one["graph"]) == place]
        scores = {one["seed"]: one["metrics"]["micro_f1"] for one in mine if has_ended(one)}
        other = (dataset, CLEAN[0], method) in apart
        cells[place] = Cell(method, dataset, scores, len(mine) - len(scores), reported(*place), other)
    return Table(name, datasets, cells)
