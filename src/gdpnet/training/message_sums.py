"""What the steps of the aggregators know of their targets.

Messages are linear in the weights, so features are added up over the selected neighbours first, once per epoch for
all targets, and the sums are projected. A step then projects as many rows as it has targets, not as they have edges.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet.data.features import Features, take_rows
from gdpnet.data.neighbour_sums import add_to_rows
from gdpnet.data.prepare import Prepared
from gdpnet.representation.tasks import may_learn
from gdpnet.training.data import TrainingData


class Rows(NamedTuple):
    """All that steps know of their targets, one row each."""

    own: Features
    sums: Features
    """The sum of the messages of the selected neighbours, before projection."""
    weight: Float[Tensor, "targets"]
    """The sum of the weights of these neighbours."""
    truth: Tensor
    learns: Bool[Tensor, "targets fold_models"]


def rows_of(
    data: TrainingData,
    targets: Int[Tensor, "targets"],
    selected: Bool[Tensor, "edges"],
    fold_models: int,
) -> Rows:
    """Return the rows of some targets, each with its selected neighbours."""
    own, learns = take_rows(data.train.features, targets), may_learn(data.fold_model[targets], fold_models)
    return Rows(own, *sum_messages(data.train, targets, selected), data.labels[targets], learns)


@torch.no_grad()
def sum_messages(
    train: Prepared, targets: Int[Tensor, "targets"], selected: Bool[Tensor, "edges"]
) -> tuple[Features, Float[Tensor, "targets"]]:
    """Return for each target the weighted sum of its selected neighbours' messages, and the sum of the weights.

    The target is taken out of each message, as in `Prepared.share_of_target`.
    """
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
    links = (offsets_of(length), node, weight)
    return add_to_rows(take_rows(train.features, targets), taken_out, train.neighbourhood, *links), count
