"""Correction of scores for noise among the positives: known shares are found again."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.representation.evidence import (
    Calibration,
    EvidenceModel,
    estimate_noise_share,
    genuine_share,
    logit,
)
from gdpnet.representation.trees import BoostedTrees, trees_of


def simulated(share: float, count: int = 40_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return scores of own and injected edges, which are own, and which of the own ones are genuine.

    Scores are normal, around 2 for genuine edges and around 0 for noise and injected ones.
    """
    generator = torch.Generator().manual_seed(0)
    genuine = torch.rand(count, generator=generator) >= share
    own = torch.randn(count, generator=generator) + 2.0 * genuine
    injected = torch.randn(count // 2, generator=generator)
    is_own = torch.arange(count + count // 2) < count
    return torch.cat([own, injected]), is_own, genuine


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_the_share_of_noise_among_own_edges_is_found_again(share):
    score, own, _ = simulated(share)
    assert estimate_noise_share(score, own) == pytest.approx(share, abs=0.06)


def test_own_edges_that_look_like_injected_ones_are_all_noise():
    score, own, _ = simulated(1.0)
    assert estimate_noise_share(score, own) > 0.9


@pytest.mark.parametrize("own", [[True, True], [False, False]])
def test_without_edges_of_both_kinds_there_is_no_noise_to_find(own):
    assert estimate_noise_share(torch.tensor([0.1, 0.2]), torch.tensor(own)) == 0.0


def test_edges_of_equal_score_are_counted_together():
    # half of the own edges have the score of all injected ones, whatever their order
    score, own = torch.tensor([0.0, 1.0, 0.0, 0.0]), torch.tensor([True, True, False, False])
    found = [
        estimate_noise_share(score[order], own[order], deviations=0.0)
        for order in ([0, 1, 2, 3], [3, 2, 1, 0])
    ]
    assert found == [0.5, 0.5]


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_corrected_probabilities_are_calibrated_for_a_known_ratio_of_densities(share):
    score, own, genuine = simulated(share)
    # ratio of densities: pi + (1 - pi) N(s; 2) / N(s; 0), the latter e^(2 s - 2)
    log_ratio = (share + (1 - share) * (2 * score[own] - 2).exp()).log()
    chance = genuine_share(log_ratio, share)
    for low in torch.arange(0.0, 1.0, 0.1):
        inside = (chance >= low) & (chance < low + 0.1)
        assert float(chance[inside].mean()) == pytest.approx(float(genuine[inside].float().mean()), abs=0.05)


def test_the_correction_by_hand():
    # 1 - 0.3 / 3, and below 1.05 pi a line through zero: (1 - 1 / 1.05) r / (1.05 pi)
    ratio = torch.tensor([3.0, 0.2])
    expected = [0.9, (1 - 1 / 1.05) * 0.2 / (1.05 * 0.3)]
    assert genuine_share(ratio.log(), 0.3).tolist() == pytest.approx(expected, rel=1e-5)
    assert genuine_share(ratio.log(), 0.0).tolist() == [1.0, 1.0]


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=20), st.floats(0.01, 1.0))
def test_corrected_probabilities_rise_with_the_ratio_and_stay_between_zero_and_one(values, share):
    log_ratio = torch.tensor(values).sort().values
    chance = genuine_share(log_ratio, share)
    assert bool(((chance >= 0) & (chance <= 1)).all())
    assert bool((chance.diff() >= 0).all())
    apart = log_ratio.diff() > 0.5
    assert bool((chance.diff()[apart] > 0).all())


def test_logits_are_finite_at_the_ends():
    assert logit(torch.tensor([0.0, 0.5, 1.0])).tolist() == pytest.approx([-9.2102, 0.0, 9.2102], abs=1e-3)


def test_a_calibration_weighs_its_inputs():
    one = Calibration(2)
    one.weight.copy_(torch.tensor([1.0, 0.5]))
    one.bias.fill_(-0.5)
    one.noise_share.fill_(0.2)
    # log ratio 1 * 1 + 0.5 * 2 - 0.5 = 1.5
    assert one(torch.tensor([[1.0, 2.0]])).item() == pytest.approx(1 - 0.2 / 2.718281828**1.5, rel=1e-5)


def test_scores_without_trees_are_their_baseline():
    trees = BoostedTrees(trees_of([[]], 1) | {"baseline": torch.zeros(1, 1)}, exclusive=False)
    model = EvidenceModel(trees, trees)
    assert model.first_score(torch.zeros(3, 8)).tolist() == [0.5] * 3
    assert model.second_score(torch.zeros(3, 8), torch.ones(3, 8)).tolist() == [0.5] * 3
