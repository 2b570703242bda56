"""The policy network: its two halves are one plain network, and its scores are bounded."""

import pytest
import torch

from gdpnet.selection.policy import SCORE_BOUND, Policy, agreement
from helpers.worlds import known_policy


def random_policy(*, extras: bool, pairs: int, seed: int = 0) -> Policy:
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(3, pairs, (5, 4), extras=extras)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    policy.fit_pairs(torch.randn(20, pairs, generator=generator) * 3.0 + 1.0)
    return policy


def plain_network(policy: Policy, target: torch.Tensor, neighbour: torch.Tensor, agree: torch.Tensor):
    """Score the concatenated input with two hidden layers, nothing split."""
    joined = torch.cat([target, neighbour, agree], dim=1)
    weight = torch.cat([policy.target_weight, policy.neighbour_weight, policy.agreement_weight[None]])
    first = torch.relu(joined @ weight[: joined.shape[1]] + policy.first_bias)
    second = torch.relu(first @ policy.hidden_weight + policy.hidden_bias)
    return second @ policy.score_weight + policy.score_bias


def test_the_halves_of_a_plain_state_add_up_to_the_network_of_the_concatenation():
    policy = random_policy(extras=False, pairs=0)
    target, neighbour = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1))
    beliefs = torch.full((6, 2), 0.5)
    halves = policy.target_half(target, beliefs, torch.zeros(6)) + policy.neighbour_half(
        neighbour, beliefs, torch.zeros(6, 0)
    )
    joined = torch.cat([target, neighbour], dim=1)
    weight = torch.cat([policy.target_weight, policy.neighbour_weight])
    first = torch.relu(joined @ weight + policy.first_bias)
    second = torch.relu(first @ policy.hidden_weight + policy.hidden_bias)
    expected = second @ policy.score_weight + policy.score_bias
    assert torch.allclose(policy.score(halves), expected, atol=1e-5)


def test_the_halves_of_a_state_with_extras_add_up_to_the_network_of_the_concatenation():
    policy = random_policy(extras=True, pairs=2)
    generator = torch.Generator().manual_seed(1)
    target, neighbour = torch.randn(2, 6, 3, generator=generator)
    pairs = torch.randn(6, 2, generator=generator)
    target_beliefs, beliefs = torch.softmax(torch.randn(2, 6, 4, generator=generator), dim=2)
    kept = torch.tensor([0.0, 1.0, 2.0, 5.0, 9.0, 100.0])
    agree = agreement(target_beliefs, beliefs)
    halves = policy.target_half(target, target_beliefs, kept)
    halves = halves + policy.neighbour_half(neighbour, beliefs, pairs)
    halves = halves + agree[:, None] * policy.agreement_weight
    state = torch.cat([target, target_beliefs.max(dim=1).values[:, None], (1 + kept).log()[:, None]], dim=1)
    scaled = (pairs - policy.pair_mean) / policy.pair_scale
    other = torch.cat([neighbour, scaled, beliefs.max(dim=1).values[:, None]], dim=1)
    expected = plain_network(policy, state, other, agree[:, None])
    assert torch.allclose(policy.score(halves), expected, atol=1e-4)


def test_the_ending_neighbour_is_scored_as_a_neighbour_with_its_learned_vector():
    policy = random_policy(extras=False, pairs=0)
    target = torch.randn(4, 3, generator=torch.Generator().manual_seed(2))
    half = policy.target_half(target, torch.full((4, 2), 0.5), torch.zeros(4))
    as_neighbour = policy.neighbour_half(
        policy.ending.expand(4, 3), torch.full((4, 2), 0.5), torch.zeros(4, 0)
    )
    assert torch.allclose(policy.score(half + policy.ending_half()), policy.score(half + as_neighbour))


def test_the_score_is_the_same_with_and_without_gradients():
    policy = random_policy(extras=False, pairs=0)
    first = torch.randn(7, 5, generator=torch.Generator().manual_seed(3))
    with_gradient = policy.score(first.clone())
    with torch.no_grad():
        without = policy.score(first.clone())
    assert torch.allclose(with_gradient.detach(), without)
    with_gradient.sum().backward()
    assert policy.hidden_weight.grad is not None
    assert float(policy.hidden_weight.grad.abs().sum()) > 0


def test_nobody_to_score_gives_no_scores():
    assert random_policy(extras=False, pairs=0).score(torch.zeros(0, 5)).shape == (0,)


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_scores_are_held_within_their_bound(value):
    policy = known_policy()
    policy.score_bias.data.fill_(value)
    score = float(policy.score(torch.zeros(1, 1)).detach())
    assert score == (SCORE_BOUND if value > 0 else -SCORE_BOUND)


def test_pair_features_are_brought_to_mean_zero_and_spread_one():
    policy = Policy(1, 2, (2, 2), extras=False)
    policy.fit_pairs(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    assert policy.pair_mean.tolist() == [2.0, 20.0]
    assert policy.pair_scale.tolist() == pytest.approx([2.0**0.5, 200.0**0.5])


def test_a_pair_feature_that_never_varied_in_training_does_not_drown_the_others_elsewhere():
    policy = Policy(1, 1, (2, 2), extras=False)
    policy.fit_pairs(torch.zeros(5, 1))
    policy.neighbour_weight.data.fill_(1.0)
    half = policy.neighbour_half(torch.zeros(1, 1), torch.ones(1, 2), torch.tensor([[0.7]]))
    assert half[0].tolist() == pytest.approx([0.7, 0.7])


def test_two_sure_and_equal_beliefs_agree_wholly_and_two_unsure_ones_by_chance():
    sure, unsure = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    assert float(agreement(sure, sure)) == 1.0
    assert float(agreement(sure, sure.flip(1))) == 0.0
    assert float(agreement(unsure, unsure)) == 0.5


def test_a_fresh_policy_leans_towards_keeping():
    policy = Policy(8, 3, (16, 8), extras=True)
    policy.initialise(torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    beliefs = torch.softmax(torch.randn(200, 4, generator=generator), dim=1)
    half = policy.target_half(torch.randn(200, 8, generator=generator), beliefs, torch.zeros(200))
    half = half + policy.neighbour_half(
        torch.randn(200, 8, generator=generator), beliefs, torch.randn(200, 3, generator=generator)
    )
    assert float((policy.score(half) > 0).float().mean()) > 0.9
