"""Answers to questions about nodes, as plain values; one function per question, each node computed alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.inference.explanation import Explanation
from gdpnet.inference.local import LocalPredictor
from gdpnet.representation.regression import Regression

Row = dict[str, Any]
Target = Int[Tensor, "one"]


def predicted(local: LocalPredictor, node: Target, threshold: float | None = None) -> Row:
    """Return the class of a node with all class probabilities, its labels, or its number with an interval."""
    found = local.probabilities(node)
    if isinstance(local.model.task, Regression):
        low, high = local.interval(found)[0].tolist()
        return {"prediction": float(local.named(found)[0]), "low": low, "high": high}
    names = (str(name) for name in local.model.classes)
    return {
        "predicted": str(local.named(found)[0]),
        "probabilities": dict(zip(names, found[0].tolist(), strict=True)),
    }


def embedded(local: LocalPredictor, node: Target, threshold: float | None = None) -> Row:
    """Return the embedding of a node."""
    return {"embedding": local.embeddings(node)[0].tolist()}


def cleaned(local: LocalPredictor, node: Target, threshold: float | None = None) -> Row:
    """Return the edges of a node, with their keep probability and whether they are kept."""
    found, least = next(local.edges(node, threshold)), local.model.cleaning_threshold(threshold)
    columns: dict[str, list[Any]] = {
        "src_node_id": [str(one) for one in found.neighbour],
        "keep_probability": found.keep_probability.tolist(),
        "kept": found.kept.tolist(),
    }
    if found.genuine_probability is not None:
        columns["genuine_probability"] = found.genuine_probability.tolist()
    edges = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"threshold": least[0], "reason": least[1], "edges": edges}


def explained(local: LocalPredictor, node: Target, threshold: float | None = None) -> Row:
    """Return the explanation of a prediction: what every neighbour adds, and what speaks for its edge."""
    found = next(local.explain(node))
    return {name: value for name, value in explanation_values(found).items() if name != "node"}


def explanation_values(found: Explanation) -> Row:
    """Return an explanation as plain values, with the evidence for each edge in words too."""
    values = asdict(found)
    for row, decision in zip(values["decisions"], found.decisions, strict=True):
        row["evidence"] = decision.evidence
    return values | {"summary": found.summary}


ANSWERS: dict[str, Callable[[LocalPredictor, Target, float | None], Row]] = {
    "predict": predicted,
    "embed": embedded,
    "denoise": cleaned,
    "explain": explained,
}


def answer(
    local: LocalPredictor, nodes: Int[Tensor, "targets"], question: str, threshold: float | None = None
) -> Iterator[Row]:
    """Answer a question for some nodes, one after the other."""
    return (ANSWERS[question](local, torch.tensor([node]), threshold) for node in nodes.tolist())
