"""Numbers as histograms: aims, means and quantiles against numbers worked by hand."""

import math
from itertools import pairwise

import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.representation.regression import Regression, bins_of, from_names, r2
from gdpnet.representation.tasks import Compares, Task, compare

TASK = Regression((0.0, 1.0, 2.0, 3.0))


def test_regression_is_a_task_with_a_comparison_of_its_own():
    assert isinstance(TASK, Task)
    assert isinstance(TASK, Compares)
    assert TASK.width == 1.0


def test_the_aim_of_a_number_is_a_gaussian_of_three_quarters_of_a_bin():
    aim = TASK.aims(torch.tensor([1.5]))[0]
    below = [0.5 * (1 + math.erf(edge / 0.75 / math.sqrt(2))) for edge in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    shares = [(high - low) / (below[-1] - below[0]) for low, high in pairwise(below)]
    assert aim.tolist() == pytest.approx(shares)
    assert aim.sum() == pytest.approx(1.0)


def test_the_mean_of_an_aim_is_its_number_within_the_range_of_training():
    numbers = torch.linspace(-3.0, 8.0, 50)
    task = bins_of(numbers, 32)
    assert torch.allclose(task.mean(task.aims(numbers)), numbers, atol=0.1 * task.width)


def test_a_few_extreme_numbers_do_not_take_the_range():
    numbers = torch.cat([torch.linspace(0.0, 1.0, 1000), torch.tensor([1e6])])
    assert bins_of(numbers, 32).centres[-1] < 2.0


def test_numbers_that_are_nearly_all_equal_have_a_range():
    task = bins_of(torch.tensor([0.0] * 500 + [5.0]), 8)
    assert task.centres[0] < 0.0
    assert task.centres[-1] > 5.0


def test_quantiles_are_interpolated_within_a_bin():
    found = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert TASK.quantile(found, 0.25).tolist() == pytest.approx([0.0, 1.75])
    assert TASK.quantile(found, 0.5).tolist() == pytest.approx([0.5, 2.0])
    assert TASK.quantile(found, 1.0).tolist() == pytest.approx([1.5, 2.5])


def test_the_loss_is_smallest_where_the_aim_is_predicted():
    truth, learns = torch.tensor([0.7, 2.2]), torch.ones(2, 1, dtype=torch.bool)
    best = TASK.aims(truth).log()[:, None].requires_grad_()
    TASK.loss(best, truth, learns).backward()
    assert best.grad.abs().max() < 1e-6
    assert TASK.loss(torch.zeros(2, 1, 4), truth, learns) == pytest.approx(math.log(4.0))


def test_scores_prefer_the_histogram_around_the_truth():
    truth, near, far = (
        torch.tensor([1.0]),
        torch.tensor([[0.0, 1.0, 0.0, 0.0]]),
        torch.tensor([[0.0, 0.0, 0.0, 1.0]]),
    )
    for kind in ("hit", "probability"):
        assert 0.0 <= TASK.score(far, truth, kind) < TASK.score(near, truth, kind) <= 1.0


def test_r2_is_the_share_of_variance_explained():
    truth = torch.tensor([0.0, 2.0])
    assert r2(truth, truth) == 1.0
    assert r2(torch.tensor([1.0, 1.0]), truth) == 0.0
    assert math.isnan(r2(truth[:1], truth[:1]))


def test_predictions_are_compared_by_squared_errors():
    truth = torch.tensor([0.0, 1.0, 3.0])
    exact, constant = torch.eye(4)[[0, 1, 3]], torch.full((3, 4), 0.25)
    lead = compare(TASK, exact, constant, truth)
    assert lead.difference == pytest.approx((2.25 + 0.25 + 2.25) / 3)
    assert lead.exceeds(1.0)


def test_bins_are_read_back_exactly_from_their_names():
    task = bins_of(torch.tensor([0.1, 0.7, 3.3]), 9)
    assert from_names([repr(centre) for centre in task.centres]) == task


def test_the_truth_is_the_targets_or_class_names_that_are_numbers():
    edges, features = [[0], [1]], torch.eye(2)
    given = Graph.build(edges, features, targets=[1.5, float("nan")])
    assert TASK.truth(given).nan_to_num(9.0).tolist() == [1.5, 9.0]
    named = Graph.build(edges, features, [1, -1], class_names=["10", "20"])
    assert TASK.truth(named).nan_to_num(9.0).tolist() == [20.0, 9.0]
