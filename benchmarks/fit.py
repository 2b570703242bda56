"""Seconds of one whole fit, as a user waits for it: GDPNet, GCN, GraphSAGE, GNNGuard, and structural filter + GCN.

GDPNet has the preset of the dataset, and every baseline the settings that `gdpnet tune` found for it
(`results/settings.jsonl`), as in `gdpnet robustness`. First GDPNet is fitted once per dataset in a fresh process,
with the caches of numba and Triton as they are: `cold_seconds`, and the peak of its memory. Then every method is
fitted once to a small generated graph, which loads and compiles what it needs. Then all methods are fitted to all
datasets in turns, each to a graph that nothing has read before. A fit begins with a graph in memory and ends with a
model; starting Python, loading a dataset and predicting are not part of it, except that baselines predict all nodes
as they end.

With `--budget-seconds` no fit begins that is not expected to end in time; `left_out` in the record names those. A
fit that was not timed before may end late. `cold_seconds_above` says how long a fit in a fresh process was waited
for in vain.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from memory import in_child
from records import RESULTS, make_parser, median_ratio, write_record

from gdpnet._core.device import pick_device
from gdpnet.benchmark.baselines.filters import structural_scores
from gdpnet.benchmark.baselines.fitting import Settings, make_task
from gdpnet.benchmark.baselines.methods import method_of, run_method, run_task
from gdpnet.benchmark.evaluation import f1_on_test
from gdpnet.benchmark.tuning import searched_settings
from gdpnet.config import Config, shipped_config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import DATASETS
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.errors import DatasetError, GDPNetError, nearest
from gdpnet.estimator import GDPNet

OURS, FILTER = "gdpnet", "structural-gcn"
METHODS = (OURS, "gcn", "graphsage", "gnnguard", FILTER)
WARM_EPOCHS = 5
WARM_SETTINGS = ["training.warmup=1", "training.epochs=2"]
COLD_SHARE = 0.4
"""Largest share of the budget that is spent on fits in fresh processes."""


@dataclass(frozen=True)
class Plan:
    """What is fitted, and how."""

    config: dict[str, Config]
    """Settings of GDPNet by dataset."""
    settings: dict[tuple[str, str], Settings]
    """Settings of the baselines by dataset and method."""
    methods: tuple[str, ...]
    seed: int
    device: str


@dataclass
class Clock:
    """The seconds that are left of a budget; without one there are always enough."""

    budget: float | None
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        spent = time.perf_counter() - self.began
        return float("inf") if self.budget is None else self.budget - spent


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Look up the settings of every method on every dataset."""
    datasets, methods = (tuple(text.split(",")) for text in (arguments.datasets, arguments.methods))
    for name in datasets:
        if name not in DATASETS:
            raise DatasetError(f"there is no dataset '{name}'{nearest(name, DATASETS)}")
    baselines = [name for name in methods if name != OURS]
    found = searched_settings(arguments.tuned, {name: DATASETS[name].fingerprint for name in datasets})
    settings = {
        (dataset, name): found.get((dataset, name)) or method_of(name).settings
        for dataset in datasets
        for name in baselines
    }
    config = {name: shipped_config(name).with_overrides(arguments.set) for name in datasets}
    return Plan(config, settings, methods, arguments.seed, arguments.device)


def fit_ours(graph: Graph, config: Config, plan: Plan) -> dict[str, Any]:
    """Fit GDPNet; return its seconds and scores."""
    start = time.perf_counter()
    model = GDPNet.from_config(config, seed=plan.seed, device=plan.device).fit(graph)
    seconds = _since(start)
    start = time.perf_counter()
    probabilities = model.predict_proba(graph)
    found = {"micro_f1": f1_on_test(graph, torch.from_numpy(probabilities)), "epochs": len(model.history_)}
    return {"seconds": seconds, "predict_seconds": _since(start), **found}


def fit_baseline(name: str, graph: Graph, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Fit a baseline; return its seconds and scores."""
    start = time.perf_counter()
    fitted = run_method(name, graph, plan.seed, pick_device(plan.device), settings)
    seconds = _since(start)
    return {"seconds": seconds, "micro_f1": f1_on_test(graph, fitted.logits), "epochs": fitted.epochs}


def fit_filter(graph: Graph, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Fit structural filter and GCN; return also the seconds of the filter alone."""
    device = pick_device(plan.device)
    structural_scores.cache_clear()
    start = time.perf_counter()
    task = make_task(graph, plan.seed)
    structural_scores(task, plan.seed, device)
    filter_seconds = _since(start)
    fitted = run_task(FILTER, task, plan.seed, device, settings)
    seconds = _since(start)
    if structural_scores.cache_info().misses != 1:
        raise RuntimeError("the filter ran twice in one fit, so that its seconds would count twice")
    found = {"micro_f1": f1_on_test(graph, fitted.logits), "epochs": fitted.epochs}
    return {"seconds": seconds, "filter_seconds": filter_seconds, **found}


def fit_once(
    name: str, graph: Graph, config: Config, settings: Settings | None, plan: Plan
) -> dict[str, Any]:
    """Fit a method to a graph that nothing has read before."""
    graph = copy.deepcopy(graph)
    if settings is None:
        return fit_ours(graph, config, plan)
    return fit_filter(graph, settings, plan) if name == FILTER else fit_baseline(name, graph, settings, plan)


def fit_cold(job: tuple[str, Path | None, Config, Plan]) -> dict[str, float]:
    """Fit GDPNet in this fresh process; return its seconds, and the peak of the GPU's memory if it has one."""
    dataset, data_dir, config, plan = job
    graph = load_dataset(dataset, data_dir, download=False)
    start = time.perf_counter()
    GDPNet.from_config(config, seed=plan.seed, device=plan.device).fit(graph)
    found = {"cold_seconds": _since(start)}
    if torch.cuda.is_initialized():
        found["peak_gpu_gib"] = round(torch.cuda.max_memory_allocated() / 1024**3, 3)
    return found


def measure_cold(plan: Plan, arguments: argparse.Namespace, clock: Clock) -> dict[str, dict[str, Any]]:
    """Return seconds and peak memory of a fit in a fresh process, by dataset.

    This comes before all other fits: the peak of a process begins with the memory of the one that starts it.
    """
    found: dict[str, dict[str, Any]] = {}
    reserve = 0.0 if clock.budget is None else (1.0 - COLD_SHARE) * clock.budget
    for dataset, config in plan.config.items() if OURS in plan.methods else ():
        left = max(0.0, clock.left - reserve)
        try:
            if left == 0.0:
                raise TimeoutError
            job = (dataset, arguments.data_dir, config, plan)
            child = in_child(fit_cold, job, arguments.threads, None if left == float("inf") else left)
        except TimeoutError:
            found[dataset] = {"cold_seconds": None, "cold_seconds_above": round(left, 1), "peak_gib": None}
            continue
        found[dataset] = child["result"] | {"peak_gib": child["peak_gib"]}
    return found


def warm_up(plan: Plan) -> None:
    """Fit every method once to a small generated graph."""
    graph = synthetic_graph(SyntheticSettings(nodes=300, words=300), plan.seed)
    for dataset, config in plan.config.items():
        for name in plan.methods:
            settings = plan.settings.get((dataset, name))
            few = None if settings is None else replace(settings, epochs=WARM_EPOCHS)
            fit_once(name, graph, config.with_overrides(WARM_SETTINGS), few, plan)


def measure(
    plan: Plan, arguments: argparse.Namespace, clock: Clock, cold: dict[str, dict[str, Any]]
) -> tuple[dict[tuple[str, str], dict[int, dict[str, Any]]], list[str]]:
    """Fit all methods in turns; return what was found by dataset, method and turn, and what was left out."""
    graphs = {name: load_dataset(name, arguments.data_dir, download=False) for name in plan.config}
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    expected = {(name, OURS): one["cold_seconds"] or one["cold_seconds_above"] for name, one in cold.items()}
    left_out = []
    for turn in range(arguments.repeats):
        for dataset, graph in graphs.items():
            for name in plan.methods:
                place = dataset, name
                if expected.get(place, 0.0) > clock.left or clock.left <= 0:
                    left_out.append(f"{dataset} {name}, turn {turn + 1}")
                    continue
                settings = plan.settings.get(place)
                one = fit_once(name, graph, plan.config[dataset], settings, plan)
                found.setdefault(place, {})[turn] = one
                expected[place] = one["seconds"]
                print(f"{dataset} {name}, turn {turn + 1}: {one['seconds']:.2f} s", flush=True)
    return found, left_out


def summarise(turns: dict[int, dict[str, Any]], gcn: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of a method on a dataset, and its ratio to the GCN of the same turns."""
    each = list(turns.values())
    scores = {"micro_f1": round(each[0]["micro_f1"], 4), "epochs": each[0]["epochs"]}
    seconds = {name: _median(each, name) for name in each[0] if name.endswith("seconds")}
    both = sorted(turns.keys() & gcn.keys())
    ours, theirs = ([one[turn]["seconds"] for turn in both] for one in (turns, gcn))
    ratio = {"ratio_to_gcn": round(median_ratio(ours, theirs), 2)} if both else {}
    return {**seconds, "all_seconds": [round(one["seconds"], 3) for one in each], **scores, **ratio}


def metrics_of(
    plan: Plan, found: dict[tuple[str, str], dict[int, dict[str, Any]]], cold: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return what the record says of every dataset."""
    metrics: dict[str, Any] = {}
    for dataset in plan.config:
        here = {name: turns for (place, name), turns in found.items() if place == dataset}
        rows = {name: summarise(turns, here.get("gcn", {})) for name, turns in here.items()}
        if dataset in cold:
            rows[OURS] = rows.get(OURS, {}) | cold[dataset]
        both = sorted(here.get(OURS, {}).keys() & here.get(FILTER, {}).keys())
        if both:
            ours = [here[OURS][turn]["seconds"] for turn in both]
            theirs = [here[FILTER][turn]["filter_seconds"] for turn in both]
            rows[OURS]["ratio_to_filter"] = round(median_ratio(ours, theirs), 2)
        metrics[dataset] = rows
    return metrics


COLUMNS = {
    "seconds": "seconds",
    "filter_seconds": "filter alone",
    "cold_seconds": "cold",
    "ratio_to_gcn": "times GCN",
    "ratio_to_filter": "times filter",
    "epochs": "epochs",
    "micro_f1": "micro-F1",
    "peak_gib": "peak GiB",
}
"""Measures of the table, with their headings."""


def table_lines(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    lines = [["dataset", "method", *COLUMNS.values()]]
    for dataset, rows in metrics.items():
        lines += [[dataset, name, *(_cell(row.get(key)) for key in COLUMNS)] for name, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, second, *rest in lines:
        left = first.ljust(widths[0]), second.ljust(widths[1])
        yield "  ".join([*left, *map(str.rjust, rest, widths[2:])])


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _median(each: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(one[name] for one in each), 3)


def _since(start: float) -> float:
    """Return the seconds since a moment, when the GPU has ended its work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return round(time.perf_counter() - start, 3)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda (default: cpu)")
    parser.add_argument(
        "--datasets", default="cora,citeseer,dblp,pubmed", help="comma-separated (default: all four)"
    )
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated (default: all five)")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns (default: 3)")
    parser.add_argument("--budget-seconds", type=float, help="seconds of the whole run (default: no limit)")
    parser.add_argument(
        "--no-cold", action="store_true", help="leave out the fits in fresh processes, and their memory"
    )
    parser.add_argument(
        "--tuned",
        type=Path,
        default=RESULTS.with_name("settings.jsonl"),
        help="settings of the baselines that gdpnet tune found (default: results/settings.jsonl)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a setting of GDPNet"
    )
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error(f"--repeats must be 1 or more, found {arguments.repeats}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    clock = Clock(arguments.budget_seconds)
    torch.set_num_threads(arguments.threads)
    try:
        plan, device = make_plan(arguments), pick_device(arguments.device)
    except GDPNetError as error:
        sys.exit(f"error: {error}")
    cold = {} if arguments.no_cold else measure_cold(plan, arguments, clock)
    warm_up(plan)
    found, left_out = measure(plan, arguments, clock, cold)
    metrics = metrics_of(plan, found, cold)
    about = {
        "device": "cpu" if device.type == "cpu" else torch.cuda.get_device_name(),
        "repeats": arguments.repeats,
        "left_out": left_out,
        "run_seconds": _since(clock.began),
    }
    baselines: dict[str, dict[str, Any]] = {name: {} for name in plan.config}
    for (dataset, name), settings in plan.settings.items():
        baselines[dataset][name] = asdict(settings)
    config = {name: {OURS: one.to_dict(), **baselines[name]} for name, one in plan.config.items()}
    write_record(arguments.results, "fit", metrics | about, config)
    print("\n".join(table_lines(metrics)))


if __name__ == "__main__":
    main()
