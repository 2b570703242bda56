"""Finalise a trained model: decide on all edges once, choose the threshold, and fit the other networks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import Ensemble, HeadWeights
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected, select
from gdpnet.inference.threshold import KEEP_ALL, Choice
from gdpnet.training.choose_threshold import choose_threshold
from gdpnet.training.data import TrainingData
from gdpnet.training.fit_gcn_head import fit_gcn, is_worth_gcn
from gdpnet.training.fit_hopwise_head import fit_hopwise, is_worth_hopwise


@dataclass(frozen=True)
class Finalised:
    """What was chosen after training. Networks that were fitted are part of the module that was handed over."""

    threshold: Choice
    weights: HeadWeights = field(default_factory=HeadWeights)
    selects: bool = True
    """Whether link prediction weights edges by their keep probability, rather than all alike."""
    score: float | None = None
    """The validation score of the final model, if it differs from that of the best epoch."""


def finalise_labelled(networks: Networks, data: TrainingData, config: Config, key: Key) -> Finalised:
    """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
    aggregators, score = networks.aggregators, None
    train = decide_all(networks, data.train, config, key, data.fold_model)
    whole = decide_all(networks, data.whole, config, key, data.fold_model_in_whole)
    selection = networks.policy is not None
    choice = choose_threshold(aggregators, data, train, whole, config.threshold, selection=selection)
    weights = HeadWeights()
    if is_worth_hopwise(data, aggregators, config):
        hopwise = fit_hopwise(aggregators, data, train, whole, config, key.fold_in("hopwise"))
        if hopwise.best is not None:
            networks.hopwise, score = hopwise.network, hopwise.best.validation_f1
            weights = weights.with_hopwise(hopwise.best.share)
    if is_worth_gcn(data, config):
        ensemble = Ensemble(networks, weights, choice.threshold)
        before = ensemble.local(whole.prepared, data.validation, whole.weight(config.inference.mode))[1]
        gcn = fit_gcn(data, train, whole, choice.threshold, before, config, key.fold_in("gcn"))
        if gcn.is_accepted:
            networks.gcn, score = gcn.network, gcn.validation_f1
            weights = weights.with_gcn(config.gcn.weight)
    return Finalised(choice, weights, score=score)


def decide_all(
    networks: Networks, prepared: Prepared, config: Config, key: Key, fold_model: Int[Tensor, "nodes"]
) -> Selected:
    """Decide on every edge, each target seen by the fold model that has not learned its label."""
    all_nodes = torch.arange(prepared.num_nodes, device=prepared.device)
    stream = key.fold_in("finalise")
    return select(networks.policy, networks.aggregators, prepared, all_nodes, config, stream, fold_model)


def kept_edges(networks: Networks, data: TrainingData, config: Config, key: Key) -> Float[Tensor, "edges"]:
    """Return the keep probability of every edge of the whole graph, equal in both directions."""
    chosen = decide_all(networks, data.whole, config, key, data.fold_model_in_whole)
    return data.whole.symmetrise(chosen.probability)


def default_threshold(networks: Networks, config: Config) -> Choice:
    """Return the threshold if no label says which is best."""
    return Choice(KEEP_ALL if networks.policy is None else config.threshold.without_validation)
