"""What an attack may change and what it maximises, on graphs whose numbers are worked by hand."""

from dataclasses import replace

import pytest
import torch

from gdpnet.benchmark.attacks.prbcd import link_weights, project
from gdpnet.benchmark.attacks.problem import Candidates, Problem, random_pairs, weighted_sum, with_links
from gdpnet.benchmark.attacks.settings import AttackSettings
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from helpers.graphs import edges_of


@pytest.fixture
def path() -> Graph:
    """Return the path 0 - 1 - 2 - 3 with two test nodes."""
    return Graph.build([[0, 1, 2], [1, 2, 3]], torch.eye(4).numpy(), [0, 1, 0, 1], split=[1, 2, 3, 3])


def test_a_flip_adds_a_link_that_is_missing_and_removes_one_that_is_there(path):
    problem = Problem.of(path, 1.0)
    assert problem.links.tolist() == [1, 6, 11]
    flipped = problem.flipped(torch.tensor([1, 3]))  # 0 - 1 goes, 0 - 3 comes
    links = {(1, 2), (2, 3), (0, 3)}
    assert edges_of(flipped) == links | {(b, a) for a, b in links}
    assert edges_of(problem.flipped(problem.links[:0])) == edges_of(path)


def test_the_budget_is_a_share_of_links_and_the_targets_are_labelled_test_nodes(path):
    problem = Problem.of(path, 2 / 3)
    assert (problem.budget, problem.targets.tolist(), problem.labels.tolist()) == (2, [2, 3], [0, 1])


def test_margins_loss_and_accuracy_are_those_of_the_targets(path):
    problem = Problem.of(path, 1.0)
    scores = torch.tensor([[9.0, 0.0], [9.0, 0.0], [3.0, 1.0], [0.5, 0.0]])
    assert problem.margins(scores).tolist() == [2.0, -0.5]
    expected = (torch.tensor(-2.0).tanh() + torch.tensor(0.5).tanh()) / 2
    torch.testing.assert_close(problem.loss(scores), expected)
    assert problem.accuracy(scores) == 0.5


def test_probabilities_are_projected_onto_the_budget():
    found = project(torch.tensor([0.9, 0.8, -0.2, 0.1]), 1)
    torch.testing.assert_close(found, torch.tensor([0.55, 0.45, 0.0, 0.0]))
    within = torch.tensor([0.4, -1.0, 2.0])
    assert project(within, 2).tolist() == pytest.approx([0.4, 0.0, 1.0])


def test_flip_probabilities_become_weights_of_links_and_of_other_pairs():
    weight = link_weights(torch.tensor([0.25, 0.25]), torch.tensor([True, False]))
    assert weight.tolist() == [0.75, 0.25]


def test_weighted_sums_run_both_ways_and_pass_gradients_to_weights_and_rows():
    pairs = Candidates(torch.tensor([1, 5]), 3)  # 0 - 1 and 1 - 2
    rows = torch.tensor([[1.0], [10.0], [100.0]], requires_grad=True)
    weight = torch.tensor([0.5, 1.0, 0.5, 1.0], requires_grad=True)
    total = weighted_sum(pairs, weight, rows)
    assert total.flatten().tolist() == [5.0, 100.5, 10.0]
    total.sum().backward()
    assert weight.grad.tolist() == [10.0, 100.0, 1.0, 10.0]
    assert rows.grad.flatten().tolist() == [0.5, 1.5, 1.0]


def test_random_pairs_are_distinct_and_depend_on_the_generator_alone():
    first, again, other = (random_pairs(50, 300, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert bool((first // 50 < first % 50).all())
    assert torch.equal(first, torch.unique(first))


def test_links_are_exactly_those_asked_for(path):
    assert edges_of(with_links(path, torch.tensor([3]))) == {(0, 3), (3, 0)}


def test_weighted_and_directed_graphs_are_refused(path):
    with pytest.raises(GraphError, match="--no-weights"):
        Problem.of(replace(path, edge_weight=torch.ones(path.num_edges)), 0.1)
    with pytest.raises(GraphError, match="undirected"):
        Problem.of(path.keep_edges(path.neighbour < path.target), 0.1)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"queries": 0}, {"resampled": 1.5}, {"step_size": 0.0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError):
        AttackSettings(**wrong)
