"""Explain a prediction: the decisions on one node's neighbours, and what each contributed to the probability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.data.features import normalise, take_rows
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.data.row_products import Rows, matches, row_dots, side_of
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.explanation import Decision, Explanation, Head
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.observation import make_view
from gdpnet.inference.prefixes import prefix_lengths, prefix_probabilities
from gdpnet.inference.select import Selected, edges_of, play_of, roll_outs
from gdpnet.selection.policy import agreement

__all__ = ["Decision", "Explanation", "Head", "explain_node"]


@torch.no_grad()
def explain_node(model: TrainedModel, selected: Selected, graph: Graph, node: int) -> Explanation:
    """Explain the prediction of a node by the decisions on its edges, which must include those of its neighbours.

    The order of the neighbours is that of the node's greedy episode; everything else is what `predict_proba` and
    `denoise` say.
    """
    mode, ensemble, prepared = model.config.inference.mode, model.ensemble, selected.prepared
    visits = _visit(model, prepared, node)
    edge = visits.edge
    asked = torch.cat([torch.tensor([node], device=edge.device), prepared.neighbour[edge].long()])
    heads = ensemble.by_head(selected, asked, mode)
    found = ensemble.mix(heads)
    explained = int(found[0].argmax())
    length = prefix_lengths(edge.numel(), edge.device)
    states = prefix_probabilities(ensemble, selected, node, edge, length, mode)[:, explained].double()
    states[-1] = float(found[0, explained])
    share = selected.weight(mode)[edge - prepared.first_edge]
    columns = visits.columns | _links(model, selected, graph, edge)
    columns |= {"contribution": _contributions(states, length, share).tolist(), "share": share.tolist()}
    columns |= _nodes(model, graph, asked, found) | _likeness(graph, prepared, asked)
    rows = zip(*columns.values(), strict=True)
    label = int(graph.labels[node])
    return Explanation(
        node=str(graph.node_ids[node]),
        predicted=str(model.named(found[:1].cpu().numpy())[0]),
        probability=float(states[-1]),
        probability_alone=float(states[0]),
        ended_early=visits.ended_early,
        decisions=tuple(Decision(**dict(zip(columns, row, strict=True))) for row in rows),
        explained=str(model.classes[explained]),
        label=None if label == UNKNOWN else str(graph.class_names[label]),
        heads=tuple(_head(model, name, one[0], explained) for name, one in heads.items()),
        threshold=model.threshold.threshold,
        task=model.config.task.kind,
    )


class _Visits(NamedTuple):
    """The edges of a node in order, with the step and probability of each in its greedy episode."""

    edge: Int[Tensor, "degree"]
    columns: dict[str, list[Any]]
    ended_early: bool


def _visit(model: TrainedModel, prepared: Prepared, node: int) -> _Visits:
    """Play the node's greedy episode; list the edges that it visits in order, then the others by node number."""
    target, policy = torch.tensor([node], device=prepared.device), model.networks.policy
    everything = edges_of(prepared, target)[1]
    edges, steps, draws, ended = [everything[:0]], [], [], False
    if policy is not None:
        view = make_view(model.networks.aggregators, prepared)
        seed = Key.of(model.seed).fold_in("predict").fold_in("decide").seed32
        play = play_of(model.config, greedy=True)
        for rollout in roll_outs(policy, view, prepared, target, model.config, play, seed):
            visited = ~rollout.is_ending
            edges.append(rollout.episodes.edge[rollout.candidate[visited]])
            steps += (rollout.step[visited] + 1).tolist()
            draws += rollout.order_log_prob[visited].exp().tolist()
            ended = ended or not bool(visited.all())
    reached = torch.cat(edges)
    missed = everything[~torch.isin(everything, reached)]
    nothing = [None] * missed.numel()
    columns = {"step": steps + nothing, "draw_probability": draws + nothing}
    return _Visits(torch.cat([reached, missed]), columns, ended)


def _contributions(
    states: Float[Tensor, "states"], length: Int[Tensor, "states"], share: Float[Tensor, "degree"]
) -> Float[Tensor, "degree"]:
    """Return the change that each neighbour makes; that of a group is divided by how much its members count."""
    size = length.diff()
    group = torch.repeat_interleave(torch.arange(size.numel(), device=share.device), size)
    part = share.double() + 1e-12
    return states.diff()[group] * part / torch.zeros_like(states[1:]).index_add_(0, group, part)[group]


def _links(
    model: TrainedModel, selected: Selected, graph: Graph, edge: Int[Tensor, "degree"]
) -> dict[str, Any]:
    """Return what was decided on some edges, their distance and their weight."""
    prepared, count = selected.prepared, edge.numel()
    both, reverse = prepared.symmetrise(selected.probability)[edge], prepared.reverse_edge[edge]
    back = selected.probability[reverse.clamp(min=0)].tolist()
    distance = [1] * count if prepared.edge is None else (1 + prepared.pairs[edge, 0]).long().tolist()
    kept = (both >= model.threshold.threshold) & (prepared.linked[edge] > 0)
    weight = prepared.graph_weight
    return {
        "neighbour": graph.node_ids[prepared.neighbour[edge].cpu().numpy()].astype(str).tolist(),
        "distance": distance,
        "keep_probability": both.tolist(),
        "kept": kept.tolist(),
        "weight": [None] * count if weight is None else weight[edge].tolist(),
        "keep_by_node": selected.probability[edge].tolist(),
        "keep_by_neighbour": [
            one if there else None for one, there in zip(back, (reverse >= 0).tolist(), strict=True)
        ],
    }


def _nodes(
    model: TrainedModel, graph: Graph, asked: Int[Tensor, "asked"], found: Float[Tensor, "asked classes"]
) -> dict[str, Any]:
    """Return the known and the predicted class of all asked nodes but the first, and their agreement with it."""
    labels = graph.labels[asked[1:].cpu()].tolist()
    return {
        "label": [None if label == UNKNOWN else str(graph.class_names[label]) for label in labels],
        "predicted": model.named(found[1:].cpu().numpy()).astype(str).tolist(),
        "agreement": agreement(found[:1].expand_as(found[1:]), found[1:]).tolist(),
    }


def _likeness(graph: Graph, prepared: Prepared, asked: Int[Tensor, "asked"]) -> dict[str, Any]:
    """Return the common neighbours of the first node and each other, and the cosine of their features."""
    side = side_of(normalise(take_rows(prepared.features, asked), "l2"))
    place = torch.arange(1, asked.numel(), device=asked.device)
    cosine = row_dots(side, torch.zeros_like(place), side, place)
    rows, others = Rows(graph.row_ptr, graph.neighbour), asked[1:].cpu()
    common = np.zeros(others.numel(), dtype=int)
    for pair, _, _ in matches(rows, asked[:1].cpu().expand_as(others), rows, others):
        common += np.bincount(pair.numpy(), minlength=common.size)
    return {"common_neighbours": common.tolist(), "cosine": cosine.tolist()}


def _head(model: TrainedModel, name: str, found: Float[Tensor, "classes"], explained: int) -> Head:
    predicted = str(model.named(found[None].cpu().numpy())[0])
    return Head(name, getattr(model.weights, name), float(found[explained]), predicted)
