"""Choose the threshold of the cleaned graph on validation nodes.

For each candidate a plain two-hop classifier is fitted to the cleaned graph, in place of the user's network.
Keeping everything is one of the candidates. The others must beat it by more than chance: on a few hundred
nodes the best of several is a little ahead even if cleaning does not help. For the same reason the best of the others
is not used, but the one that keeps most edges of those that are not clearly worse than the best.

Validation nodes may be spared by whoever added the edges, or be too few to tell. So if much of the graph looks like
noise, genuine probabilities decide among the candidates that are not clearly worse than this choice, and that remove
noise rather than edges at random.

Candidates are keep probabilities. Where all probabilities are close to 0 or 1 these keep the same edges, or none. So
thresholds that keep given shares of the edges are tried too, and none that keeps nearly nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.progress import advance, is_time_up
from gdpnet.config import ThresholdSettings
from gdpnet.data.neighbour_sums import mix_dense
from gdpnet.data.prepare import Prepared
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import (
    KEEP_ALL,
    Choice,
    edge_weights,
    guarded,
    share_kept,
    threshold_of_share,
)
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.head_product import multiply_heads
from gdpnet.representation.tasks import Task, compare
from gdpnet.training.data import TrainingData
from gdpnet.training.spared import noise_that_spares

_APART = 0.095
"""Difference in the share of edges kept from which two thresholds are not about the same."""


@torch.no_grad()
def choose_threshold(
    aggregators: Aggregators,
    data: TrainingData,
    train: Selected,
    whole: Selected,
    settings: ThresholdSettings,
    *,
    selection: bool,
    genuine: Float[Tensor, "edges"] | None = None,
) -> Choice:
    """Return the candidate that keeps most edges and is not clearly worse on validation nodes than the best one.

    It must also be clearly better than keeping everything: by ``settings.margin`` standard deviations (`compare`). Of
    all that are not clearly worse than it, `removing_noise` chooses by the ``genuine`` probabilities of all edges, if
    they are known; noise costs more if it spares the validation nodes.
    The first aggregator projects the nodes; ``train`` and ``whole`` are decisions on all edges, by a policy if
    ``selection``. Pseudo-labels are not used: the user's network will not have them.
    """
    if not selection:
        return Choice(KEEP_ALL)
    of_edges = whole.prepared.on_edges(whole.prepared.symmetrise(whole.probability))
    if data.validation.numel() == 0:
        return guarded(of_edges, settings.without_validation, settings.min_kept)
    graphs = [
        (
            chosen.prepared,
            aggregators.project_message(chosen.prepared.features, slice(0, 1))[:, 0],
            chosen.prepared.symmetrise(chosen.probability),
        )
        for chosen in (train, whole)
    ]
    labelled = data.targets if data.is_pseudo is None else data.targets[~data.is_pseudo[data.targets]]
    targets = _some_targets(labelled, settings.max_targets)
    probe = _Probe(data.labels[targets].cpu(), aggregators.width, aggregators.classes, data.task, settings)
    scores, found = [], {}
    every = candidates_for(of_edges, settings)
    for number, threshold in enumerate(every):
        if number and is_time_up():
            break
        train_rows, whole_rows = (
            _propagate(rows, prepared, edge_weights(probability, threshold) * prepared.linked)
            for prepared, rows, probability in graphs
        )
        fitted = probe.fit(train_rows[targets].cpu(), whole_rows[data.validation].cpu())
        probabilities = fitted.to(data.validation.device)
        scores.append((threshold, data.task.quality(probabilities, data.validation_labels)))
        found[threshold] = probabilities
        advance(number + 1, len(every))
    metric = getattr(data.task, "metric", "score")

    @cache  # a metric other than micro-F1 takes a bootstrap
    def is_ahead(mine: float, other: float) -> bool:
        return compare(data.task, found[mine], found[other], data.validation_labels).exceeds(settings.margin)

    best = max(scores, key=lambda pair: (pair[1], -pair[0]))[0]
    good = [one for one in found if is_ahead(one, KEEP_ALL) and not is_ahead(best, one)]
    usual = min(good) if is_ahead(best, KEEP_ALL) else KEEP_ALL
    if genuine is None:
        return Choice(usual, tuple(scores), metric)
    harmless = [threshold for threshold in found if not is_ahead(usual, threshold)]
    spared = noise_that_spares(genuine, whole.prepared, data.validation, settings)
    cost = 1.0 if spared is None else settings.spared_weight
    threshold, noise_share = removing_noise(of_edges, genuine, usual, harmless, settings, cost)
    return Choice(threshold, tuple(scores), metric, noise_share=noise_share, spared=spared)


def removing_noise(
    probability: Float[Tensor, "edges"],
    genuine: Float[Tensor, "edges"],
    usual: float,
    harmless: Sequence[float],
    settings: ThresholdSettings,
    cost: float = 1.0,
) -> tuple[float, float | None]:
    """Return the threshold that keeps most genuine and fewest spurious edges, and the share of noise in the graph.

    With g the genuine probability, it has the largest sum of g - ``cost`` (1 - g) over the kept edges. Only
    ``harmless`` thresholds count, which are not clearly worse on validation nodes than the ``usual`` one. And they
    must remove a share of the noise that is ``settings.min_lift`` times the share of genuine edges that they remove:
    where keep probabilities hardly tell one from the other, nothing is gained by removing many of both.

    The usual one is used, and no share returned, if the share of noise, the mean of 1 - g, is below
    ``settings.min_noise``, or if no other has a larger sum.
    """
    noise_share = float(1.0 - genuine.double().mean()) if genuine.numel() else 0.0
    if noise_share < settings.min_noise:
        return usual, None
    chance = genuine.double()

    def removed(of: Float[Tensor, "edges"], threshold: float) -> float:
        return float(of[probability < threshold].sum() / of.sum().clamp(min=1e-12))

    def tells(threshold: float) -> bool:
        lost = removed(chance, threshold)
        return removed(1.0 - chance, threshold) >= settings.min_lift * lost

    chosen = max(
        (usual, *sorted(filter(tells, harmless))),
        key=lambda threshold: float((chance - cost * (1.0 - chance))[probability >= threshold].sum()),
    )
    return chosen, noise_share if chosen != usual else None


def candidates_for(probability: Float[Tensor, "edges"], settings: ThresholdSettings) -> tuple[float, ...]:
    """Return the thresholds to try, given the keep probability of every edge; keeping everything is the first.

    Those of the settings are tried if they keep enough edges. A threshold that keeps a share of the edges is added if
    no other keeps about as many.
    """
    kept = {KEEP_ALL: 1.0}
    for threshold in settings.candidates:
        share = share_kept(probability, threshold)
        if share >= settings.min_kept:
            kept[threshold] = share
    for wanted in settings.shares:
        threshold = threshold_of_share(probability, wanted)
        share = share_kept(probability, threshold)
        is_new = min(abs(share - other) for other in kept.values()) > _APART
        if is_new and share >= settings.min_kept:
            kept[threshold] = share
    return tuple(sorted(kept))


def _some_targets(targets: Int[Tensor, "targets"], most: int) -> Int[Tensor, "some"]:
    """Return at most this many of the targets, evenly spread."""
    step = max(1, -(-targets.numel() // most))
    return targets[::step]


def _propagate(
    rows: Float[Tensor, "nodes width"], prepared: Prepared, weight: Float[Tensor, "edges"]
) -> Float[Tensor, "nodes width"]:
    """Return the weighted mean over each node and its neighbours, taken twice."""
    weight = prepared.weighed(weight)
    for _ in range(2):
        rows = mix_dense(rows, rows, prepared.row_ptr, prepared.neighbour, weight)
    return rows


class _Probe:
    """A linear model (softmax regression for classes), fitted on the host; each fit starts from the one before."""

    def __init__(
        self,
        labels: Shaped[Tensor, "train *any"],
        width: int,
        classes: int,
        task: Task,
        settings: ThresholdSettings,
    ) -> None:
        self.labels, self.task, self.settings = labels, task, settings
        self.weight = torch.zeros(width, classes, requires_grad=True)
        self.bias = torch.zeros(classes, requires_grad=True)
        self.everyone = torch.ones(len(labels), 1, dtype=torch.bool)

    @torch.enable_grad()
    def fit(
        self, rows: Float[Tensor, "train width"], asked: Float[Tensor, "asked width"]
    ) -> Float[Tensor, "asked classes"]:
        """Fit the model to some rows; return its predictions for ``asked``."""
        centre, scale = rows.mean(dim=0), rows.std(dim=0).clamp(min=1e-6)
        inputs = ((rows - centre) / scale).detach()
        optimiser = torch.optim.LBFGS(
            [self.weight, self.bias],
            max_iter=self.settings.steps,
            tolerance_grad=1e-5,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = self._loss(inputs) + self.settings.penalty * self.weight.square().sum()
            value.backward()
            return value

        optimiser.step(loss)
        scores = (((asked - centre) / scale) @ self.weight + self.bias).detach()
        return torch.softmax(scores, dim=1) if self.task.exclusive else torch.sigmoid(scores)

    def _loss(self, inputs: Float[Tensor, "train width"]) -> Float[Tensor, ""]:
        logits = multiply_heads(inputs[:, None], self.weight[None]) + self.bias
        return self.task.loss(logits, self.labels, self.everyone)
