"""What the steps of the aggregators know of their targets.

Messages are linear in the weights, so features are added up over the selected neighbours first, once per epoch for
all targets, and the sums are projected. A step then projects as many rows as it has targets, not as they have edges.
Around a hub that has many features of its own kind the sums would be large: then messages are projected first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet.data.features import Features, SparseRows, take_rows
from gdpnet.data.neighbour_sums import add_to_rows
from gdpnet.data.prepare import Prepared
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.sparse import Matrix, times
from gdpnet.representation.tasks import may_learn
from gdpnet.training.data import TrainingData

_MOST_VALUES = 1 << 23
"""Sums of sparse messages that may hold more values than this are not computed."""


class Mixing(NamedTuple):
    """How the messages of selected neighbours are added up; a target is taken out as in `share_of_target`."""

    rows: SparseRows
    """The weight of each node's neighbourhood in the sum of each target."""
    taken_out: Float[Tensor, "targets"] | None
    """The weight of the target's own features in it, below zero; None with one hop."""


class Rows(NamedTuple):
    """All that steps know of their targets, one row each."""

    own: Features
    sums: Features | None
    """The sum of the messages of the selected neighbours, before projection; None if it would be too large."""
    weight: Float[Tensor, "targets"]
    """The sum of the weights of these neighbours."""
    truth: Tensor
    learns: Bool[Tensor, "targets fold_models"]
    mixing: Mixing


@torch.no_grad()
def rows_of(
    data: TrainingData,
    targets: Int[Tensor, "targets"],
    selected: Bool[Tensor, "edges"],
    fold_models: int,
) -> Rows:
    """Return the rows of some targets, each with its selected neighbours."""
    own, learns = take_rows(data.train.features, targets), may_learn(data.fold_model[targets], fold_models)
    mixing, weight = mixing_of(data.train, targets, selected)
    sums = sum_messages(data.train, own, mixing) if _is_small(data.train.neighbourhood, mixing) else None
    return Rows(own, sums, weight, data.labels[targets], learns, mixing)


def _is_small(message: Features, mixing: Mixing) -> bool:
    """Return whether the sums hold few enough values; those of dense messages do, since the messages fit."""
    if not isinstance(message, SparseRows):
        return True
    length = message.row_ptr.diff()[mixing.rows.column].double()
    each = sum_by_owner(length, mixing.rows.row, mixing.rows.shape[0]).clamp(max=message.width)
    return float(each.sum()) <= _MOST_VALUES


def mixing_of(
    train: Prepared, targets: Int[Tensor, "targets"], selected: Bool[Tensor, "edges"]
) -> tuple[Mixing, Float[Tensor, "targets"]]:
    """Return how each target adds up the messages of its selected neighbours, and the sum of their weights."""
    start = train.row_ptr[targets]
    length = train.row_ptr[targets + 1] - start
    owner, edge = ranges(start, length)
    if (
        train.device.type == "cpu"
    ):  # on a GPU others get no weight, so that the host need not wait for their number
        kept = selected.index_select(0, edge)
        owner, edge = owner[kept], edge[kept]
        length = torch.bincount(owner, minlength=targets.numel())
    node = train.neighbour.index_select(0, edge)
    weight = selected.index_select(0, edge).float()
    weight = weight if train.graph_weight is None else weight * train.graph_weight.index_select(0, edge)
    count, taken_out = sum_by_owner(weight, owner, targets.numel()), None
    share = train.share_of_target(edge, node)
    if share is not None:
        own, whole = share
        weight = weight / (whole - own).clamp(min=0.5)
        taken_out = -sum_by_owner(weight * own, owner, targets.numel())
        weight = weight * whole
    return Mixing(SparseRows(offsets_of(length), node, weight, train.num_nodes), taken_out), count


def sum_messages(train: Prepared, own: Features, mixing: Mixing) -> Features:
    """Return the sum of the messages that each target gets; ``own`` are the targets' features."""
    rows = mixing.rows
    return add_to_rows(own, mixing.taken_out, train.neighbourhood, rows.row_ptr, rows.column, rows.value)


def sum_projected(
    aggregators: Aggregators, train: Prepared, rows: Rows, places: Int[Tensor, "batch"]
) -> Float[Tensor, "batch fold_models width"]:
    """Return the sum of the projected messages of some targets, given by their places among the rows."""
    mixing = rows.mixing.rows.take(places)
    nodes, column = torch.unique(mixing.column, return_inverse=True)
    message = aggregators.project_message(take_rows(train.neighbourhood, nodes))
    table = Matrix.of(SparseRows(mixing.row_ptr, column, mixing.value, nodes.numel()), places.device)
    total = times(table, message.flatten(1)).unflatten(1, message.shape[1:])
    if rows.mixing.taken_out is None:
        return total
    alone = aggregators.project_message(take_rows(rows.own, places))
    return total + rows.mixing.taken_out[places][:, None, None] * alone
