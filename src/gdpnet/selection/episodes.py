"""The neighbour-selection MDP: one episode a target, all episodes of a batch on flat tensors.

The state of an episode is the running sum of what its kept neighbours give, and their count; an observer turns
it into what the policy sees, ``h_v^t`` and the beliefs about v. Keeping neighbour u adds u's row to the sum;
dropping it changes nothing. Where edges have weights, u adds its row times its weight, and its weight to the count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, owners_of, ranges
from gdpnet._core.random import keys


@dataclass(frozen=True)
class Met:
    """The candidates of a batch as their targets meet them, one row a candidate."""

    given: Float[Tensor, "candidates width"]
    """What keeping the candidate adds to its target's running sum."""
    embedded: Float[Tensor, "candidates width"]
    beliefs: Float[Tensor, "candidates classes"]
    pairs: Float[Tensor, "candidates pairs"]
    weight: Float[Tensor, "candidates"] | None = None
    """What keeping the candidate adds to its target's count; one for each where there is nothing."""

    @property
    def counted(self) -> Float[Tensor, "candidates"]:
        """Return what keeping each candidate adds to its target's count."""
        return torch.ones_like(self.given[:, 0]) if self.weight is None else self.weight


@dataclass(frozen=True)
class Tables:
    """What `View.observe` computes, as tables, for an engine that computes it by itself.

    h = relu((own + sum) / (1 + kept) + bias), or relu(sum / kept + own + bias) where the node has a matrix of its
    own; beliefs are softmax(h head + head_bias). Row r belongs to member ``r // nodes``.
    """

    own: Float[Tensor, "rows width"]
    bias: Float[Tensor, "members width"]
    heads: Float[Tensor, "members width classes"]
    head_bias: Float[Tensor, "members classes"]
    nodes: int
    self_weight: bool


@dataclass(frozen=True)
class View:
    """The two things that selection must be told of representation.

    A row is a node as one classifier sees it; with cross-fitting a node has one row for each classifier.
    """

    meet: Callable[[Episodes], Met]
    """Look at the candidates of some episodes."""
    observe: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """From target rows, running sums and counts to embeddings ``h_v^t`` and beliefs."""
    tables: Tables | None = None
    """The same for an engine on chip, where there is one."""


@dataclass(frozen=True)
class Episodes:
    """The candidates of a batch of episodes, laid end to end, longest episode first."""

    target: Int[Tensor, "episodes"]
    target_row: Int[Tensor, "episodes"]
    offsets: Int[Tensor, "offsets"]
    row: Int[Tensor, "candidates"]
    edge: Int[Tensor, "candidates"]
    key: Int[Tensor, "candidates"]
    """Key of each candidate's random draws: target and neighbour, so that batches do not matter."""
    ending_key: Int[Tensor, "episodes"]

    @property
    def count(self) -> int:
        """Return the number of episodes."""
        return self.target.numel()

    @property
    def length(self) -> Int[Tensor, "episodes"]:
        """Return the number of candidates of each episode."""
        return self.offsets.diff()

    @property
    def owner(self) -> Int[Tensor, "candidates"]:
        """Return the episode of each candidate."""
        return owners_of(self.length)


def begin_episodes(
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    targets: Int[Tensor, "targets"],
    *,
    row_shift: Int[Tensor, "targets"] | None = None,
    copy: Int[Tensor, "targets"] | None = None,
    max_candidates: int,
    seed: int,
    shared_keys: bool = False,
) -> Episodes:
    """Lay out one episode for each target that has neighbours.

    A target with more than ``max_candidates`` neighbours plays one episode for each of several random parts of
    equal size, so that every neighbour is decided on and no episode is longer than the bound. ``row_shift`` is
    added to node numbers to give rows, a shift a target. A target may stand several times to be played several
    times; ``copy`` then tells these apart, so that each has random draws of its own. With ``shared_keys`` keys leave
    the copy out: whoever plays the same episode several times folds it in.
    """
    degree = row_ptr[targets + 1] - row_ptr[targets]
    owner, edge = ranges(row_ptr[targets], degree)
    parts = (degree + max_candidates - 1) // max_candidates
    rank = torch.arange(edge.numel(), device=edge.device) - offsets_of(degree)[:-1][owner]
    if edge.numel() and int(parts.max()) > 1:
        rank = shuffled_rank(owner, keys(seed + 2, edge), degree)
    part = rank * parts[owner] // degree[owner].clamp(min=1)
    episode = offsets_of(parts)[:-1][owner] + part
    length = torch.bincount(episode, minlength=int(parts.sum()))
    by_length = torch.argsort(length, descending=True, stable=True)
    place = torch.empty_like(by_length)
    place[by_length] = torch.arange(by_length.numel(), device=edge.device)
    order = torch.argsort(place[episode], stable=True)
    owner, edge = owner[order], edge[order]
    target_of = owners_of(parts)[by_length]
    shift = torch.zeros_like(targets) if row_shift is None else row_shift
    copies = torch.zeros_like(targets) if copy is None else copy
    part_number = by_length - offsets_of(parts)[:-1][target_of]
    return Episodes(
        target=targets[target_of],
        target_row=targets[target_of] + shift[target_of],
        offsets=offsets_of(length[by_length]),
        row=neighbour[edge] + shift[owner],
        edge=edge,
        key=keys(seed, targets[owner], neighbour[edge], *([] if shared_keys else [copies[owner]])),
        ending_key=keys(
            seed + 1, targets[target_of], part_number, *([] if shared_keys else [copies[target_of]])
        ),
    )


def split_episodes(episodes: Episodes, most: int) -> list[Episodes]:
    """Cut a batch into smaller ones of ``most`` candidates each at most, so that the parts of a hub fit memory."""
    if episodes.row.numel() <= most:
        return [episodes]
    return [_some_of(episodes, first, last) for first, last in cut_rows(episodes.offsets, most)]


def _some_of(episodes: Episodes, first: int, last: int) -> Episodes:
    offsets = episodes.offsets[first : last + 1]
    some = slice(int(offsets[0]), int(offsets[-1]))
    return Episodes(
        target=episodes.target[first:last],
        target_row=episodes.target_row[first:last],
        offsets=offsets - offsets[0],
        row=episodes.row[some],
        edge=episodes.edge[some],
        key=episodes.key[some],
        ending_key=episodes.ending_key[first:last],
    )


def shuffled_rank(
    owner: Int[Tensor, "candidates"], key: Int[Tensor, "candidates"], degree: Int[Tensor, "targets"]
) -> Int[Tensor, "candidates"]:
    """Rank each target's candidates by their keys, which are random, so that their order is."""
    order = torch.argsort(owner * (1 << 32) + (key.long() & 0xFFFFFFFF))
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), device=owner.device)
    return rank - offsets_of(degree)[:-1][owner]
