"""Turn the body of a request into a graph and targets; refuse what does not fit, by field and rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.edge_weight import MOST
from gdpnet.data.extended import Addition, ExtendedGraph
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.node_features import edge_rows, node_rows
from gdpnet.web.server.payload import Edge, Node, Question
from gdpnet.web.server.problems import Broken, ProblemError, unusable
from gdpnet.web.server.served import Served

_LEAST_WEIGHT = float(np.finfo(np.float32).tiny)
"""The smallest weight of an edge that single precision does not round."""


class Asked(NamedTuple):
    """A graph and the nodes of it to answer for."""

    graph: ExtendedGraph
    targets: Int[Tensor, "targets"]
    ids: list[str]


def read_question(question: Question, served: Served, limits: Limits) -> Asked:
    """Return what a request asks about, checked; errors name the fields as they were given."""
    try:
        return _read(question, served, limits)
    except ProblemError as error:
        broken = [Broken(_as_given(one.field, question), one.rule) for one in error.broken]
        if not broken:
            raise
        raise ProblemError(error.status, f"{broken[0].field}: {broken[0].rule}", *broken) from error


def _as_given(field: str, question: Question) -> str:
    """Return the path to a node or an edge below ``graph`` if it was given there, by its path in all of them."""
    name, _, rest = field.partition(".")
    place, _, inner = rest.partition(".")
    before = {"nodes": len(question.nodes), "edges": len(question.edges)}.get(name)
    if before is None or not place.isdigit() or int(place) < before:
        return field
    return ".".join(["graph", name, str(int(place) - before), *([inner] if inner else [])])


def _read(question: Question, served: Served, limits: Limits) -> Asked:
    nodes, edges, targets = question.all_nodes, question.all_edges, question.target_ids
    for field, found, most in (
        ("nodes", nodes, limits.max_nodes),
        ("targets", targets, limits.max_nodes),
        ("edges", edges, limits.max_edges),
    ):
        if len(found) > most:
            raise unusable(field, f"there must be at most {most:,} of them, found {len(found):,}")
    names = _Names(nodes, served)
    ends = [[names.number(getattr(edge, side), "edges", place, side) for place, edge in enumerate(edges)]
            for side in ("src_node_id", "dest_node_id")]  # fmt: skip
    asked = torch.tensor([names.number(one, "targets", place) for place, one in enumerate(targets)])
    if not nodes and not edges:
        return Asked(ExtendedGraph(served.graph), asked, targets)
    pairs = torch.tensor(ends, dtype=torch.long).reshape(2, -1)
    return Asked(*_extended(served, nodes, edges, pairs, asked), targets)


class _Names:
    """The numbers of new and of stored nodes by their ids."""

    def __init__(self, nodes: list[Node], served: Served) -> None:
        self.served, first = served, served.graph.num_nodes
        self.new: dict[str, int] = {}
        stored = served.index.find([str(node.node_id) for node in nodes])
        for place, (node, known) in enumerate(zip(nodes, stored, strict=True)):
            name = str(node.node_id)
            if known is not None:
                raise unusable(
                    f"nodes.{place}.node_id", f"a new node must have a new id, the stored graph has '{name}'"
                )
            if self.new.setdefault(name, first + place) != first + place:
                raise unusable(f"nodes.{place}.node_id", f"ids must be unique, found '{name}' twice")

    def number(self, name: str | int, field: str, place: int, side: str | None = None) -> int:
        """Return the number of a node."""
        found = self.new.get(str(name))
        found = self.served.index.find([str(name)])[0] if found is None else found
        if found is None:
            where = f"{field}.{place}" + (f".{side}" if side else "")
            raise unusable(
                where, f"it must name a node of the request or of the stored graph, found '{name}'"
            )
        return found


def _extended(
    served: Served,
    nodes: list[Node],
    edges: list[Edge],
    ends: Int[Tensor, "2 edges"],
    asked: Int[Tensor, "targets"],
) -> tuple[ExtendedGraph, Int[Tensor, "targets"]]:
    """Add nodes and edges to the stored graph; if nothing names a stored node, they are a graph of their own."""
    graph, first = served.graph, served.graph.num_nodes
    ids = np.array([str(node.node_id) for node in nodes], dtype=str)
    features = node_rows([node.features for node in nodes], graph)
    alone = bool((asked >= first).all()) and bool((ends >= first).all())
    added = Addition.of(
        graph,
        ids,
        features,
        ends,
        _weights(edges, served),
        edge_rows([edge.features for edge in edges], graph),
        directed=served.directed,
    )
    if alone:
        return ExtendedGraph(added.as_graph(graph)), asked - first
    return ExtendedGraph(graph, added), asked


def _weights(edges: list[Edge], served: Served) -> Float[Tensor, "edges"] | None:
    """Return the weights of edges; they must be there if those of the stored graph are, and not otherwise."""
    weighted = served.graph.edge_weight is not None
    for place, edge in enumerate(edges):
        if (edge.weight is not None) != weighted:
            rule = "an edge must have a weight, as those of the stored graph" if weighted else (
                "an edge must have no weight, as those of the stored graph"
            )  # fmt: skip
            raise unusable(f"edges.{place}.weight", rule)
        if edge.weight is not None and not _LEAST_WEIGHT <= edge.weight <= MOST:
            rule = f"it must lie between {_LEAST_WEIGHT:g} and {MOST:,.0f}, found {edge.weight:g}"
            raise unusable(f"edges.{place}.weight", rule)
    return torch.tensor([edge.weight for edge in edges], dtype=torch.float32) if weighted else None
