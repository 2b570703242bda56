"""The encoder of clusters: it separates classes without labels, and a seed determines it."""

from __future__ import annotations

import numpy as np
import torch

from gdpnet.config import ClustersSettings, PropagationSettings
from gdpnet.data.graph import Graph
from gdpnet.representation.propagation import Encoder, Propagation, fit_encoder


def communities() -> tuple[torch.Tensor, Propagation, torch.Tensor]:
    """Return four communities of forty nodes: edges mostly within, features that depend on them."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 40)
    ends = np.stack([rng.integers(160, size=4000), rng.integers(160, size=4000)])
    stays = (labels[ends[0]] == labels[ends[1]]) | (rng.random(4000) < 0.1)
    rows = rng.normal(size=(160, 24)).astype(np.float32) + 1.5 * np.eye(24, dtype=np.float32)[labels]
    graph = Graph.build(ends[:, stays], rows, labels)
    everything = torch.ones(graph.num_edges)
    propagation = Propagation.over(graph.row_ptr, graph.neighbour, everything, PropagationSettings())
    return torch.from_numpy(rows), propagation, graph.labels


def similarity_within(rows: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the mean similarity of two nodes of a class, minus that of any two nodes."""
    similarity = rows @ rows.t()
    same = labels[:, None] == labels[None, :]
    return float(similarity[same].mean() - similarity.mean())


def test_representations_have_unit_length_and_separate_unseen_classes():
    rows, propagation, labels = communities()
    found = fit_encoder(rows, propagation, ClustersSettings(), seed=0).embed(rows, propagation)
    assert found.shape == (len(rows), ClustersSettings().width)
    assert torch.allclose(found.norm(dim=1), torch.ones(len(rows)), atol=1e-5)
    fresh = Encoder(rows.shape[1], ClustersSettings().width)
    torch.nn.init.xavier_uniform_(fresh.weight, generator=torch.Generator().manual_seed(0))
    assert similarity_within(found, labels) > similarity_within(fresh.embed(rows, propagation), labels) + 0.02


def test_the_same_seed_gives_the_same_encoder():
    rows, propagation, _ = communities()
    first, again, other = (
        fit_encoder(rows, propagation, ClustersSettings(), seed).weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
