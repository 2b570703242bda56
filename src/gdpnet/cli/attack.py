"""The command that attacks fitted methods."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gdpnet.cli import options as opt
from gdpnet.cli.compare import FirstSeed, Labels, Seeds, Transductive, rates_of
from gdpnet.cli.output import print_table
from gdpnet.cli.progress import TrialProgress
from gdpnet.cli.trials import (
    asked_of,
    cases_of,
    changes_of,
    check_names,
    contents_of,
    reading_of,
    refuse_untrainable,
    say_left_alone,
)

if TYPE_CHECKING:
    from gdpnet.benchmark.attacks.summary import Row

USUAL_METHODS = "gdpnet, gcn, gnnguard, jaccard-gcn"
USUAL_ATTACKS = "random, transfer, adaptive, search, combined"


def attack(
    dataset: opt.GraphNames,
    *,
    rates: Annotated[
        str, opt.data("--rates NUMBERS", "Comma-separated budgets: links to flip, as shares of all links.")
    ] = "0.05,0.1,0.25",
    split: opt.SplitName = "paper",
    labels: Labels = "all",
    transductive: Transductive = None,
    source: opt.GraphSource,
    methods: Annotated[
        str,
        opt.model(
            "--methods NAMES",
            "Comma-separated methods: gdpnet and its variants, gcn, gnnguard, jaccard-gcn, cosine-gcn. With a fixed "
            "share of kept edges a filter is named as in jaccard-gcn:0.8.",
        ),
    ] = USUAL_METHODS,
    attacks: Annotated[
        str,
        opt.model(
            "--attacks NAMES",
            "Comma-separated attacks: random flips; transfer from a GCN; adaptive, with gradients of the method; "
            "search on its predictions; combined, the search from what adaptive found.",
        ),
    ] = USUAL_ATTACKS,
    poisoning: Annotated[
        bool,
        opt.flag(
            opt.MODEL,
            "--poisoning",
            "Also fit each method on the graphs that were attacked, and score it there.",
        ),
    ] = False,
    steps: Annotated[
        int, opt.model("--steps N", "Gradient steps of the adaptive attack.", min=1, max=10**6)
    ] = 80,
    block: Annotated[
        int,
        opt.model(
            "--block N", "Random pairs of nodes that a step considers beside all links.", min=1, max=10**9
        ),
    ] = 10_000,
    queries: Annotated[
        int, opt.model("--queries N", "Graphs that the search may have predicted.", min=1, max=10**6)
    ] = 100,
    tuned: Annotated[
        Path,
        opt.model(
            "--tuned FILE", "Hyper-parameters of baselines found by `gdpnet tune`; defaults for others."
        ),
    ] = Path("results/settings.jsonl"),
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    records: opt.Records = Path("results/attacks.jsonl"),
    report_only: opt.ReportOnly = False,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: opt.Jobs = 1,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Attack fitted methods: flip links so that they misclassify test nodes.

    Each method is attacked for itself. Every budget is a share of the links; the model itself judges what an attack
    found. Each result is appended to --records. Results that the file holds are not computed again.
    """
    names, levels = opt.names_in(methods, "--methods", "method"), rates_of(rates)
    wanted = opt.names_in(attacks, "--attacks", "attack")
    if not report_only:
        check_names(dataset)
    configs = {name: opt.config_of(name, config, overrides, None, changes_of(source)) for name in dataset}

    from gdpnet.benchmark.attacks.attacker import check_attacks
    from gdpnet.benchmark.attacks.settings import AttackSettings
    from gdpnet.benchmark.attacks.summary import summarise
    from gdpnet.benchmark.attacks.trials import SETTINGS, Trial, cells_of, plan
    from gdpnet.benchmark.attacks.victims import check_attackable
    from gdpnet.benchmark.records import of_content, read_records
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    check_attacks(wanted)
    for name in names:
        check_attackable(name)
    cells = cells_of(wanted, levels, SETTINGS if poisoning else SETTINGS[:1])
    settings = AttackSettings(steps=steps, block=block, queries=queries)
    reading = reading_of(source)
    contents = contents_of(dataset, reading, report_only=report_only)
    numbers = range(first_seed, first_seed + seeds)
    cases = cases_of(dataset, "none", (0.0,), numbers, split, contents, reading, labels, transductive)
    asked, counts = asked_of(cases), {}
    say_left_alone(records, asked)
    if not report_only:
        refuse_untrainable(cases.values(), device, scored=True)
        found, trials = searched_settings(tuned, asked), list[Trial]()
        for name, some in cases.items():
            graph = some[0].to_record()["graph"]
            searched = {method: one for (place, method), one in found.items() if place == graph}
            trials += [
                Trial(case, method, cells, configs[name], settings, device, searched)
                for case in some
                for method in names
            ]
        left = plan(trials, records)
        with TrialProgress(len(left)) as progress:
            run_all(left, records, jobs, progress)
        counts = progress.counts
    graphs = {some[0].to_record()["graph"] for some in cases.values()}
    rows = [
        row
        for row in summarise(of_content(read_records(records), asked))
        if row.graph in graphs and row.method in names and row.rate in (0.0, *levels)
    ]
    for graph, moment in sorted({(row.graph, row.setting) for row in rows}):
        shown = [row for row in rows if (row.graph, row.setting) == (graph, moment)]
        _print_attacks(f"{graph}, {moment}", shown, names)
    return {"rows": [asdict(row) for row in rows]} | counts


def _print_attacks(title: str, rows: list[Row], methods: list[str]) -> None:
    """Print the accuracy of every method under every attack, and how many edges the attacks changed."""
    from gdpnet.benchmark.attacks.attacker import ATTACKS, CLEAN
    from gdpnet.benchmark.attacks.summary import COUNTS, WORST

    cells, rates = (
        {(row.method, row.attack, row.rate): row for row in rows},
        sorted({row.rate for row in rows}),
    )
    order = [CLEAN, *ATTACKS, WORST]

    def cell(method: str, attack: str, rate: float) -> str:
        row = cells.get((method, attack, rate))
        if row is None or row.seeds == 0:
            return "" if row is None else "failed"
        failed = f" ({row.failed} failed)" if row.failed else ""
        return f"{row.mean:.3f} ± {row.deviation:.3f}{failed}"

    lines = [
        (method, attack, *(cell(method, attack, rate) for rate in rates))
        for method in methods
        for attack in order
        if any((method, attack, rate) in cells for rate in rates)
    ]
    header = ("method", "attack", *(f"budget {rate:g}" for rate in rates))
    print_table(f"{title}: micro-F1 on test", header, lines, text=2)
    edges = [
        (row.method, row.attack, f"{row.rate:g}", *(f"{row.edges[name]:,.0f}" for name in COUNTS))
        for row in sorted(
            rows, key=lambda one: (methods.index(one.method), order.index(one.attack), one.rate)
        )
        if row.attack not in (CLEAN, WORST) and row.seeds
    ]
    if edges:
        names = ("links to flip", "before", "added", "removed", "after")
        print_table(
            f"{title}: number of directed edges", ("method", "attack", "budget", *names), edges, text=2
        )
