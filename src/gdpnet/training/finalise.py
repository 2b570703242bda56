"""What follows training: all edges are decided on once more, and what the task needs is fitted to that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import represent
from gdpnet.inference.select import Selected, select
from gdpnet.inference.threshold import KEEP_ALL, WITHOUT_VALIDATION, Choice
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.gcn import Convolutions
from gdpnet.representation.hopwise import Reader
from gdpnet.representation.infomax import Encoder
from gdpnet.representation.propagation import Linker
from gdpnet.selection.policy import Policy
from gdpnet.training.data import Scene
from gdpnet.training.gcn_head import fit_convolutions, is_worth_convolutions
from gdpnet.training.hopwise_head import fit_reader, is_worth_a_reader
from gdpnet.training.links import fit_linker
from gdpnet.training.threshold import choose_threshold
from gdpnet.training.unsupervised import encoder_over, group_rows, spread_rows

_SEED = 1 << 21
"""Seed of the decisions that all is chosen on."""


@dataclass(frozen=True)
class Conclusion:
    """What was chosen and fitted after training."""

    threshold: Choice
    reader: Reader | None = None
    convolutions: Convolutions | None = None
    linker: Linker | None = None
    encoder: Encoder | None = None
    centres: Tensor | None = None
    selects: bool = True
    """Whether links are foretold from what is kept, rather than from all links alike."""
    score: float | None = None
    """How it does on validation, where it has the say from now on."""


def conclude_labelled(
    policy: Policy | None, bank: Aggregators, scene: Scene, config: Config, seed: int
) -> Conclusion:
    """Choose the threshold of the cleaned graph, and fit readers, which have a say if that reads better."""
    train = _all_edges(policy, bank, scene.train, config, scene.member)
    whole = _all_edges(policy, bank, scene.whole, config, scene.member_in_whole)
    threshold = choose_threshold(bank, scene, train, whole, selection=policy is not None)
    concluded = Conclusion(threshold)
    if is_worth_a_reader(scene, bank, config):
        found = fit_reader(bank, scene, train, whole, config, seed)
        if found.best is not None:
            found.reader.share.fill_(found.best.share)
            concluded = replace(concluded, reader=found.reader, score=found.best.validation_f1)
    if is_worth_convolutions(scene, config):
        weight = whole.weight(config.inference.mode)
        said = represent(bank, whole.prepared, scene.validation, weight, concluded.reader)[1].exp()
        deep = fit_convolutions(scene, train, whole, threshold.threshold, said, config, seed)
        if deep.is_welcome:
            concluded = replace(concluded, convolutions=deep.network, score=deep.validation_f1)
    return concluded


def conclude_clusters(
    policy: Policy | None, bank: Aggregators, scene: Scene, config: Config, seed: int
) -> Conclusion:
    """Fit an encoder to what is kept, and find the clusters of what it says."""
    weight = _kept(policy, bank, scene, config)
    encoder = encoder_over(scene.whole, weight, seed)
    rows = spread_rows(scene.whole, weight, encoder)
    centres = group_rows(rows, bank.classes, seed)[1]
    return Conclusion(_unchosen(policy), encoder=encoder, centres=centres)


def conclude_links(
    policy: Policy | None,
    bank: Aggregators,
    scene: Scene,
    config: Config,
    seed: int,
    graph: Graph,
    pairs: Pairs,
) -> Conclusion:
    """Fit a linker to the training links, by what is kept of them or alike, as validation pairs say."""
    kept = None if policy is None else _kept(policy, bank, scene, config).cpu()
    found = fit_linker(graph, kept, pairs, seed, scene.whole.device)
    return Conclusion(_unchosen(policy), linker=found.linker, selects=found.selects, score=found.score)


def _all_edges(
    policy: Policy | None, bank: Aggregators, prepared: Prepared, config: Config, member: Tensor
) -> Selected:
    everyone = torch.arange(prepared.num_nodes, device=prepared.device)
    return select(policy, bank, prepared, everyone, config, _SEED, member)


def _kept(policy: Policy | None, bank: Aggregators, scene: Scene, config: Config) -> Tensor:
    """Return the keep probability of every edge, the same both ways."""
    chosen = _all_edges(policy, bank, scene.whole, config, scene.member_in_whole)
    return scene.whole.both_ways(chosen.probability)


def _unchosen(policy: Policy | None) -> Choice:
    """Return the threshold where no label says which is best."""
    return Choice(KEEP_ALL if policy is None else WITHOUT_VALIDATION)
