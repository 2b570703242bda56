"""How far from a node an answer about it looks."""

from __future__ import annotations

from typing import NamedTuple

from gdpnet.data.schema import ONE_HOT, STRUCTURAL
from gdpnet.errors import ConfigError
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.threshold import KEEP_ALL
from gdpnet.representation.all_edges import SharedNetwork

_DECISION = 2
"""Hops that one decision looks at: the candidates, and the neighbourhoods of these."""

_MEANS = 2
"""Hops that the aggregator and the hop-wise head look at: neighbours, and their means over their neighbours."""

_STRUCTURE = 3
"""Further hops that structural features are computed from."""

_EVIDENCE = 2
"""Hops around a node within which edges are scored to know which of its edges are genuine."""


_FURTHER = {"denoise": 1, "explain": 1, "explore": 3}
"""Hops around a node within which decisions are asked for too; edges are decided on from both ends."""


class Reach(NamedTuple):
    """How far an answer looks: the nodes within ``hops``, of which those within ``deciding`` decide."""

    hops: int
    deciding: int


def reach_of(model: TrainedModel, question: str) -> Reach:
    """Return how far the answer to a question looks.

    Questions are ``predict``, ``embed``, ``denoise``, ``explain``, and ``explore``: all nodes within two hops, what
    is predicted for them, and what is decided on the edges between them.
    """
    config, networks = model.config, model.networks
    context = (config.representation.hops == 2) + config.inference.symmetrise if networks.policy else 0
    selected = further = _FURTHER.get(question, 0)
    hops = 0
    if question in ("predict", "explain", "explore"):
        selected += _gcn_hops(model) if reads_decisions(model) else 0
        hops = _heads_hops(model) + further
    deciding = selected + context
    if further and networks.evidence is not None:
        deciding = max(deciding, further + _EVIDENCE - 1)
    return Reach(max(hops, deciding + _DECISION) + _structure(model), deciding)


def hops_of_heads(model: TrainedModel) -> int:
    """Return how far a prediction looks, given what was decided."""
    return _heads_hops(model) + _structure(model)


def reads_decisions(model: TrainedModel) -> bool:
    """Return whether predictions depend on decisions on other nodes' edges: the GCN head reads the cleaned graph."""
    return _gcn_hops(model) > 0 and model.networks.policy is not None and model.ensemble.threshold != KEEP_ALL


def _heads_hops(model: TrainedModel) -> int:
    hops, network = max(_MEANS, _gcn_hops(model)), model.networks.all_edges
    if network is not None and model.ensemble.weights.all_edges > 0:
        hops = max(hops, 4 if isinstance(network, SharedNetwork) else 3)
    return hops


def _gcn_hops(model: TrainedModel) -> int:
    """Return how far the GCN head looks: one hop per layer, and one more, as messages are scaled by the degree."""
    gcn = model.networks.gcn
    return 0 if gcn is None or not model.ensemble.uses_gcn else len(gcn.weights) + 1


def _structure(model: TrainedModel) -> int:
    return _STRUCTURE if model.columns.kind == STRUCTURAL else 0


def check_local(model: TrainedModel) -> None:
    """Refuse a model whose answers need the whole graph."""
    config = model.config
    if model.networks.basis is not None:
        raise ConfigError(
            "surroundings are enough for a model of classification, multi-label or regression, found one "
            f"of {config.task.kind}, which reads the whole graph at once"
        )
    if config.policy.hops > 1 and model.networks.policy is not None:
        raise ConfigError(
            f"policy.hops must be 1 to answer from surroundings, found {config.policy.hops}: candidates farther "
            "away are drawn from the whole graph"
        )
    if model.columns.kind == ONE_HOT:
        raise ConfigError(
            "a model trained on one-hot features knows no other nodes and needs the whole graph: train with "
            "--features structural"
        )
