"""The neighbour-selection MDP: one episode per target, all episodes of a batch on flat tensors.

The state of an episode is the running sum of its kept neighbours' messages, and their count. `View.observe` maps it
to the policy's input: ``h_v^t`` and the class probabilities of v. Keeping neighbour u adds u's message to the sum;
dropping u changes nothing. If edges have weights, u adds its message times its weight, and its weight to the count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, owners_of, ranges
from gdpnet._core.random import keys, with_part

_PARTS_OF_A_KEY = 2
"""Numbers that a key without a copy is made of: target and neighbour, or target and part."""

Numbers = tuple[Int[Tensor, "nodes"], Int[Tensor, "edges"]]
"""The numbers of nodes and of edges in the graph that a graph is a part of."""


@dataclass(frozen=True)
class Encoded:
    """The candidates of a batch, encoded for their targets, one row per candidate."""

    message: Float[Tensor, "candidates width"]
    """Added to the target's running sum if the candidate is kept."""
    embedded: Float[Tensor, "candidates width"]
    probabilities: Float[Tensor, "candidates classes"]
    pairs: Float[Tensor, "candidates pairs"]
    weight: Float[Tensor, "candidates"] | None = None
    """Added to the target's count if the candidate is kept; None stands for one each."""
    half: Float[Tensor, "candidates first"] | None = None
    """The candidates' half of the policy's first layer, if the episodes are played more than once."""

    @property
    def counted(self) -> Float[Tensor, "candidates"]:
        """Return the weight of each candidate in its target's count."""
        return torch.ones_like(self.message[:, 0]) if self.weight is None else self.weight


@dataclass(frozen=True)
class Tables:
    """The weights behind `View.observe`, for engines that observe states inside a kernel.

    h = relu((own + sum) / (1 + kept) + bias), or relu(sum / kept + own + bias) with ``self_weight``; class
    probabilities are softmax(h head + head_bias). Row r belongs to fold model ``r // nodes``.
    """

    own: Float[Tensor, "rows width"]
    bias: Float[Tensor, "fold_models width"]
    heads: Float[Tensor, "fold_models width classes"]
    head_bias: Float[Tensor, "fold_models classes"]
    nodes: int
    self_weight: bool


@dataclass(frozen=True)
class View:
    """All that selection knows about representation.

    A row is a node encoded by one fold model; with cross-fitting a node has one row per fold model.
    """

    encode: Callable[[Episodes], Encoded]
    """Encode the candidates of some episodes."""
    observe: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """Map target rows, running sums and counts to embeddings ``h_v^t`` and class probabilities."""
    tables: Tables | None = None
    """The weights of ``observe`` for the numba and Triton engines; without them the reference engine plays."""


@dataclass(frozen=True)
class Episodes:
    """The candidates of a batch of episodes, concatenated, longest episode first."""

    target: Int[Tensor, "episodes"]
    target_row: Int[Tensor, "episodes"]
    offsets: Int[Tensor, "offsets"]
    row: Int[Tensor, "candidates"]
    edge: Int[Tensor, "candidates"]
    key: Int[Tensor, "candidates"]
    """Random key of each candidate, from target and neighbour, so that draws do not depend on the batch."""
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
        return owners_of(self.length, self.row.numel())

    def copy(self, number: int) -> Episodes:
        """Return the episodes with the random draws of one copy; their keys must leave the copy out."""
        part = torch.full((), number, device=self.key.device)
        return replace(
            self,
            key=with_part(self.key, _PARTS_OF_A_KEY, part),
            ending_key=with_part(self.ending_key, _PARTS_OF_A_KEY, part),
        )


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
    numbers: Numbers | None = None,
) -> Episodes:
    """Return one episode for each target that has neighbours.

    The neighbours of a target with more than ``max_candidates`` are split at random into parts of equal size, one
    episode each, so that every neighbour is decided on and no episode exceeds the bound. ``row_shift`` is added to a
    target's node number, and to its neighbours', to give rows. A target may be listed several times to be played
    several times; ``copy`` then gives each its own random draws. With ``shared_keys`` the keys leave the copy out:
    what plays an episode several times folds it in. ``numbers`` are those that draws are keyed by, if the
    graph is a part of a larger one.
    """
    number = None if numbers is None else numbers[0]
    known = targets if number is None else number[targets]
    degree = row_ptr[targets + 1] - row_ptr[targets]
    parts = (degree + max_candidates - 1) // max_candidates
    # all counts that the host needs at once: it waits for the device to tell them
    total, count, most_parts = _counts(degree, parts)
    owner, edge = ranges(row_ptr[targets], degree, total)
    rank = torch.arange(edge.numel(), device=edge.device) - offsets_of(degree)[:-1][owner]
    if most_parts > 1:
        # by nodes and not by the number of the edge, which changes when edges are added elsewhere
        other = neighbour[edge] if number is None else number[neighbour[edge]]
        rank = shuffled_rank(owner, keys(seed + 2, known[owner], other), degree)
    part = rank * parts[owner] // degree[owner].clamp(min=1)
    first_part, part_owner = offsets_of(parts)[:-1], owners_of(parts, count)
    episode, number_of_part = first_part[owner] + part, torch.arange(count, device=edge.device)
    length = _lengths(number_of_part - first_part[part_owner], parts[part_owner], degree[part_owner])
    by_length = torch.argsort(length, descending=True, stable=True)
    place = by_length.scatter(0, by_length, torch.arange(length.numel(), device=edge.device))
    order = torch.argsort(place[episode], stable=True)
    owner, edge = owner[order], edge[order]
    target_of = part_owner[by_length]
    shift = torch.zeros_like(targets) if row_shift is None else row_shift
    copies = [] if shared_keys else [torch.zeros_like(targets) if copy is None else copy]
    part_number = by_length - first_part[target_of]
    other = neighbour[edge] if number is None else number[neighbour[edge]]
    return Episodes(
        target=targets[target_of],
        target_row=targets[target_of] + shift[target_of],
        offsets=offsets_of(length[by_length]),
        row=neighbour[edge] + shift[owner],
        edge=edge,
        key=keys(seed, known[owner], other, *(each[owner] for each in copies)),
        ending_key=keys(seed + 1, known[target_of], part_number, *(each[target_of] for each in copies)),
    )


def _counts(degree: Int[Tensor, "targets"], parts: Int[Tensor, "targets"]) -> tuple[int, int, int]:
    """Return the number of neighbours, the number of parts, and the most parts of one target."""
    if not degree.numel():
        return 0, 0, 0
    total, count, most = torch.stack([degree.sum(), parts.sum(), parts.max()]).tolist()
    return total, count, most


def _lengths(
    part: Int[Tensor, "parts"], parts: Int[Tensor, "parts"], degree: Int[Tensor, "parts"]
) -> Int[Tensor, "parts"]:
    """Return how many ranks r of a target's neighbours are in each of its parts: r * parts // degree is the part."""
    return ((part + 1) * degree + parts - 1) // parts - (part * degree + parts - 1) // parts


def split_episodes(episodes: Episodes, most: int) -> list[Episodes]:
    """Split a batch into batches of at most ``most`` candidates each, so that the parts of a hub fit into memory."""
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
    """Rank each target's candidates in a random order, that of their keys."""
    order = torch.argsort(owner * (1 << 32) + (key.long() & 0xFFFFFFFF))
    rank = order.scatter(0, order, torch.arange(order.numel(), device=owner.device))
    return rank - offsets_of(degree)[:-1][owner]
