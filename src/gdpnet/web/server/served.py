"""What is served: a model and a stored graph, loaded together and exchanged together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gdpnet._core.version import __version__
from gdpnet.data.extended import ExtendedGraph
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import is_store, open_store
from gdpnet.data.validation import UNKNOWN, id_text
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.inference.kept_tables import Kept, kept_beside, remove_unused
from gdpnet.inference.local import LocalPredictor
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.reach import check_local, reach_of
from gdpnet.inference.stored import StoredDecisions, can_store
from gdpnet.web.explorer.page import json_text
from gdpnet.web.explorer.payload import build_summary, neighbourhood
from gdpnet.web.server.log import tell

_MOST_SEARCHED = 1 << 18
"""Ids that a search looks through; among more of them it finds those that begin with the text."""

OTHERS_STAY = "tables of other models or stores are kept: delete those that no server needs"

QUESTIONS = ("predict", "embed", "denoise", "explain")


@dataclass(frozen=True)
class Place:
    """Where a model and a graph are."""

    run: Path
    store: Path
    device: str = "cpu"
    tables: Path | None = None
    """The folder for tables of stored decisions; None to keep none."""
    threads: int = 1
    """Threads that compute a request; the answer does not depend on it."""
    tables_named: bool = True
    """Whether the user named the folder for tables; if not, it is the one beside the store."""

    @property
    def keeps_tables_beside(self) -> bool:
        """Return whether the folder for tables has those of this store alone: it is not named, and beside it."""
        return not self.tables_named and not self.store.is_symlink()


class NodeIndex:
    """The numbers of nodes by their ids, found without a pass over all of them."""

    def __init__(self, ids: np.ndarray) -> None:
        self.count = ids.size
        self.by_number = ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(ids.size)))
        if not self.by_number:
            text = id_text(np.asarray(ids))
            self.order = np.argsort(text, kind="stable")
            self.sorted = text[self.order]
            self.folded = [str(one).casefold() for one in self.sorted] if ids.size <= _MOST_SEARCHED else None

    def find(self, names: Sequence[str]) -> list[int | None]:
        """Return the number of each node, None for an id that no node has."""
        if self.by_number:
            return [self._as_number(name) for name in names]
        if not names:
            return []
        place = np.searchsorted(self.sorted, list(names)).clip(max=self.count - 1)
        return [
            int(self.order[one]) if self.sorted[one] == name else None
            for one, name in zip(place, names, strict=True)
        ]

    def containing(self, text: str, most: int) -> list[int]:
        """Return nodes whose ids have a text in them, upper or lower case; those that begin with it come first.

        Numbers, and ids too many to look through, are found by their beginning.
        """
        if self.by_number or self.folded is None:
            return self._beginning_with(text, most)
        wanted, places = text.casefold(), list[tuple[bool, bool, int]]()
        for place, one in enumerate(self.folded):
            if wanted in one:
                places.append((one != wanted, not one.startswith(wanted), place))
        return [int(self.order[place]) for *_, place in sorted(places)[:most]]

    def _beginning_with(self, text: str, most: int) -> list[int]:
        """Return nodes whose ids begin with a text, a shorter id first."""
        if self.by_number:
            found, low, high = list[int](), self._as_number(text), 1
            while low is not None and low < self.count and len(found) < most and text != "0":
                found += range(low, min(low + high, self.count, low + most - len(found)))
                low, high = low * 10, high * 10
            return found or ([] if low is None else [low])
        first = int(np.searchsorted(self.sorted, text))
        near = self.sorted[first : first + most]
        return [int(self.order[first + place]) for place, one in enumerate(near) if one.startswith(text)]

    def _as_number(self, name: str) -> int | None:
        plain = name.isascii() and name.isdigit() and len(name) <= 18 and (name == "0" or name[0] != "0")
        return int(name) if plain and int(name) < self.count else None


class Served:
    """A model and a stored graph that answer questions."""

    def __init__(
        self, model: TrainedModel, graph: Graph, tables: Path | None = None, title: str = "served graph"
    ) -> None:
        check_local(model)
        self.model, self.graph, self.title = model, graph, title
        self.directed, self.index = graph.is_directed, NodeIndex(graph.node_ids)
        self.model_id = model.fingerprint()
        self.stored: StoredDecisions | None = None
        if tables is not None and can_store(model, graph, directed=self.directed):
            start = time.monotonic()
            self.stored = StoredDecisions.open(model, graph, tables)
            seconds = round(time.monotonic() - start, 3)
            tell("tables of the stored graph", folder=str(self.stored.folder), seconds=seconds)

    @classmethod
    def load(cls, place: Place) -> Served:
        """Load a model and open a store; answer every question once, which refuses what does not fit together."""
        if not is_store(place.store):
            raise ConfigError(f"--graph must be a store, found {place.store}: write one with 'gdpnet store'")
        model, graph = GDPNet.load(place.run, device=place.device).trained_, open_store(place.store)
        served = cls(model, graph, place.tables, place.store.resolve().name)
        served.try_out()
        if served.stored is not None:
            _tidy(served.stored.folder, is_ours=place.keeps_tables_beside)
        return served

    def try_out(self) -> None:
        """Answer every question for the first node, which also compiles what is compiled."""
        local, node = self.local(ExtendedGraph(self.graph)), torch.tensor([0])
        local.probabilities(node), local.embeddings(node)
        list(local.edges(node)), list(local.explain(node))

    def local(self, graph: ExtendedGraph, most_edges: int | None = None) -> LocalPredictor:
        """Return what answers questions about the stored graph, about it with additions, or about another."""
        stored = self.stored if graph.graph is self.graph else None
        return LocalPredictor(self.model, graph, most_edges, stored)

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return what is told of the model and the graph."""
        model, graph = self.model, self.graph
        columns = graph.table.encoding.columns if graph.table is not None else ()
        return {
            "version": __version__,
            "model": self.model_id,
            "task": model.config.task.kind,
            "classes": []
            if model.config.task.kind == "regression"
            else [str(name) for name in model.classes],
            "threshold": model.threshold.threshold,
            "reason": model.threshold.reason,
            "heads": {name: weight for name, weight in model.weights._asdict().items() if weight > 0},
            "stored_decisions": self.stored is not None,
            "hops": {question: reach_of(model, question).hops for question in QUESTIONS},
            "features": {
                "kind": model.columns.kind,
                "width": graph.num_features if graph.has_features else 0,  # none are given with new nodes
                "names": None if graph.feature_names is None else list(graph.feature_names),
                "columns": [column.name for column in columns] or None,
            },
            "edge_features": None
            if graph.edge_features is None
            else {
                "width": graph.edge_features.shape[1],
                "names": list(graph.edge_feature_names or ()) or None,
            },
            "graph": {
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "directed": self.directed,
                "weighted": graph.edge_weight is not None,
            },
        }

    def search(self, text: str, most: int = 50) -> list[dict[str, str]]:
        """Return nodes whose id or class has a text in it."""
        graph, wanted = self.graph, text.strip()
        found = self.index.containing(wanted, most) if wanted else []
        for number, name in enumerate(graph.class_names):
            if wanted and wanted.casefold() in str(name).casefold() and len(found) < most:
                found += np.flatnonzero(graph.labels.numpy() == number)[:most].tolist()
        found = list(dict.fromkeys(found))[:most]
        names = [*(str(name) for name in graph.class_names), ""]
        return [{"id": str(graph.node_ids[one]), "text": names[int(graph.labels[one])]} for one in found]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Return what the explorer shows before a node is chosen."""
        return build_summary(self.model, self.graph, title=self.title, decided=False)

    def judge(self) -> str:
        """Decide on the whole graph; return what the explorer judges the model by, and its lists, as JSON."""
        found = build_summary(self.model, self.graph, title=self.title)
        return json_text({name: found[name] for name in ("judge", "lists")})

    def neighbourhood(self, number: int, most_edges: int) -> dict[str, Any]:
        """Return what the explorer shows of a node and the nodes within two hops, computed from its surroundings."""
        local = self.local(ExtendedGraph(self.graph), most_edges)
        predictor, _ = local.predictor(torch.tensor([number]), "explore")
        return neighbourhood(predictor, str(self.graph.node_ids[number]), title=self.title)

    def about_node(self, number: int, most: int = 100) -> dict[str, Any]:
        """Return what the graph knows of a stored node, with its first neighbours."""
        graph = self.graph
        row = slice(int(graph.row_ptr[number]), int(graph.row_ptr[number + 1]))
        near = graph.neighbour[row][:most].long().numpy()
        label, target = int(graph.labels[number]), None
        if graph.targets is not None and not bool(graph.targets[number].isnan()):
            target = float(graph.targets[number])
        return {
            "node_id": str(graph.node_ids[number]),
            "label": None if label == UNKNOWN else graph.class_names[label],
            "target": target,
            "degree": row.stop - row.start,
            "neighbours": [str(one) for one in graph.node_ids[near]],
        }


def _tidy(own: Path, *, is_ours: bool) -> None:
    """Delete tables of what the store was before, if only its own lie there; tell of those of other models."""
    stays = list[Kept]()
    for kept in kept_beside(own):
        if is_ours and not kept.is_of_store and remove_unused(kept):
            tell(
                "deleted tables of what the store was before",
                folder=str(kept.path),
                mebibytes=_mebibytes(kept),
            )
        else:
            stays.append(kept)
    if stays:
        tell(OTHERS_STAY, folders=[str(one.path) for one in stays], mebibytes=_mebibytes(*stays))


def _mebibytes(*kept: Kept) -> float:
    return round(sum(one.bytes for one in kept) / 2**20, 1)
