"""Answer questions about some nodes from their surroundings alone.

Matrix products of different shapes round differently. So a question is a computation of its own: its nodes are
computed in groups of `GROUP`, in the order given, and never together with those of another question. The answer
depends on the model, the graph and the question in every bit, and not on what else is asked, when or by whom. The
command line with --as-served and the server both ask here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.threads import one_torch_thread
from gdpnet.data.extended import ExtendedGraph
from gdpnet.data.graph import Part
from gdpnet.inference.explanation import Explanation
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictor import LabelPredictor, Predictor
from gdpnet.inference.predictors import make_predictor
from gdpnet.inference.reach import check_local, hops_of_heads, reach_of, reads_decisions
from gdpnet.inference.select import PartDecisions, edges_of, with_neighbours
from gdpnet.inference.stored import StoredDecisions
from gdpnet.representation.regression import Regression

GROUP = 64
"""Nodes of one question that are computed together; all answers depend on it in the last bit."""


class NodeEdges(NamedTuple):
    """The edges of one node, and what was decided on them."""

    neighbour: np.ndarray
    keep_probability: np.ndarray
    """The mean of both directions."""
    genuine_probability: np.ndarray | None
    kept: np.ndarray


class LocalPredictor:
    """Answers questions about some nodes of a graph from their surroundings."""

    def __init__(
        self,
        model: TrainedModel,
        graph: ExtendedGraph,
        most_edges: int | None = None,
        stored: StoredDecisions | None = None,
    ) -> None:
        check_local(model)
        self.model, self.graph, self.most_edges, self.stored = model, graph, most_edges, stored

    def predictor(self, nodes: Int[Tensor, "asked"], question: str) -> tuple[Predictor, Int[Tensor, "asked"]]:
        """Return a predictor for the surroundings of some nodes that a question needs, and their numbers in it."""
        part = self.graph.around(nodes, *reach_of(self.model, question), self.most_edges)
        return make_predictor(self.model, part.graph, part), torch.searchsorted(part.node, nodes)

    def probabilities(self, nodes: Int[Tensor, "asked"]) -> Float[np.ndarray, "asked classes"]:
        """Return the class probabilities of some nodes."""
        if not reads_decisions(self.model):
            return np.concatenate([one.probabilities(place) for one, place in self._groups(nodes, "predict")])
        return np.concatenate([self._with_decisions(group) for group in nodes.split(GROUP)])

    def _with_decisions(self, nodes: Int[Tensor, "group"]) -> Float[np.ndarray, "group classes"]:
        """Return the class probabilities of some nodes by a model whose GCN head reads decisions of other nodes.

        The heads look less far than the decisions, which come from a wider part or from tables.
        """
        with one_torch_thread(), torch.no_grad():
            part = self.graph.around(nodes, hops_of_heads(self.model), 0, self.most_edges)
            if self.stored is None:
                decided = self._decide(nodes, part)
            else:
                decided = self.stored.around(self.graph, part, nodes, self.most_edges)
            nobody = replace(part, deciding=part.deciding[:0])
            predictor = make_predictor(self.model, part.graph, nobody)
            assert isinstance(predictor, LabelPredictor)
            place = torch.searchsorted(part.node, nodes)
            return predictor.probabilities_with(place.to(self.model.device), decided)

    def _decide(self, nodes: Int[Tensor, "group"], part: Part) -> PartDecisions:
        """Return what is decided on a part around some nodes, decided on from what is around the part."""
        wide = self.graph.around(nodes, *reach_of(self.model, "predict"), self.most_edges)
        predictor = make_predictor(self.model, wide.graph, wide)
        assert isinstance(predictor, LabelPredictor)
        decided = predictor.decided(torch.searchsorted(wide.node, nodes).to(self.model.device))
        return decided.at(torch.searchsorted(wide.edge, part.edge).to(self.model.device))

    def embeddings(self, nodes: Int[Tensor, "asked"]) -> Float[np.ndarray, "asked width"]:
        """Return the embeddings of some nodes."""
        return np.concatenate([one.embeddings(place) for one, place in self._groups(nodes, "embed")])

    def _groups(
        self, nodes: Int[Tensor, "asked"], question: str
    ) -> Iterator[tuple[Predictor, Int[Tensor, "group"]]]:
        """Return a predictor for each group of nodes, to be used at once, with one thread."""
        for group in nodes.split(GROUP):
            with one_torch_thread():
                yield self.predictor(group, question)

    def named(self, probabilities: Float[np.ndarray, "asked classes"]) -> np.ndarray:
        """Return what is predicted, given the class probabilities: classes, labels, or numbers."""
        task = self.model.task
        if isinstance(task, Regression):
            return task.mean(torch.from_numpy(probabilities)).numpy()
        return self.model.named(probabilities)

    def interval(
        self, probabilities: Float[np.ndarray, "asked bins"], low: float = 0.1, high: float = 0.9
    ) -> Float[np.ndarray, "asked 2"]:
        """Return two quantiles of predicted numbers, given the probabilities of their bins."""
        task, found = self.model.task, torch.from_numpy(probabilities)
        assert isinstance(task, Regression)
        return torch.stack([task.quantile(found, share) for share in (low, high)], dim=1).numpy()

    def explain(self, nodes: Int[Tensor, "asked"]) -> Iterator[Explanation]:
        """Explain the predictions of some nodes, one after the other."""
        for predictor, place in self._groups(nodes, "explain"):
            yield from predictor.explain_nodes(place)

    def edges(self, nodes: Int[Tensor, "asked"], threshold: float | None = None) -> Iterator[NodeEdges]:
        """Return what was decided on the edges of some nodes, one after the other."""
        least = self.model.cleaning_threshold(threshold)[0]
        for predictor, place in self._groups(nodes, "denoise"):
            yield from _edges(predictor, place, least)


def _edges(predictor: Predictor, place: Int[Tensor, "group"], least: float) -> Iterator[NodeEdges]:
    """Return what was decided on the edges of some nodes."""
    asked, prepared = place.to(predictor.model.device), predictor.prepared
    near = with_neighbours(prepared, asked)
    selected, genuine = predictor.select(near), predictor.genuine_probability(near)
    probability = selected.prepared.symmetrise(selected.probability)
    for node in asked.split(1):
        edge = edges_of(prepared, node)[1]
        keep = probability[edge].cpu().numpy()
        neighbour = predictor.graph.node_ids[prepared.neighbour[edge].cpu().numpy()]
        known = None if genuine is None else genuine[edge.cpu()].numpy()
        yield NodeEdges(neighbour, keep, known, keep >= least)
