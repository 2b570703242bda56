"""Clean or represent a graph shard by shard, in bounded memory; a stopped run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from gdpnet._core.csr import cut_rows
from gdpnet._core.stopwatch import Phases
from gdpnet._core.threads import Background, threads_here
from gdpnet.data.fingerprint import fingerprint
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import edges_of_targets, id_array
from gdpnet.errors import ConfigError
from gdpnet.inference.blocks import Block, Blockwise
from gdpnet.inference.select import Selected
from gdpnet.inference.shards import ShardFolder, open_shards
from gdpnet.inference.summary import Tally
from gdpnet.inference.threshold import edge_weights

if TYPE_CHECKING:
    from gdpnet.estimator import GDPNet

EDGES_A_SHARD = 1 << 20
"""Edges decided on together and written to one shard; a node with more neighbours is a shard by itself."""

EDGES_A_SHARD_ON_DEVICE = 1 << 22
"""The same on a GPU, which wants more to do at once; some 3 kilobytes of its memory each while they are played."""

Progress = Callable[[str, int, int], None]
"""Is told what is under way, the shards that are done, and how many there are."""


def denoise_to(
    model: GDPNet,
    graph: Graph,
    folder: Path,
    *,
    threshold: float | None = None,
    symmetric: bool = True,
    all_edges: bool = False,
    edges_a_shard: int | None = None,
    progress: Progress | None = None,
    phases: Phases | None = None,
) -> dict[str, Any]:
    """Write the cleaned graph as shards of edges with their keep probabilities; return what was kept.

    The probabilities are those of `GDPNet.denoise`. ``all_edges`` writes every edge, with a column ``kept``;
    ``phases`` is told what took how long.
    """
    least, reason = model.cleaning_threshold(threshold)
    settings = {"threshold": least, "symmetric": symmetric, "all_edges": all_edges}
    work = _begin(model, graph, folder, "denoise", settings, edges_a_shard, progress, phases)
    if isinstance(work, dict):
        return work
    tally = Tally()
    with work.shards.saying_what_stays(), Background(work.threads) as writing:
        work.look_first(writing, represents=False)
        found = work.column("decided", lambda chosen: [chosen.probability], work.blocks.decide, writing)
        write = _EdgeWriter(graph, work, tally, all_edges)
        for number, block in enumerate(work.shards.blocks):
            edges = work.blocks.tables.edges_of(*block)
            chance = work.blocks.both_ways(found[0], block) if symmetric else found[0, edges]
            probability, kept = chance.cpu().numpy(), (chance >= least).cpu().numpy()
            share = None
            if graph.edge_weight is not None:
                share = (chance if threshold is not None else edge_weights(chance, least)).cpu().numpy()
            writing.do(partial(write, number, block, edges, probability, kept, share))
    work.blocks.phases.mark("write")
    summary = tally.summary() | {"threshold": least, "reason": reason, "shards": len(work.shards.blocks)}
    work.shards.finish(summary)
    return summary


class _EdgeWriter:
    """Counts the edges of one shard after the other, and writes those shards that are not there yet."""

    def __init__(self, graph: Graph, work: _Work, tally: Tally, all_edges: bool) -> None:
        self.graph, self.work, self.tally, self.all_edges = graph, work, tally, all_edges
        self.names, self.missing = id_array(graph), dict(work.shards.missing)
        self.lock = Lock()

    def __call__(
        self,
        number: int,
        block: Block,
        edges: slice,
        probability: np.ndarray,
        kept: np.ndarray,
        share: np.ndarray | None,
    ) -> None:
        truth, part = self.graph.truth, Tally()
        part.add(probability, kept, None if truth is None else truth.spurious[edges].numpy())
        if number in self.missing:
            table = edges_of_targets(self.graph, self.names, *block)
            given = self.graph.edge_weight
            weight = None if share is None or given is None else share * given[edges].numpy()
            said = decided_edges(table, probability, kept, weight, all_edges=self.all_edges)
            self.work.shards.write(number, said)
        with self.lock:
            self.tally.merge(part)
            if number in self.missing:
                self.work.tell("write", number + 1)


def decided_edges(
    table: Any, probability: np.ndarray, kept: np.ndarray, weight: np.ndarray | None, *, all_edges: bool
) -> Any:
    """Add their keep probabilities to a table of edges, and leave out or mark those that go.

    ``weight`` is what kept edges weigh in the cleaned graph, where the graph that came in has weights.
    """
    if weight is not None:
        table = table.append_column("weight", pa.array(weight, mask=~kept))
    table = table.append_column("keep_probability", pa.array(probability))
    return table.append_column("kept", pa.array(kept)) if all_edges else table.filter(pa.array(kept))


def embed_to(
    model: GDPNet,
    graph: Graph,
    folder: Path,
    *,
    edges_a_shard: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the representations of all nodes, those of `GDPNet.embed`, as shards of nodes."""
    work = _begin(model, graph, folder, "embed", {}, edges_a_shard, progress)
    if isinstance(work, dict):
        return work
    names, shards = id_array(graph), work.shards
    with shards.saying_what_stays(), Background(work.threads) as writing:
        work.look_first(writing, represents=True)
        for number, block in shards.missing:
            chosen = work.blocks.decide(block)
            values = work.blocks.represent(chosen, block, model.reader_).cpu().numpy()
            columns = {f"h{place}": column for place, column in enumerate(values.T)}
            ids = names.slice(block[0], block[1] - block[0])
            writing.do(partial(shards.write, number, pa.table({"id": ids} | columns)))
            work.tell("write", number + 1)
    summary = {"nodes": graph.num_nodes, "width": model.aggregators_.width, "shards": len(shards.blocks)}
    shards.finish(summary)
    return summary


def _begin(
    model: GDPNet,
    graph: Graph,
    folder: Path,
    kind: str,
    settings: dict[str, Any],
    edges_a_shard: int | None,
    progress: Progress | None,
    phases: Phases | None = None,
) -> _Work | dict[str, Any]:
    """Begin or go on with a folder of shards of this model and graph; return the summary of one that has ended.

    On a GPU the tables of nodes are made there while the host still sums up the graph's files.
    """
    model.check_graph(graph)
    if model.basis_ is not None:
        raise ConfigError(
            "a model without labels reads the whole graph at once and writes no shards; "
            f"this one was trained for {model.config_.task.kind}"
        )
    if model.config_.policy.hops > 1 and model.policy_ is not None:
        raise ConfigError(
            f"candidates {model.config_.policy.hops} hops away are looked for in the whole graph at once, which "
            "writes no shards"
        )
    on_host = model.device_.type == "cpu"
    if edges_a_shard is None:
        edges_a_shard = EDGES_A_SHARD if on_host else EDGES_A_SHARD_ON_DEVICE
    if edges_a_shard < 1:
        raise ConfigError(f"a shard must hold one edge or more, found {edges_a_shard}")
    ranges = cut_rows(graph.row_ptr, edges_a_shard)
    about = {"kind": kind, "model": model.fingerprint()}
    with ThreadPoolExecutor(1) as pool:
        summed = pool.submit(fingerprint, graph)
        blocks = None if on_host or folder.exists() else _blockwise(model, graph, phases)
        shards = open_shards(folder, about | {"graph": summed.result()} | settings, ranges)
    if (ended := shards.summary) is not None:
        return ended
    return _Work(model, graph, shards, blocks or _blockwise(model, graph, phases), progress)


def _blockwise(model: GDPNet, graph: Graph, phases: Phases | None) -> Blockwise:
    return Blockwise(
        model.policy_,
        model.aggregators_,
        model.as_read(graph),
        model.config_,
        model.seed,
        model.device_,
        phases,
    )


def _threads(device: torch.device) -> int:
    """Return how many threads write: none on the host, whose cores decide, and where what waits takes memory."""
    return 0 if device.type == "cpu" else threads_here()


class _Work:
    """The passes over all blocks that both commands share."""

    def __init__(
        self,
        model: GDPNet,
        graph: Graph,
        shards: ShardFolder,
        blocks: Blockwise,
        progress: Progress | None,
    ) -> None:
        self.shards, self.blocks, self.progress = shards, blocks, progress
        self.mode, self.device = model.config_.inference.mode, model.device_
        self.threads = _threads(self.device)
        starts = [first for first, _ in shards.blocks]
        self.offsets = graph.row_ptr[torch.tensor([*starts, graph.num_nodes])].numpy()

    def tell(self, what: str, done: int) -> None:
        """Say how far a pass is."""
        if self.progress is not None:
            self.progress(what, done, len(self.shards.blocks))

    def column(
        self,
        name: str,
        rows: Callable[[Selected], list[torch.Tensor]],
        decide: Callable[[Block], Selected],
        writing: Background,
    ) -> torch.Tensor:
        """Return some numbers of every edge by a pass over all blocks."""

        def compute(block: Block) -> torch.Tensor:
            found = torch.stack(rows(decide(block)))
            self.tell(name, self.shards.blocks.index(block) + 1)
            return found

        return self.shards.column(name, self.offsets, compute, writing, self.device)

    def look_first(self, writing: Background, *, represents: bool) -> None:
        """Let all nodes decide a first time, if they do at all, and take that in."""
        if not self.blocks.looks_first:
            self.blocks.enter(None, None, represents=represents)
            return
        greedy = self.mode == "greedy"

        def rows(chosen: Selected) -> list[torch.Tensor]:
            return [chosen.probability, chosen.weight(self.mode)] if greedy else [chosen.probability]

        found = self.column("first", rows, self.blocks.look, writing)
        both_ways = self.blocks.config.inference.both_ways
        self.blocks.enter(found[0] if both_ways else None, found[-1], represents=represents)
