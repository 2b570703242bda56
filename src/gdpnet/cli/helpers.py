"""Training by several ranks: the first one is the command, and tells the others what to train on.

Imports torch, so commands import this module when they run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet._core.device import pick_device
from gdpnet._core.ranks import Ranks, joined_ranks
from gdpnet._core.words import counted
from gdpnet.cli.options import GraphSource
from gdpnet.cli.output import note
from gdpnet.cli.runs import open_as_trained, open_named
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError
from gdpnet.training.parts import is_too_large, part_for_scoring
from gdpnet.training.registry import TASKS, check_ranks
from gdpnet.training.run_epochs import help_fit
from gdpnet.training.run_folder import open_run


@dataclass(frozen=True)
class Work:
    """What a rank must know to take part in a training."""

    graph: str
    source: GraphSource
    split: str
    seed: int
    settings: Config
    size: tuple[int, int]
    """Nodes and edges of the graph, as the first rank has read it."""
    resumed: dict[str, Any] | None = None
    """The description of the run that goes on, if one does."""


@contextmanager
def first_of(device: str) -> Iterator[tuple[Ranks, Callable[[Work], None]]]:
    """Meet the other ranks, if there are any; yield them all and a function that tells the others what to do."""
    with joined_ranks(pick_device(device).type) as ranks, _telling(ranks) as tell:
        yield ranks, tell


@contextmanager
def _telling(ranks: Ranks) -> Iterator[Callable[[Work], None]]:
    """Yield a function that tells the others what to do; if it is not called they have nothing to do."""
    has_told = False

    def tell(work: Work) -> None:
        nonlocal has_told
        has_told = True
        ranks.share(work)

    try:
        yield tell
    finally:
        if not has_told:
            ranks.share(None)


def work_of(
    graph: str,
    source: GraphSource,
    split: str | None,
    seed: int,
    settings: Config,
    opened: Graph,
    run: Path | None,
) -> Work:
    """Return what the other ranks must know; ``run`` is the folder of a run that goes on."""
    size = (opened.num_nodes, opened.num_edges)
    about = None if run is None else open_run(run)[2]
    source = source if about is None else source.or_from(about.get("source", {}))
    return Work(
        str(Path(graph).resolve()) if Path(graph).exists() else graph,
        source,
        split or "paper",
        seed,
        settings,
        size,
        about,
    )


def part_to_score(graph: Graph, settings: Config, seed: int, ranks: Ranks) -> Graph:
    """Return the graph to score on, a sampled part if training uses parts; say what is trained on."""
    training = settings.training
    is_large = is_too_large(graph, settings) and settings.task.kind not in ("links", "clusters")
    if is_large:
        every = training.redraw_every
        redrawn = f"drawn anew every {counted(every, 'epoch')}" if every else "drawn once"
        note(
            f"  note: training uses sampled parts of at most {counted(training.max_nodes, 'node')}, {redrawn} "
            "(training.max_nodes, training.redraw_every)"
        )
    if ranks.size > 1:
        on = "a part of its own" if is_large else "its share of the training nodes"
        note(f"  note: {counted(ranks.size, 'rank')} train one model, each on {on}")
    return part_for_scoring(graph, training.max_nodes, training.part_fan_out, seed) if is_large else graph


def check_trainable(graph: Graph, settings: Config, seed: int, ranks: Ranks) -> None:
    """Refuse a graph that the task cannot be learned on, or not by several ranks."""
    check_ranks(ranks.size, settings.task.kind)
    TASKS[settings.task.kind].part_of(graph, settings, seed)


def help_train(device: str) -> None:
    """Take part in the training of the first rank, and print nothing but errors."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # there is no file to delete, and waiting ends at once
    chosen = pick_device(device)
    with Path(os.devnull).open("w") as nowhere, joined_ranks(chosen.type) as ranks:
        work: Work | None = ranks.share(None)
        if work is None:
            return
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            opened = _opened(work)
        if (opened.num_nodes, opened.num_edges) != work.size:
            raise GraphError(
                f"rank {ranks.rank} reads another graph at {work.graph} than the first rank: all ranks must see the "
                "same files"
            )
        help_fit(opened, work.settings, work.seed, chosen, ranks)


def _opened(work: Work) -> Graph:
    kind = work.settings.task.kind
    if work.resumed is not None:
        return open_as_trained(work.graph, work.source, work.resumed, kind)
    return open_named(work.graph, work.source, work.split, work.seed, kind)
