"""The steps of the policy's update on CPUs, compiled by numba and without automatic differentiation.

They give what `gdpnet.selection.update` computes with PyTorch, up to rounding. The sums of a batch are split into
lanes, whose bounds depend on the batch alone: the number of threads changes no result.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gdpnet._core.device import has_numba
from gdpnet._core.ranks import Ranks
from gdpnet._core.threads import Team
from gdpnet.config import PPOSettings
from gdpnet.selection.buffer import cut_bounds
from gdpnet.selection.compiled_gather import Gathered, array_of
from gdpnet.selection.engines.numba_update_arrays import (
    CHUNK,
    HALF_COLUMNS,
    HALF_ROWS,
    HIDDEN_COLUMNS,
    LEARN,
    MEASURE,
    RECORD,
    Decisions,
    Gradients,
    Layout,
    Parameters,
    Weights,
    round_up,
)
from gdpnet.selection.policy import SCORE_BOUND, Policy

_MOST_LANES = 16
_LANE_WORK = 1200
"""Least work of a lane; adding up the gradients of shorter lanes would take too long."""

_CANDIDATE_WORK = 4
"""Work of a candidate and its decision, if that of a pair is one."""


def can_compile(policy: Policy, settings: PPOSettings) -> bool:
    """Return whether the compiled steps can update a policy: on the CPU, in single precision, with numba."""
    weight = policy.target_weight
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and all(one.is_contiguous() for one in policy.parameters())
        and settings.entropy == 0.0
        and has_numba()
    )


class CompiledSteps:
    """The steps of an update on a gathered roll-out: a gradient step on one batch, and the mean KL."""

    def __init__(
        self,
        policy: Policy,
        optimiser: torch.optim.Optimizer,
        gathered: Gathered,
        settings: PPOSettings,
        team: Team,
        ranks: Ranks | None = None,
    ) -> None:
        from gdpnet.selection.engines import numba_update_kernel, numba_weights_kernel

        self.run_lanes = numba_update_kernel.run_lanes
        self.lay_out, self.scale = numba_weights_kernel.lay_out, numba_weights_kernel.scale
        self.add_up = numba_weights_kernel.add_up
        self.optimiser, self.team, self.ranks = optimiser, team, ranks or Ranks()
        begins, inputs, given = gathered
        self.can_end = given.can_end
        bounds = cut_bounds(begins, settings.batch_size).numpy()
        self.decisions: list[int] = np.diff(bounds[:, 0]).tolist()
        chunks, lane_chunk, self.batch_lane = _split(begins.numpy(), bounds)
        layout = _layout(given, chunks, lane_chunk)
        self.total = np.zeros(len(lane_chunk) - 1)
        self.tensors = list(policy.parameters())
        self.parameters = Parameters(*(array_of(weight) for weight in self.tensors))
        self.weights = _weights(policy)
        self.gradients = _gradients(self.weights, int(np.diff(self.batch_lane).max()))
        self.flat = torch.zeros(sum(weight.numel() for weight in self.tensors))
        parts = self.flat.split([weight.numel() for weight in self.tensors])
        found = [part.view_as(weight) for part, weight in zip(parts, self.tensors, strict=True)]
        self.gradient = Parameters(*(array_of(part) for part in found))
        self.arrays = (layout, inputs, given, self.weights, self.gradients, self.total)
        self.half = np.zeros(policy.first_bias.numel(), np.float32)
        for weight, part in zip(self.tensors, found, strict=True):
            unused = part.numel() == 0 or (weight is policy.ending and not self.can_end)
            weight.grad = None if unused else part
        if given.learned:  # in a random order the roll-out has recorded all scores
            self._run(RECORD, 0, len(lane_chunk) - 1)

    def step(self, number: int, decisions: int) -> Tensor:
        """Take one gradient step on a batch, which all ranks together have so many decisions of; return its loss."""
        first, last = self.batch_lane[number : number + 2]
        self._run(LEARN, first, last)
        self.add_up(self.gradients, last - first, self.parameters, self.gradient, self.half, self.can_end)
        self.ranks.add_up(self.flat)
        self.scale(self.flat.numpy(), -1.0 / decisions, 1.0)
        self.optimiser.step()
        return torch.tensor(self.total[first:last].sum() * (-1.0 / self.decisions[number]))

    def mean_kl(self) -> float:
        """Return the exact KL of the joint action, averaged over all decisions."""
        # relu and the bound of scores could hide an infinite weight
        if not all(bool(weight.isfinite().all()) for weight in self.tensors):
            return float("nan")
        self._run(MEASURE, 0, self.batch_lane[-1])
        total, decisions = self.ranks.add(float(self.total.sum()), sum(self.decisions))
        return total / decisions

    def _run(self, task: int, first: int, last: int) -> None:
        """Do a task with a range of lanes, in all threads."""
        self.lay_out(self.parameters, self.weights, self.can_end)
        self.team.run(lambda begin, end: self.run_lanes(task, first, begin, end, *self.arrays), first, last)


def _split(begins: NDArray, bounds: NDArray) -> tuple[NDArray, NDArray, list[int]]:
    """Split batches into lanes, and those into chunks of whole episodes.

    Return where the decisions, pairs, candidates and states of each chunk begin, the first chunk of each lane, and
    the first lane of each batch.
    """
    episode = begins[:-1]
    batch = np.searchsorted(bounds[1:, 2], episode[:, 2], side="right")
    group = (episode[:, 2] - bounds[batch, 2]) // CHUNK
    first = np.flatnonzero(np.diff(batch, prepend=-1) | np.diff(group, prepend=-1))
    chunks = np.concatenate([begins[first], begins[-1:]])
    batch = batch[first]
    work = _CANDIDATE_WORK * chunks[:, 2] + chunks[:, 1]
    start = np.searchsorted(batch, np.arange(len(bounds)))
    total = np.diff(work[start])
    lanes = np.clip(total // _LANE_WORK, 1, _MOST_LANES)
    lane = (work[:-1] - work[start[batch]]) * lanes[batch] // total[batch] + batch * _MOST_LANES
    lane_chunk = np.flatnonzero(np.diff(lane, prepend=-1))
    batch_lane = np.searchsorted(batch[lane_chunk], np.arange(len(bounds)))
    return chunks, np.append(lane_chunk, len(first)), batch_lane.tolist()


def _layout(given: Decisions, chunks: NDArray, lane_chunk: NDArray) -> Layout:
    """Return how the kernel walks over a roll-out."""
    chunk_state = np.ascontiguousarray(chunks[:, 3])
    sizes = np.diff(given.decision_pair if given.learned else given.state_decision)
    return Layout(
        lane_chunk,
        chunk_state,
        np.ascontiguousarray(chunks[:, 2]),
        int(sizes.max()) + 1,
        int(np.diff(chunk_state).max()),
        int(np.diff(chunks[:, 2]).max()),
    )


def _weights(policy: Policy) -> Weights:
    """Allocate the weights as products read them."""
    first, second = policy.hidden_weight.shape
    columns, wide = round_up(first, HALF_COLUMNS), round_up(second, HIDDEN_COLUMNS)
    target, neighbour = policy.target_weight.shape[0], policy.neighbour_weight.shape[0]
    shapes = (
        (target, columns),
        (neighbour, columns),
        columns,
        columns,
        columns,
        (columns, wide),
        (wide, columns),
    )
    arrays = (np.zeros(shape, np.float32) for shape in (*shapes, wide, wide, 1))
    return Weights._make((*arrays, first, second, np.float32(SCORE_BOUND)))


def _gradients(weights: Weights, lanes: int) -> Gradients:
    """Allocate the gradients of some lanes."""
    columns, wide = weights.bias.size, weights.hidden_bias.size
    inputs = (round_up(matrix.shape[0], HALF_ROWS) for matrix in (weights.target, weights.neighbour))
    sizes = *(rows * columns for rows in inputs), columns * wide, columns, columns, columns, wide, wide, 1
    return Gradients(*(np.zeros((lanes, size), np.float32) for size in sizes))
