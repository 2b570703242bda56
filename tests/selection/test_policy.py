"""The policy network: its two halves are one plain network, and its scores are bounded."""

import pytest
import torch

from gdpnet.selection.policy import SCORE_BOUND, Policy, agreement
from helpers.setups import known_policy


def random_policy(*, extras: bool, pairs: int, seed: int = 0) -> Policy:
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(3, pairs, (5, 4), extras=extras)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    policy.fit_pairs(torch.randn(20, pairs, generator=generator) * 3.0 + 1.0)
    return policy


def target_half(policy: Policy, *columns: torch.Tensor) -> torch.Tensor:
    return policy.target_half(policy.target_input(*columns))


def neighbour_half(policy: Policy, *columns: torch.Tensor) -> torch.Tensor:
    return policy.neighbour_half(policy.neighbour_input(*columns))


def plain_network(policy: Policy, target: torch.Tensor, neighbour: torch.Tensor, agree: torch.Tensor):
    """Score the concatenated input with two hidden layers, without the split."""
    joined = torch.cat([target, neighbour, agree], dim=1)
    weight = torch.cat([policy.target_weight, policy.neighbour_weight, policy.agreement_weight[None]])
    first = torch.relu(joined @ weight[: joined.shape[1]] + policy.first_bias)
    second = torch.relu(first @ policy.hidden_weight + policy.hidden_bias)
    return second @ policy.score_weight + policy.score_bias


def test_the_halves_of_the_papers_state_add_up_to_the_network_of_the_concatenation():
    policy = random_policy(extras=False, pairs=0)
    target, neighbour = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1))
    probabilities = torch.full((6, 2), 0.5)
    halves = target_half(policy, target, probabilities, torch.zeros(6)) + neighbour_half(
        policy, neighbour, probabilities, torch.zeros(6, 0)
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
    target_probabilities, probabilities = torch.softmax(torch.randn(2, 6, 4, generator=generator), dim=2)
    kept = torch.tensor([0.0, 1.0, 2.0, 5.0, 9.0, 100.0])
    agree = agreement(target_probabilities, probabilities)
    halves = target_half(policy, target, target_probabilities, kept)
    halves = halves + neighbour_half(policy, neighbour, probabilities, pairs)
    halves = halves + agree[:, None] * policy.agreement_weight
    state = torch.cat(
        [target, target_probabilities.max(dim=1).values[:, None], (1 + kept).log()[:, None]], dim=1
    )
    scaled = (pairs - policy.pair_mean) / policy.pair_scale
    other = torch.cat([neighbour, scaled, probabilities.max(dim=1).values[:, None]], dim=1)
    expected = plain_network(policy, state, other, agree[:, None])
    assert torch.allclose(policy.score(halves), expected, atol=1e-4)


def test_the_ending_neighbour_is_scored_as_a_neighbour_with_its_learned_vector():
    policy = random_policy(extras=False, pairs=0)
    target = torch.randn(4, 3, generator=torch.Generator().manual_seed(2))
    half = target_half(policy, target, torch.full((4, 2), 0.5), torch.zeros(4))
    as_neighbour = neighbour_half(
        policy, policy.ending.expand(4, 3), torch.full((4, 2), 0.5), torch.zeros(4, 0)
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


def test_no_rows_give_no_scores():
    assert random_policy(extras=False, pairs=0).score(torch.zeros(0, 5)).shape == (0,)


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_scores_are_clamped_to_their_bound(value):
    policy = known_policy()
    policy.score_bias.data.fill_(value)
    score = float(policy.score(torch.zeros(1, 1)).detach())
    assert score == (SCORE_BOUND if value > 0 else -SCORE_BOUND)


def test_pair_features_are_standardised():
    policy = Policy(1, 2, (2, 2), extras=False)
    policy.fit_pairs(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    assert policy.pair_mean.tolist() == [2.0, 20.0]
    assert policy.pair_scale.tolist() == pytest.approx([2.0**0.5, 200.0**0.5])


def test_a_pair_feature_that_is_constant_in_training_is_left_unscaled():
    policy = Policy(1, 1, (2, 2), extras=False)
    policy.fit_pairs(torch.zeros(5, 1))
    policy.neighbour_weight.data.fill_(1.0)
    half = neighbour_half(policy, torch.zeros(1, 1), torch.ones(1, 2), torch.tensor([[0.7]]))
    assert half[0].tolist() == pytest.approx([0.7, 0.7])


def test_the_features_of_edges_are_divided_by_a_least_deviation_so_that_rare_types_stay_small():
    rare = torch.zeros(1000, 2).index_fill(0, torch.tensor([3]), 1.0)
    policy = Policy(1, 2, (2, 2), extras=False)
    policy.fit_pairs(rare, slice(0, 1))
    assert policy.pair_scale.tolist() == pytest.approx([0.25, 0.0316], abs=1e-3)


def test_agreement_is_one_for_equal_certain_predictions_and_chance_for_uniform_ones():
    certain, uniform = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    assert float(agreement(certain, certain)) == 1.0
    assert float(agreement(certain, certain.flip(1))) == 0.0
    assert float(agreement(uniform, uniform)) == 0.5


def test_a_new_policy_leans_towards_keeping():
    policy = Policy(8, 3, (16, 8), extras=True)
    policy.initialise(torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    probabilities = torch.softmax(torch.randn(200, 4, generator=generator), dim=1)
    half = target_half(policy, torch.randn(200, 8, generator=generator), probabilities, torch.zeros(200))
    half = half + neighbour_half(
        policy,
        torch.randn(200, 8, generator=generator),
        probabilities,
        torch.randn(200, 3, generator=generator),
    )
    assert float((policy.score(half) > 0).float().mean()) > 0.9
