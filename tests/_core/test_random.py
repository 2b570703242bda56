"""Random numbers by key: uniform, unrelated between keys, and the same for the same key."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet._core.random import gumbels, keys, uniforms

MANY = 200_000


def draws(seed: int = 0, counter: int = 0) -> torch.Tensor:
    """Return many draws of neighbouring keys, as a hub's candidates have them."""
    number = torch.arange(MANY)
    return uniforms(keys(seed, torch.zeros_like(number), number), counter)


def correlation(left: torch.Tensor, right: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([left, right]))[0, 1])


def test_draws_of_near_keys_are_uniform():
    drawn = draws()
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.003)
    assert float(drawn.var()) == pytest.approx(1 / 12, abs=0.001)
    shares = torch.histc(drawn, bins=20, min=0.0, max=1.0) / MANY
    assert torch.allclose(shares, torch.full((20,), 0.05), atol=0.003)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**20))
def test_every_draw_lies_strictly_between_zero_and_one(key, counter):
    drawn = float(uniforms(torch.tensor([key], dtype=torch.int32), counter))
    assert 0.0 < drawn < 1.0


def test_the_smallest_draw_is_above_zero():
    # the key that makes every bit of the first draw zero
    assert float(uniforms(torch.tensor([-0x7F4A7C15], dtype=torch.int32), 0)) == 2.0**-24


def test_gumbels_are_finite_and_have_the_mean_and_variance_of_their_law():
    number = torch.arange(MANY)
    drawn = gumbels(keys(3, number), 0)
    assert bool(torch.isfinite(drawn).all())
    assert float(drawn.mean()) == pytest.approx(0.5772, abs=0.015)
    assert float(drawn.var()) == pytest.approx(1.6449, abs=0.04)


def test_the_same_key_and_count_give_the_same_draw_in_any_company():
    together = draws()
    picked = torch.tensor([7, 100, 4])
    alone = uniforms(keys(0, torch.zeros_like(picked), picked), 0)
    assert torch.equal(alone, together[picked])


def test_other_counts_seeds_and_neighbouring_keys_give_unrelated_draws():
    drawn = draws()
    for other in (draws(counter=1), draws(counter=2), draws(seed=1), drawn.roll(1)):
        assert abs(correlation(drawn, other)) < 0.01


def test_a_key_tells_its_parts_apart():
    left, right = torch.tensor([1, 2, 0, 5]), torch.tensor([2, 1, 5, 0])
    assert not bool((keys(0, left, right) == keys(0, right, left)).any())
    assert not bool((keys(0, left) == keys(1, left)).any())


def test_hardly_any_two_pairs_of_nodes_share_a_key():
    left, right = torch.meshgrid(torch.arange(300), torch.arange(300), indexing="ij")
    found = torch.unique(keys(0, left.flatten(), right.flatten())).numel()
    assert found > 90_000 - 10  # chance alone makes one pair in 32 bits


def test_the_largest_of_score_plus_gumbel_is_a_softmax_draw():
    scores = torch.tensor([1.0, 0.0, -1.0, 2.0])
    episode, candidate = torch.meshgrid(torch.arange(40_000), torch.arange(4), indexing="ij")
    contest = scores + gumbels(keys(1, episode, candidate), 0)
    shares = torch.bincount(contest.argmax(dim=1), minlength=4) / 40_000
    assert torch.allclose(shares, torch.softmax(scores, dim=0), atol=0.01)
