"""Clean or embed a graph shard by shard, in bounded memory; a stopped run can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from gdpnet._core.csr import cut_rows
from gdpnet._core.stopwatch import Stopwatch
from gdpnet._core.threads import Background, threads_here
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.files import edges_of_targets, id_array
from gdpnet.errors import ConfigError
from gdpnet.inference.blocks import Block, Blockwise
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.select import Selected
from gdpnet.inference.shards import ShardFolder, open_shards
from gdpnet.inference.summary import Tally
from gdpnet.inference.threshold import edge_weights

EDGES_PER_SHARD = 1 << 20
"""Edges decided on together and written to one shard; a node with more neighbours has its own shard."""

EDGES_PER_SHARD_ON_DEVICE = 1 << 22
"""The same on a GPU, which needs larger batches; an edge takes about 3 kilobytes of its memory."""

Progress = Callable[[str, int, int], None]
"""Called with the current step, the number of finished shards, and the number of all."""


def denoise_to(
    model: TrainedModel,
    graph: Graph,
    folder: Path,
    *,
    threshold: float | None = None,
    symmetric: bool = True,
    all_edges: bool = False,
    edges_per_shard: int | None = None,
    progress: Progress | None = None,
    stopwatch: Stopwatch | None = None,
) -> dict[str, Any]:
    """Write the cleaned graph as shards of edges with their keep probabilities; return a summary.

    The probabilities are those of `GDPNet.denoise`. ``all_edges`` writes every edge, with a column ``kept``;
    ``stopwatch`` records the time of each step.
    """
    least, reason = model.cleaning_threshold(threshold)
    settings = {"threshold": least, "symmetric": symmetric, "all_edges": all_edges}
    work = _begin(model, graph, folder, "denoise", settings, edges_per_shard, progress, stopwatch)
    if isinstance(work, dict):
        return work
    tally = Tally()
    with work.shards.saying_what_stays(), Background(work.threads) as writing:
        work.decide_context(writing, embeds=False)
        found = work.column("decided", lambda chosen: [chosen.probability], work.blocks.decide, writing)
        write = _EdgeWriter(graph, work, tally, all_edges)
        for number, block in enumerate(work.shards.blocks):
            edges = work.blocks.tables.edges_of(*block)
            value = work.blocks.symmetrise(found[0], block) if symmetric else found[0, edges]
            probability, kept = value.cpu().numpy(), (value >= least).cpu().numpy()
            share = None
            if graph.edge_weight is not None:
                share = (value if threshold is not None else edge_weights(value, least)).cpu().numpy()
            writing.do(partial(write, number, block, edges, probability, kept, share))
    work.blocks.stopwatch.mark("write")
    summary = tally.summary() | {"threshold": least, "reason": reason, "shards": len(work.shards.blocks)}
    work.shards.finish(summary)
    return summary


class _EdgeWriter:
    """Counts the edges of each shard, and writes the shards that are missing."""

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
            original = self.graph.edge_weight
            weight = None if share is None or original is None else share * original[edges].numpy()
            table = decided_edges(table, probability, kept, weight, all_edges=self.all_edges)
            self.work.shards.write(number, table)
        with self.lock:
            self.tally.merge(part)
            if number in self.missing:
                self.work.tell("write", number + 1)


def decided_edges(
    table: Any, probability: np.ndarray, kept: np.ndarray, weight: np.ndarray | None, *, all_edges: bool
) -> Any:
    """Add keep probabilities to a table of edges, and leave out or mark the edges that are removed.

    ``weight`` is the weight of kept edges in the cleaned graph, if the original graph is weighted.
    """
    if weight is not None:
        table = table.append_column("weight", pa.array(weight, mask=~kept))
    table = table.append_column("keep_probability", pa.array(probability))
    return table.append_column("kept", pa.array(kept)) if all_edges else table.filter(pa.array(kept))


def embed_to(
    model: TrainedModel,
    graph: Graph,
    folder: Path,
    *,
    edges_per_shard: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the embeddings of all nodes, as `GDPNet.embed` returns them, as shards of nodes."""
    work = _begin(model, graph, folder, "embed", {}, edges_per_shard, progress)
    if isinstance(work, dict):
        return work
    names, shards = id_array(graph), work.shards
    with shards.saying_what_stays(), Background(work.threads) as writing:
        work.decide_context(writing, embeds=True)
        for number, block in shards.missing:
            chosen = work.blocks.decide(block)
            values = work.blocks.embed(chosen, block).cpu().numpy()
            columns = {f"h{place}": column for place, column in enumerate(values.T)}
            ids = names.slice(block[0], block[1] - block[0])
            writing.do(partial(shards.write, number, pa.table({"id": ids} | columns)))
            work.tell("write", number + 1)
    summary = {
        "nodes": graph.num_nodes,
        "width": model.networks.aggregators.width,
        "shards": len(shards.blocks),
    }
    shards.finish(summary)
    return summary


def _begin(
    model: TrainedModel,
    graph: Graph,
    folder: Path,
    kind: str,
    settings: dict[str, Any],
    edges_per_shard: int | None,
    progress: Progress | None,
    stopwatch: Stopwatch | None = None,
) -> _Work | dict[str, Any]:
    """Start or resume a folder of shards of a model and graph; return the summary if it is complete.

    On a GPU the tables of nodes are made there while the host computes the graph's fingerprint.
    """
    model.columns.check(graph)
    if model.networks.basis is not None:
        raise ConfigError(
            "a model without labels reads the whole graph at once and writes no shards; "
            f"this one was trained for {model.config.task.kind}"
        )
    if model.config.policy.hops > 1 and model.networks.policy is not None:
        raise ConfigError(
            f"policy.hops must be 1 to write shards, found {model.config.policy.hops}: "
            "candidates farther away need the whole graph at once"
        )
    on_host = model.device.type == "cpu"
    if edges_per_shard is None:
        edges_per_shard = EDGES_PER_SHARD if on_host else EDGES_PER_SHARD_ON_DEVICE
    if edges_per_shard < 1:
        raise ConfigError(f"a shard must hold at least one edge, found {edges_per_shard}")
    ranges = cut_rows(graph.row_ptr, edges_per_shard)
    about = {"kind": kind, "model": model.fingerprint()}
    with ThreadPoolExecutor(1) as pool:
        graph_fingerprint = pool.submit(fingerprint, graph)
        blocks = None if on_host or folder.exists() else Blockwise(model, graph, stopwatch)
        shards = open_shards(folder, about | {"graph": graph_fingerprint.result()} | settings, ranges)
    if (summary := shards.summary) is not None:
        return summary
    return _Work(model, graph, shards, blocks or Blockwise(model, graph, stopwatch), progress)


def _threads(device: torch.device) -> int:
    """Return the number of writer threads: none on the CPU, whose cores and memory the episodes need."""
    return 0 if device.type == "cpu" else threads_here()


class _Work:
    """The passes over all blocks, for both commands."""

    def __init__(
        self,
        model: TrainedModel,
        graph: Graph,
        shards: ShardFolder,
        blocks: Blockwise,
        progress: Progress | None,
    ) -> None:
        self.shards, self.blocks, self.progress = shards, blocks, progress
        self.mode, self.device = model.config.inference.mode, model.device
        self.threads = _threads(self.device)
        starts = [first for first, _ in shards.blocks]
        self.offsets = graph.row_ptr[torch.tensor([*starts, graph.num_nodes])].numpy()

    def tell(self, what: str, done: int) -> None:
        """Report the progress of a pass."""
        if self.progress is not None:
            self.progress(what, done, len(self.shards.blocks))

    def column(
        self,
        name: str,
        rows: Callable[[Selected], list[torch.Tensor]],
        decide: Callable[[Block], Selected],
        writing: Background,
    ) -> torch.Tensor:
        """Return rows of values of all edges from a pass over all blocks."""

        def compute(block: Block) -> torch.Tensor:
            found = torch.stack(rows(decide(block)))
            self.tell(name, self.shards.blocks.index(block) + 1)
            return found

        return self.shards.column(name, self.offsets, compute, writing, self.device)

    def decide_context(self, writing: Background, *, embeds: bool) -> None:
        """Run the context pass, if the model needs one."""
        if not self.blocks.needs_context:
            self.blocks.finish_context(None, None, embeds=embeds)
            return
        greedy = self.mode == "greedy"

        def rows(chosen: Selected) -> list[torch.Tensor]:
            return [chosen.probability, chosen.weight(self.mode)] if greedy else [chosen.probability]

        found = self.column("first", rows, self.blocks.decide_context, writing)
        symmetrise = self.blocks.config.inference.symmetrise
        self.blocks.finish_context(found[0] if symmetrise else None, found[-1], embeds=embeds)
