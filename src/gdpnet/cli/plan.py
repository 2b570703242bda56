"""The command that says how large a job on a cluster is."""

from __future__ import annotations

from typing import Annotated, Any

from gdpnet.cli import options as opt
from gdpnet.cli.output import print_table
from gdpnet.cli.progress import doing

_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


def plan(
    nodes: Annotated[float, opt.data("--nodes N", "Number of nodes, such as 5e8.")],
    edges: Annotated[float, opt.data("--edges N", "Number of directed edges, such as 1e10.")],
    features: Annotated[int, opt.data("--features N", "Number of features.")] = 128,
    width: Annotated[int, opt.model("--width N", "Width of the representations.")] = 128,
    machines: Annotated[int, opt.computing("--machines N", "Number of machines.")] = 1,
    cores: Annotated[int, opt.computing("--cores N", "Cores per machine.")] = 16,
    network: Annotated[float, opt.computing("--network GBITS", "Gigabits per second and machine.")] = 10.0,
) -> dict[str, Any]:
    """Estimate memory, traffic, time, disk space and files of cleaning a large graph on a cluster.

    Costs are measured on this machine, which takes a few seconds. Nodes are taken to be numbered at random: a
    numbering by community moves less.
    """
    from gdpnet.benchmark import plan as formulas

    job = formulas.Job(nodes, edges, features, machines, width, cores, network)

    from gdpnet.benchmark.plan_costs import measure_costs

    with doing("measuring this machine"):
        costs = measure_costs(features, width)
    memory, stored = formulas.memory_per_machine(job), formulas.disk(job)
    moved, times = formulas.bytes_moved(job), formulas.seconds(job, costs)
    tasks, files = formulas.tasks_and_files(job)
    rows = [
        *(("memory per machine", name, _bytes(value)) for name, value in memory.items()),
        ("memory per machine", "all", _bytes(sum(memory.values()))),
        ("moved", "all machines", _bytes(moved)),
        ("moved", "per machine", _bytes(moved / machines)),
        *(("time", name, _time(value)) for name, value in times.items()),
        *(("disk, shared", name, _bytes(value)) for name, value in stored.items()),
        ("disk, shared", "all", _bytes(sum(stored.values()))),
        ("tasks", "", f"{tasks:,}"),
        ("files", "", f"{files:,}"),
    ]
    title = (
        f"{nodes:,.0f} nodes, {edges:,.0f} directed edges, {features} features on {machines:,} machines; measured: "
        f"{1e6 * costs.edge_seconds:.1f} µs per edge, {costs.gather_seconds:.2f} s per gathered GB"
    )
    print_table(title, ("what", "of it", "estimate"), rows, text=2)
    return {
        "job": vars(job),
        "costs": vars(costs),
        "memory_per_machine": memory | {"all": sum(memory.values())},
        "moved_per_edge": formulas.moved_per_edge(job),
        "moved": moved,
        "seconds": times,
        "disk": stored | {"all": sum(stored.values())},
        "tasks": tasks,
        "files": files,
    }


def _bytes(count: float) -> str:
    """Return a number of bytes in the largest unit that fits."""
    for name, size in _UNITS:
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{count / 1e3:,.1f} kB"


def _time(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
