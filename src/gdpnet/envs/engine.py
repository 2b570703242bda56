"""The engine of both environments: a fixed number of parallel episodes, one row of every tensor each.

An episode has a fixed number of slots, which hold its candidates in a random order. A slot is open until its
candidate was decided on. An episode is over when no slot is open.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges
from gdpnet._core.random import keys, uniforms
from gdpnet.data.prepare import Prepared
from gdpnet.envs.context import Context
from gdpnet.errors import ConfigError
from gdpnet.selection.episodes import Encoded, Episodes, shuffled_rank
from gdpnet.selection.policy import agreement
from gdpnet.training.selection_phase import gain_if_kept, score_alone

ORDERS = ("learned", "random")

LIMIT = 1000.0
"""Bound of the observations, far above any in practice: a space must be finite and fit all graphs."""

_TARGET, _ORDER = 11, 12

_SEED_BITS = 0x7FFFFFFF


class Engine:
    """Play a fixed number of episodes in parallel."""

    def __init__(self, context: Context, order: str, slots: int, episodes: int) -> None:
        if order not in ORDERS:
            raise ConfigError(f"order must be one of {', '.join(ORDERS)}, found '{order}'")
        if slots < 1 or episodes < 1:
            raise ConfigError(
                f"max_candidates and the number of environments must be 1 or more, found {slots} and {episodes}"
            )
        self.context, self.learned, self.slots, self.episodes = context, order == "learned", slots, episodes
        none = torch.zeros(0, dtype=torch.long, device=context.prepared.device)
        encoded = context.view.encode(_episodes_of(context, none, none.view(0, slots)))
        width, classes = encoded.message.shape[1], encoded.probabilities.shape[1]
        self.rows = torch.arange(episodes, device=none.device)
        self.seed, self.number = torch.zeros_like(self.rows), torch.zeros_like(self.rows)
        self.target = torch.full_like(self.rows, -1)
        self.message = encoded.message.new_zeros(episodes, slots, width)
        self.columns = encoded.message.new_zeros(episodes, slots, self._fixed_columns(encoded).shape[1])
        self.probabilities = encoded.message.new_zeros(episodes, slots, classes)
        self.score = encoded.message.new_zeros(episodes, slots)
        self.weight = encoded.message.new_zeros(episodes, slots)
        self.edge = self.rows.new_full((episodes, slots), -1)
        self.open = torch.zeros_like(self.edge, dtype=torch.bool)
        self.kept = torch.zeros_like(self.open)
        self.sums = encoded.message.new_zeros(episodes, width)
        self.actions = 2 * slots + 1 if self.learned else 2
        """The number of actions: keep or drop each slot, or end; in a random order drop or keep."""
        self.target_columns = width + 2 * context.extras
        """The number of columns of the target, the first in an observation."""
        self.candidate_columns = self.columns.shape[2] + context.extras + self.learned
        """The number of columns of one candidate."""

    @property
    def over(self) -> Bool[Tensor, "episodes"]:
        """Return which episodes are over."""
        return ~self.open.any(dim=1)

    @property
    def counts(self) -> Float[Tensor, "episodes"]:
        """Return the total weight of the neighbours that each episode has kept."""
        return (self.kept * self.weight).sum(dim=1)

    def reseed(self, seeds: Sequence[int | None]) -> None:
        """Restart the random numbers of the rows that get a seed; the others continue.

        The draws of an episode depend only on the seed of its row and the number of episodes since then.
        """
        index = [row for row, seed in enumerate(seeds) if seed is not None]
        self.seed[index] = self.seed.new_tensor([seed & _SEED_BITS for seed in seeds if seed is not None])
        self.number[index] = 0

    def begin(self, index: Int[Tensor, "some"], target: Int[Tensor, "some"] | None = None) -> None:
        """Begin an episode in some rows, on the given targets or on random ones."""
        context = self.context
        key = keys(_TARGET, self.seed[index], self.number[index])
        self.number[index] += 1
        if target is None:
            # in double precision: in single precision a product with many targets could round up to their number
            target = context.targets[(uniforms(key, 0).double() * context.targets.numel()).long()]
        edge = _assign_slots(context.prepared, target, key, self.slots)
        filled, episodes = edge >= 0, _episodes_of(context, target, edge)
        encoded = context.view.encode(episodes)
        owner = filled.nonzero()[:, 0]
        row, label = episodes.target_row[owner], context.labels[target[owner]]
        score = score_alone(context.view, context.reward, row, label, encoded.message, encoded.counted)
        for table, rows in (
            (self.message, encoded.message),
            (self.columns, self._fixed_columns(encoded)),
            (self.probabilities, encoded.probabilities),
            (self.score, score),
            (self.weight, encoded.counted),
        ):
            table[index] = table.new_zeros(index.numel(), *table.shape[1:]).masked_scatter_(
                filled.view(*filled.shape, *[1] * (rows.dim() - 1)), rows
            )
        self.target[index], self.edge[index], self.open[index] = target, edge, filled
        self.kept[index], self.sums[index] = False, 0.0

    @torch.no_grad()
    def act(
        self, action: Int[Tensor, "episodes"]
    ) -> tuple[Float[Tensor, "episodes"], Bool[Tensor, "episodes"]]:
        """Decide on one candidate of every episode; return the rewards, and which actions were invalid.

        An action on a slot that is not open is invalid and ends the episode. An episode that is over does not change
        and has reward zero.
        """
        slot, keep = self._decode(action)
        named = slot < self.slots
        slot = slot.clamp(max=self.slots - 1)
        valid = named & self.open[self.rows, slot]
        kept = valid & keep
        reward = (
            torch.where(kept, self._gain(slot), 0.0) if bool(kept.any()) else torch.zeros_like(self.counts)
        )
        self.sums += self.message[self.rows, slot] * kept[:, None]
        self.kept[self.rows, slot] |= kept
        self.open[self.rows, slot] = False
        self.open &= valid[:, None]
        return reward, named & ~valid

    @torch.no_grad()
    def observe(self) -> Float[Tensor, "episodes columns"]:
        """Return one observation per episode: the target, then its candidates, zeros for closed slots."""
        counts = self.counts
        state, probabilities = self.context.view.observe(self._row, self.sums, counts)
        columns, others, seen = self.columns, self.probabilities, self.open
        if not self.learned:
            slot = self._next_slot
            columns, others = columns[self.rows, slot, None], others[self.rows, slot, None]
            seen = seen.any(dim=1, keepdim=True)
        target, candidates = [state], [columns]
        if self.context.extras:
            target += [probabilities.amax(dim=1, keepdim=True), counts.log1p()[:, None]]
            own = probabilities[:, None].expand_as(others)
            candidates += [agreement(own.flatten(0, 1), others.flatten(0, 1)).view(*seen.shape, 1)]
        if self.learned:
            candidates += [seen[:, :, None].to(state.dtype)]
        rows = torch.cat(candidates, dim=2) * seen[:, :, None]
        return torch.cat([*target, rows.flatten(1)], dim=1).clamp(-LIMIT, LIMIT)

    def action_mask(self) -> Bool[Tensor, "episodes actions"]:
        """Return which actions are valid: those on open slots, and ending."""
        if not self.learned:
            return torch.ones(self.episodes, 2, dtype=torch.bool, device=self.open.device)
        return torch.cat([self.open, self.open, torch.ones_like(self.open[:, :1])], dim=1)

    @property
    def _row(self) -> Int[Tensor, "episodes"]:
        return self.target + self.context.row_shift[self.target]

    @property
    def _next_slot(self) -> Int[Tensor, "episodes"]:
        """Return the first open slot, the one to decide on in a random order."""
        return self.open.to(torch.uint8).argmax(dim=1)

    def _decode(
        self, action: Int[Tensor, "episodes"]
    ) -> tuple[Int[Tensor, "episodes"], Bool[Tensor, "episodes"]]:
        """Return the slot of each action (for the end, the number of slots) and whether it keeps."""
        if int(action.min()) < 0 or int(action.max()) >= self.actions:
            raise ConfigError(f"an action must be between 0 and {self.actions - 1}, found {action.tolist()}")
        if not self.learned:
            return self._next_slot, action == 1
        ends = action == 2 * self.slots
        return torch.where(ends, self.slots, action % self.slots), action < self.slots

    def _gain(self, slot: Int[Tensor, "episodes"]) -> Float[Tensor, "episodes"]:
        context = self.context
        return gain_if_kept(
            context.view,
            context.reward,
            self._row,
            context.labels[self.target],
            self.message[self.rows, slot],
            self.weight[self.rows, slot],
            sums=self.sums,
            counts=self.counts,
            score=self.score[self.rows, slot],
            kept_scores=(self.score * self.kept).sum(dim=1),
        )

    def _fixed_columns(self, encoded: Encoded) -> Float[Tensor, "candidates columns"]:
        """Return the columns of a candidate that do not depend on the state."""
        if not self.context.extras:
            return encoded.embedded
        return torch.cat(
            [encoded.embedded, encoded.pairs, encoded.probabilities.amax(dim=1, keepdim=True)], dim=1
        )


def _assign_slots(
    prepared: Prepared, target: Int[Tensor, "n"], key: Int[Tensor, "n"], slots: int
) -> Int[Tensor, "n slots"]:
    """Assign each target's edges to its slots in a random order; -1 marks an empty slot.

    If there are more neighbours than slots, a random part of them is assigned, as large as the parts of equal size
    that training plays.
    """
    start = prepared.row_ptr[target]
    degree = prepared.row_ptr[target + 1] - start
    owner, edge = ranges(start, degree)
    rank = shuffled_rank(owner, keys(_ORDER, key[owner], edge), degree)
    parts = (degree + slots - 1) // slots
    assigned = rank < ((degree + parts - 1) // parts.clamp(min=1))[owner]
    table = edge.new_full((target.numel(), slots), -1)
    table[owner[assigned], rank[assigned]] = edge[assigned]
    return table


def _episodes_of(context: Context, target: Int[Tensor, "n"], edge: Int[Tensor, "n slots"]) -> Episodes:
    """Return the assigned edges as episodes, to be encoded by the view."""
    filled = edge >= 0
    flat, owner = edge[filled], filled.nonzero()[:, 0]
    shift = context.row_shift[target]
    return Episodes(
        target=target,
        target_row=target + shift,
        offsets=offsets_of(filled.sum(dim=1)),
        row=context.prepared.neighbour[flat] + shift[owner],
        edge=flat,
        # keys are for the draws of a roll-out; here the agent decides
        key=torch.zeros_like(flat),
        ending_key=torch.zeros_like(target),
    )
