"""The commands under test, on tiny graphs: what they read, what they write, and how they are started again."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gdpnet.cli import main
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import write_tables

FAST = Config().with_values(
    {
        "training": {"epochs": 2, "warmup": 1, "injected": 0.0},
        "representation": {"width": 8},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
        "links": {"steps": 20},
        **{head: {"use": False} for head in ("hopwise", "gcn", "all_edges", "trees", "linear", "evidence")},
    }
)
NOTES = "notes.txt"
WORDS_OF_GRAPH = 100
"""Feature columns of the generated graph."""

_RECORDS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Job:
    """A command; ``{base}``, ``{work}`` and ``{variant}`` stand for the inputs, the round's folder and a choice."""

    name: str
    command: str
    out: str
    """What it writes, below the round's folder."""
    makes: str
    """A file, a folder that must be new, a run, shards, records or pages."""
    variants: tuple[str, str] = ("0", "0")
    """Values of ``{variant}``: the usual one, and that of a second writer."""
    after_a_run: bool = False
    """Whether its folder holds a finished run, which it replaces or goes on with."""

    def words(self, base: Path, work: Path, variant: int = 0) -> list[str]:
        """Return the words of the command."""
        text = self.command.format(base=base, work=work, variant=self.variants[variant])
        return [*shlex.split(text), "--quiet"]

    def words_again(self, base: Path, work: Path, variant: int = 0) -> list[str]:
        """Return the words that start the command again after it was stopped."""
        words = self.words(base, work, variant)
        if self.makes != "run":
            return words
        return [word for word in words if word not in ("--force", "--resume")] + ["--resume"]


_TRAIN = "--out {work}/run --config {base}/fast.toml --no-check --device cpu --seed {variant}"
_SEEDS = ("0", "1")

JOBS = {
    job.name: job
    for job in (
        Job("train", f"train {{base}}/graph {_TRAIN}", "run", "run", _SEEDS),
        Job("train-links", f"train {{base}}/graph --task links {_TRAIN}", "run", "run", _SEEDS),
        Job("train-clusters", f"train {{base}}/graph --task clusters {_TRAIN}", "run", "run", _SEEDS),
        Job("train-labels", f"train {{base}}/labels --task multi-label {_TRAIN}", "run", "run", _SEEDS),
        Job("train-regression", f"train {{base}}/numbers --task regression {_TRAIN}", "run", "run", _SEEDS),
        Job(
            "train-force",
            f"train {{base}}/graph --force --set ppo.learning_rate=0.01 {_TRAIN}",
            "run",
            "run",
            after_a_run=True,
        ),
        Job(
            "train-more",
            f"train {{base}}/graph --resume --set training.epochs=3 {_TRAIN}",
            "run",
            "run",
            after_a_run=True,
        ),
        Job(
            "denoise",
            "denoise {base}/run --all --threshold {variant} --out {work}/edges.csv",
            "edges.csv",
            "file",
            ("0.5", "0.9"),
        ),
        Job("denoise-parquet", "denoise {base}/run --out {work}/edges.parquet", "edges.parquet", "file"),
        Job(
            "denoise-shards",
            "denoise {base}/run --shards --shard-edges 40 --out {work}/shards",
            "shards",
            "shards",
        ),
        Job("embed", "embed {base}/run --out {work}/rows.parquet", "rows.parquet", "file"),
        Job(
            "embed-shards",
            "embed {base}/run --shards --shard-edges 40 --out {work}/shards",
            "shards",
            "shards",
        ),
        Job(
            "predict-shards",
            "predict {base}/run --shards --shard-edges 40 --out {work}/shards",
            "shards",
            "shards",
        ),
        Job("predict", "predict {base}/run --out {work}/predictions.csv", "predictions.csv", "file"),
        Job(
            "predict-links",
            "predict {base}/run-links --pairs {base}/pairs.csv --out {work}/pairs.csv",
            "pairs.csv",
            "file",
        ),
        Job("explain", "explain {base}/run --out {work}/reasons.csv", "reasons.csv", "file"),
        Job("explore", "explore {base}/run --out {work}/explorer.html", "explorer.html", "pages"),
        Job(
            "robustness",
            "robustness --dataset {base}/graph --rates 0,0.5 --seeds 1 --first-seed {variant} --methods gcn,gdpnet "
            "--config {base}/fast.toml --records {work}/records.jsonl --device cpu",
            "records.jsonl",
            "records",
            _SEEDS,
        ),
        Job(
            "reproduce",
            "reproduce all --datasets cora --report-only --results {base}/results --figures {work}/figures",
            "figures",
            "pages",
        ),
        Job(
            "report",
            "report {base}/results --out {work}/page.html --markdown {work}/page.md --figures {work}/figures",
            "page.html",
            "pages",
        ),
        Job("report-run", "report {base}/run --out {work}/page.html", "page.html", "pages"),
        Job(
            "noise",
            "noise {base}/graph --kind random-links=0.5 --kind flipped-labels=0.1 --seed {variant} "
            "--out {work}/noisy",
            "noisy",
            "folder",
            _SEEDS,
        ),
        Job("store", "store {base}/graph --out {work}/stored", "stored", "folder"),
        Job(
            "generate",
            "generate --nodes 40 --edges 160 --features 4 --classes 3 --seed {variant} --out {work}/made",
            "made",
            "folder",
            _SEEDS,
        ),
    )
}


def prepare(job: Job, base: Path, work: Path) -> None:
    """Fill the folder of a round with what the user has there: notes, and an older result if there can be one."""
    work.mkdir(parents=True)
    (work / NOTES).write_text("what the user wrote\n", encoding="utf-8")
    if job.makes == "file" and older(job, base).exists():
        shutil.copy(older(job, base), work / job.out)
    if job.after_a_run:
        shutil.copytree(base / "run", work / job.out)
    if job.makes == "records":
        (work / job.out).write_text(_first_lines("robustness.jsonl", 2), encoding="utf-8")


def older(job: Job, base: Path) -> Path:
    """Return the place of an older result of a command, which it may replace."""
    return base / "older" / job.name / job.out


def keep_older(job: Job, base: Path, work: Path) -> None:
    """Keep a result as an older one, a little different from what the command writes today."""
    path, made = older(job, base), work / job.out
    if not made.is_file():
        return
    path.parent.mkdir(parents=True)
    if made.suffix == ".parquet":
        pq.write_table(pq.read_table(made).slice(0, 1), path)
    elif made.suffix == ".csv":
        path.write_text(
            "".join(made.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8"
        )
    else:
        path.write_text(made.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def _first_lines(name: str, count: int) -> str:
    with (_RECORDS / name).open(encoding="utf-8") as file:
        return "".join(next(file) for _ in range(count))


def small_graph(nodes: int = 40, seed: int = 0) -> Graph:
    """Return a generated graph of three classes; its ids are text that looks like numbers."""
    made = synthetic_graph(
        SyntheticSettings(nodes=nodes, classes=3, words=WORDS_OF_GRAPH, links_per_node=2.0), seed
    )
    return replace(made, node_ids=np.array([f"{number:03d}" for number in range(nodes)]))


def make_base(base: Path) -> None:
    """Make what the commands read: graphs, settings, trained runs, pairs of nodes and records."""
    base.mkdir(parents=True)
    graph = small_graph()
    write_tables(graph, base / "graph", "csv")
    degree = graph.degree.tolist()
    numbers = [f"{degree[place] / 3 + place % 5:.3f}" for place in range(graph.num_nodes)]
    _write_labelled(base / "numbers", graph, numbers)
    _write_labelled(base / "labels", graph, [("a", "b", "a|b", "b|c")[count % 4] for count in degree])
    (base / "fast.toml").write_text(FAST.to_toml(), encoding="utf-8")
    (base / "pairs.csv").write_text("source,target\n000,001\n002,003\n", encoding="utf-8")
    results = base / "results"
    results.mkdir()
    for name, count in (("portraits.jsonl", 4), ("settings.jsonl", 4)):
        (results / name).write_text(_first_lines(name, count), encoding="utf-8")
    (results / "robustness.jsonl").write_text(_clean_records(12), encoding="utf-8")
    for name, job in (("run", JOBS["train"]), ("run-links", JOBS["train-links"])):
        words = [word.replace(str(base / "run"), str(base / name)) for word in job.words(base, base)]
        if code := main(words):
            raise RuntimeError(f"gdpnet {' '.join(words)} ended with {code}")


def _clean_records(count: int) -> str:
    """Return some records of Cora without noise, and a few of each method."""
    kept: dict[str, list[str]] = {}
    with (_RECORDS / "robustness.jsonl").open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if record["graph"] == "cora" and record["rate"] == 0:
                kept.setdefault(record["method"], []).append(line)
    chosen = [lines[:2] for lines in list(kept.values())[:count]]
    return "".join(line for lines in chosen for line in lines)


def _write_labelled(folder: Path, graph: Graph, labels: list[str]) -> None:
    """Write the graph with numbers to predict, or several labels per node, in place of classes."""
    folder.mkdir()
    nodes = enumerate(zip(graph.node_ids, labels, strict=True))
    rows = [f"{name},{label},{place % 7},{place / 2}" for place, (name, label) in nodes]
    (folder / "nodes.csv").write_text("\n".join(["id,label,x,y", *rows]) + "\n", encoding="utf-8")
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
    lines = [f"{graph.node_ids[source]},{graph.node_ids[target]}" for source, target in pairs]
    (folder / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n", encoding="utf-8")
