"""Relaxed models predict what the models predict, and have gradients that are finite and of use."""

import pytest
import torch

from gdpnet._core.csr import find_in_rows
from gdpnet.benchmark.attacks.gdpnet import GDPNetVictim, RelaxedHeads
from gdpnet.benchmark.attacks.networks import NetworkVictim, weighted_quantile
from gdpnet.benchmark.attacks.prbcd import agreement_on, gradient_of
from gdpnet.benchmark.attacks.problem import Candidates, Problem, random_pairs
from gdpnet.benchmark.attacks.victims import fit_victim
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.errors import ConfigError
from helpers.small import FAST, fitted

CLEAN = SyntheticSettings(
    nodes=150,
    classes=3,
    words=200,
    topics_per_class=4,
    spurious_links=0.3,
    corrupted_features=0.0,
    wrong_labels=0.0,
)
HEADS = {"hopwise": {"use": True}, "gcn": {"use": True, "min_validation": 10}, "all_edges": {"use": True}}


@pytest.fixture(scope="module")
def graph():
    return synthetic_graph(CLEAN)


@pytest.fixture(scope="module")
def problem(graph):
    return Problem.of(graph, 0.2)


def some_flips(problem: Problem) -> torch.Tensor:
    """Return links and other pairs to flip."""
    pairs = random_pairs(problem.graph.num_nodes, 30, torch.Generator().manual_seed(0))
    return torch.unique(torch.cat([problem.links[::9], pairs]))


def relaxed_scores(victim, problem: Problem, flips: torch.Tensor) -> torch.Tensor:
    """Return what the relaxed model predicts with some pairs flipped, and further candidates of weight zero."""
    more = random_pairs(problem.graph.num_nodes, 40, torch.Generator().manual_seed(1))
    key = torch.unique(torch.cat([problem.links, flips, more]))
    present = problem.are_links(key) ^ torch.isin(key, flips)
    with torch.no_grad():
        return victim.relax(problem.flipped(flips), Candidates(key, problem.graph.num_nodes))(present.float())


@pytest.mark.parametrize("method", ["gcn", "gnnguard", "jaccard-gcn:0.6", "cosine-gcn:0.8"])
def test_the_relaxed_network_is_the_network_on_links_of_weight_zero_and_one(method, graph, problem):
    victim = fit_victim(method, graph, 0, FAST, {}, "cpu")
    assert isinstance(victim, NetworkVictim)
    for flips in (problem.links[:0], some_flips(problem)):
        torch.testing.assert_close(
            relaxed_scores(victim, problem, flips),
            victim.scores(problem.flipped(flips)),
            rtol=1e-4,
            atol=1e-4,
        )
    torch.testing.assert_close(victim.scores(graph), victim.fitted.logits, rtol=1e-4, atol=1e-4)


def test_the_share_that_a_filter_keeps_counts_weights():
    similarity, weight = torch.tensor([0.9, 0.1, 0.5, 0.7]), torch.tensor([1.0, 1.0, 1.0, 1.0])
    assert weighted_quantile(similarity, weight, 0.5) == pytest.approx(0.7)
    assert weighted_quantile(similarity, torch.tensor([1.0, 1.0, 0.0, 0.0]), 0.5) == pytest.approx(0.9)
    assert weighted_quantile(similarity, weight, 1.0) == -torch.inf


def test_without_selection_every_head_is_relaxed_exactly(graph, problem):
    config = FAST.with_values({**HEADS, "trees": {"use": True}, "linear": {"use": True}})
    model = fitted(graph, config.with_values({"training": {"selection": False}}))
    weights = model.trained_.weights
    assert weights.hopwise + weights.gcn + weights.all_edges > 0
    victim = GDPNetVictim(model.trained_, graph)
    for flips in (problem.links[:0], some_flips(problem)):
        found, expected = relaxed_scores(victim, problem, flips), victim.scores(problem.flipped(flips))
        torch.testing.assert_close(found.exp(), expected.exp(), rtol=1e-3, atol=1e-3)


def test_the_head_over_all_edges_is_relaxed_exactly(graph, problem):
    values = {"all_edges": {"use": True, "prior": 0.5}, "ensemble": {"prior_nodes": 10_000.0}}
    model = fitted(graph, FAST.with_values({**values, "training": {"selection": False}}))
    assert model.trained_.weights.all_edges > 0.3
    victim = GDPNetVictim(model.trained_, graph)
    found = relaxed_scores(victim, problem, some_flips(problem))
    expected = victim.scores(problem.flipped(some_flips(problem)))
    torch.testing.assert_close(found.exp(), expected.exp(), rtol=1e-3, atol=1e-3)


def test_a_lone_neighbour_has_exactly_the_keep_probability_of_the_model(graph):
    config = FAST.with_values(
        {"policy": {"early_stop": False}, "representation": {"hops": 1}, "inference": {"symmetrise": False}}
    )
    model = fitted(graph, config)
    pairs = Candidates(Problem.of(graph, 0.1).links, graph.num_nodes)
    heads = GDPNetVictim(model.trained_, graph).relax(graph, pairs).func.__self__
    assert isinstance(heads, RelaxedHeads)
    with torch.no_grad():
        found = heads.policy.probability(torch.ones(2 * pairs.key.numel()))[0]
    place = find_in_rows(graph.row_ptr, graph.neighbour, pairs.target, pairs.neighbour)
    expected = model.predictor(graph).keep_probability(symmetric=False)[place]
    alone = (graph.row_ptr.diff() == 1)[pairs.target]
    assert int(alone.sum()) >= 3
    torch.testing.assert_close(found[alone], expected[alone], rtol=1e-3, atol=1e-4)
    assert float(torch.corrcoef(torch.stack([found, expected]))[0, 1]) > 0.9


VARIANTS = {
    "as shipped": {},
    "with heads": HEADS,
    "greedy": {"inference": {"mode": "greedy", "episodes": 2}},
    "symmetric": {"inference": {"symmetrise": True, "episodes": 2}},
    "one hop, own matrix": {"representation": {"hops": 1, "self_weight": True, "width": 8}},
    "the paper's state": {"policy": {"state": "paper", "hidden": [8, 6]}},
    "random order": {"policy": {"order": "random", "hidden": [8, 6]}},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_margins_of_the_relaxed_model_rank_nodes_as_the_model_does(changes, graph, problem):
    victim = GDPNetVictim(fitted(graph, FAST.with_values(changes)).trained_, graph)
    # greedy decisions are rounded: a small error of a score may turn one
    least = 0.75 if changes == VARIANTS["greedy"] else 0.9
    for flips in (problem.links[:0], some_flips(problem)):
        assert agreement_on(victim, problem, flips) > least


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_gradients_are_finite_and_reach_links_and_pairs_of_weight_zero(changes, graph, problem):
    victim = GDPNetVictim(fitted(graph, FAST.with_values(changes)).trained_, graph)
    key = torch.unique(torch.cat([problem.links, some_flips(problem)]))
    is_link = problem.are_links(key)
    relaxed = victim.relax(graph, Candidates(key, graph.num_nodes))
    gradient = gradient_of(relaxed, problem, torch.zeros(key.numel()), is_link)
    assert bool(torch.isfinite(gradient).all())
    assert float(gradient[is_link].abs().max()) > 0
    assert float(gradient[~is_link].abs().max()) > 0


@pytest.mark.parametrize("method", ["gcn", "gnnguard"])
def test_the_gradient_is_the_slope_of_the_loss(method, graph, problem):
    victim = fit_victim(method, graph, 0, FAST, {}, "cpu")
    key = torch.unique(torch.cat([problem.links, some_flips(problem)]))
    is_link, step = problem.are_links(key), 1e-2
    relaxed = victim.relax(graph, Candidates(key, graph.num_nodes))
    middle = torch.full((key.numel(),), 0.5)
    direction = torch.rand(key.numel(), generator=torch.Generator().manual_seed(0)) - 0.5
    slope = float(gradient_of(relaxed, problem, middle, is_link) @ direction)
    weight = torch.where(is_link, -direction, direction) * step
    with torch.no_grad():
        up, down = (problem.loss(relaxed(0.5 + sign * weight)) for sign in (1, -1))
    assert slope == pytest.approx(float(up - down) / (2 * step), rel=0.1, abs=1e-4)


def test_candidates_beyond_neighbours_are_refused(graph):
    config = FAST.with_values({"policy": {"hops": 2}, "representation": {"hops": 1, "width": 8}})
    trained = fitted(graph, config).trained_
    with pytest.raises(ConfigError, match=r"policy\.hops = 1"):
        GDPNetVictim(trained, graph)
