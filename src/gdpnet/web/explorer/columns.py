"""The columns of a page: its nodes and their predictions, the edges between them, and the steps of their episodes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.inference.ensemble import HEAD_NAMES
from gdpnet.inference.explanation import Decision, Explanation
from gdpnet.inference.naming import Naming
from gdpnet.inference.predictor import LabelPredictor, Predictor
from gdpnet.representation.tasks import Classification, MultiLabel
from gdpnet.web.explorer.packing import pack, pack_names, pack_shares
from gdpnet.web.explorer.part import Part

_MOST_PROBABILITIES = 2_000_000
"""Class probabilities of a page; if there are more, only that of the predicted class is shown."""

_MOST_EDGE_FEATURES = 6
"""Edge features of a page."""

_CHANCES = ("draw_probability", "keep_by_node", "keep_by_neighbour")
"""Probabilities of which small ones are told apart, as shares in two bytes are not."""

_COUNTS = ("step", "common_neighbours")
_MOST_OF_TWO_BYTES = 65535


def edge_columns(
    part: Part, keep: Float[Tensor, "edges"], genuine: Float[Tensor, "edges"] | None
) -> dict[str, Any]:
    """Return the edges between the shown nodes, those of a target after the other."""
    graph, edge = part.graph, part.edge
    count = torch.bincount(part.target, minlength=part.nodes.numel())
    truth = graph.truth
    return {
        "row_ptr": pack(offsets_of(count), "u4"),
        "neighbour": pack(part.neighbour, "u4"),
        "keep": pack(keep[edge], "f4"),
        "genuine": None if genuine is None else pack(genuine[edge], "f4"),
        "spurious": None if truth is None else pack(truth.spurious[edge], "u1"),
        "weight": None if graph.edge_weight is None else pack(graph.edge_weight[edge], "f4"),
    }


def node_columns(
    predictor: Predictor, part: Part, told: list[Explanation], found: Float[Tensor, "shown classes"] | None
) -> dict[str, Any]:
    """Return the shown nodes: ids, labels, predictions, and for those that are explained what the heads say."""
    naming, graph, model = Naming(predictor.model, part.graph), part.graph, predictor.model
    predicted: list[str | None] = [None] * part.nodes.numel() if found is None else [*naming.predicted(found)]
    value, alone, ended = (np.full(part.nodes.numel(), math.nan) for _ in range(3))
    if found is not None:
        value = (found.double() * naming.measure(found)).sum(dim=1).numpy()
    explained: list[str | None] = [None] * len(predicted)
    for one in told:
        place = part.place_of[one.node]
        predicted[place], explained[place] = (
            one.predicted if one.cluster is None else one.cluster,
            one.explained,
        )
        value[place], alone[place], ended[place] = one.value, one.value_alone, one.ended_early
    suggested = {one.node: one.suggested for one in model.suspected_labels}
    truth = graph.truth
    clean = None if truth is None or graph.targets is not None else truth.clean_labels[part.nodes]
    names = [*map(str, graph.class_names), None]
    return {
        "count": len(predicted),
        "id": part.ids,
        "label": pack_names(naming.labels(part.nodes)),
        "predicted": pack_names(predicted),
        "explained": pack_names(explained),
        "value": pack(value, "f4"),
        "alone": pack(alone, "f4"),
        "ended_early": pack(np.nan_to_num(ended), "u1"),
        "split": pack(graph.split[part.nodes], "u1"),
        "degree": pack(graph.degree[part.nodes], "u4"),
        "corrupted": None if truth is None else pack(truth.corrupted[part.nodes], "u1"),
        "clean_label": None if clean is None else pack_names([names[one] for one in clean.tolist()]),
        "suggested": pack_names([suggested.get(name) for name in part.ids]),
        "heads": _head_columns(part, told),
        "probabilities": _probability_columns(predictor, found),
    }


def class_probabilities(predictor: Predictor, part: Part) -> Float[Tensor, "shown classes"] | None:
    """Return the class probabilities of the shown nodes, or those of bins; None if the task has none."""
    if not isinstance(predictor, LabelPredictor):
        return None
    return torch.from_numpy(predictor.probabilities(part.nodes))


def _probability_columns(
    predictor: Predictor, found: Float[Tensor, "shown classes"] | None
) -> dict[str, Any] | None:
    """Return the probability of each class for each node, row by row; None if these are too many or no classes."""
    if found is None or not isinstance(predictor.model.task, Classification | MultiLabel):
        return None
    return None if found.numel() > _MOST_PROBABILITIES else pack_shares(found.flatten())


def _head_columns(part: Part, told: list[Explanation]) -> list[dict[str, Any]]:
    """Return what each head of the ensemble predicts for the nodes that are explained."""
    names = dict.fromkeys(head.name for one in told for head in one.heads)
    columns = []
    for name in names:
        value, predicted = np.full(part.nodes.numel(), math.nan), [None] * part.nodes.numel()
        weight = 0.0
        for one in told:
            for head in one.heads:
                if head.name == name:
                    place, weight = part.place_of[one.node], head.weight
                    value[place], predicted[place] = head.value, head.predicted  # type: ignore[call-overload]
        columns.append(
            {
                "name": HEAD_NAMES[name],
                "weight": weight,
                "value": pack(value, "f4"),
                "predicted": pack_names(predicted),
            }
        )
    return columns


def step_columns(part: Part, told: Iterable[Explanation]) -> dict[str, Any]:
    """Return the decisions of the nodes that are explained, each node's in the order of its explanation.

    What the decisions on neighbours share with their edges is in the columns of the edges. Candidates beyond
    neighbours have no edge: with any, their distances and keep probabilities are here.
    """
    count = np.zeros(part.nodes.numel(), dtype=np.int64)
    by_place = {part.place_of[one.node]: one.decisions for one in told}
    for place, decisions in by_place.items():
        count[place] = len(decisions)
    rows = [decision for place in sorted(by_place) for decision in by_place[place]]
    columns: dict[str, Any] = {
        "row_ptr": pack(np.concatenate([[0], count.cumsum()]), "u4"),
        "neighbour": pack([part.place_of[one.neighbour] for one in rows], "u4"),
        "cosine": _pack_similar([one.cosine for one in rows]),
        "agreement": _pack_similar([one.agreement for one in rows]),
        "distance": None,
        "keep_probability": None,
    }
    columns["contribution"] = pack([one.contribution for one in rows], "f4")
    for name in _COUNTS:
        values = [getattr(one, name) or 0 for one in rows]
        columns[name] = pack(values, "u2" if max(values, default=0) <= _MOST_OF_TWO_BYTES else "u4")
    for name in _CHANCES:
        values = [getattr(one, name) for one in rows]
        columns[name] = pack([math.nan if one is None else one for one in values], "f4")
    if any(one.distance > 1 for one in rows):
        columns["distance"] = pack([one.distance for one in rows], "u1")
        columns["keep_probability"] = pack([one.keep_probability for one in rows], "f4")
    return columns | {"edge_features": _feature_columns(rows)}


def _pack_similar(values: list[float]) -> dict[str, Any]:
    """Return similarities in two bytes each if all lie between 0 and 1, up to rounding; else as numbers."""
    found = np.asarray(values, dtype=np.float64)
    inside = not found.size or (found.min() >= 0.0 and found.max() <= 1.0 + 1e-6)
    return pack_shares(found) if inside else pack(found, "f4")


def _feature_columns(rows: list[Decision]) -> dict[str, Any] | None:
    """Return the first features of the edges, if the model was trained with any."""
    names = next((list(one.edge_features) for one in rows if one.edge_features), [])[:_MOST_EDGE_FEATURES]
    if not names:
        return None
    values = [[(one.edge_features or {}).get(name, math.nan) for name in names] for one in rows]
    return {"names": names, "values": pack(values, "f4")}
