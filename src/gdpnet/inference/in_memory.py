"""Decide shard by shard with tables of all nodes in memory; what was decided is saved for a resumed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.files import Place, locked_folder
from gdpnet._core.stopwatch import Stopwatch
from gdpnet._core.threads import Background, threads_here
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import edges_of_targets, id_array
from gdpnet.inference.blocks import Block, Blockwise
from gdpnet.inference.edge_tables import Decided, decided_edges
from gdpnet.inference.genuine import Parts, genuine_probability
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.select import Selected
from gdpnet.inference.shards import ShardFolder, Tally, check_place, open_shards
from gdpnet.inference.starting import Progress, check_model, ranges_of
from gdpnet.inference.threshold import edge_weights


def write_cleaned(
    work: Work, graph: Graph, least: float, symmetric: bool, all_edges: bool, *, weigh: bool
) -> dict[str, Any]:
    """Decide on all edges and write the missing shards; return what was counted."""
    tally, names, missing, truth = Tally(), id_array(graph), dict(work.shards.missing), graph.truth

    def write(number: int, edges: slice, decided: Decided) -> None:
        tally.add(decided.probability, decided.kept, None if truth is None else truth.spurious[edges].numpy())
        if number in missing:
            table = edges_of_targets(graph, names, *missing[number])
            table = decided_edges(table, decided, all_edges=all_edges)
            write_table(table, work.shards.part(number))
            work.shards.seal(work.shards.part(number))
            work.tell("write", number + 1)

    evidence = work.evidence()
    with work.after_context(embeds=work.needs_classes) as writing:
        found, classes = work.decisions(writing)
        for number, block in enumerate(work.shards.blocks):
            edges = work.blocks.tables.edges_of(*block)
            value = work.blocks.symmetrise(found, block) if symmetric else found[edges]
            weight = None
            if graph.edge_weight is not None:
                share = edge_weights(value, least) if weigh else value
                weight = share.cpu().numpy() * graph.edge_weight[edges].numpy()
            genuine = None if evidence is None else work.genuine(evidence, found, classes, block)
            decided = Decided(value.cpu().numpy(), (value >= least).cpu().numpy(), weight, genuine)
            writing.do(partial(write, number, edges, decided))
    work.blocks.stopwatch.mark("write")
    return tally.summary()


def write_embedded(work: Work, graph: Graph) -> None:
    """Embed all nodes and write the missing shards."""
    names, shards = id_array(graph), work.shards

    def write(number: int, table: Any) -> None:
        write_table(table, shards.part(number))
        shards.seal(shards.part(number))
        work.tell("write", number + 1)

    with work.after_context(embeds=True) as writing:
        for number, block in list(shards.missing):
            values = work.blocks.embed(work.blocks.decide(block), block).cpu().numpy()
            columns = {f"h{place}": column for place, column in enumerate(values.T)}
            ids = names.slice(block[0], block[1] - block[0])
            writing.do(partial(write, number, pa.table({"id": ids} | columns)))


@contextmanager
def begin(
    model: TrainedModel,
    graph: Graph,
    folder: Place,
    kind: str,
    settings: dict[str, Any],
    edges_per_shard: int | None,
    progress: Progress | None,
    stopwatch: Stopwatch | None,
    force: bool,
) -> Iterator[Work | dict[str, Any]]:
    """Start or resume a folder of shards of a model and graph; yield the summary if it is complete.

    The folder is locked meanwhile. On a GPU the tables of nodes are made there while the host computes the graph's
    fingerprint.
    """
    graph = model.matched(graph)
    check_model(model)
    ranges = ranges_of(graph, edges_per_shard, model.device)
    on_host = model.device.type == "cpu"
    about = {"kind": kind, "model": model.fingerprint()}
    check_place(folder, force=force)
    early = not on_host and not folder.exists()
    with locked_folder(folder):
        with ThreadPoolExecutor(1) as pool:
            graph_fingerprint = pool.submit(fingerprint, graph)
            blocks = Blockwise(model, graph, stopwatch) if early else None
            about |= {"graph": graph_fingerprint.result()} | settings
        shards = open_shards(folder, about, ranges, force=force)
        summary = shards.summary
        yield summary or Work(shards, blocks or Blockwise(model, graph, stopwatch), progress)


def _threads(device: torch.device) -> int:
    """Return the number of writer threads: none on the CPU, whose cores and memory the episodes need."""
    return 0 if device.type == "cpu" else threads_here()


class Work:
    """The passes over all blocks, for both commands."""

    def __init__(self, shards: ShardFolder, blocks: Blockwise, progress: Progress | None) -> None:
        self.shards, self.blocks, self.progress = shards, blocks, progress
        self.lock = Lock()

    def tell(self, what: str, done: int) -> None:
        """Report the progress of a pass."""
        if self.progress is not None:
            with self.lock:
                self.progress(what, done, len(self.shards.blocks))

    def column(
        self, name: str, decide: Callable[[Block], Selected], writing: Background, *, weighs: bool = False
    ) -> Float[Tensor, "rows edges"]:
        """Return the keep probabilities of all edges and, in a second row if it ``weighs``, their weights.

        They are computed block by block and saved for a resumed run, or read if a stopped run saved them.
        """
        mode = self.blocks.config.inference.mode

        def values(block: Block) -> Float[Tensor, "rows block"]:
            chosen = decide(block)
            return torch.stack([chosen.probability, *([chosen.weight(mode)] if weighs else [])])

        return self._fill(name, values, 1 + weighs, writing)

    def evidence(self) -> Float[Tensor, "edges"] | None:
        """Return the evidence score of every edge, in its own direction; None if the model has no evidence."""
        passes = self.blocks.evidence_passes()
        if passes is None:
            return None
        with self.shards.saying_what_stays(), Background(_threads(self.blocks.device)) as writing:
            first = self._fill("evidence", lambda block: passes.first(block)[None], 1, writing)
            passes.clean(first[0], self.shards.blocks)
            score = self._fill("evidence-cleaned", lambda block: passes.second(block)[None], 1, writing)[0]
        self.blocks.mark("evidence")
        return score

    @property
    def needs_classes(self) -> bool:
        """Return whether predicted classes have a part in the genuine probability."""
        return self.blocks.model.networks.genuine is not None

    def decisions(
        self, writing: Background
    ) -> tuple[Float[Tensor, "edges"], Float[Tensor, "nodes classes"] | None]:
        """Return the keep probability of every edge and, if needed, the class probabilities of every node."""
        if not self.needs_classes:
            return self.column("decided", self.blocks.decide, writing)[0], None
        width, nodes = self.blocks.aggregators.classes, self.blocks.prepared.num_nodes
        classes = torch.empty(nodes, width, device=self.blocks.device)
        places = {block: number for number, block in enumerate(self.shards.blocks)}
        for number, block in enumerate(self.shards.blocks):
            saved = self.shards.load(_name("classes", number))
            if saved is not None:
                classes[slice(*block)] = torch.from_numpy(saved).to(classes)
            else:  # the decisions alone do not say what they lead to
                self.shards.work(_name("decided", number)).unlink(missing_ok=True)

        def decide(block: Block) -> Selected:
            chosen = self.blocks.decide(block)
            found = self.blocks.classes(chosen, block)
            classes[slice(*block)] = found
            self.blocks.mark("classes")
            writing.do(partial(self.shards.save, _name("classes", places[block]), found.cpu().numpy()))
            return chosen

        return self.column("decided", decide, writing)[0], classes

    def genuine(
        self,
        evidence: Float[Tensor, "edges"],
        keep: Float[Tensor, "edges"],
        classes: Float[Tensor, "nodes classes"] | None,
        block: Block,
    ) -> np.ndarray:
        """Return the probability that the edges of a block are genuine."""
        parts = Parts(*(self.blocks.symmetrise(one, block) for one in (evidence, keep)))
        ends, networks = self.blocks.tables.ends_of(*block), self.blocks.model.networks
        return genuine_probability(networks, parts, classes, ends).cpu().numpy()

    def _fill(
        self, name: str, compute: Callable[[Block], Tensor], rows: int, writing: Background
    ) -> Float[Tensor, "rows edges"]:
        """Return values of all edges, computed block by block or read from a stopped run."""
        device = self.blocks.device
        whole = torch.empty(rows, self.blocks.prepared.neighbour.numel(), device=device)
        for number, block in enumerate(self.shards.blocks):
            saved = self.shards.load(_name(name, number))
            if saved is not None:
                values = torch.from_numpy(saved).to(device)
            else:
                values = compute(block)
                self.tell(name, number + 1)
                writing.do(partial(self.shards.save, _name(name, number), values.cpu().numpy()))
            whole[:, self.blocks.tables.edges_of(*block)] = values
        return whole

    @contextmanager
    def after_context(self, *, embeds: bool) -> Iterator[Background]:
        """Run the context pass, if the model needs one; then let the caller decide and write."""
        greedy, found = self.blocks.config.inference.mode == "greedy", None
        with self.shards.saying_what_stays(), Background(_threads(self.blocks.device)) as writing:
            if self.blocks.needs_context:  # sampled edges weigh as much as their probability
                found = self.column("first", self.blocks.decide_context, writing, weighs=greedy)
            self.blocks.finish_context(found, embeds=embeds)
            yield writing


def _name(name: str, number: int) -> str:
    """Return the name of the file that holds the values of a block for a resumed run."""
    return f"{name}-{number:05d}.npy"
