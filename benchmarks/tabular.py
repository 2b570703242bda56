"""Generated graphs with tables as people export them: GDPNet beside logistic regression, boosted trees and a GCN.

    python benchmarks/tabular.py --out results/tabular.jsonl [--seeds 3] [--first-seed 0] [--graphs wide,fraud]

Every graph is written as CSV files, without a split, and read as a user would read it; all methods have the same
encoded features and the same split. The score is macro-F1 on test nodes. Ten graphs have 1,500 nodes or more; those
of `odd_tables.py` are smaller and odder. Records of the same graph that are in the file are replaced.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from odd_tables import ODD_KINDS, generate_odd

from gdpnet import GDPNet
from gdpnet.benchmark.sanity import check_model, verdict
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.open import open_graph

RIVALS = ("logistic regression on features", "boosted trees on features", "GCN")


@dataclass(frozen=True)
class Kind:
    """What a generated table is like."""

    nodes: int = 1500
    shares: tuple[float, ...] = (0.5, 0.5)
    degree: float = 6.0
    homophily: float = 0.8
    signal: float = 1.0
    numeric: int = 4
    categories: int = 0
    dates: int = 0
    missing: float = 0.0
    interaction: bool = False
    """Whether every second column says something only together with the one before."""
    junk: bool = False


KINDS = {
    "unlike scales": Kind(),
    "categories": Kind(shares=(0.4, 0.3, 0.3), numeric=2, categories=3, signal=0.8),
    "fraud": Kind(nodes=3000, shares=(0.97, 0.03), numeric=5, categories=2, signal=1.2, homophily=0.97),
    "imbalance": Kind(shares=(0.7, 0.2, 0.1), numeric=4, categories=1, missing=0.1),
    "dates and junk": Kind(dates=1, numeric=3, categories=1, junk=True, missing=0.1),
    "weak features": Kind(signal=0.35, degree=8.0, homophily=0.85),
    "noisy links": Kind(signal=0.9, homophily=0.3, shares=(0.4, 0.3, 0.3)),
    "useless links": Kind(numeric=6, homophily=0.0, interaction=True, categories=1),
    "interactions": Kind(interaction=True, numeric=6, homophily=0.3, signal=1.0),
    "wide": Kind(nodes=2000, numeric=40, categories=4, shares=(0.25,) * 4, signal=0.3, missing=0.05),
}


def generate(kind: Kind, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return a node table and an edge table."""
    rng = np.random.default_rng(seed)
    classes = len(kind.shares)
    label = rng.choice(classes, kind.nodes, p=kind.shares)
    columns: dict[str, pa.Array] = {
        "id": pa.array([f"n{node:05d}" for node in range(kind.nodes)]),
        "label": pa.array([f"class {chr(97 + value)}" for value in label]),
    }
    before = np.zeros(kind.nodes)
    for number in range(kind.numeric):
        centre = rng.normal(0, kind.signal, classes)
        value = centre[label] + rng.normal(0, 1, kind.nodes)
        if kind.interaction:  # the sign of the column before decides what this one says
            noise = rng.normal(0, 1, kind.nodes)
            value = (
                noise
                if number % 2 == 0
                else np.sign(before) * 1.5 * kind.signal * (2 * label / (classes - 1) - 1) + noise
            )
        before = value
        shaped = [
            value * 12 + 45,
            np.exp(value * 0.8 + 10),
            np.floor(np.exp(value + 1)),
            1 / (1 + np.exp(-value)),
        ]
        columns[f"x{number}"] = _with_missing(shaped[number % 4], kind.missing, label, rng)
    for number in range(kind.categories):
        levels = 3 + 4 * number
        chance = rng.dirichlet(np.full(levels, 2.0 / kind.signal), classes)
        drawn = [rng.choice(levels, p=chance[value]) for value in label]
        columns[f"kind{number}"] = pa.array(
            [None if rng.random() < kind.missing else f"level {value}" for value in drawn], pa.string()
        )
    for number in range(kind.dates):
        day = 18_000 + 200 * label + rng.normal(0, 200, kind.nodes)
        columns[f"since{number}"] = pa.array(day.astype("datetime64[D]"))
    if kind.junk:
        columns["title"] = pa.array(
            [f"record of {rng.integers(10**9)} and {rng.integers(10**9)}" for _ in label]
        )
        columns["constant"] = pa.array(["same"] * kind.nodes)
        columns["row_number"] = pa.array(np.arange(kind.nodes))
    return pa.table(columns), _edges(label, kind, rng, columns["id"])


def _with_missing(value: np.ndarray, share: float, label: np.ndarray, rng: np.random.Generator) -> pa.Array:
    chance = share * np.where(label == 0, 1.3, 0.7) if share else np.zeros(len(value))
    return pa.array(np.where(rng.random(len(value)) < chance, np.nan, value), from_pandas=True)


def _edges(label: np.ndarray, kind: Kind, rng: np.random.Generator, ids: pa.Array) -> pa.Table:
    count = int(kind.nodes * kind.degree / 2)
    source = rng.integers(0, kind.nodes, count)
    members = [np.flatnonzero(label == value) for value in range(len(kind.shares))]
    within = np.array([rng.choice(members[label[node]]) for node in source])
    target = np.where(rng.random(count) < kind.homophily, within, rng.integers(0, kind.nodes, count))
    kept = source != target
    return pa.table({"source": ids.take(pa.array(source[kept])), "target": ids.take(pa.array(target[kept]))})


def compare(name: str, seed: int) -> dict[str, object]:
    """Write a graph as CSV, read it as a user would, and score all methods on the same test nodes."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tables = generate_odd(ODD_KINDS[name], seed) if name in ODD_KINDS else generate(KINDS[name], seed)
        for stem, table in zip(("nodes", "edges"), tables, strict=True):
            write_table(table, Path(folder) / f"{stem}.csv")
        graph = open_graph(folder, seed=seed)
    start = time.perf_counter()
    model = GDPNet(seed=seed, device="cpu").fit(graph)
    rows = check_model(model, model.predictor(graph), "test", time.perf_counter() - start, budget=10.0)
    scores = {row.method: row.macro_f1 for row in rows if row.macro_f1 is not None}
    rivals = {name: scores[name] for name in RIVALS if name in scores}
    behind = max(rivals.values()) - scores["GDPNet"]
    warned = any("not ahead" in sentence for sentence in verdict(rows, {}))
    return {"graph": name, "seed": seed, "macro_f1": scores, "behind": behind, "warned": warned}


def _replace_records(path: Path, found: list[dict[str, object]]) -> None:
    """Write records to a file, in place of those of the same graphs."""
    path.parent.mkdir(exist_ok=True)
    names = {record["graph"] for record in found}
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in before if json.loads(line)["graph"] not in names]
    lines = [*kept, *(json.dumps(record) for record in found)]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Run all graphs and seeds, write a record of each, and print the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/tabular.jsonl"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--graphs", default=",".join([*KINDS, *ODD_KINDS]))
    given = parser.parse_args()
    names, seeds = given.graphs.split(","), range(given.first_seed, given.first_seed + given.seeds)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        found = []
        for record in pool.map(compare, *zip(*product(names, seeds), strict=True)):
            found.append(record)
            print(
                f"{record['graph']}, seed {record['seed']}: {100 * record['behind']:+.1f} behind", flush=True
            )
    _replace_records(given.out, found)
    print(f"{'graph':20}{'GDPNet':>8}{'best':>8}  rival")
    for name in names:
        mine = [record for record in found if record["graph"] == name]
        means = {one: np.mean([record["macro_f1"][one] for record in mine]) for one in mine[0]["macro_f1"]}
        best = max((one for one in RIVALS if one in means), key=lambda one: means[one])
        print(f"{name:20}{means['GDPNet']:8.3f}{means[best]:8.3f}  {best}")


if __name__ == "__main__":
    main()
