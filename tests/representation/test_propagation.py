"""Normalised adjacency, GCN and propagation, against numbers worked by hand and dense matrices; the encoder.

The encoder of clusters separates classes without labels, and a seed determines it.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet.config import ClustersSettings, PropagationSettings
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.representation.gcn import GCN, NormalisedAdjacency
from gdpnet.representation.propagation import Encoder, Propagation, fit_encoder
from gdpnet.representation.sparse import table_of

# the path 0 - 1 - 2 with weights 1/2 and 2
ROW_PTR, NEIGHBOUR = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
WEIGHT = torch.tensor([0.5, 0.5, 2.0, 2.0])


def dense_adjacency() -> torch.Tensor:
    loops = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 2.0], [0.0, 2.0, 1.0]])
    scale = loops.sum(dim=1).rsqrt()
    return scale[:, None] * loops * scale


def test_the_normalised_adjacency_is_that_of_the_dense_matrix():
    rows = torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    found = NormalisedAdjacency.of(ROW_PTR, NEIGHBOUR, WEIGHT)(rows)
    torch.testing.assert_close(found, dense_adjacency() @ rows)


def test_edges_of_weight_zero_do_not_count():
    with_zero = NormalisedAdjacency.of(
        torch.tensor([0, 2, 4, 6]), torch.tensor([1, 2, 0, 2, 0, 1]), torch.tensor([0.5, 0, 0.5, 2, 0, 2])
    )
    assert with_zero.matrix.value.numel() == 4
    torch.testing.assert_close(with_zero(torch.eye(3)), dense_adjacency())


def test_one_step_over_an_edge_averages_its_ends_and_leaves_an_isolated_node():
    settings = PropagationSettings(steps=1, restart=0.0)
    propagation = Propagation.over(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0]), torch.ones(2), settings)
    rows = propagation(torch.tensor([[1.0], [0.0], [5.0]]))
    assert rows.flatten().tolist() == pytest.approx([0.5, 0.5, 5.0])


def test_each_step_returns_to_the_rows_with_the_restart_probability():
    rows = torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    found = Propagation.over(ROW_PTR, NEIGHBOUR, WEIGHT, PropagationSettings(steps=2, restart=0.1))(rows)
    once = 0.9 * dense_adjacency() @ rows + 0.1 * rows
    torch.testing.assert_close(found, 0.9 * dense_adjacency() @ once + 0.1 * rows)


def test_propagation_has_the_gradient_of_its_product():
    propagation = Propagation.over(ROW_PTR, NEIGHBOUR, WEIGHT, PropagationSettings(steps=2, restart=0.1))
    adjacency = propagation.adjacency
    double = replace(
        adjacency,
        matrix=adjacency.matrix.with_value(adjacency.matrix.value.double()),
        diagonal=adjacency.diagonal.double(),
    )
    rows = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(replace(propagation, adjacency=double), (rows,))


def test_a_gcn_on_sparse_features_is_that_on_dense_ones():
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(3, 4, generator=generator) * (torch.rand(3, 4, generator=generator) > 0.5)
    sparse = table_of(SparseRows.from_scipy(sp.csr_matrix(dense.numpy())), torch.device("cpu"))
    network = GCN(4, 5, 2, layers=2)
    network.initialise(generator)
    adjacency = NormalisedAdjacency.of(ROW_PTR, NEIGHBOUR, WEIGHT)
    matrix, (first, second) = dense_adjacency(), network.weights
    expected = matrix @ torch.relu(matrix @ dense @ first) @ second
    gradients = []
    for rows in (dense, sparse):
        network.zero_grad()
        scores = network(rows, adjacency)
        torch.testing.assert_close(scores, expected)
        scores.square().sum().backward()
        gradients.append(first.grad.clone())
    torch.testing.assert_close(*gradients)


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
