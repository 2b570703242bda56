"""AGG, its bank of members, its loss, and what a neighbour gives to its target."""

import math
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet.config import Config
from gdpnet.data.features import SparseRows, project
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare, with_circle
from gdpnet.inference.ensemble import represent
from gdpnet.inference.observation import make_view
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.representation.tasks import classification_loss, hit_or_probability, micro_f1
from gdpnet.selection.episodes import begin_episodes
from helpers.worlds import CPU, random_graph, random_world


def one_member(*, self_weight: bool = False) -> Aggregators:
    """Return an aggregator of two features and two units: W swaps the features, the own weight doubles them."""
    bank = Aggregators(2, 2, 2, 1, self_weight=self_weight)
    with torch.no_grad():
        bank.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        if bank.self_weight is not None:
            bank.self_weight.copy_(2 * torch.eye(2))
        bank.bias.copy_(torch.tensor([[0.0, -1.0]]))
        bank.head_weight.copy_(torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]))
        bank.head_bias.copy_(torch.tensor([[0.5, 0.0]]))
    return bank


def config_of(**representation) -> Config:
    return Config().with_values({"representation": {"width": 4} | representation})


# --- by hand ---


# the path 0 - 1 - 2, features (1,0), (2,4), (3,2)
PATH = Graph.build([[0, 1], [1, 2]], [[1.0, 0.0], [2.0, 4.0], [3.0, 2.0]], [0, 1, 1])
RAW = {"features": {"normalise": "none"}, "policy": {"state": "paper"}}


def test_a_representation_is_the_mapped_mean_of_a_node_and_its_neighbours():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, chances = represent(one_member(), prepared, torch.arange(3), torch.ones(4))
    # means (1.5,2), (2,2), (2.5,3); swapped and shifted by (0,-1); none is below zero
    assert embedded.tolist() == [[2.0, 0.5], [2.0, 1.0], [3.0, 1.5]]
    # logits (2.5,1.5), (2.5,3), (3.5,4.5): the first class is ahead by 1, -1/2 and -1
    ahead = torch.tensor([1.0, -0.5, -1.0])
    assert torch.allclose(chances.exp()[:, 0], torch.sigmoid(ahead))
    assert torch.allclose(chances.exp().sum(dim=1), torch.ones(3))


def test_members_vote_with_the_mean_of_their_probabilities_and_the_first_one_represents():
    bank = Aggregators(2, 2, 2, 2, self_weight=False)
    first = one_member()
    with torch.no_grad():  # the second member maps nothing and leans to the first class by ln 3
        bank.weight.copy_(torch.cat([first.weight, torch.zeros(2, 2)], dim=1))
        bank.bias.copy_(torch.cat([first.bias, torch.zeros(1, 2)]))
        bank.head_weight.copy_(torch.cat([first.head_weight, torch.zeros(1, 2, 2)]))
        bank.head_bias.copy_(torch.cat([first.head_bias, torch.tensor([[math.log(3.0), 0.0]])]))
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, chances = represent(bank, prepared, torch.arange(3), torch.ones(4))
    assert embedded.tolist() == [[2.0, 0.5], [2.0, 1.0], [3.0, 1.5]]
    # the first member's chances of the first class are those of (1, -1/2, -1), the second's are 3/4
    expected = (torch.sigmoid(torch.tensor([1.0, -0.5, -1.0])) + 0.75) / 2
    assert torch.allclose(chances[:, 0], expected.log())
    assert torch.allclose(chances[:, 1], (1 - expected).log())
    # alone the first member holds nodes 1 and 2 for the second class
    assert chances.argmax(dim=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("self_weight", [False, True])
def test_a_vote_is_the_mean_of_what_each_member_says_by_itself(hops, self_weight):
    graph, config = random_graph(5), config_of(hops=hops, self_weight=self_weight)
    _, bank, prepared = random_world(graph, config, members=3)
    targets, weight = torch.arange(graph.num_nodes), torch.linspace(0, 1, graph.num_edges)
    embedded, chances = represent(bank, prepared, targets, weight)
    said = []
    for member in range(3):
        one = Aggregators(graph.num_features, 4, graph.num_classes, 1, self_weight=self_weight)
        columns = slice(4 * member, 4 * member + 4)
        one.load_state_dict(
            {
                name: value[:, columns]
                if "weight" in name and "head" not in name
                else value[member : member + 1]
                for name, value in bank.state_dict().items()
            }
        )
        own, alone = represent(one, prepared, targets, weight)
        said.append(alone.exp())
        assert torch.allclose(own, embedded, atol=1e-6) == (member == 0)
    assert torch.allclose(chances.exp(), torch.stack(said).mean(dim=0), atol=1e-6)
    assert (said[0] - said[1]).abs().max() > 0.05


def test_weights_on_edges_weigh_the_mean_and_a_weight_of_zero_leaves_the_node_alone():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    weight = torch.tensor([0.0, 0.5, 1.0, 1.0])  # 0 takes nothing; 1 takes half of 0 and all of 2
    embedded, _ = represent(one_member(), prepared, torch.tensor([1, 0]), weight)
    # node 1: ((2,4) + .5 (1,0) + (3,2)) / 2.5 = (2.2, 2.4); node 0: (1,0), whose second unit is shut
    assert embedded[0].tolist() == pytest.approx([2.4, 1.2])
    assert embedded[1].tolist() == [0.0, 0.0]


def test_with_two_hops_a_neighbour_gives_the_mean_of_its_circle_without_the_target():
    prepared = prepare(PATH, config_of(hops=2).with_values(RAW), CPU)
    embedded, _ = represent(one_member(), prepared, torch.arange(3), torch.ones(4))
    # 0: 1 gives mean((2,4),(3,2)) = (2.5,3), so mean((1,0),(2.5,3)) = (1.75,1.5)
    # 1: 0 gives (1,0), 2 gives (3,2), so (2,2); 2: 1 gives mean((2,4),(1,0)) = (1.5,2), so (2.25,2)
    assert embedded.tolist() == [[1.5, 0.75], [2.0, 1.0], [2.0, 1.25]]


def test_a_self_weight_maps_the_node_apart_from_the_mean_of_its_neighbours():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, _ = represent(one_member(self_weight=True), prepared, torch.arange(3), torch.ones(4))
    # 0: 2 (1,0) + swap (2,4) = (6,2); 1: 2 (2,4) + swap (2,1) = (5,10); 2: 2 (3,2) + swap (2,4) = (10,6)
    assert embedded.tolist() == [[6.0, 1.0], [5.0, 9.0], [10.0, 5.0]]


def test_a_self_weight_without_neighbours_is_the_node_alone():
    bank = one_member(self_weight=True)
    own = torch.tensor([[3.0, 2.0]])
    assert bank.embed(own, torch.zeros(1, 2), torch.zeros(1), bank.bias[0]).tolist() == [[3.0, 1.0]]


def test_neighbours_are_added_up_plainly_or_by_weight():
    given, owner = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 2])
    total, count = add_neighbours(given, owner, None, 3)
    assert (total[:, 0].tolist(), count.tolist()) == ([1.0, 0.0, 6.0], [1.0, 0.0, 2.0])
    total, count = add_neighbours(given, owner, torch.tensor([0.5, 0.25, 1.0]), 3)
    assert (total[:, 0].tolist(), count.tolist()) == ([0.5, 0.0, 4.5], [0.5, 0.0, 1.25])


# --- members ---


def test_members_start_equal_and_lie_side_by_side():
    bank = Aggregators(3, 2, 4, 3, self_weight=True)
    bank.initialise(torch.Generator().manual_seed(0))
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    for project_rows in (bank.project_own, bank.project_given):
        rows = project_rows(features)
        assert rows.shape == (5, 3, 2)
        assert torch.equal(rows[:, 0], rows[:, 2])
        assert bool(rows.any())
    assert not torch.allclose(bank.project_own(features), bank.project_given(features))
    assert torch.equal(bank.head_weight[0], bank.head_weight[2])


def test_asking_for_some_members_gives_what_asking_for_all_gives_for_them():
    bank = Aggregators(3, 2, 4, 3, self_weight=False)
    torch.nn.init.normal_(bank.weight, generator=torch.Generator().manual_seed(0))
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(bank.project_own(features)[:, 1:], bank.project_own(features, slice(1, 3)))
    expected = project(features, bank.weight[:, 2:4])
    assert torch.allclose(bank.project_given(features, slice(1, 2))[:, 0], expected)


def test_the_loss_is_the_sum_of_the_members_means_over_what_each_may_learn_from():
    logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[math.log(3), 0.0], [math.log(3), 0.0]]])
    label = torch.tensor([0, 0])
    learns = torch.tensor([[True, True], [True, False]])
    # member 0: (log 2 + log 4/3) / 2; member 1: log 2
    expected = (math.log(2) + math.log(4 / 3)) / 2 + math.log(2)
    assert float(classification_loss(logits, label, learns)) == pytest.approx(expected)


def test_a_member_gets_no_gradient_from_the_nodes_of_its_fold():
    bank = Aggregators(4, 3, 2, 3, self_weight=True)
    bank.initialise(torch.Generator().manual_seed(0))
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    fold = torch.full((6,), 1)  # every node is of fold 1, which member 2 must not learn from
    learns = torch.arange(3) != fold[:, None] + 1
    own, given = bank.project_own(features), bank.project_given(features)
    hidden = bank.embed(own, given.roll(1, 0), torch.ones(6), bank.bias)
    classification_loss(bank.logits(hidden), torch.arange(6) % 2, learns).backward()
    for matrix in (bank.weight, bank.self_weight):
        by_member = matrix.grad.unflatten(1, (3, 3)).abs().sum(dim=(0, 2))
        assert by_member[2] == 0
        assert bool((by_member[:2] > 0).all())
    for part in (bank.bias, bank.head_weight, bank.head_bias):
        by_member = part.grad.flatten(1).abs().sum(dim=1)
        assert by_member[2] == 0
        assert bool((by_member[:2] > 0).all())


# --- scores ---


def test_a_score_is_the_hit_or_the_probability_of_the_true_class():
    beliefs, label = torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([1, 1])
    assert hit_or_probability(beliefs, label, "hit").tolist() == [0.0, 1.0]
    assert hit_or_probability(beliefs, label, "probability").tolist() == pytest.approx([0.3, 0.6])


def test_micro_f1_is_the_share_of_hits():
    assert micro_f1(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 1, 1])) == 0.75
    assert math.isnan(micro_f1(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long)))


# --- what a neighbour gives ---


def given_to(graph: Graph, prepared, bank: Aggregators):
    """Return the view's candidates of all targets, with their edges."""
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=0)
    return episodes, make_view(bank, prepared).meet(episodes)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 500), st.booleans(), st.booleans())
def test_what_is_given_is_the_weighted_mean_over_the_circle_without_the_target(seed, directed, self_weight):
    graph = random_graph(seed, directed=directed)
    config = config_of(self_weight=self_weight)
    _, bank, prepared = random_world(graph, config, seed=seed)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    episodes, met = given_to(graph, with_circle(prepared, weight), bank)
    for candidate, edge in enumerate(episodes.edge.tolist()):
        target, neighbour = int(graph.target[edge]), int(graph.neighbour[edge])
        total, share = prepared.features[neighbour].clone(), 1.0
        for other in range(int(graph.row_ptr[neighbour]), int(graph.row_ptr[neighbour + 1])):
            if int(graph.neighbour[other]) != target:
                total += weight[other] * prepared.features[graph.neighbour[other]]
                share += float(weight[other])
        assert torch.allclose(met.given[candidate], total / share @ bank.weight.detach(), atol=1e-5)


def test_a_targets_own_features_never_come_back_to_it_through_a_neighbour():
    graph, config = random_graph(2), config_of()
    _, bank, prepared = random_world(graph, config)
    episodes, met = given_to(graph, prepared, bank)
    for target in range(graph.num_nodes):
        features = prepared.features.clone()
        features[target] += 100.0
        changed = with_circle(replace(prepared, features=features), torch.ones(graph.num_edges))
        _, met_changed = given_to(graph, changed, bank)
        mine = episodes.target[episodes.owner] == target
        assert torch.allclose(met.given[mine], met_changed.given[mine], atol=1e-3)
        about_target = episodes.row == target
        if bool(about_target.any()):
            assert not torch.allclose(met.given[about_target], met_changed.given[about_target], atol=1e-3)


@pytest.mark.parametrize("hops", [1, 2])
def test_keeping_everyone_in_the_view_is_representing_with_all_weights_one(hops):
    graph, config = random_graph(4), config_of(hops=hops)
    _, bank, prepared = random_world(graph, config)
    view = make_view(bank, prepared)
    episodes, met = given_to(graph, prepared, bank)
    total, count = add_neighbours(met.given, episodes.owner, None, episodes.count)
    seen, beliefs = view.observe(episodes.target_row, total, count)
    embedded, logits = represent(bank, prepared, episodes.target, torch.ones(graph.num_edges))
    assert torch.allclose(seen, embedded, atol=1e-5)
    assert torch.allclose(beliefs, torch.softmax(logits, dim=1), atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("self_weight", [False, True])
def test_sparse_and_dense_features_are_represented_alike(hops, self_weight):
    graph, config = random_graph(6), config_of(hops=hops, self_weight=self_weight)
    features = torch.where(graph.features > 0, graph.features, 0.0)
    dense = replace(graph, features=features)
    sparse = replace(graph, features=SparseRows.from_scipy(sp.csr_matrix(features.numpy())))
    _, bank, prepared = random_world(dense, config)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    expected = represent(bank, prepared, torch.arange(6), weight)
    found = represent(bank, prepare(sparse, config, CPU), torch.arange(6), weight)
    assert torch.allclose(found[0], expected[0], atol=1e-5)
    assert torch.allclose(found[1], expected[1], atol=1e-5)


def test_representing_in_parts_is_representing_at_once():
    graph, config = random_graph(5), config_of()
    _, bank, prepared = random_world(graph, config)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    whole = represent(bank, prepared, torch.arange(6), weight)
    parts = represent(bank, prepared, torch.arange(6), weight, batch=2)
    assert torch.allclose(whole[0], parts[0], atol=1e-6)
    nobody = represent(bank, prepared, torch.arange(0), weight)
    assert (nobody[0].shape, nobody[1].shape) == ((0, 4), (0, 3))
