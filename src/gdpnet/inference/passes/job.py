"""A run by blocks as every process that takes part in it sees it: the model, the graph, the blocks and the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.files import Place, place_of
from gdpnet._core.json_file import read_json
from gdpnet._core.random import Key
from gdpnet.data.features import Features, normalise
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.store import map_store
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.errors import RunFolderError
from gdpnet.inference.engines.engine import other_version
from gdpnet.inference.evidence import COLUMNS
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.passes.files import BlockFiles, arrays_of_table, write_array, write_pieces
from gdpnet.inference.passes.source import Block, Source
from gdpnet.inference.shard_work import GRAPH, MODEL, PLAN, WORK
from gdpnet.inference.shards import ABOUT, Seal, sealed


@dataclass(frozen=True)
class Job:
    """A run by blocks, opened."""

    folder: Place
    about: dict[str, Any]
    """What ``shards.json`` says: the command and its settings."""
    plan: dict[str, Any]
    model: TrainedModel
    source: Source
    blocks: list[Block]
    files: BlockFiles

    @property
    def kind(self) -> str:
        """Return the command: denoise, embed or predict; or tables, which are kept for a server."""
        return str(self.about["kind"])

    @property
    def key(self) -> Key:
        """Return the key of the random draws."""
        return Key.of(self.model.seed).fold_in("predict")

    @property
    def two_hops(self) -> bool:
        """Return whether nodes send the mean over themselves and their neighbours."""
        return self.model.config.representation.hops == 2

    @property
    def needs_context(self) -> bool:
        """Return whether there is a context pass before the final decisions."""
        symmetrise = self.model.config.inference.symmetrise
        return self.model.networks.policy is not None and (self.two_hops or symmetrise)

    @property
    def has_evidence(self) -> bool:
        """Return whether genuine probabilities are written."""
        return self.kind == "denoise" and self.model.networks.evidence is not None

    @property
    def needs_classes(self) -> bool:
        """Return whether predicted classes have a part in the genuine probability."""
        return self.has_evidence and self.model.networks.genuine is not None

    @property
    def reads_neighbourhoods(self) -> bool:
        """Return whether neighbourhood means of features are read, and not those of projected rows alone."""
        return self.kind in ("embed", "predict") or self.needs_classes

    @cached_property
    def state(self) -> str:
        """Return the pair features that the policy observes."""
        return self.model.config.policy.state if self.model.networks.policy is not None else "paper"

    @property
    def has_structure(self) -> bool:
        """Return whether the policy observes all structural pair features."""
        return len(PAIR_NAMES[self.state]) >= COLUMNS

    def rows_of(self, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the normalised features of some nodes."""
        return normalise(self.source.rows.take(nodes), self.model.config.features.normalise)

    def unit_rows_of(self, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the features of some nodes, scaled to length one."""
        return normalise(self.source.rows.take(nodes), "l2")

    def evidence_rows_of(self, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the normalised features of some nodes, scaled to length one."""
        rows = self.rows_of(nodes)
        return rows if self.model.config.features.normalise == "l2" else normalise(rows, "l2")


class Output:
    """What a task writes: tables for later passes, and shards."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number = job, number
        self.written: dict[str, Seal] = {}

    def save(self, name: str, values: Features) -> None:
        """Write a table of the block's nodes or edges."""
        for part, array in arrays_of_table(name, values).items():
            path = self.job.files.path(part, self.number)
            self.written[path.name] = write_array(path, array)

    def save_joined(self, name: str, dtype: torch.dtype, size: int, parts: Iterable[Tensor]) -> None:
        """Write a column of all nodes or edges, of which one part at a time is in memory."""
        path, kind = self.job.files.path(name, self.number), torch.empty(0, dtype=dtype).numpy().dtype
        self.written[path.name] = write_pieces(path, kind, (size,), (part.numpy() for part in parts))

    def shard(self, table: Any) -> None:
        """Write the shard of the block."""
        path = self.job.folder / f"part-{self.number:05d}.parquet"
        write_table(table, path)
        self.written[path.name] = sealed(path)


def open_job(folder: Place, device: torch.device) -> Job:
    """Open a run that was planned; the store of its graph is not checked again.

    A process of another version than the one that began is refused, as its bytes might differ: a machine may have
    joined later, and a run may be continued anywhere.
    """
    about, work = read_json(folder / ABOUT, dict, RunFolderError), folder / WORK
    plan = read_json(work / PLAN, dict, RunFolderError)
    if (problem := other_version(plan.get("versions", {}))) is not None:
        raise RunFolderError(f"this process cannot continue {folder}: {problem}; choose another --out")
    store = work / GRAPH if plan["store"] is None else place_of(plan["store"])
    source = Source(*map_store(store), plan["used"])
    blocks = [(int(first), int(last)) for first, last in about["shards"]]
    nodes = np.array([0, *(last for _, last in blocks)])
    files = BlockFiles(work, nodes, source.row_ptr.numpy()[nodes])
    return Job(folder, about, plan, TrainedModel.load(work / MODEL, device), source, blocks, files)
