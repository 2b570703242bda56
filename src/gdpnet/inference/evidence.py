"""Apply the evidence model to a graph, one block of targets at a time; a graph in memory is one block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, offsets_of, owners_of, symmetrise
from gdpnet.config import Config
from gdpnet.data.features import Features, SparseRows, normalise
from gdpnet.data.neighbour_sums import add_rows
from gdpnet.data.pair_features import PAIR_NAMES, PairTables, pairs_between, pairs_of
from gdpnet.data.prepare import Prepared
from gdpnet.representation.evidence import EvidenceModel

STATE = "structure"
"""The pair features that evidence is drawn from."""

COLUMNS = len(PAIR_NAMES[STATE])

Block = tuple[int, int]
Pairs = Callable[[Block], Float[Tensor, "block columns"]]
"""Return the structural pair features of the edges of some targets, from the first number up to the second."""


@dataclass(frozen=True)
class Links:
    """The edges of a graph and the unit features of its nodes; with sparse features both are on the host."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    unit: Features

    @classmethod
    def of(cls, prepared: Prepared, config: Config) -> Links:
        """Return the direct edges of a prepared graph, without candidates that are farther away."""
        row_ptr, neighbour, unit = prepared.row_ptr, prepared.neighbour, prepared.features
        if config.features.normalise != "l2":
            unit = normalise(unit, "l2")
        if prepared.edge is not None:
            owner = owners_of(row_ptr.diff())[prepared.edge]
            row_ptr = offsets_of(torch.bincount(owner, minlength=prepared.num_nodes))
            neighbour = neighbour[prepared.edge]
        device = torch.device("cpu") if isinstance(unit, SparseRows) else row_ptr.device
        return cls(row_ptr.to(device), neighbour.to(device), unit.to(device))

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def everything(self) -> Block:
        """Return the block of all targets."""
        return 0, self.num_nodes

    def tables(self, kept: Bool[Tensor, "edges"] | None = None) -> PairTables:
        """Return what pair features are computed from, in the whole graph or in that of the kept edges alone."""
        row_ptr, neighbour = self.row_ptr, self.neighbour
        if kept is not None:
            owner = owners_of(row_ptr.diff())[kept]
            row_ptr, neighbour = (
                offsets_of(torch.bincount(owner, minlength=self.num_nodes)),
                neighbour[kept],
            )
        return PairTables(STATE, row_ptr, neighbour, self.unit, add_rows(self.unit, row_ptr, neighbour))

    def edges_of(self, block: Block) -> slice:
        """Return the edges of some targets."""
        return slice(int(self.row_ptr[block[0]]), int(self.row_ptr[block[1]]))

    def ends_of(self, block: Block) -> tuple[Int[Tensor, "block"], Int[Tensor, "block"]]:
        """Return target and neighbour of the edges of some targets."""
        target = owners_of(self.row_ptr[block[0] : block[1] + 1].diff()) + block[0]
        return target, self.neighbour[self.edges_of(block)].long()

    def symmetrise(self, value: Float[Tensor, "edges"], block: Block) -> Float[Tensor, "block"]:
        """Return the mean of the values of each edge of a block and of its reverse edge."""
        target, neighbour = self.ends_of(block)
        reverse = find_in_rows(self.row_ptr, self.neighbour, neighbour, target)
        return symmetrise(value, reverse, self.edges_of(block).start)


def structural_pairs(prepared: Prepared, links: Links) -> Float[Tensor, "edges columns"]:
    """Return the structural pair features of every edge: among those that the policy observes, or computed."""
    first = prepared.edge_features_in_pairs.stop
    found = prepared.pairs if prepared.edge is None else prepared.pairs[prepared.edge]
    if found.shape[1] >= first + COLUMNS:
        return found[:, first : first + COLUMNS]
    return pairs_of(links.tables(), 0, links.num_nodes)[0]


class EvidencePasses:
    """Both passes over a graph: `first` on all blocks, `clean`, then `second` on all blocks."""

    def __init__(self, model: EvidenceModel, links: Links, pairs: Pairs) -> None:
        self.model, self.links, self.pairs = model, links, pairs
        self.cleaned: PairTables | None = None

    @torch.no_grad()
    def first(self, block: Block) -> Float[Tensor, "block"]:
        """Return the score of the first pass for the edges of some targets, each in its own direction."""
        return self.model.first_score(self.pairs(block).to(self.model.device))

    @torch.no_grad()
    def clean(self, score: Float[Tensor, "edges"], blocks: list[Block]) -> None:
        """Take out the edges that the first pass finds spurious."""
        score = score.to(self.links.row_ptr.device)
        both = torch.cat([self.links.symmetrise(score, block) for block in blocks]) if blocks else score
        kept = self.model.is_trusted(both.to(self.model.device)).to(score.device)
        self.cleaned = self.links.tables(kept)

    @torch.no_grad()
    def second(self, block: Block) -> Float[Tensor, "block"]:
        """Return the score of the second pass, each edge in its own direction."""
        assert self.cleaned is not None
        around = pairs_between(self.cleaned, *self.links.ends_of(block))
        return self.model.second_score(self.pairs(block).to(self.model.device), around.to(self.model.device))

    @torch.no_grad()
    def second_of(self, edge: Int[Tensor, "some"]) -> Float[Tensor, "edges"]:
        """Return the same for some edges of the whole graph, zero for the others."""
        assert self.cleaned is not None
        target, neighbour = self.links.ends_of(self.links.everything)
        around = pairs_between(self.cleaned, target[edge], neighbour[edge]).to(self.model.device)
        columns = self.pairs(self.links.everything)[edge].to(self.model.device)
        score = torch.zeros(target.numel(), device=self.model.device)
        return score.index_copy(0, edge.to(score.device), self.model.second_score(columns, around))


def evidence_score(
    model: EvidenceModel,
    links: Links,
    columns: Float[Tensor, "edges columns"],
    some: Int[Tensor, "some"] | None = None,
) -> Float[Tensor, "edges"]:
    """Return the evidence score of every edge, given all structural pair features; both directions are alike.

    If only ``some`` edges are scored, those whose reverse edge is among them are right.

    It is the probability that an edge is own rather than injected; `EvidenceModel.genuine` turns it into the
    probability that the edge is genuine.
    """
    everything = links.everything
    passes = EvidencePasses(model, links, lambda block: columns[links.edges_of(block)])
    passes.clean(passes.first(everything), [everything])
    score = passes.second(everything) if some is None else passes.second_of(some)
    score = score.to(links.row_ptr.device)
    return links.symmetrise(score, everything).to(model.device)


def evidence_of(
    model: EvidenceModel, prepared: Prepared, config: Config, some: Int[Tensor, "some"] | None = None
) -> Float[Tensor, "edges"]:
    """Return the evidence score of every edge of a prepared graph, or of some as in `evidence_score`."""
    links = Links.of(prepared, config)
    return evidence_score(model, links, structural_pairs(prepared, links), some)
