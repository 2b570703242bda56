"""Dropout of feature rows: what is dropped, and that all ways drop the same."""

import pytest
import torch

from gdpnet.data import dropout
from gdpnet.data.dropout import draw_kept, drop_inputs, drop_values, kept_factor, take_and_drop
from gdpnet.data.features import SparseRows, take_rows, to_dense, to_sparse

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows() -> SparseRows:
    values = torch.rand(30, 20, generator=generator(1)) * (torch.rand(30, 20, generator=generator(2)) < 0.3)
    return to_sparse(values)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.75, 0.99])
def test_values_are_dropped_at_the_asked_rate_and_the_rest_scaled_up(share):
    factor = kept_factor(torch.Size([200_001]), share, generator(), CPU)
    assert factor.unique().tolist() == pytest.approx([0.0, 1.0 / (1.0 - share)])
    assert float((factor == 0).float().mean()) == pytest.approx(share, abs=0.004)


def test_neighbouring_values_are_dropped_independently():
    """Four values share one random number of 64 bits."""
    kept = (kept_factor(torch.Size([50_000, 4]), 0.5, generator(), CPU) > 0).float()
    assert torch.corrcoef(kept.t()).fill_diagonal_(0.0).abs().max() < 0.02


def test_all_values_stay_at_a_rate_of_zero():
    assert drop_inputs(rows(), 0.0, generator()).value.tolist() == rows().value.tolist()
    assert (
        take_and_drop(rows(), torch.tensor([2]), 0.0, generator()).value.tolist()
        == rows().take(torch.tensor([2])).value.tolist()
    )


def test_what_is_dropped_of_sparse_rows_is_no_longer_stored():
    dropped = drop_inputs(rows(), 0.5, generator())
    assert isinstance(dropped, SparseRows)
    factor = kept_factor(rows().value.shape, 0.5, generator(), CPU)
    assert dropped.value.numel() == int((factor > 0).sum())
    assert torch.equal(to_dense(dropped), to_dense(rows().with_value(rows().value * factor)))


def test_values_are_kept_whose_factor_is_not_zero():
    shape = torch.Size([7, 11])
    kept, factor = (draw(shape, 0.3, generator(), CPU) for draw in (draw_kept, kept_factor))
    assert torch.equal(kept, factor > 0)


@pytest.mark.parametrize("with_numba", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_rows_that_are_taken_and_dropped_in_one_pass_are_the_same(share, with_numba, monkeypatch):
    monkeypatch.setattr(dropout, "has_numba", lambda: with_numba)
    some = torch.tensor([7, 3, 3, 29, 0])
    found = take_and_drop(rows(), some, share, generator())
    expected = drop_inputs(take_rows(rows(), some), share, generator())
    assert isinstance(found, SparseRows)
    for name in ("row_ptr", "column", "value"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


def test_dense_rows_are_taken_and_dropped_too():
    dense, some = to_dense(rows()), torch.tensor([1, 1, 4])
    assert torch.equal(
        take_and_drop(dense, some, 0.5, generator()), drop_values(dense[some], 0.5, generator())
    )
