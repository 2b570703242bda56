"""The passes of a run in their order, and the task that runs one of them on one block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.inference.passes.edges import context_block, pair_block, write_rarity
from gdpnet.inference.passes.evidence import clean_block, join_cleaned, score_block
from gdpnet.inference.passes.heads import heads_of, layers_of, run_layer, start_heads
from gdpnet.inference.passes.job import Job, Output
from gdpnet.inference.passes.nodes import mean_block, project_block, sum_block
from gdpnet.inference.passes.outputs import decide_block, write_edges, write_predictions
from gdpnet.inference.shards import Seal

_LIBRARIES, _PER_EDGE = 450_000_000, 200
"""Bytes of a process before it has read anything, and of each edge of a block beside rows and pair features."""

_IN_HAND, _OF_A_HUB = 1 << 15, 1 << 17
"""Edges whose rows a task holds at a time, and those of a node that is a block by itself."""


class Pass(NamedTuple):
    """A step that must be finished on every block before the next one begins."""

    name: str
    run: Callable[[Job, int, Output], None]
    is_single: bool = False
    """Whether there is one task for the whole graph, and not one per block."""
    cost: int = 1
    """How long a task takes, about, against those of other passes: what progress is told by."""

    def count(self, blocks: int) -> int:
        """Return the number of tasks."""
        return 1 if self.is_single else blocks


def passes_of(job: Job) -> list[Pass]:
    """Return the passes that a model and a command need."""
    selects, structure = job.model.networks.policy is not None, job.has_structure or job.has_evidence
    found = [Pass("project", project_block)] if selects else []
    if structure:
        found.append(Pass("rarity", write_rarity, is_single=True))
    if structure or (job.two_hops and selects):
        found.append(Pass("sums", sum_block))
    found.append(Pass("pairs", pair_block, cost=8))
    if job.has_evidence:
        found += [Pass("clean", clean_block), Pass("join", join_cleaned, is_single=True)]
        found.append(Pass("evidence", score_block, cost=6))
    if job.needs_context:
        found.append(Pass("context", context_block, cost=14))
    if job.two_hops:
        found.append(Pass("means", mean_block))
    found.append(Pass("decide", decide_block, cost=65))
    if job.kind == "denoise":
        found.append(Pass("write", write_edges))
    if job.kind == "predict":
        found += [*_layers(job), Pass("write", write_predictions)]
    return found


def _layers(job: Job) -> list[Pass]:
    heads = heads_of(job)
    if not heads:
        return []
    most = max(layers_of(head) for head in heads.values())
    layers = [Pass(f"layer-{layer}", partial(run_layer, layer=layer)) for layer in range(most)]
    return [Pass("heads", start_heads), *layers]


@torch.no_grad()
def run_task(job: Job, name: str, number: int) -> dict[str, Seal]:
    """Run a pass on one block; return the files that were written, by name.

    It may run twice, also at the same time: it reads what earlier passes wrote, and writes the same files again.
    """
    out = Output(job, number)
    next(one for one in passes_of(job) if one.name == name).run(job, number, out)
    return out.written


def bytes_of_task(job: Job) -> int:
    """Return the memory that the task of the largest block takes, about."""
    networks, columns = job.model.networks, len(PAIR_NAMES[job.state])
    width = networks.aggregators.fold_models * networks.aggregators.width
    row = 8 * (job.source.features.shape[1] + width)

    def needed(first: int, last: int) -> int:
        edges = job.source.edges_of((first, last))
        count, most = edges.stop - edges.start, _OF_A_HUB if last == first + 1 else _IN_HAND
        return min(count, most) * row + count * (_PER_EDGE + 8 * columns)

    return _LIBRARIES + max(needed(*block) for block in job.blocks)


def task_name(name: str, number: int) -> str:
    """Return the name of a task."""
    return f"{name}-{number:05d}"
