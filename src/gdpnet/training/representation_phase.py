"""Phase two: train the aggregators on the selected neighbours."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.dropout import drop_values, take_and_drop
from gdpnet.data.features import Features, stack_rows, take_rows
from gdpnet.representation.aggregator import Aggregators
from gdpnet.training.data import TrainingData
from gdpnet.training.message_sums import Rows, rows_of, sum_projected
from gdpnet.training.padded_steps import can_pad, padded_steps
from gdpnet.training.selection_phase import play_once
from gdpnet.training.state import TrainingState


def representation_phase(
    state: TrainingState, data: TrainingData, config: Config, key: Key, selecting: bool
) -> tuple[Float[Tensor, ""], float | Tensor]:
    """Train the aggregators on the neighbours that the policy selects now, or on all.

    Returns the mean loss per fold model, and the share of the candidates that was selected.
    """
    train, selected, losses = data.train, data.train.linked > 0, []
    share: float | Tensor = 1.0
    settings, generator = config.representation, key.fold_in("batches").generator(data.targets.device)
    orders = [
        torch.randperm(data.targets.numel(), generator=generator, device=generator.device)
        for _ in range(settings.passes)
    ]
    parts = [part for order in orders for part in order.split(settings.batch_size)]
    steps = state.ranks.least(min(len(parts), settings.max_steps))
    batches = [data.targets[part] for part in parts[:steps]]
    # all targets, or different ones: those of the first pass alone
    targets = (
        torch.cat(batches) if len(batches) * settings.batch_size < data.targets.numel() else data.targets
    )
    targets = targets.sort().values
    if selecting:
        selected = play_once(state, data, config, targets, key.fold_in("selected"))[1]
        candidates = (train.row_ptr[targets + 1] - train.row_ptr[targets]).sum()
        share = selected.sum().double() / candidates.clamp(min=1)
    if state.replays is not None and can_pad(data, targets.numel()):
        key = key.fold_in("dropout")
        loss = padded_steps(state, data, settings, key, targets, selected, batches)
        state.projected = None  # by weights that have changed
        return loss / state.aggregators.fold_models, share
    rows = rows_of(data, targets, selected, state.aggregators.fold_models)
    weights = list(state.aggregators.parameters())
    for batch in batches:
        places = torch.searchsorted(targets, batch)
        loss = _batch_loss(state.aggregators, data, config.representation.dropout, rows, places, generator)
        state.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        state.ranks.average_gradients(weights)
        state.optimiser.step()
        losses.append(loss.detach())
    state.projected = None  # by weights that have changed
    return torch.stack(losses).mean().double() / state.aggregators.fold_models, share


def _batch_loss(
    aggregators: Aggregators,
    data: TrainingData,
    dropout: float,
    rows: Rows,
    places: Int[Tensor, "batch"],
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss of one batch."""
    own = take_and_drop(rows.own, places, dropout, generator)
    if rows.sums is None:
        projected, total = aggregators.project_own(own), sum_projected(aggregators, data.train, rows, places)
    else:
        projected, total = _project(aggregators, own, take_rows(rows.sums, places))
    hidden = aggregators.embed(projected, total, rows.weight[places], aggregators.bias)
    hidden = drop_values(hidden, dropout, generator)
    return data.task.loss(aggregators.logits(hidden), rows.truth[places], rows.learns[places])


def _project(aggregators: Aggregators, own: Features, sums: Features) -> tuple[Tensor, Tensor]:
    """Project the targets' own rows and their sums; in one product if they are alike and share their weights."""
    if aggregators.self_weight is not None or type(own) is not type(sums):
        return aggregators.project_own(own), aggregators.project_message(sums)
    projected, total = aggregators.project_message(stack_rows([own, sums])).split(own.shape[0])
    return projected, total
