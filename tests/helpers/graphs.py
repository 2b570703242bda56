"""Small graphs, and comparisons of graphs."""

from dataclasses import replace

import numpy as np
import torch

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph


def small_graph(*, sparse: bool = False, node_ids: list | None = None) -> Graph:
    """Return a graph of four nodes, three links, an isolated node, an unknown label and a node in no split."""
    features = np.array(
        [[0.5, 0.0, 0.0], [0.0, -1.25, 0.0], [0.0, 0.0, 0.0], [1e-7, 3.0, 0.0]], dtype=np.float32
    )
    rows = SparseRows(
        torch.tensor([0, 1, 2, 2, 4]),
        torch.tensor([0, 1, 0, 1]),
        torch.tensor([0.5, -1.25, 1e-7, 3.0]),
        3,
    )
    return Graph.build(
        [[0, 1, 3], [1, 3, 0]],
        rows if sparse else features,
        [1, 0, -1, 1],
        split=[1, 2, 0, 3],
        node_ids=["n1", "007", "a, b", 'say "x"'] if node_ids is None else node_ids,
        class_names=["cat", "dog"],
    )


def assert_same(found: Graph, expected: Graph) -> None:
    """Assert that two graphs are equal but for their notes; ids are compared as text."""
    assert torch.equal(found.row_ptr, expected.row_ptr)
    assert torch.equal(found.neighbour, expected.neighbour)
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.split, expected.split)
    assert found.class_names == expected.class_names
    assert [str(name) for name in found.node_ids] == [str(name) for name in expected.node_ids]
    _assert_same_features(found, expected)
    _assert_same_optional(found.edge_weight, expected.edge_weight)
    _assert_same_optional(found.edge_features, expected.edge_features)
    assert found.edge_feature_names == expected.edge_feature_names
    assert (found.truth is None) == (expected.truth is None)
    if found.truth is not None and expected.truth is not None:
        for part in ("spurious", "corrupted", "clean_labels"):
            assert torch.equal(getattr(found.truth, part), getattr(expected.truth, part))


def without_truth(graph: Graph) -> Graph:
    """Return the graph without its known noise."""
    return replace(graph, truth=None)


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    """Return the edges as pairs of source and target."""
    return set(zip(*graph.edge_index.tolist(), strict=True))


def _assert_same_features(found: Graph, expected: Graph) -> None:
    assert type(found.features) is type(expected.features)
    assert found.features.shape == expected.features.shape
    if isinstance(found.features, SparseRows) and isinstance(expected.features, SparseRows):
        for part in ("row_ptr", "column", "value"):
            assert torch.equal(getattr(found.features, part), getattr(expected.features, part))
    else:
        assert torch.equal(found.features, expected.features)


def _assert_same_optional(found: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert torch.equal(found, expected)
