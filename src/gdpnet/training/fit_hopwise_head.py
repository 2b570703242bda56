"""Fit the hop-wise head to the selected neighbours, and decide on its weight in the ensemble.

The head may replace the aggregator, be averaged with it, or be left out. The choice is made on nodes whose labels
neither has learned: validation nodes, and training nodes as predicted by the fold models that left them out, all on
the whole graph. Validation nodes alone are often too few, and in the training graph nodes have fewer neighbours than
those to be predicted later. If label errors are suspected only validation nodes are used, since the aggregator had a
part in choosing the remaining training nodes. To replace the aggregator the head must be ahead by a wider margin than
to be averaged with it, since its best step was chosen on the same nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import sum_rows
from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet._core.significance import Lead, gains_and_losses, lead_of_counts
from gdpnet.config import Config, HopwiseSettings
from gdpnet.data.dropout import drop_values, take_and_drop
from gdpnet.data.features import Features, SparseRows, beside, take_rows
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import embed_fold_models, hop_features
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators, HopwiseNetwork
from gdpnet.representation.tasks import may_learn, metric_lead
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import HeldOutNodes, quality_and_likelihood
from gdpnet.training.padded_steps import waits_for_nothing

_AT_ONCE = 8192


@dataclass(frozen=True)
class HeadScore:
    """The ensemble with the head at one share, compared with the aggregator on held-out nodes."""

    share: float
    gains: int
    """Nodes that only the ensemble predicts right."""
    losses: int
    """Nodes that only the aggregator predicts right."""
    validation_f1: float
    margin: float
    """Standard deviations by which the ensemble must be ahead."""
    by_metric: Lead | None = None
    """The lead in a metric that is not about hits."""

    @property
    def lead(self) -> Lead:
        """Return how far the ensemble is ahead: in the task's metric, else in hits as in McNemar's test."""
        return self.by_metric or lead_of_counts(self.gains, self.losses)

    @property
    def is_better(self) -> bool:
        """Return whether the lead exceeds the margin."""
        return self.lead.exceeds(self.margin)


@dataclass(frozen=True)
class FittedHopwise:
    """A fitted head, the step of its best evaluation, and its scores at each share."""

    network: HopwiseNetwork
    steps: int
    scores: tuple[HeadScore, ...]

    @property
    def best(self) -> HeadScore | None:
        """Return the best share that is ahead of the aggregator by its margin, if there is one."""
        better = [one for one in self.scores if one.is_better]
        return max(better, key=lambda one: one.lead.difference, default=None)


def is_worth_hopwise(data: TrainingData, aggregators: Aggregators, config: Config) -> bool:
    """Return whether the head is wanted, can be evaluated on validation nodes, and is not too large."""
    columns = aggregators.fold_models * config.representation.width
    weights = (config.representation.hops + 1) * data.train.features.shape[1] * columns
    fits = weights <= config.hopwise.max_weights and _has_at_most(config.hopwise.max_values, data.whole)
    return config.hopwise.use and data.validation.numel() > 0 and fits


def _has_at_most(values: int, prepared: Prepared) -> bool:
    """Return whether the features of the widest hop may hold at most so many values; those around a hub fill up.

    Neighbourhood means are computed only if they may be too large: a mean has at most as many values as its rows
    together, and as there are columns.
    """
    features = prepared.features
    if isinstance(features, SparseRows) and not prepared.has_neighbourhood:
        length = features.row_ptr.diff().double()
        around = length + sum_rows(length[prepared.neighbour], prepared.row_ptr)
        if float(around.clamp(max=features.width)[prepared.neighbour].sum()) <= values:
            return True
    neighbourhood = prepared.neighbourhood
    if not isinstance(neighbourhood, SparseRows):
        return neighbourhood.numel() <= values
    return int(neighbourhood.row_ptr.diff()[prepared.neighbour].sum()) <= values


def fit_hopwise(
    aggregators: Aggregators, data: TrainingData, train: Selected, whole: Selected, config: Config, key: Key
) -> FittedHopwise:
    """Fit the head to the training nodes and their selected neighbours, and compare it with the aggregators.

    ``train`` and ``whole`` are decisions on all edges of the graph of training nodes, and of the whole graph.
    """
    mode, settings, task = config.inference.mode, config.hopwise, data.task
    # a copy, which takes the means of all neighbourhoods with it when it goes
    rows = _side_by_side(hop_features(replace(train.prepared), data.targets, train.weight(mode)))
    held_out = HeldOutNodes.of(data)
    prepared, weight = replace(whole.prepared), whole.weight(mode)
    some = held_out.spread_over(settings.max_evaluated)
    asked = _side_by_side(hop_features(prepared, some.nodes, weight))
    columns, hops = data.train.features.shape[1], config.representation.hops + 1
    shape = (columns, config.representation.width, aggregators.classes, aggregators.fold_models)
    network = HopwiseNetwork(*shape, hops=hops, exclusive=task.exclusive)
    network.initialise(key.fold_in("weights").generator())
    network = network.to(data.targets.device)
    step = _train(network, rows, asked, some, data, settings, key.fold_in("batches"))
    del rows, asked
    with torch.no_grad():
        places = torch.arange(held_out.nodes.numel(), device=held_out.nodes.device).split(_AT_ONCE)
        parts = [held_out.take(part) for part in places]
        given = [embed_fold_models(aggregators, prepared, part.nodes, weight)[1] for part in parts]
        before = held_out.probabilities(torch.cat(given))
        head = torch.cat(
            [_predict(network, hop_features(prepared, part.nodes, weight), part) for part in parts]
        )
    validation, scores = slice(0, data.validation.numel()), []
    for share in settings.shares:
        mean = torch.lerp(before, head, share)
        hits, other = (task.score(one, held_out.labels, "hit") for one in (mean, before))
        quality = task.quality(mean[validation], held_out.labels[validation])
        margin = settings.margin_alone if share == 1.0 else settings.margin_together
        lead = metric_lead(task, mean, before, held_out.labels)
        scores.append(HeadScore(share, *gains_and_losses(hits, other), quality, margin, lead))
    return FittedHopwise(network, step, tuple(scores))


def _train(
    network: HopwiseNetwork,
    rows: list[Features],
    asked: list[Features],
    held_out: HeldOutNodes,
    data: TrainingData,
    settings: HopwiseSettings,
    key: Key,
) -> int:
    """Train in place up to the best evaluation on held-out nodes; return its step."""
    labels, fold_model = data.labels[data.targets], data.fold_model[data.targets]
    longer = max(1.0, fold_model.numel() / settings.usual_nodes)
    device, draws = labels.device, key.generator(labels.device)
    is_replayed = waits_for_nothing(data.task) and all(isinstance(hop, Tensor) for hop in rows)

    def loss() -> Tensor:
        part = torch.randperm(fold_model.numel(), generator=draws, device=device)[: settings.batch_size]
        batch = [take_and_drop(hop, part, settings.dropout, draws) for hop in rows]
        hidden = drop_values(network.embed(batch), settings.dropout, draws)
        learns = may_learn(fold_model[part], network.fold_models)
        return data.task.loss(network.logits(hidden), labels[part], learns)

    return fit(
        network,
        network.adam(settings.learning_rate, settings.weight_decay),
        loss,
        lambda: quality_and_likelihood(data.task, _predict(network, asked, held_out), held_out.labels),
        steps=round(settings.steps * longer),
        evaluate_every=settings.evaluate_every,
        patience=round(settings.patience * longer),
        draws=[draws] if is_replayed else None,
    ).best_step


def _side_by_side(hops: list[Features]) -> list[Features]:
    """Return one table instead of several sparse ones on the host: one product is faster than one per hop."""
    sparse = [hop for hop in hops if isinstance(hop, SparseRows) and hop.device.type == "cpu"]
    return [beside(sparse)] if len(sparse) == len(hops) else hops


def _predict(
    network: HopwiseNetwork, hops: list[Features], held_out: HeldOutNodes
) -> Float[Tensor, "held classes"]:
    """Return the head's class probabilities of held-out nodes."""
    places = torch.arange(held_out.nodes.numel(), device=held_out.nodes.device).split(_AT_ONCE)
    if len(places) == 1:
        return held_out.probabilities(network.fold_probabilities(network.embed(hops)))
    taken = ([take_rows(hop, some) for hop in hops] for some in places)
    parts = [network.fold_probabilities(network.embed(part)) for part in taken]
    return held_out.probabilities(torch.cat(parts))
