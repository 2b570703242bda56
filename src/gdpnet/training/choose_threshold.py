"""Choose the threshold of the cleaned graph on validation nodes.

For each candidate a plain two-hop classifier is fitted to the cleaned graph, in place of the user's network.
Keeping everything is one of the candidates. The others must beat it by more than chance: on a few hundred
nodes the best of several is a little ahead even if cleaning does not help.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from gdpnet._core.csr import owners_of, sum_by_owner
from gdpnet._core.progress import advance, is_time_up
from gdpnet.config import ThresholdSettings
from gdpnet.data.prepare import Prepared
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import KEEP_ALL, Choice, edge_weights
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import Classification, Task, compare
from gdpnet.training.data import TrainingData


@torch.no_grad()
def choose_threshold(
    aggregators: Aggregators,
    data: TrainingData,
    train: Selected,
    whole: Selected,
    settings: ThresholdSettings,
    *,
    selection: bool,
) -> Choice:
    """Return the candidate with the best validation score; of equals the one that keeps more.

    Everything is kept unless the best is ahead by ``settings.margin`` standard deviations (`compare`). The first
    aggregator projects the nodes; ``train`` and ``whole`` are decisions on all edges, by a policy if ``selection``.
    """
    if not selection:
        return Choice(KEEP_ALL)
    if data.validation.numel() == 0:
        return Choice(settings.without_validation)
    graphs = [
        (
            chosen.prepared,
            aggregators.project_message(chosen.prepared.features, slice(0, 1))[:, 0],
            chosen.prepared.symmetrise(chosen.probability),
        )
        for chosen in (train, whole)
    ]
    scores, found = [], {}
    every = (KEEP_ALL, *settings.candidates)
    for number, threshold in enumerate(every):
        if number and is_time_up():
            break
        train_rows, whole_rows = (
            _propagate(rows, prepared, edge_weights(probability, threshold) * prepared.linked)
            for prepared, rows, probability in graphs
        )
        probabilities = _probabilities(
            train_rows[data.targets],
            data.labels[data.targets],
            whole_rows[data.validation],
            aggregators.classes,
            data.task,
            settings,
        )
        scores.append((threshold, data.task.quality(probabilities, data.validation_labels)))
        found[threshold] = probabilities
        advance(number + 1, len(every))
    best = max(scores, key=lambda pair: (pair[1], -pair[0]))[0]
    lead = compare(data.task, found[best], found[KEEP_ALL], data.validation_labels)
    is_better = lead.exceeds(settings.margin)
    metric = getattr(data.task, "metric", "score")
    return Choice(best if is_better else KEEP_ALL, tuple(scores), metric)


def _propagate(
    rows: Float[Tensor, "nodes width"], prepared: Prepared, weight: Float[Tensor, "edges"]
) -> Float[Tensor, "nodes width"]:
    """Return the weighted mean over each node and its neighbours, taken twice."""
    weight = prepared.weighed(weight)
    owner = owners_of(prepared.row_ptr.diff())
    whole = 1.0 + sum_by_owner(weight, owner, prepared.num_nodes)
    for _ in range(2):
        message = rows.index_select(0, prepared.neighbour) * weight[:, None]
        rows = (rows + sum_by_owner(message, owner, prepared.num_nodes)) / whole[:, None]
    return rows


@torch.enable_grad()
def _probabilities(
    rows: Float[Tensor, "train width"],
    labels: Shaped[Tensor, "train *any"],
    asked: Float[Tensor, "asked width"],
    classes: int,
    task: Task,
    settings: ThresholdSettings,
) -> Float[Tensor, "asked classes"]:
    """Fit a linear model (softmax regression for classes); return its predictions for ``asked``."""
    centre, scale = rows.mean(dim=0), rows.std(dim=0).clamp(min=1e-6)
    inputs = ((rows - centre) / scale).detach()
    everyone = torch.ones(len(rows), 1, dtype=torch.bool, device=rows.device)
    weight = torch.zeros(rows.shape[1], classes, device=rows.device, requires_grad=True)
    bias = torch.zeros(classes, device=rows.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=settings.steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        logits = inputs @ weight + bias
        if isinstance(task, Classification) and task.class_weights is None:
            fit = F.cross_entropy(logits, labels)
        else:
            fit = task.loss(logits[:, None], labels, everyone)
        value = fit + settings.penalty * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    scores = (((asked - centre) / scale) @ weight + bias).detach()
    return torch.softmax(scores, dim=1) if task.exclusive else torch.sigmoid(scores)
