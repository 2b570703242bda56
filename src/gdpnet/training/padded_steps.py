"""The steps of the aggregators with fixed shapes, which a GPU replays as CUDA graphs.

The last batch of a pass is padded with targets from which no fold model learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet._core.replay import Replayed, addresses, round_up, step_with
from gdpnet.config import RepresentationSettings
from gdpnet.data.dropout import drop_values
from gdpnet.representation.tasks import Classification, Clustering, MultiLabel, Partners, Task
from gdpnet.training.data import TrainingData
from gdpnet.training.message_sums import rows_of
from gdpnet.training.state import TrainingState

_MOST_VALUES = 1 << 29
"""Targets with more feature values than this, two gibibytes, are not copied."""

_TASKS = (Classification, Clustering, MultiLabel, Partners)


class DenseRows(NamedTuple):
    """The `gdpnet.training.message_sums.Rows` of targets whose features are dense."""

    own: Float[Tensor, "targets features"]
    sums: Float[Tensor, "targets features"]
    weight: Float[Tensor, "targets"]
    truth: Tensor
    learns: Bool[Tensor, "targets fold_models"]


def can_pad(data: TrainingData, targets: int) -> bool:
    """Return whether steps on some targets can be padded: dense features, few enough, and a task that allows it."""
    features = data.train.features
    fits = isinstance(features, Tensor) and targets * features.shape[1] <= _MOST_VALUES
    return fits and waits_for_nothing(data.task) and isinstance(data.train.neighbourhood, Tensor)


def waits_for_nothing(task: Task) -> bool:
    """Return whether a task's loss ignores targets that nobody learns from, and does not wait for the device."""
    return type(task) in _TASKS


class PaddedSteps:
    """A step of all fold models on the next batch, with tensors that are filled anew in every epoch."""

    def __init__(
        self,
        state: TrainingState,
        task: Task,
        settings: RepresentationSettings,
        rows: DenseRows,
        batches: Sequence[Int[Tensor, "_"]],
        stream: torch.cuda.Stream | None,
    ) -> None:
        self.aggregators, self.optimiser = state.aggregators, state.optimiser
        self.task, self.settings = task, settings
        self.weights = list(state.aggregators.parameters())
        most, device = round_up(rows.weight.numel()), rows.weight.device
        self.rows = DenseRows(*(column.new_zeros(most, *column.shape[1:]) for column in rows))
        self.order = torch.zeros(
            len(batches), _padded_size(batches, settings), dtype=torch.long, device=device
        )
        self.is_padding = torch.zeros_like(self.order, dtype=torch.bool)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.loss = torch.zeros((), dtype=torch.double, device=device)
        self.generator = torch.Generator(device)
        self.step = Replayed(self._step, stream, [self.generator] if settings.dropout else [])
        self.memory: tuple[object, ...] = ()

    def fits(
        self,
        state: TrainingState,
        task: Task,
        settings: RepresentationSettings,
        rows: DenseRows,
        batches: Sequence[Int[Tensor, "_"]],
    ) -> bool:
        """Return whether the step can be used again: same networks in the same memory, same constants."""
        needed, most = rows.weight.numel(), self.rows.weight.numel()
        held, size = self.order.shape
        return (
            self.aggregators is state.aggregators
            and self.optimiser is state.optimiser
            and self.task is task
            and self.settings == settings
            and needed <= most <= 2 * needed + 1024
            and len(batches) <= held
            and _padded_size(batches, settings) == size
            and self.memory == addresses(self.weights, self.optimiser)
        )

    def _step(self) -> None:
        """Take a gradient step on the next batch."""
        place = self.order.index_select(0, self.position)[0]
        is_padding = self.is_padding.index_select(0, self.position)[0]
        self.position.add_(1)
        own, sums, count, truth, learns = (column.index_select(0, place) for column in self.rows)
        with torch.enable_grad():
            logits = self._logits(own, sums, count)
            loss = self.task.loss(logits, truth, learns & ~is_padding[:, None])
            gradients = torch.autograd.grad(loss, self.weights, allow_unused=True)
        step_with(self.optimiser, self.weights, gradients)
        self.loss.add_(loss.detach())

    def _logits(self, own: Tensor, sums: Tensor, count: Tensor) -> Float[Tensor, "n fold_models classes"]:
        aggregators, dropout = self.aggregators, self.settings.dropout
        own = drop_values(own, dropout, self.generator)
        if aggregators.self_weight is None:  # one product of twice the rows
            projected, total = aggregators.project_message(torch.cat([own, sums])).split(own.shape[0])
        else:
            projected, total = aggregators.project_own(own), aggregators.project_message(sums)
        hidden = aggregators.embed(projected, total, count, aggregators.bias)
        return aggregators.logits(drop_values(hidden, dropout, self.generator))

    def run(self, rows: DenseRows, batches: Sequence[Int[Tensor, "_"]], key: Key) -> Float[Tensor, ""]:
        """Take one step per batch, a batch being numbers of rows; return the mean loss."""
        for column, filled in zip(self.rows, rows, strict=True):
            column[: filled.shape[0]].copy_(filled)
        size = self.order.shape[1]
        padded = [torch.nn.functional.pad(batch, (0, size - batch.numel()), value=-1) for batch in batches]
        order = torch.stack(padded)
        self.order[: len(batches)].copy_(order.clamp(min=0))
        self.is_padding[: len(batches)].copy_(order < 0)
        self.position.zero_()
        self.loss.zero_()
        self.generator.manual_seed(key.value)
        for _ in batches:
            self.step()
        self.memory = addresses(self.weights, self.optimiser)
        return self.loss / len(batches)


def _padded_size(batches: Sequence[Int[Tensor, "_"]], settings: RepresentationSettings) -> int:
    """Return the size of a padded batch; rounding errors depend on it, so it depends on the first batch alone."""
    return min(settings.batch_size, round_up(batches[0].numel()))


def padded_steps(
    state: TrainingState,
    data: TrainingData,
    settings: RepresentationSettings,
    key: Key,
    targets: Int[Tensor, "targets"],
    selected: Bool[Tensor, "edges"],
    batches: Sequence[Int[Tensor, "_"]],
) -> Float[Tensor, ""]:
    """Train the aggregators on batches of some targets, ascending nodes; return the mean loss."""
    assert state.replays is not None
    replays, found = state.replays, rows_of(data, targets, selected, state.aggregators.fold_models)
    assert isinstance(found.own, Tensor)  # as `can_pad` has seen to
    assert isinstance(found.sums, Tensor)
    rows = DenseRows(found.own, found.sums, found.weight, found.truth, found.learns)
    steps = replays.find(
        PaddedSteps,
        lambda kept: kept.fits(state, data.task, settings, rows, batches),
        lambda: PaddedSteps(
            state,
            data.task,
            settings,
            rows,
            batches,
            replays.stream_for(state.optimiser, rows.weight.device),
        ),
    )
    places = [torch.searchsorted(targets, batch) for batch in batches]
    return steps.run(rows, places, key)
