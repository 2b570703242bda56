"""A graph in a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdpnet._core.words import counted
from gdpnet.data.features import SparseRows
from gdpnet.data.validation import SPLITS, UNKNOWN

if TYPE_CHECKING:
    from gdpnet.data.graph import Graph

_MOST_NAMED = 10


def summary_of(graph: Graph) -> str:
    """Return the size of a graph, its features, classes and split, and its notes, one line each."""
    nodes = counted(graph.num_nodes, "node")
    weighted = "" if graph.edge_weight is None else ", weighted"
    lines = [f"Graph of {nodes} and {counted(graph.num_edges, 'directed edge')}{weighted}"]
    lines.append(f"features: {_features(graph)}")
    lines.append(f"classes: {_classes(graph)}")
    split = torch.bincount(graph.split.long(), minlength=len(SPLITS)).tolist()
    parts = [f"{name} {count:,}" for name, count in zip(SPLITS, split, strict=True) if count]
    regime = ", transductive" if graph.transductive else ""
    lines.append("split: " + (", ".join(parts) if any(split[1:]) else "none") + regime)
    lines += [f"note: {note}" for note in graph.notes]
    return "\n  ".join(lines)


def _features(graph: Graph) -> str:
    if not graph.has_features:
        return "none (one-hot node numbers)"
    kind = "sparse" if isinstance(graph.features, SparseRows) else "dense"
    return f"{graph.num_features:,}, {kind}{_named(graph.feature_names or ())}"


def _classes(graph: Graph) -> str:
    known = graph.labels[graph.labels != UNKNOWN]
    if not known.numel():
        return "none"
    counts = torch.bincount(known, minlength=graph.num_classes).tolist()
    parts = [f"{name} {count:,}" for name, count in zip(graph.class_names, counts, strict=True)]
    unlabelled = graph.num_nodes - known.numel()
    return f"{graph.num_classes}{_named(parts)}" + (
        f"; {counted(unlabelled, 'node')} without a label" if unlabelled else ""
    )


def _named(names: list[str] | tuple[str, ...]) -> str:
    if not names:
        return ""
    more = f", and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f" ({', '.join(names[:_MOST_NAMED])}{more})"
