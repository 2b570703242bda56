"""The batches of a roll-out, padded to common sizes and stacked, so that a step on one of them has fixed shapes.

A padded decision has advantage zero, so it adds nothing to the surrogate or its gradient. Each has at least one
padded pair, so its probabilities are finite.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.selection.buffer import Batch
from gdpnet.selection.play import Play
from gdpnet.selection.ppo import Advantages

_LEAST = (1 << 10, 1 << 12, 1 << 10)
"""The least decisions, pairs and candidates of a padded batch: up to these a GPU is not slower for more of them."""


class Sizes(NamedTuple):
    """How many batches there are, and the decisions, pairs and candidates of each."""

    batches: int
    decisions: int
    pairs: int
    candidates: int

    @property
    def all_pairs(self) -> int:
        """Return the number of pairs of all batches."""
        return self.batches * self.pairs

    def rounded(self) -> Sizes:
        """Return larger sizes, of which few occur, so that the batches of many roll-outs have the same.

        They depend on nothing else than these: rounding errors change with the sizes, and a run that was resumed
        must not differ.
        """
        decisions, candidates = (
            max(least, _power_of_two(size))
            for least, size in ((_LEAST[0], self.decisions), (_LEAST[2], self.candidates))
        )
        pairs = self.pairs + decisions - self.decisions  # every padded decision has a pair
        return Sizes(self.batches, decisions, max(_LEAST[1], _power_of_two(pairs)), candidates)


def _power_of_two(size: int) -> int:
    """Return the next power of two."""
    return 1 << (size - 1).bit_length()


def needed_sizes(bounds: Int[Tensor, "bounds 3"]) -> Sizes:
    """Return the smallest sizes that hold some batches; the host waits for the device."""
    decisions, pairs, candidates = bounds.diff(dim=0).unbind(1)
    most = torch.stack([decisions.max(), (pairs - decisions).max(), candidates.max()]).tolist()
    # one padded decision at least, and as many padded pairs as padded decisions
    return Sizes(len(bounds) - 1, most[0] + 1, max(most[1], 0) + most[0] + 1, most[2])


class PaddedBatches:
    """Tensors of fixed sizes that are filled anew for every roll-out; steps read one batch, and then the next."""

    def __init__(self, play: Play, sizes: Sizes, like: Batch) -> None:
        batches, decisions, pairs, candidates = self.sizes = sizes
        self.play = play
        self.order, self.position = like.chosen.new_zeros(batches), like.chosen.new_zeros(1)
        """The batches in the order in which steps read them, and how many were read."""
        self.target_input = like.target_input.new_zeros(batches, decisions, like.target_input.shape[1])
        self.columns = like.drew.new_zeros(7, batches, decisions)
        """The one-number columns of a batch's decisions, their advantages, and one for each that is not padded."""
        self.taken = like.taken.new_zeros(batches, decisions)
        self.neighbour_input = like.neighbour_input.new_zeros(
            batches, candidates, like.neighbour_input.shape[1]
        )
        self.links = like.owner.new_zeros(2, batches, pairs)
        """The owner and the place of each pair, as numbers within its batch."""
        self.agreement = like.agreement.new_zeros(batches, pairs)
        self.count = like.drew.new_ones(batches)
        self._slots = torch.arange(batches * decisions, device=like.chosen.device)
        self._begins = like.begins.new_zeros(1, 3)

    @torch.no_grad()
    def fill(self, whole: Batch, advantage: Advantages, bounds: Int[Tensor, "bounds 3"]) -> None:
        """Copy the parts of a batch between the bounds, and pad them."""
        last = bounds[-1:].expand(self.sizes.batches + 1 - len(bounds), 3)
        first = torch.cat([bounds, last])
        length, first = first.diff(dim=0)[:, :, None], first[:-1, :, None]
        slot = [torch.arange(size, device=bounds.device) for size in self.sizes[1:]]
        real = [one < length[:, kind] for kind, one in enumerate(slot)]
        # padding repeats the last entry of its batch
        source = [
            (first[:, kind] + torch.minimum(one, length[:, kind] - 1)).clamp_(min=0).flatten()
            for kind, one in enumerate(slot)
        ]
        order, keep = (one.index_select(0, whole.chosen) for one in (advantage.order, advantage.keep))
        ones = torch.ones_like(order)
        columns = [whole.drew, whole.sign, whole.order_log_prob, whole.keep_log_prob, order, keep, ones]
        self.columns.copy_(torch.stack(columns).index_select(1, source[0]).view_as(self.columns))
        self.columns[4:].mul_(real[0])
        _take(self.target_input, whole.target_input, source[0])
        _take(self.neighbour_input, whole.neighbour_input, source[2])
        _take(self.agreement, whole.agreement, source[1])
        self.count.copy_(length[:, 0, 0].clamp(min=1))
        taken = whole.taken.index_select(0, source[0]).view_as(self.taken) - first[:, 1]
        self.taken.copy_(torch.where(real[0], taken, slot[0] - length[:, 0] + length[:, 1]))
        owner, place = (
            values.index_select(0, source[1]).view_as(real[1]) - first[:, kind]
            for values, kind in ((whole.owner, 0), (whole.place, 2))
        )
        padded = length[:, 0] + (slot[1] - length[:, 1]) % (self.sizes.decisions - length[:, 0])
        self.links[0].copy_(torch.where(real[1], owner, padded))
        self.links[1].copy_(torch.where(real[1], place, 0))

    def begin_pass(self, order: Int[Tensor, "used"]) -> None:
        """Set the order of the next batches."""
        self.order[: order.numel()].copy_(order)
        self.position.zero_()

    def next(self) -> tuple[Batch, Advantages, Float[Tensor, "n"], Float[Tensor, "1"]]:
        """Return the next batch, its advantages, one for each decision that is not padded, and their number."""
        number = self.order.index_select(0, self.position)
        self.position.add_(1)
        columns = self.columns.index_select(1, number)[:, 0]
        owner, place = self.links.index_select(1, number)[:, 0]
        batch = self._batch(
            self._slots[: self.sizes.decisions],
            self.target_input.index_select(0, number)[0],
            columns,
            self.taken.index_select(0, number)[0],
            self.neighbour_input.index_select(0, number)[0],
            owner,
            place,
            self.agreement.index_select(0, number)[0],
        )
        worth = Advantages(columns[4], columns[5])
        return batch, worth, columns[6], self.count.index_select(0, number)

    def all(self) -> tuple[Batch, Float[Tensor, "n"]]:
        """Return all batches as one, and one for each decision that is not padded."""
        batches, decisions, pairs, candidates = self.sizes
        number = torch.arange(batches, device=self.order.device)[:, None]
        columns = self.columns.flatten(1)
        batch = self._batch(
            self._slots,
            self.target_input.flatten(0, 1),
            columns,
            (self.taken + number * pairs).flatten(),
            self.neighbour_input.flatten(0, 1),
            (self.links[0] + number * decisions).flatten(),
            (self.links[1] + number * candidates).flatten(),
            self.agreement.flatten(),
        )
        return batch, columns[6]

    def _batch(
        self,
        slots: Tensor,
        target_input: Tensor,
        columns: Tensor,
        taken: Tensor,
        neighbour_input: Tensor,
        owner: Tensor,
        place: Tensor,
        agreement: Tensor,
    ) -> Batch:
        drew, sign, order_log_prob, keep_log_prob = columns[:4]
        return Batch(
            self.play,
            self._begins,
            slots,
            target_input,
            drew == 0,
            drew,
            sign,
            order_log_prob,
            keep_log_prob,
            taken,
            neighbour_input,
            owner,
            place,
            agreement,
        )


def _take(out: Tensor, values: Tensor, source: Int[Tensor, "rows"]) -> None:
    """Write some rows into a stack of rows."""
    torch.index_select(values, 0, source, out=out.view(-1, *values.shape[1:]))
