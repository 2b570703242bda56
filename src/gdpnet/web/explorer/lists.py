"""Lists of nodes that are worth looking at: many removed edges, surprising predictions, suspected labels, hubs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet._core.words import counted
from gdpnet.data.graph import Graph
from gdpnet.inference.explanation import Explanation
from gdpnet.inference.naming import Naming, number_text
from gdpnet.inference.predictor import Predictor
from gdpnet.representation.tasks import Classification
from gdpnet.web.explorer.part import Part

LONGEST = 50
"""Nodes of a list."""

USUAL_THRESHOLD = 0.5
"""Threshold of the list of removed edges if the model's own keeps every edge."""

_FEW = 20
"""Neighbours of a node that is easily looked at."""

_NEAR = 200
"""Edges of its neighbours together."""

_LOOKED_AT = 1 << 14
"""Nodes among which one is looked for."""

_WORDS = {
    "removed": ("Most removed edges", "No edge is below the threshold."),
    "surprising": ("Most surprising predictions", "No prediction differs from what is known."),
    "suspected": ("Suspected label errors", "No suspected label errors."),
    "changed": ("Most changed by neighbours", "Neighbours change no prediction."),
    "hubs": ("Hubs", "No node has a neighbour."),
}
"""The title of each list, and what is said if it is empty."""

Row = dict[str, Any]


def make_lists(
    predictor: Predictor,
    part: Part,
    keep: Float[Tensor, "edges"],
    told: list[Explanation],
    found: Float[Tensor, "shown classes"] | None,
) -> list[dict[str, Any]]:
    """Return the lists of nodes, each with the number that it is sorted by in words, and what is said if it is empty.

    A list that the task or the page cannot have is left out.
    """
    threshold = predictor.model.threshold.threshold
    if not bool((keep < threshold).any()):
        threshold = USUAL_THRESHOLD
    lists = [
        _list("removed", _removed(part, keep, threshold)) | {"note": f"At threshold {threshold:g}."},
        _list("surprising", _surprising(predictor, part, found)),
        _list("suspected", _suspected(predictor, part)),
        _list("changed", _changed(told) if told else None),
        *hubs_alone(part),
    ]
    if found is not None:
        _add_predictions(predictor, part, [row for one in lists for row in one["rows"] or ()], found)
    return [one for one in lists if one["rows"] is not None]


def hubs_alone(part: Part) -> list[dict[str, Any]]:
    """Return the one list that needs no decision."""
    return [_list("hubs", _hubs(part))]


def first_node(graph: Graph) -> str | None:
    """Return the id of a node to begin with: several neighbours, and not many nodes around these.

    Only some nodes are looked at, so that it takes no longer on a large graph.
    """
    count = min(_LOOKED_AT, graph.num_nodes)
    if not count:
        return None
    degree = graph.row_ptr[: count + 1].diff()
    few = ((degree > 0) & (degree <= _FEW)).nonzero().flatten()
    if not few.numel():
        fewest = torch.where(degree > 0, degree, degree.max() + 1).argmin()
        return str(graph.node_ids[int(fewest)])
    owner, edge = ranges(graph.row_ptr[few], degree[few])
    neighbour = graph.neighbour[edge].long()
    theirs = graph.row_ptr[neighbour + 1] - graph.row_ptr[neighbour]
    around = torch.zeros_like(few).index_add_(0, owner, theirs)
    found = torch.where(around <= _NEAR, degree[few], -around).argmax()
    return str(graph.node_ids[int(few[found])])


def _list(key: str, rows: list[Row] | None) -> dict[str, Any]:
    title, none = _WORDS[key]
    return {"key": key, "title": title, "rows": rows, "none": none}


def _add_predictions(
    predictor: Predictor, part: Part, rows: list[Row], found: Float[Tensor, "shown classes"]
) -> None:
    """Add what is predicted for the node of each row, by which a page without the nodes colours it."""
    if rows:
        places = torch.tensor([part.place_of[row["id"]] for row in rows])
        names = Naming(predictor.model, part.graph).predicted(found[places])
        for row, name in zip(rows, names, strict=True):
            row["predicted"] = name


def _largest(value: np.ndarray) -> list[int]:
    """Return the places of the largest values above zero, the largest first; equal ones in their order."""
    order = np.argsort(-value, kind="stable")[:LONGEST]
    return [int(place) for place in order if value[place] > 0]


def _removed(part: Part, keep: Float[Tensor, "edges"], threshold: float) -> list[Row]:
    graph = part.graph
    target = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.degree)
    count = torch.bincount(target[keep < threshold], minlength=graph.num_nodes)[part.nodes].numpy()
    degree = graph.degree[part.nodes].tolist()
    return [
        {"id": part.ids[one], "text": f"{count[one]:,} of {counted(degree[one], 'edge')}"}
        for one in _largest(count)
    ]


def _surprising(
    predictor: Predictor, part: Part, found: Float[Tensor, "shown classes"] | None
) -> list[Row] | None:
    """Return nodes whose known class is the least probable, or whose number is farthest from the predicted one.

    None if the task has no such node.
    """
    if found is None:
        return None
    naming, graph = Naming(predictor.model, part.graph), part.graph
    if naming.numbers is not None:
        if graph.targets is None:
            return None
        error = (naming.numbers.mean(found) - graph.targets[part.nodes]).abs().nan_to_num().numpy()
        return [
            {"id": part.ids[one], "text": f"off by {number_text(float(error[one]))}"}
            for one in _largest(error)
        ]
    if not isinstance(predictor.model.task, Classification):
        return None
    label = predictor.model.labels_of(graph)[part.nodes]
    chance = found.gather(1, label.clamp(min=0)[:, None])[:, 0].numpy()
    wrong = ((found.argmax(dim=1) != label) & (label >= 0)).numpy()
    names = naming.labels(part.nodes)
    rows = _largest(np.where(wrong, 1.0 + 1e-6 - chance, 0.0))
    return [{"id": part.ids[one], "text": f"label {names[one]} has {chance[one]:.3f}"} for one in rows]


def _suspected(predictor: Predictor, part: Part) -> list[Row] | None:
    """Return training nodes whose label cross-fitted models contradict; None if the task has no labels to doubt."""
    if predictor.model.config.task.kind != "classification":
        return None
    found = [one for one in predictor.model.suspected_labels if one.node in part.place_of]
    return [{"id": one.node, "text": f"{one.label}, rather {one.suggested}"} for one in found[:LONGEST]]


def _changed(told: list[Explanation]) -> list[Row]:
    """Return nodes whose prediction differs most from that without any neighbour."""
    change = np.array([abs(one.value - one.value_alone) for one in told])
    rows = []
    for place in _largest(change):
        one = told[place]
        rows.append({"id": one.node, "text": f"{one.value_alone:.3g} alone, {one.value:.3g} with them"})
    return rows


def _hubs(part: Part) -> list[Row]:
    degree = part.graph.degree[part.nodes].numpy()
    return [{"id": part.ids[one], "text": counted(int(degree[one]), "neighbour")} for one in _largest(degree)]
