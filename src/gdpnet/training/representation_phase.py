"""Phase two: train the aggregators on the selected neighbours."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.features import Features, drop_inputs, drop_values, stack_rows, take_rows
from gdpnet.data.prepare import message_to_target
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.representation.tasks import may_learn
from gdpnet.training.data import TrainingData
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
    weights = list(state.aggregators.parameters())
    for targets in batches:
        start = train.row_ptr[targets]
        owner, edge = ranges(start, train.row_ptr[targets + 1] - start)
        kept = selected[edge]
        loss = _batch_loss(state.aggregators, data, config, generator, targets, owner[kept], edge[kept])
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
    config: Config,
    generator: torch.Generator,
    targets: Int[Tensor, "batch"],
    owner: Int[Tensor, "kept"],
    edge: Int[Tensor, "kept"],
) -> Float[Tensor, ""]:
    """Return the loss of one batch, projecting only the rows that it needs."""
    dropout, train = config.representation.dropout, data.train
    own_rows = take_rows(train.features, targets)
    nodes, place = torch.unique(train.neighbour[edge], return_inverse=True)
    messages = [take_rows(train.neighbourhood, nodes)]
    if train.mean_weight is not None:
        messages.append(own_rows)
    own, sent, *alone = _project_all(aggregators, drop_inputs(own_rows, dropout, generator), messages)
    # unlike indexing with brackets, index_select adds up gradients in a fixed order
    message = sent.index_select(0, place)
    if train.mean_weight is not None:
        share = train.share_of_target(edge, train.neighbour[edge])
        message = message_to_target(message, alone[0].index_select(0, owner), share)
    weight = None if train.graph_weight is None else train.graph_weight[edge]
    total, weight = add_neighbours(message, owner, weight, targets.numel())
    hidden = aggregators.embed(own, total, weight, aggregators.bias)
    hidden = drop_values(hidden, dropout, generator)
    learns = may_learn(data.fold_model[targets], aggregators.fold_models)
    return data.task.loss(aggregators.logits(hidden), data.labels[targets], learns)


def _project_all(aggregators: Aggregators, own: Features, messages: list[Features]) -> list[Tensor]:
    """Project the targets' own rows and some messages; in one product if they share their weights."""
    if aggregators.self_weight is not None:
        return [aggregators.project_own(own), *(aggregators.project_message(one) for one in messages)]
    parts = [own, *messages]
    return list(aggregators.project_message(stack_rows(parts)).split([part.shape[0] for part in parts]))
