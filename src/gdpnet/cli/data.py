"""Commands that list, corrupt, generate and store graphs."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from gdpnet.cli import options as opt
from gdpnet.cli.describe import print_metrics
from gdpnet.cli.output import print_graph, print_table
from gdpnet.config import shipped_config
from gdpnet.data.datasets.known import NAMED, is_present
from gdpnet.errors import ConfigError, GraphError, nearest

NOISE_KINDS = (
    "random-links",
    "cross-class-links",
    "similar-links",
    "deleted-links",
    "rewired-links",
    "masked-features",
    "swapped-features",
    "gaussian-features",
    "flipped-bits",
    "flipped-labels",
    "pair-labels",
    "hidden-labels",
    "prbcd",
    "grbcd",
)

_EDGES_PER_NODE = 20
_size = partial(opt.option, "Generated graph")


def datasets(data_dir: opt.DataDir = None) -> dict[str, Any]:
    """List the datasets that are known by name, with their sizes and whether their files are here."""
    counts = ("nodes", "links", "features", "classes", "train")
    rows: list[dict[str, Any]] = [
        {"name": name}
        | {count: getattr(known, count) for count in counts}
        | {"discount": shipped_config(name).ppo.discount, "here": is_present(name, data_dir)}
        for name, known in NAMED.items()
    ]
    cells = [
        (
            row["name"],
            NAMED[row["name"]].about,
            *(f"{row[name]:,}" for name in counts),
            f"{row['discount']:g}",
            "yes" if row["here"] else "no",
        )
        for row in rows
    ]
    header = ("name", "content", "nodes", "edges", "features", "classes", "training", "discount", "here")
    print_table("datasets", header, cells, text=2)
    print(
        "The first four have 500 validation and 1,000 test nodes. The attacked graphs have 249 and 1,988, a fixed "
        "split, are transductive and never downloaded. 'synthetic' is a generated graph whose noise is known."
    )
    return {"datasets": rows}


def _check_kinds(words: list[str]) -> list[str]:
    """Refuse noise that is not ``kind=rate`` with a known kind and a number."""
    for word in words:
        kind, _, rate = word.partition("=")
        try:
            float(rate)
        except ValueError:
            raise ConfigError(f"--kind must have the form kind=rate, found '{word}'") from None
        if kind not in NOISE_KINDS:
            raise GraphError(f"there is no noise '{kind}'{nearest(kind, NOISE_KINDS)}")
    return words


def noise(
    graph: opt.GraphName,
    *,
    kinds: Annotated[
        list[str],
        opt.data(
            "--kind KIND=RATE",
            f"Kind of noise and its rate; repeat for several. Kinds: {', '.join(NOISE_KINDS)}.",
            callback=_check_kinds,
        ),
    ],
    split: opt.SplitName = "paper",
    source: opt.GraphSource,
    task: opt.TaskOption = None,
    out: opt.NewFolder,
    seed: opt.Seed = 0,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Add noise to a graph and write the result, with a list of all changes, to a new folder.

    The folder is a graph that every other command reads.
    """
    from gdpnet._core.files import check_new
    from gdpnet.benchmark.cases import noises_on
    from gdpnet.cli.runs import open_for
    from gdpnet.data.noise.folder import count_changes, write_noisy
    from gdpnet.data.noise.registry import check_rate, corrupt_all, count_edges

    noises = noises_on(device)
    steps = [(kind, float(rate)) for kind, _, rate in (word.partition("=") for word in kinds)]
    for kind, rate in steps:
        check_rate(kind, rate)
    check_new(out)
    loaded = open_for(task, graph, source, split, seed)
    print_graph(graph, loaded)
    noisy = corrupt_all(loaded, steps, seed, noises)
    about = {"graph": graph, "seed": seed, "kinds": [{"kind": kind, "rate": rate} for kind, rate in steps]}
    write_noisy(loaded, noisy, out, about)
    counts = count_changes(noisy) | count_edges(loaded, noisy)
    print_metrics(dict(counts))
    print(f"noisy graph: {out}" + ("; train on it with --directed" if noisy.graph.is_directed else ""))
    print(f"the same with the true labels and edges: {out / 'graph.npz'}")
    print(f"all changes: {out / 'changes.parquet'}")
    return about | {"out": str(out)} | counts


def generate(
    *,
    nodes: Annotated[int, _size("--nodes N", "Number of nodes.", min=10)] = 10_000,
    edges: Annotated[
        int | None,
        _size(
            "--edges N",
            "Number of directed edges; an undirected edge counts twice. "
            f"\\[default: {_EDGES_PER_NODE} per node, fewer in a graph of few nodes]",
            min=0,
        ),
    ] = None,
    features: Annotated[int, _size("--features N", "Number of features per node; 0 for none.", min=0)] = 32,
    classes: Annotated[
        int, _size("--classes N", "Number of classes, which are also the communities.", min=2)
    ] = 8,
    noise: Annotated[float, _size("--noise N", "Share of the edges that are spurious.", min=0, max=1)] = 0.2,
    out: opt.NewStore,
    seed: opt.Seed = 0,
) -> dict[str, Any]:
    """Generate a graph of any size, with heavy-tailed degrees and known spurious edges, as a store on disk."""
    from gdpnet._core.files import check_new
    from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
    from gdpnet.data.io.store import open_store

    edges = nodes * min(_EDGES_PER_NODE, (nodes - 1) // 4) if edges is None else edges
    settings = GeneratedSettings(nodes, edges, features, classes, noise)
    check_new(out)
    generate_store(settings, seed, out)
    print_graph(str(out), open_store(out))
    print(f"store: {out}")
    return {"out": str(out), "nodes": nodes, "edges": edges // 2 * 2, "seed": seed}


def store(
    graph: opt.GraphName,
    *,
    split: opt.SplitName = "paper",
    source: opt.GraphSource,
    task: opt.TaskOption = None,
    out: opt.NewStore,
    seed: opt.Seed = 0,
) -> dict[str, Any]:
    """Write a graph as a store: a folder of plain arrays that are memory-mapped instead of read.

    Every command takes a store as a graph, so graphs may be larger than memory.
    """
    from gdpnet._core.files import check_new
    from gdpnet.cli.runs import open_for
    from gdpnet.data.io.store import write_store

    check_new(out)
    loaded = open_for(task, graph, source, split, seed)
    print_graph(graph, loaded)
    write_store(loaded, out)
    print(f"store: {out}")
    return {"graph": graph, "out": str(out), "nodes": loaded.num_nodes, "edges": loaded.num_edges}
