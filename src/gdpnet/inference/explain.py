"""Explain predictions: the decisions on a node's neighbours, and what each contributed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, owners_of, sum_by_owner
from gdpnet.data.graph import Graph
from gdpnet.inference.decisions import Evidence, Links, Visits, visit
from gdpnet.inference.explanation import Decision, Explanation, Head
from gdpnet.inference.gcn_states import Convolved
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.naming import Naming
from gdpnet.inference.observation import make_view
from gdpnet.inference.prefixes import MOST_STATES, prefix_probabilities, prefixes_of
from gdpnet.inference.select import Selected
from gdpnet.inference.states import Prefixes
from gdpnet.inference.threshold import KEEP_ALL
from gdpnet.representation.all_edges import SharedNetwork
from gdpnet.selection.episodes import View

__all__ = ["Decision", "Explainer", "Explanation", "Head"]

_WORK_AT_ONCE = 1 << 16
"""Neighbours in the states of the nodes that are explained together, which bounds the memory."""


class Explainer:
    """Explains predictions on one graph by the decisions on its edges.

    The order of the neighbours is that of a node's greedy episode; everything else is what `predict_proba` and
    `denoise` say.
    """

    def __init__(
        self,
        model: TrainedModel,
        selected: Selected,
        graph: Graph,
        genuine: Float[Tensor, "edges"] | None = None,
    ) -> None:
        self.model, self.selected, self.graph = model, selected, graph
        self.prepared, self.naming = selected.prepared, Naming(model, graph)
        self.links = Links.of(selected, graph, model, genuine)
        self.evidence = Evidence(self.prepared, graph)

    @cached_property
    def _view(self) -> View:
        """Return what the policy sees."""
        return make_view(self.model.networks.aggregators, self.prepared)

    @cached_property
    def _convolved(self) -> dict[str, Convolved]:
        """Return the heads with convolutions over their graphs, those that have a part in predictions."""
        networks, ensemble, found = self.model.networks, self.model.ensemble, {}
        if networks.gcn is not None and ensemble.uses_gcn:
            found["gcn"] = Convolved.of(networks.gcn, self.selected, ensemble.threshold)
        if isinstance(networks.all_edges, SharedNetwork) and ensemble.weights.all_edges > 0:
            found["all_edges"] = Convolved.of(networks.all_edges, self.selected, KEEP_ALL)
        return found

    def explain(self, nodes: Int[Tensor, "asked"]) -> Iterator[Explanation]:
        """Explain the predictions of some nodes; all that has a part in their neighbours' must be decided on."""
        degree = self.prepared.row_ptr[nodes + 1] - self.prepared.row_ptr[nodes]
        work = offsets_of(1 + degree * (1 + degree.clamp(max=MOST_STATES) // 2))
        for first, last in cut_rows(work, _WORK_AT_ONCE):
            yield from self._explain(nodes[first:last])

    @torch.no_grad()
    def _explain(self, nodes: Int[Tensor, "asked"]) -> list[Explanation]:
        """Explain nodes that are few enough to be explained together."""
        policy = self.model.networks.policy
        visits = visit(self.model, self.prepared, nodes, None if policy is None else self._view)
        neighbour = self.prepared.neighbour[visits.edge].long()
        asked, place = torch.unique(torch.cat([nodes, neighbour]), return_inverse=True)
        heads, found = self._predict(asked)
        own, other = place[: nodes.numel()], place[nodes.numel() :]
        about = self._about({name: one[own] for name, one in heads.items()}, found[own])
        prefixes = prefixes_of(nodes, visits.edge, visits.degree)
        values = self._values(prefixes, found[own])
        predicted = self.naming.predicted(found)
        columns = self._columns(visits, prefixes, values)
        columns |= {
            "label": self.naming.labels(neighbour),
            "predicted": [predicted[one] for one in other.tolist()],
        }
        columns |= self.evidence(asked, found, own[prefixes.owner], other)
        about |= {"node": self.graph.node_ids[nodes.cpu().numpy()].astype(str).tolist()}
        about |= {"label": self.naming.labels(nodes), "ended_early": visits.ended_early.tolist()}
        about |= self.naming.amounts(values[prefixes.first_state[1:] - 1])
        about |= self.naming.amounts(values[prefixes.first_state[:-1]], "_alone")
        return self._told(about, columns, prefixes)

    def _predict(
        self, asked: Int[Tensor, "asked"]
    ) -> tuple[dict[str, Float[Tensor, "asked classes"]], Float[Tensor, "asked classes"]]:
        """Return the class probabilities of some nodes by each head, and those of the ensemble."""
        mode, ensemble = self.model.config.inference.mode, self.model.ensemble
        known = {name: one.probabilities for name, one in self._convolved.items()}
        heads = ensemble.by_head(self.selected, asked, mode, known)
        return heads, ensemble.mix(heads)

    def _values(self, prefixes: Prefixes, found: Float[Tensor, "targets classes"]) -> Float[Tensor, "states"]:
        """Return what is explained in every state; the last of a node is what is predicted."""
        mode, measure = self.model.config.inference.mode, self.naming.measure(found)
        states = prefix_probabilities(self.model.ensemble, self.selected, prefixes, mode, self._convolved)
        states[prefixes.first_state[1:] - 1] = found
        return (states.double() * measure[prefixes.target]).sum(dim=1)

    def _columns(
        self, visits: Visits, prefixes: Prefixes, values: Float[Tensor, "states"]
    ) -> dict[str, list[Any]]:
        """Return what was decided on the edges of some nodes, and what each edge contributes."""
        share = self.selected.weight(self.model.config.inference.mode)[visits.edge]
        added = contributions(values, prefixes, share)
        columns = visits.columns | self.links.columns(visits.edge)
        return columns | {"contribution": added.tolist(), "share": share.tolist()}

    def _about(
        self, heads: dict[str, Float[Tensor, "targets classes"]], found: Float[Tensor, "targets classes"]
    ) -> dict[str, list[Any]]:
        """Return what is predicted for some nodes, by the ensemble and by each head."""
        measure, naming, said = self.naming.measure(found), self.naming, []
        for name, one in heads.items():
            amounts = naming.amounts((one.double() * measure).sum(dim=1))
            amounts |= {"predicted": naming.predicted(one)}
            weight = getattr(self.model.weights, name)
            said.append([Head(name, weight, **each) for each in _rows(amounts)])
        return {
            "predicted": naming.predicted(found),
            "explained": naming.explained(found),
            "heads": list(zip(*said, strict=True)),
        }

    def _told(
        self, about: dict[str, list[Any]], columns: dict[str, list[Any]], prefixes: Prefixes
    ) -> list[Explanation]:
        """Return the explanations, given columns of the nodes and of their edges."""
        task, threshold = self.model.config.task.kind, self.model.threshold.threshold
        decisions = [Decision(task=task, **one) for one in _rows(columns)]
        first = prefixes.first.tolist()
        return [
            Explanation(decisions=tuple(decisions[start:end]), threshold=threshold, task=task, **one)
            for one, start, end in zip(_rows(about), first[:-1], first[1:], strict=True)
        ]


def _rows(columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Return one dictionary per row."""
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def contributions(
    values: Float[Tensor, "states"], prefixes: Prefixes, share: Float[Tensor, "edges"]
) -> Float[Tensor, "edges"]:
    """Return the change that each edge makes; that of a group is divided by how much its members count."""
    change, size = values.diff(), prefixes.length.diff()
    within = prefixes.target[1:] == prefixes.target[:-1]
    change, size = change[within], size[within]
    group, part = owners_of(size), share.double() + 1e-12
    return change[group] * part / sum_by_owner(part, group, size.numel())[group]
