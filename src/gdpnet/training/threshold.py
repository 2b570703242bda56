"""How sure is sure enough: the threshold of the cleaned graph, chosen on validation nodes.

Each candidate cleans the graph, and a plain two-hop classifier is fitted to what is left, in place of the network
that the user will give it to. Keeping everything is one of the candidates, and the others must beat it by more than
chance: the best of several is a little ahead on a few hundred nodes even where cleaning does not help.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from gdpnet._core.csr import owners_of, sum_by_owner
from gdpnet._core.significance import gains_and_losses, is_ahead
from gdpnet.data.prepare import Prepared
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import KEEP_ALL, WITHOUT_VALIDATION, Choice, edge_weights
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import CLASSIFICATION, Classification, Task
from gdpnet.training.data import Scene

CANDIDATES = (KEEP_ALL, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)

_PENALTY = 1e-3
_STEPS = 60


@torch.no_grad()
def choose_threshold(
    aggregators: Aggregators, scene: Scene, train: Selected, whole: Selected, *, selection: bool
) -> Choice:
    """Try every candidate on the training graph and the validation nodes; of equals the one that keeps more.

    Everything is kept unless the best is ahead by a deviation of the nodes on which the two differ.

    Args:
        aggregators: the trained bank; its first member projects the nodes.
        scene: what training sees.
        train: what the policy selected on the training graph, for every node.
        whole: what it selected on the whole graph, for every node.
        selection: whether there was a policy.
    """
    if not selection:
        return Choice(KEEP_ALL)
    if scene.validation.numel() == 0:
        return Choice(WITHOUT_VALIDATION)
    worlds = [
        (
            chosen.prepared,
            aggregators.project_given(chosen.prepared.features, slice(0, 1))[:, 0],
            chosen.prepared.both_ways(chosen.probability),
        )
        for chosen in (train, whole)
    ]
    scores, hits = [], {}
    for threshold in CANDIDATES:
        learned, asked = (
            _propagate(rows, prepared, edge_weights(probability, threshold) * prepared.linked)
            for prepared, rows, probability in worlds
        )
        found = _believe(
            learned[scene.targets],
            scene.labels[scene.targets],
            asked[scene.validation],
            aggregators.classes,
            scene.task,
        )
        scores.append((threshold, scene.task.quality(found, scene.validation_labels)))
        hits[threshold] = scene.task.score(found, scene.validation_labels, "hit")
    best = max(scores, key=lambda pair: (pair[1], -pair[0]))[0]
    clearly = is_ahead(*gains_and_losses(hits[best], hits[KEEP_ALL]), deviations=1.0)
    return Choice(best if clearly else KEEP_ALL, tuple(scores))


def _propagate(
    rows: Float[Tensor, "nodes width"], prepared: Prepared, weight: Float[Tensor, "edges"]
) -> Float[Tensor, "nodes width"]:
    """Take the weighted mean over each node and its neighbours, twice."""
    weight = prepared.weighed(weight)
    owner = owners_of(prepared.row_ptr.diff())
    whole = 1.0 + sum_by_owner(weight, owner, prepared.num_nodes)
    for _ in range(2):
        given = rows.index_select(0, prepared.neighbour) * weight[:, None]
        rows = (rows + sum_by_owner(given, owner, prepared.num_nodes)) / whole[:, None]
    return rows


@torch.enable_grad()
def _believe(
    rows: Float[Tensor, "train width"],
    labels: Shaped[Tensor, "train *any"],
    asked: Float[Tensor, "asked width"],
    classes: int,
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "asked classes"]:
    """Fit a linear model, a softmax regression for classes, and return its beliefs about the rows asked for."""
    centre, scale = rows.mean(dim=0), rows.std(dim=0).clamp(min=1e-6)
    inputs = ((rows - centre) / scale).detach()
    weight = torch.zeros(rows.shape[1], classes, device=rows.device, requires_grad=True)
    bias = torch.zeros(classes, device=rows.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = _plain_loss(task, inputs @ weight + bias, labels) + _PENALTY * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    scores = (((asked - centre) / scale) @ weight + bias).detach()
    return torch.softmax(scores, dim=1) if task.exclusive else torch.sigmoid(scores)


def _plain_loss(
    task: Task, logits: Float[Tensor, "train classes"], labels: Shaped[Tensor, "train *any"]
) -> Float[Tensor, ""]:
    if isinstance(task, Classification):
        return F.cross_entropy(logits, labels)
    everyone: Bool[Tensor, "train 1"] = torch.ones(len(logits), 1, dtype=torch.bool, device=logits.device)
    return task.loss(logits[:, None], labels, everyone)
