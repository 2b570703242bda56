"""Sparse rows: the transpose, tables beside each other, and the gradient of a product."""

import pytest
import torch

from gdpnet.data import features
from gdpnet.data.features import SparseRows, beside, project, to_dense, to_sparse


def rows(width: int, seed: int) -> SparseRows:
    draws = torch.Generator().manual_seed(seed)
    return to_sparse(torch.rand(12, width, generator=draws) * (torch.rand(12, width, generator=draws) < 0.3))


@pytest.mark.parametrize("with_numba", [False, True])
def test_the_transpose_has_ascending_columns(with_numba, monkeypatch):
    monkeypatch.setattr(features, "has_numba", lambda: with_numba)
    table = rows(9, 0)
    found = table.transposed()
    assert torch.equal(to_dense(found), to_dense(table).t())
    assert found.shape == (9, 12)
    assert torch.equal(found.keys, found.keys.sort().values)


def test_a_transpose_of_nothing_is_nothing():
    table = SparseRows(torch.zeros(4, dtype=torch.long), torch.empty(0, dtype=torch.long), torch.empty(0), 2)
    assert table.transposed().row_ptr.tolist() == [0, 0, 0]


@pytest.mark.parametrize("with_numba", [False, True])
@pytest.mark.parametrize("chosen", ["some", "none", "all"])
def test_a_thinned_matrix_has_the_chosen_values_times_a_number(with_numba, chosen, monkeypatch):
    monkeypatch.setattr(features, "has_numba", lambda: with_numba)
    table = rows(9, 0)
    kept = torch.rand(table.value.numel(), generator=torch.Generator().manual_seed(1)) < 0.5
    kept = kept if chosen == "some" else torch.full_like(kept, chosen == "all")
    found = table.thinned(kept, 1.25)
    assert torch.equal(to_dense(found), to_dense(table.with_value(table.value * kept * 1.25)))
    assert found.value.numel() == found.column.numel() == int(found.row_ptr[-1]) == int(kept.sum())


def test_tables_beside_each_other_keep_their_rows():
    parts = [rows(5, 0), rows(3, 1), rows(7, 2)]
    found = beside(parts)
    assert torch.equal(to_dense(found), torch.cat([to_dense(part) for part in parts], dim=1))
    assert torch.equal(found.keys, found.keys.sort().values)


@pytest.mark.parametrize("with_numba", [False, True])
def test_the_gradient_of_a_sparse_product_is_that_of_a_dense_one(with_numba, monkeypatch):
    monkeypatch.setattr(features, "has_numba", lambda: with_numba)
    table, gradients = rows(9, 3), []
    for given in (table, to_dense(table)):
        weight = torch.arange(18.0).view(9, 2).requires_grad_()
        (project(given, weight) ** 2).sum().backward()
        gradients.append(weight.grad)
    torch.testing.assert_close(*gradients)
