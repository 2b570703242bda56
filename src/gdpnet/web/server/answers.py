"""Answers to questions about nodes, as plain values; one function per question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from jaxtyping import Int
from torch import Tensor

from gdpnet.inference.local import LocalPredictor
from gdpnet.representation.regression import Regression

Row = dict[str, Any]
Group = Int[Tensor, "group"]


def predicted(local: LocalPredictor, nodes: Group, threshold: float | None = None) -> Iterator[Row]:
    """Return the class of each node with all class probabilities, its labels, or its number with an interval."""
    found = local.probabilities(nodes)
    said = local.named(found)
    if isinstance(local.model.task, Regression):
        for number, (low, high) in zip(said.tolist(), local.interval(found).tolist(), strict=True):
            yield {"prediction": number, "low": low, "high": high}
        return
    names = [str(name) for name in local.model.classes]
    for name, row in zip(said, found.tolist(), strict=True):
        yield {"predicted": str(name), "probabilities": dict(zip(names, row, strict=True))}


def embedded(local: LocalPredictor, nodes: Group, threshold: float | None = None) -> Iterator[Row]:
    """Return the embedding of each node."""
    return ({"embedding": row} for row in local.embeddings(nodes).tolist())


def cleaned(local: LocalPredictor, nodes: Group, threshold: float | None = None) -> Iterator[Row]:
    """Return the edges of each node, with their keep probability and whether they are kept."""
    least, reason = local.model.cleaning_threshold(threshold)
    for node, found in zip(nodes.split(1), local.edges(nodes, threshold), strict=True):
        name = str(local.graph.ids_of(node)[0])
        columns: dict[str, list[Any]] = {
            "src_node_id": [str(one) for one in found.neighbour],
            "dest_node_id": [name] * len(found.neighbour),
            "keep_probability": found.keep_probability.tolist(),
            "kept": found.kept.tolist(),
        }
        if found.genuine_probability is not None:
            columns["genuine_probability"] = found.genuine_probability.tolist()
        edges = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        yield {"threshold": least, "reason": reason, "edges": edges}


def explained(local: LocalPredictor, nodes: Group, threshold: float | None = None) -> Iterator[Row]:
    """Return the explanation of each prediction: what every neighbour adds, and the evidence for its edge."""
    for found in local.explain(nodes):
        values = asdict(found)
        del values["node"]
        for row, decision in zip(values["decisions"], found.decisions, strict=True):
            row["evidence"] = decision.evidence
        yield values | {"summary": found.summary}


ANSWERS: dict[str, Callable[[LocalPredictor, Group, float | None], Iterator[Row]]] = {
    "predict": predicted,
    "embed": embedded,
    "denoise": cleaned,
    "explain": explained,
}
