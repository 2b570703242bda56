"""Episodes side by side, a row of every tensor each; both environments are thin doors to this.

An episode has a fixed number of slots, and its candidates lie in them in a random order. A slot is open until its
candidate was decided on. An episode is over when no slot is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges
from gdpnet._core.random import keys, uniforms
from gdpnet.data.prepare import Prepared
from gdpnet.envs.context import World
from gdpnet.errors import ConfigError
from gdpnet.selection.episodes import Episodes, Met, shuffled_rank
from gdpnet.selection.policy import agreement
from gdpnet.training.rewards import gain_if_kept, score_alone

ORDERS = ("learned", "random")

LIMIT = 1000.0
"""Numbers of an observation are held within this, far beyond any met: a space must be finite and fit all graphs."""

_WHICH, _DEAL = 11, 12

_SEED_BITS = 0x7FFFFFFF


class Result(NamedTuple):
    """What came of one action an episode."""

    reward: Float[Tensor, "episodes"]
    invalid: Bool[Tensor, "episodes"]
    """Whether the action named a slot that was not open, which ends an episode."""


class Engine:
    """Play a fixed number of episodes in step."""

    def __init__(self, world: World, order: str, slots: int, episodes: int) -> None:
        if order not in ORDERS:
            raise ConfigError(f"order must be one of {', '.join(ORDERS)}, found '{order}'")
        if slots < 1 or episodes < 1:
            raise ConfigError(
                f"max_candidates and the number of environments must be 1 or more, found {slots} and {episodes}"
            )
        self.world, self.learned, self.slots, self.episodes = world, order == "learned", slots, episodes
        none = torch.zeros(0, dtype=torch.long, device=world.prepared.device)
        met = world.view.meet(_episodes_of(world, none, none.view(0, slots)))
        width, classes = met.given.shape[1], met.beliefs.shape[1]
        self.everyone = torch.arange(episodes, device=none.device)
        self.seed, self.number = torch.zeros_like(self.everyone), torch.zeros_like(self.everyone)
        self.target = torch.full_like(self.everyone, -1)
        self.given = met.given.new_zeros(episodes, slots, width)
        self.shown = met.given.new_zeros(episodes, slots, self._show(met).shape[1])
        self.beliefs = met.given.new_zeros(episodes, slots, classes)
        self.score = met.given.new_zeros(episodes, slots)
        self.weight = met.given.new_zeros(episodes, slots)
        self.edge = self.everyone.new_full((episodes, slots), -1)
        self.open = torch.zeros_like(self.edge, dtype=torch.bool)
        self.kept = torch.zeros_like(self.open)
        self.sums = met.given.new_zeros(episodes, width)

    @property
    def actions(self) -> int:
        """Return the number of actions: keep or drop each slot or end, or in a random order drop or keep."""
        return 2 * self.slots + 1 if self.learned else 2

    @property
    def target_columns(self) -> int:
        """Return the size of an observation's first part, the target's."""
        return self.sums.shape[1] + 2 * self.world.extras

    @property
    def candidate_columns(self) -> int:
        """Return the size of what an observation says of one candidate."""
        return self.shown.shape[2] + self.world.extras + self.learned

    @property
    def over(self) -> Bool[Tensor, "episodes"]:
        """Say which episodes are over."""
        return ~self.open.any(dim=1)

    @property
    def counts(self) -> Float[Tensor, "episodes"]:
        """Return how many neighbours each episode has kept, by their weights where they have any."""
        return (self.kept * self.weight).sum(dim=1)

    def spaces(self) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Discrete]:
        """Return what one episode's observations and actions may be."""
        rows = self.slots if self.learned else 1
        size = self.target_columns + rows * self.candidate_columns
        return (
            gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32),
            gymnasium.spaces.Discrete(self.actions),
        )

    def reseed(self, seeds: Sequence[int | None]) -> None:
        """Begin the random numbers of rows anew; those without a seed go on with theirs.

        What is drawn for an episode depends on its row's seed and its number since then, and on nothing else.
        """
        who = [row for row, seed in enumerate(seeds) if seed is not None]
        self.seed[who] = self.seed.new_tensor([seed & _SEED_BITS for seed in seeds if seed is not None])
        self.number[who] = 0

    def begin(self, who: Int[Tensor, "some"], target: Int[Tensor, "some"] | None = None) -> None:
        """Begin an episode in some rows, on the targets named or on ones drawn."""
        world = self.world
        key = keys(_WHICH, self.seed[who], self.number[who])
        self.number[who] += 1
        if target is None:
            # in double precision: in single the largest draw times many targets would round up to one too far
            target = world.targets[(uniforms(key, 0).double() * world.targets.numel()).long()]
        edge = _deal(world.prepared, target, key, self.slots)
        taken, row = edge >= 0, target + world.row_shift[target]
        met = world.view.meet(_episodes_of(world, target, edge))
        owner = taken.nonzero()[:, 0]
        label = world.labels[target[owner]]
        score = score_alone(world.view, world.reward, row[owner], label, met.given, met.counted)
        for table, rows in (
            (self.given, met.given),
            (self.shown, self._show(met)),
            (self.beliefs, met.beliefs),
            (self.score, score),
            (self.weight, met.counted),
        ):
            table[who] = table.new_zeros(who.numel(), *table.shape[1:]).masked_scatter_(
                taken.view(*taken.shape, *[1] * (rows.dim() - 1)), rows
            )
        self.target[who], self.edge[who], self.open[who] = target, edge, taken
        self.kept[who], self.sums[who] = False, 0.0

    @torch.no_grad()
    def act(self, action: Int[Tensor, "episodes"]) -> Result:
        """Decide on one candidate of every episode; one that is over stays so and earns nothing."""
        slot, keep = self._read(action)
        named = slot < self.slots
        slot = slot.clamp(max=self.slots - 1)
        valid = named & self.open[self.everyone, slot]
        kept = valid & keep
        reward = (
            torch.where(kept, self._gain(slot), 0.0) if bool(kept.any()) else torch.zeros_like(self.counts)
        )
        self.sums += self.given[self.everyone, slot] * kept[:, None]
        self.kept[self.everyone, slot] |= kept
        self.open[self.everyone, slot] = False
        self.open &= valid[:, None]
        return Result(reward, named & ~valid)

    @torch.no_grad()
    def observe(self) -> Float[Tensor, "episodes columns"]:
        """Return what is to be seen of every episode: the target's part, then its candidates', zeros where closed."""
        counts = self.counts
        state, beliefs = self.world.view.observe(self._row, self.sums, counts)
        shown, others, seen = self.shown, self.beliefs, self.open
        if not self.learned:
            slot = self._next_slot
            shown, others = shown[self.everyone, slot, None], others[self.everyone, slot, None]
            seen = seen.any(dim=1, keepdim=True)
        target, candidates = [state], [shown]
        if self.world.extras:
            target += [beliefs.amax(dim=1, keepdim=True), counts.log1p()[:, None]]
            mine = beliefs[:, None].expand_as(others)
            candidates += [agreement(mine.flatten(0, 1), others.flatten(0, 1)).view(*seen.shape, 1)]
        if self.learned:
            candidates += [seen[:, :, None].to(state.dtype)]
        rows = torch.cat(candidates, dim=2) * seen[:, :, None]
        return torch.cat([*target, rows.flatten(1)], dim=1).clamp(-LIMIT, LIMIT)

    def action_mask(self) -> Bool[Tensor, "episodes actions"]:
        """Say which actions name something open; ending always does."""
        if not self.learned:
            return torch.ones(self.episodes, 2, dtype=torch.bool, device=self.open.device)
        return torch.cat([self.open, self.open, torch.ones_like(self.open[:, :1])], dim=1)

    @property
    def _row(self) -> Int[Tensor, "episodes"]:
        return self.target + self.world.row_shift[self.target]

    @property
    def _next_slot(self) -> Int[Tensor, "episodes"]:
        """Return the first open slot, which in a random order is the one to decide on."""
        return self.open.to(torch.uint8).argmax(dim=1)

    def _read(
        self, action: Int[Tensor, "episodes"]
    ) -> tuple[Int[Tensor, "episodes"], Bool[Tensor, "episodes"]]:
        """Return the slot of each action, the number of slots for the end, and whether it keeps."""
        if int(action.min()) < 0 or int(action.max()) >= self.actions:
            raise ConfigError(f"an action must lie between 0 and {self.actions - 1}, found {action.tolist()}")
        if not self.learned:
            return self._next_slot, action == 1
        ends = action == 2 * self.slots
        return torch.where(ends, self.slots, action % self.slots), action < self.slots

    def _gain(self, slot: Int[Tensor, "episodes"]) -> Float[Tensor, "episodes"]:
        world = self.world
        return gain_if_kept(
            world.view,
            world.reward,
            self._row,
            world.labels[self.target],
            self.given[self.everyone, slot],
            self.weight[self.everyone, slot],
            sums=self.sums,
            counts=self.counts,
            score=self.score[self.everyone, slot],
            kept_scores=(self.score * self.kept).sum(dim=1),
        )

    def _show(self, met: Met) -> Float[Tensor, "candidates columns"]:
        """Return what is seen of a candidate whatever was kept."""
        if not self.world.extras:
            return met.embedded
        return torch.cat([met.embedded, met.pairs, met.beliefs.amax(dim=1, keepdim=True)], dim=1)


def _deal(
    prepared: Prepared, target: Int[Tensor, "n"], key: Int[Tensor, "n"], slots: int
) -> Int[Tensor, "n slots"]:
    """Deal each target's edges to its slots in a random order; -1 stands for none.

    Of more neighbours than slots a random part is dealt, as large as the equal parts that training plays one after
    the other.
    """
    start = prepared.row_ptr[target]
    degree = prepared.row_ptr[target + 1] - start
    owner, edge = ranges(start, degree)
    rank = shuffled_rank(owner, keys(_DEAL, key[owner], edge), degree)
    parts = (degree + slots - 1) // slots
    dealt = rank < ((degree + parts - 1) // parts.clamp(min=1))[owner]
    table = edge.new_full((target.numel(), slots), -1)
    table[owner[dealt], rank[dealt]] = edge[dealt]
    return table


def _episodes_of(world: World, target: Int[Tensor, "n"], edge: Int[Tensor, "n slots"]) -> Episodes:
    """Lay out the edges that were dealt as the engine's episodes, for the view to look at."""
    taken = edge >= 0
    flat, owner = edge[taken], taken.nonzero()[:, 0]
    shift = world.row_shift[target]
    return Episodes(
        target=target,
        target_row=target + shift,
        offsets=offsets_of(taken.sum(dim=1)),
        row=world.prepared.neighbour[flat] + shift[owner],
        edge=flat,
        # keys of a roll-out's draws; here whoever plays draws
        key=torch.zeros_like(flat),
        ending_key=torch.zeros_like(target),
    )
