"""Write a corrupted graph as a folder that can be trained on, with a record of the changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from gdpnet._core.files import new_folder
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.io.files import id_array, write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.data.noise.registry import Noisy


def write_noisy(original: Graph, noisy: Noisy, folder: Path, about: Mapping[str, Any] | None = None) -> None:
    """Write a corrupted graph and its changes to a new folder, whole or not at all.

    ``nodes``, ``edges`` and ``features`` are the tables that :func:`gdpnet.data.io.files.read_graph` reads; edges
    also have a column ``spurious``. ``graph.npz`` is the same graph with all known noise, ``changes.parquet`` lists
    every change, and ``changes.json`` counts them.
    """
    with new_folder(folder, "edges.parquet") as temporary:
        assert noisy.graph.truth is not None
        write_tables(
            noisy.graph, temporary, extra_edge_columns={"spurious": noisy.graph.truth.spurious.numpy()}
        )
        write_npz(noisy.graph, temporary / "graph.npz")
        write_table(change_table(original, noisy), temporary / "changes.parquet")
        record = {**(about or {}), "directed": noisy.graph.is_directed, **count_changes(noisy)}
        (temporary / "changes.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def count_changes(noisy: Noisy) -> dict[str, int]:
    """Count the changes."""
    return {
        "links_added": noisy.added.shape[1],
        "links_removed": noisy.removed.shape[1],
        "features_changed": noisy.features_of.numel(),
        "labels_changed": noisy.labels_of.numel(),
    }


def change_table(original: Graph, noisy: Noisy) -> Any:
    """Return an Arrow table of one row per change, with the user's ids.

    ``change`` is added, removed, features or label. A link has ``source`` and ``target``, a node ``node``, and a
    changed label its old class ``was`` and its new class ``now``.
    """
    known = id_array(original)
    names = np.array([*original.class_names, None], dtype=object)  # the last entry is for unknown, -1

    def ids(nodes: Tensor) -> Any:
        return known.take(pa.array(nodes.numpy()))

    labels = (graph.labels[noisy.labels_of].numpy() for graph in (original, noisy.graph))
    was, now = (pa.array(names[label], pa.string()) for label in labels)
    parts = {
        "added": {"source": ids(noisy.added[0]), "target": ids(noisy.added[1])},
        "removed": {"source": ids(noisy.removed[0]), "target": ids(noisy.removed[1])},
        "features": {"node": ids(noisy.features_of)},
        "label": {"node": ids(noisy.labels_of), "was": was, "now": now},
    }
    counted = zip(parts.items(), count_changes(noisy).values(), strict=True)
    tables = [pa.table({"change": np.repeat(kind, count), **part}) for (kind, part), count in counted]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()
