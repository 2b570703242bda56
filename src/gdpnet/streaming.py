"""Clean or represent a graph shard by shard, in bounded memory; a stopped run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from gdpnet.blockwise import Block, Blockwise
from gdpnet.errors import ConfigError
from gdpnet.graph.files import edges_of_targets, id_array
from gdpnet.graph.graph import Graph
from gdpnet.inference import Selected
from gdpnet.model import GDPNet
from gdpnet.ragged import cut_rows
from gdpnet.run_folder import fingerprint
from gdpnet.shards import ShardFolder, open_shards
from gdpnet.tally import Tally
from gdpnet.threshold import edge_weights

EDGES_A_SHARD = 1 << 20
"""Edges decided on together and written to one shard; a node with more neighbours is a shard by itself."""

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
    edges_a_shard: int = EDGES_A_SHARD,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the cleaned graph as shards of edges with their keep probabilities; return what was kept.

    The probabilities are those of `GDPNet.denoise`. ``all_edges`` writes every edge, with a column ``kept``.
    """
    least, reason = model.cleaning_threshold(threshold)
    settings = {"threshold": least, "symmetric": symmetric, "all_edges": all_edges}
    shards = _open(model, graph, folder, "denoise", settings, edges_a_shard)
    if (ended := shards.summary) is not None:
        return ended
    work = _Work(model, graph, shards, progress)
    work.look_first(represents=False)
    found = work.column("decided", lambda chosen: [chosen.probability], work.blocks.decide)
    decided = torch.from_numpy(found[0]).to(model.device_)
    names, tally = id_array(graph), Tally()
    missing = dict(shards.missing)
    for number, block in enumerate(shards.blocks):
        edges = work.blocks.tables.edges_of(*block)
        chance = work.blocks.both_ways(decided, block) if symmetric else decided[edges]
        probability, kept = chance.cpu().numpy(), (chance >= least).cpu().numpy()
        tally.add(probability, kept, None if graph.truth is None else graph.truth.spurious[edges].numpy())
        if number in missing:
            table, weight = edges_of_targets(graph, names, *block), None
            if graph.edge_weight is not None:
                share = chance if threshold is not None else edge_weights(chance, least)
                weight = share.cpu().numpy() * graph.edge_weight[edges].numpy()
            shards.write(number, decided_edges(table, probability, kept, weight, all_edges=all_edges))
            work.tell("write", number + 1)
    summary = tally.summary() | {"threshold": least, "reason": reason, "shards": len(shards.blocks)}
    shards.finish(summary)
    return summary


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
    edges_a_shard: int = EDGES_A_SHARD,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the representations of all nodes, those of `GDPNet.embed`, as shards of nodes."""
    shards = _open(model, graph, folder, "embed", {}, edges_a_shard)
    if (ended := shards.summary) is not None:
        return ended
    work = _Work(model, graph, shards, progress)
    work.look_first(represents=True)
    names = id_array(graph)
    for number, block in shards.missing:
        chosen = work.blocks.decide(block)
        values = work.blocks.represent(chosen, block, model.reader_).cpu().numpy()
        columns = {f"h{place}": column for place, column in enumerate(values.T)}
        shards.write(number, pa.table({"id": names.slice(block[0], block[1] - block[0])} | columns))
        work.tell("write", number + 1)
    summary = {"nodes": graph.num_nodes, "width": model.aggregators_.width, "shards": len(shards.blocks)}
    shards.finish(summary)
    return summary


def _open(
    model: GDPNet, graph: Graph, folder: Path, kind: str, settings: dict[str, Any], edges_a_shard: int
) -> ShardFolder:
    """Begin or go on with a folder of shards of this model and graph."""
    model.check_graph(graph)
    if model.basis_ is not None:
        raise ConfigError(
            "a model without labels reads the whole graph at once and writes no shards; "
            f"this one was trained for {model.config_.task.kind}"
        )
    if model.config_.policy.hops > 1:
        raise ConfigError(
            f"candidates {model.config_.policy.hops} hops away are looked for in the whole graph at once, which "
            "writes no shards"
        )
    if edges_a_shard < 1:
        raise ConfigError(f"a shard must hold one edge or more, found {edges_a_shard}")
    about = {"kind": kind, "model": model.fingerprint(), "graph": fingerprint(graph)}
    return open_shards(folder, about | settings, cut_rows(graph.row_ptr, edges_a_shard))


class _Work:
    """The passes over all blocks that both commands share."""

    def __init__(self, model: GDPNet, graph: Graph, shards: ShardFolder, progress: Progress | None) -> None:
        self.shards, self.progress = shards, progress
        self.mode = model.config_.inference.mode
        self.blocks = Blockwise(
            model.policy_,
            model.aggregators_,
            model.as_read(graph),
            model.config_,
            model.seed,
            model.device_,
        )
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
    ) -> np.ndarray:
        """Return some numbers of every edge by a pass over all blocks."""

        def compute(block: Block) -> np.ndarray:
            found = torch.stack(rows(decide(block))).cpu().numpy()
            self.tell(name, self.shards.blocks.index(block) + 1)
            return found

        return self.shards.column(name, self.offsets, compute)

    def look_first(self, *, represents: bool) -> None:
        """Let all nodes decide a first time, if they do at all, and take that in."""
        if not self.blocks.looks_first:
            self.blocks.enter(None, None, represents=represents)
            return
        greedy = self.mode == "greedy"

        def rows(chosen: Selected) -> list[torch.Tensor]:
            return [chosen.probability, chosen.weight(self.mode)] if greedy else [chosen.probability]

        found = torch.from_numpy(self.column("first", rows, self.blocks.look))
        both_ways = self.blocks.config.inference.both_ways
        self.blocks.enter(found[0] if both_ways else None, found[-1], represents=represents)
