"""Clean, embed or predict a graph shard by shard, in bounded memory; a stopped run can be resumed."""

from __future__ import annotations

from typing import Any

from gdpnet._core.files import Place, place_of
from gdpnet._core.stopwatch import Stopwatch
from gdpnet.data.graph import Graph
from gdpnet.inference.by_blocks import Asked, run_by_blocks, tally_of
from gdpnet.inference.engine_choice import engine_for
from gdpnet.inference.engines.engine import Engine, Share
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.in_memory import begin, write_cleaned, write_embedded
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.starting import Progress
from gdpnet.inference.threshold import cleaning_sentence


def denoise_to(
    model: TrainedModel,
    graph: Graph,
    folder: str | Place,
    *,
    threshold: float | None = None,
    symmetric: bool = True,
    all_edges: bool = False,
    edges_per_shard: int | None = None,
    progress: Progress | None = None,
    stopwatch: Stopwatch | None = None,
    force: bool = False,
    engine: Engine | None = None,
    blocks: range | Share | None = None,
) -> dict[str, Any]:
    """Write the cleaned graph as shards of edges with their keep probabilities; return a summary.

    The probabilities are those of `GDPNet.denoise`. ``all_edges`` writes every edge, with a column ``kept``;
    ``stopwatch`` records the time of each step; ``force`` replaces other shards, and writes beside other files.

    With an ``engine`` the graph is processed by passes over blocks, whose tables are files; by default this is so
    if tables of all nodes do not fit into memory. ``blocks`` are those that this process works on, all by default.
    """
    folder = place_of(folder)
    least, reason = model.cleaning_threshold(threshold)
    settings = {"threshold": least, "symmetric": symmetric, "all_edges": all_edges}
    engine = engine_for(model, graph, folder, engine, blocks)
    if engine is not None:
        asked = Asked("denoise", settings, threshold is None, edges_per_shard, force, blocks)
        return run_by_blocks(
            model,
            graph,
            folder,
            asked,
            engine,
            progress,
            lambda shards: _cleaned(tally_of(shards).summary(), model, least, reason),
        )
    begun = begin(model, graph, folder, "denoise", settings, edges_per_shard, progress, stopwatch, force)
    with begun as work:
        if isinstance(work, dict):
            return work
        counts = write_cleaned(work, graph, least, symmetric, all_edges, weigh=threshold is None)
        return work.shards.finish(_cleaned(counts, model, least, reason))


def _cleaned(counts: dict[str, Any], model: TrainedModel, least: float, reason: str) -> dict[str, Any]:
    """Return the summary of a cleaned graph."""
    said = cleaning_sentence(counts["kept"], counts["edges"], reason, model.config.threshold.min_kept)
    return counts | {"threshold": least, "reason": reason, "summary": said}


def embed_to(
    model: TrainedModel,
    graph: Graph,
    folder: str | Place,
    *,
    edges_per_shard: int | None = None,
    progress: Progress | None = None,
    force: bool = False,
    engine: Engine | None = None,
    blocks: range | Share | None = None,
) -> dict[str, Any]:
    """Write the embeddings of all nodes, as `GDPNet.embed` returns them, as shards of nodes.

    ``engine`` and ``blocks`` are as in `denoise_to`.
    """
    folder, said = place_of(folder), {"nodes": graph.num_nodes, "width": model.networks.aggregators.width}
    engine = engine_for(model, graph, folder, engine, blocks)
    if engine is not None:
        asked = Asked("embed", {}, False, edges_per_shard, force, blocks)
        return run_by_blocks(model, graph, folder, asked, engine, progress, lambda _: said)
    with begin(model, graph, folder, "embed", {}, edges_per_shard, progress, None, force) as work:
        if isinstance(work, dict):
            return work
        write_embedded(work, graph)
        return work.shards.finish(said)


def predict_to(
    model: TrainedModel,
    graph: Graph,
    folder: str | Place,
    *,
    edges_per_shard: int | None = None,
    progress: Progress | None = None,
    force: bool = False,
    engine: Engine | None = None,
    blocks: range | Share | None = None,
) -> dict[str, Any]:
    """Write the predictions of all nodes, those of `GDPNet.predict`, as shards of nodes with class probabilities.

    They are always made by passes over blocks. ``engine`` and ``blocks`` are as in `denoise_to`.
    """
    folder = place_of(folder)
    asked = Asked("predict", {}, False, edges_per_shard, force, blocks)
    engine = engine or OneProcess(model.device)
    nodes = {"nodes": graph.num_nodes}
    return run_by_blocks(model, graph, folder, asked, engine, progress, lambda _: nodes)
