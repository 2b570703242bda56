"""The data of the explorer's page: a graph and what a model decided on it, or the neighbourhood of one node.

`build_payload` returns all that a page without a server shows. A page with a server asks for `build_summary` once
and for `neighbourhood` whenever another node is looked at; `search_nodes` answers its search box. All of them return
plain values.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.progress import advance, watch
from gdpnet._core.progress import part as share_of_work
from gdpnet._core.version import __version__
from gdpnet.data.graph import Graph
from gdpnet.data.node_numbers import node_numbers
from gdpnet.data.validation import id_text
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.inference.explanation import Explanation, agreement_name
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictor import Predictor
from gdpnet.inference.predictors import make_predictor
from gdpnet.web.explorer.columns import class_probabilities, edge_columns, node_columns, step_columns
from gdpnet.web.explorer.judge import make_judge, thresholds_of
from gdpnet.web.explorer.lists import first_node, hubs_alone, make_lists
from gdpnet.web.explorer.part import MOST_EDGES, Part, part_of, part_of_all

FORMAT = "gdpnet-explorer"
VERSION = 1
_PARTS_TOLD = 50
"""Parts in which nodes are explained, after each of which the time left is known better."""

_FEWEST_TOLD = 64
"""Nodes of a part, of which all that is needed is computed once."""

_MOST_FOUND = 50
"""Nodes that a search returns."""


def build_payload(
    source: Predictor | GDPNet | TrainedModel,
    graph: Any = None,
    *,
    nodes: Any = None,
    hops: int = 2,
    title: str = "",
    most_edges: int = MOST_EDGES,
) -> dict[str, Any]:
    """Return all that a page shows of a graph: nodes, edges, episodes, lists, and how good the decisions are.

    Args:
        source: a predictor, or a model with the graph to apply it to.
        graph: the graph; left out for a predictor, which has one.
        nodes: the nodes to explain, by id or by number, which are shown with those around them; all by default.
        hops: how far the nodes around them are shown.
        title: what the page is called, such as the name of the run.
        most_edges: the page is refused if it would have more directed edges.
    """
    predictor = _predictor_of(source, graph)
    part = _part_of(predictor, nodes, hops, most_edges)
    with share_of_work(0, 10):
        cleaned = predictor.denoise()
    told = _explained(predictor, part)
    keep, genuine = predictor.keep_probability(), predictor.genuine_probability()
    found = class_probabilities(predictor, part)
    every = found if part.whole else class_probabilities(predictor, part_of_all(predictor.graph))
    return _tables(predictor, part, told, found, (keep, genuine), title) | {
        "lists": make_lists(predictor, part, keep, told, found),
        "judge": make_judge(predictor, cleaned, every),
    }


def build_summary(
    source: Predictor | GDPNet | TrainedModel, graph: Any = None, *, title: str = "", decided: bool = True
) -> dict[str, Any]:
    """Return what a page with a server shows before a node is chosen: lists, and how good the decisions are.

    ``first`` is the node to begin with. Without ``decided`` nothing is computed that needs a decision on every edge:
    the page then has neither lists, but for hubs, nor scores.
    """
    predictor = _predictor_of(source, graph)
    part = part_of_all(predictor.graph)
    head = _head(predictor, part, title) | {"nodes": None, "first": first_node(predictor.graph)}
    if not decided:
        return head | {"lists": hubs_alone(part), "judge": None}
    keep, found = predictor.keep_probability(), class_probabilities(predictor, part)
    return head | {
        "lists": make_lists(predictor, part, keep, [], found),
        "judge": make_judge(predictor, predictor.denoise(), found),
    }


def neighbourhood(
    source: Predictor | GDPNet | TrainedModel,
    node: int | str,
    graph: Any = None,
    *,
    hops: int = 2,
    title: str = "",
    most_edges: int = MOST_EDGES,
) -> dict[str, Any]:
    """Return one node, explained, with the nodes within some hops; the same tables as those of `build_payload`."""
    predictor = _predictor_of(source, graph)
    number = predictor.graph.node_number(str(node))
    part = _part_of(predictor, torch.tensor([number]), hops, most_edges)  # a list would be ids
    told = [predictor.explain(node)]
    found = class_probabilities(predictor, part)
    decided = (predictor.keep_probability(), predictor.genuine_probability())
    return _tables(predictor, part, told, found, decided, title)


def search_nodes(graph: Graph, text: str, most: int = _MOST_FOUND) -> list[dict[str, str]]:
    """Return nodes by a part of their id or label: equal ids first, then those that begin with it, then others."""
    wanted, ids = text.strip().casefold(), id_text(graph.node_ids).tolist()
    labels = graph.labels.tolist()
    names = [*(str(name) for name in graph.class_names), ""]
    ranked = list[tuple[int, int]]()
    for number, name in enumerate(ids):
        own = name.casefold()
        if wanted in own:
            ranked.append((0 if own == wanted else 1 if own.startswith(wanted) else 2, number))
        elif wanted in names[labels[number]].casefold():
            ranked.append((3, number))
    return [{"id": ids[number], "text": names[labels[number]]} for _, number in sorted(ranked)[:most]]


def _explained(predictor: Predictor, part: Part) -> list[Explanation]:
    """Explain the nodes that are asked for, which is most of the work, and say how far it is."""
    told, total = list[Explanation](), part.asked.numel()
    for some in part.asked.split(max(_FEWEST_TOLD, -(-total // _PARTS_TOLD))):
        with watch(None):  # what explains them would advance from the start
            told.extend(predictor.explain_nodes(some))
        advance(total + 9 * len(told), 10 * total)
    return told


def _predictor_of(source: Predictor | GDPNet | TrainedModel, graph: Any) -> Predictor:
    if isinstance(source, Predictor):
        if graph is not None:
            raise ConfigError("a predictor has its graph: leave the graph out, or give a model in its place")
        return source
    if graph is None:
        raise ConfigError("a model is shown on a graph, found none: give one, or a predictor")
    return source.predictor(graph) if isinstance(source, GDPNet) else make_predictor(source, graph)


def _part_of(predictor: Predictor, nodes: Any, hops: int, most_edges: int) -> Part:
    asked = None if nodes is None else node_numbers(predictor.graph, nodes).reshape(-1)
    # candidates of an episode may be farther away than what is drawn
    return part_of(predictor.graph, asked, max(hops, predictor.model.config.policy.hops), most_edges)


def _head(predictor: Predictor, part: Part, title: str) -> dict[str, Any]:
    """Return what a page says about the model and the graph."""
    graph, model = predictor.graph, predictor.model
    about = {
        "title": title,
        "gdpnet": __version__,
        "task": model.config.task.kind,
        "seed": model.seed,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features if graph.has_features else 0,
        "directed": graph.is_directed,
        "whole": part.whole,
        "classes": [str(name) for name in model.classes] if model.config.task.kind != "regression" else [],
        "threshold": model.threshold.threshold,
        "thresholds": thresholds_of(model.threshold.threshold).tolist(),
        "reason": model.threshold.reason,
        "has_policy": model.networks.policy is not None,
        "agreement": agreement_name(model.config.task.kind),
    }
    return {"format": FORMAT, "version": VERSION, "about": about}


def _tables(
    predictor: Predictor,
    part: Part,
    told: list[Explanation],
    found: Float[Tensor, "shown classes"] | None,
    decided: tuple[Float[Tensor, "edges"], Float[Tensor, "edges"] | None],
    title: str,
) -> dict[str, Any]:
    """Return the nodes, edges and episodes of a part of a graph."""
    return _head(predictor, part, title) | {
        "nodes": node_columns(predictor, part, told, found),
        "links": edge_columns(part, *decided),
        "steps": step_columns(part, told),
    }
