"""The encoder of clusters: it tells true from shuffled features, and one seed gives one encoder."""

from __future__ import annotations

import numpy as np
import torch

from gdpnet.data.graph import Graph
from gdpnet.representation.infomax import WIDTH, Encoder, fit_encoder
from gdpnet.representation.propagation import Spread


def world() -> tuple[torch.Tensor, Spread, torch.Tensor]:
    """Return four communities of forty nodes: links mostly within, features that hint at them."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 40)
    ends = np.stack([rng.integers(160, size=4000), rng.integers(160, size=4000)])
    stays = (labels[ends[0]] == labels[ends[1]]) | (rng.random(4000) < 0.1)
    rows = rng.normal(size=(160, 24)).astype(np.float32) + 1.5 * np.eye(24, dtype=np.float32)[labels]
    graph = Graph.build(ends[:, stays], rows, labels)
    everything = torch.ones(graph.num_edges)
    spread = Spread.over(graph.row_ptr, graph.neighbour, everything)
    return torch.from_numpy(rows), spread, graph.labels


def spread_within(rows: torch.Tensor, labels: torch.Tensor) -> float:
    """Return how alike two nodes of a class are, less how alike any two are."""
    alike = rows @ rows.t()
    same = labels[:, None] == labels[None, :]
    return float(alike[same].mean() - alike.mean())


def test_representations_have_length_one_and_part_classes_that_were_never_read():
    rows, spread, labels = world()
    found = fit_encoder(rows, spread, seed=0).embed(rows, spread)
    assert found.shape == (len(rows), WIDTH)
    assert torch.allclose(found.norm(dim=1), torch.ones(len(rows)), atol=1e-5)
    fresh = Encoder(rows.shape[1])
    torch.nn.init.xavier_uniform_(fresh.weight, generator=torch.Generator().manual_seed(0))
    assert spread_within(found, labels) > spread_within(fresh.embed(rows, spread), labels) + 0.02


def test_one_seed_gives_one_encoder():
    rows, spread, _ = world()
    first, again, other = (fit_encoder(rows, spread, seed).weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
