"""AGG, its ensemble of fold models, its loss, and the messages of neighbours."""

import math
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core.csr import sum_by_owner
from gdpnet.config import Config
from gdpnet.data.features import SparseRows, project
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare, with_neighbourhoods
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.observation import make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import CLASSIFICATION
from gdpnet.selection.episodes import begin_episodes
from helpers.setups import CPU, random_graph, random_setup


def one_fold_model(*, self_weight: bool = False) -> Aggregators:
    """Return an aggregator of two features and two units: W swaps the features, the own weight doubles them."""
    aggregators = Aggregators(2, 2, 2, 1, self_weight=self_weight)
    with torch.no_grad():
        aggregators.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        if aggregators.self_weight is not None:
            aggregators.self_weight.copy_(2 * torch.eye(2))
        aggregators.bias.copy_(torch.tensor([[0.0, -1.0]]))
        aggregators.head_weight.copy_(torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]))
        aggregators.head_bias.copy_(torch.tensor([[0.5, 0.0]]))
    return aggregators


def config_of(**representation) -> Config:
    return Config().with_values({"representation": {"width": 4} | representation})


# --- by hand ---


# the path 0 - 1 - 2, features (1,0), (2,4), (3,2)
PATH = Graph.build([[0, 1], [1, 2]], [[1.0, 0.0], [2.0, 4.0], [3.0, 2.0]], [0, 1, 1])
RAW = {"features": {"normalise": "none"}, "policy": {"state": "paper"}}


def test_a_representation_is_the_mapped_mean_of_a_node_and_its_neighbours():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, probabilities = aggregate(one_fold_model(), prepared, torch.arange(3), torch.ones(4))
    # means (1.5,2), (2,2), (2.5,3); swapped and shifted by (0,-1); none is below zero
    assert embedded.tolist() == [[2.0, 0.5], [2.0, 1.0], [3.0, 1.5]]
    # logits (2.5,1.5), (2.5,3), (3.5,4.5): the first class is ahead by 1, -1/2 and -1
    ahead = torch.tensor([1.0, -0.5, -1.0])
    assert torch.allclose(probabilities[:, 0], torch.sigmoid(ahead))
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(3))


def test_fold_models_average_their_probabilities_and_the_first_one_embeds():
    aggregators = Aggregators(2, 2, 2, 2, self_weight=False)
    first = one_fold_model()
    with torch.no_grad():  # the second fold model maps all to zero, with a bias of ln 3 for the first class
        aggregators.weight.copy_(torch.cat([first.weight, torch.zeros(2, 2)], dim=1))
        aggregators.bias.copy_(torch.cat([first.bias, torch.zeros(1, 2)]))
        aggregators.head_weight.copy_(torch.cat([first.head_weight, torch.zeros(1, 2, 2)]))
        aggregators.head_bias.copy_(torch.cat([first.head_bias, torch.tensor([[math.log(3.0), 0.0]])]))
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, probabilities = aggregate(aggregators, prepared, torch.arange(3), torch.ones(4))
    assert embedded.tolist() == [[2.0, 0.5], [2.0, 1.0], [3.0, 1.5]]
    # the logits of the first fold model are (1, -1/2, -1); the second predicts 3/4
    expected = (torch.sigmoid(torch.tensor([1.0, -0.5, -1.0])) + 0.75) / 2
    assert torch.allclose(probabilities[:, 0], expected)
    assert torch.allclose(probabilities[:, 1], 1 - expected)
    # the first fold model alone predicts the second class for nodes 1 and 2
    assert probabilities.argmax(dim=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("self_weight", [False, True])
def test_class_probabilities_are_the_mean_over_the_fold_models(hops, self_weight):
    graph, config = random_graph(5), config_of(hops=hops, self_weight=self_weight)
    _, aggregators, prepared = random_setup(graph, config, fold_models=3)
    targets, weight = torch.arange(graph.num_nodes), torch.linspace(0, 1, graph.num_edges)
    embedded, probabilities = aggregate(aggregators, prepared, targets, weight)
    each = []
    for fold_model in range(3):
        one = Aggregators(graph.num_features, 4, graph.num_classes, 1, self_weight=self_weight)
        columns = slice(4 * fold_model, 4 * fold_model + 4)
        one.load_state_dict(
            {
                name: value[:, columns]
                if "weight" in name and "head" not in name
                else value[fold_model : fold_model + 1]
                for name, value in aggregators.state_dict().items()
            }
        )
        own, alone = aggregate(one, prepared, targets, weight)
        each.append(alone)
        assert torch.allclose(own, embedded, atol=1e-6) == (fold_model == 0)
    assert torch.allclose(probabilities, torch.stack(each).mean(dim=0), atol=1e-6)
    assert (each[0] - each[1]).abs().max() > 0.05


def test_edge_weights_weight_the_mean_and_zero_weights_leave_the_node_alone():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    weight = torch.tensor([0.0, 0.5, 1.0, 1.0])  # 0 aggregates nothing; 1 aggregates half of 0 and all of 2
    embedded, _ = aggregate(one_fold_model(), prepared, torch.tensor([1, 0]), weight)
    # node 1: ((2,4) + .5 (1,0) + (3,2)) / 2.5 = (2.2, 2.4); node 0: (1,0), whose second unit is shut
    assert embedded[0].tolist() == pytest.approx([2.4, 1.2])
    assert embedded[1].tolist() == [0.0, 0.0]


def test_with_two_hops_a_message_is_the_neighbourhood_mean_without_the_target():
    prepared = prepare(PATH, config_of(hops=2).with_values(RAW), CPU)
    embedded, _ = aggregate(one_fold_model(), prepared, torch.arange(3), torch.ones(4))
    # 0: 1 gives mean((2,4),(3,2)) = (2.5,3), so mean((1,0),(2.5,3)) = (1.75,1.5)
    # 1: 0 gives (1,0), 2 gives (3,2), so (2,2); 2: 1 gives mean((2,4),(1,0)) = (1.5,2), so (2.25,2)
    assert embedded.tolist() == [[1.5, 0.75], [2.0, 1.0], [2.0, 1.25]]


def test_a_self_weight_maps_the_node_separately_from_its_neighbours():
    prepared = prepare(PATH, config_of(hops=1).with_values(RAW), CPU)
    embedded, _ = aggregate(one_fold_model(self_weight=True), prepared, torch.arange(3), torch.ones(4))
    # 0: 2 (1,0) + swap (2,4) = (6,2); 1: 2 (2,4) + swap (2,1) = (5,10); 2: 2 (3,2) + swap (2,4) = (10,6)
    assert embedded.tolist() == [[6.0, 1.0], [5.0, 9.0], [10.0, 5.0]]


def test_a_self_weight_without_neighbours_is_the_node_alone():
    aggregators = one_fold_model(self_weight=True)
    own = torch.tensor([[3.0, 2.0]])
    assert aggregators.embed(own, torch.zeros(1, 2), torch.zeros(1), aggregators.bias[0]).tolist() == [
        [3.0, 1.0]
    ]


# --- fold models ---


def test_fold_models_start_equal():
    aggregators = Aggregators(3, 2, 4, 3, self_weight=True)
    aggregators.initialise(torch.Generator().manual_seed(0))
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    for project_rows in (aggregators.project_own, aggregators.project_message):
        rows = project_rows(features)
        assert rows.shape == (5, 3, 2)
        assert torch.equal(rows[:, 0], rows[:, 2])
        assert bool(rows.any())
    assert not torch.allclose(aggregators.project_own(features), aggregators.project_message(features))
    assert torch.equal(aggregators.head_weight[0], aggregators.head_weight[2])


def test_projecting_some_fold_models_equals_the_slice_of_projecting_all():
    aggregators = Aggregators(3, 2, 4, 3, self_weight=False)
    torch.nn.init.normal_(aggregators.weight, generator=torch.Generator().manual_seed(0))
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(
        aggregators.project_own(features)[:, 1:], aggregators.project_own(features, slice(1, 3))
    )
    expected = project(features, aggregators.weight[:, 2:4])
    assert torch.allclose(aggregators.project_message(features, slice(1, 2))[:, 0], expected)


def test_the_loss_is_the_sum_of_the_fold_models_mean_losses():
    logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[math.log(3), 0.0], [math.log(3), 0.0]]])
    label = torch.tensor([0, 0])
    learns = torch.tensor([[True, True], [True, False]])
    # fold model 0: (log 2 + log 4/3) / 2; fold model 1: log 2
    expected = (math.log(2) + math.log(4 / 3)) / 2 + math.log(2)
    assert float(CLASSIFICATION.loss(logits, label, learns)) == pytest.approx(expected)


def test_a_fold_model_gets_no_gradient_from_the_nodes_of_its_fold():
    aggregators = Aggregators(4, 3, 2, 3, self_weight=True)
    aggregators.initialise(torch.Generator().manual_seed(0))
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    fold = torch.full((6,), 1)  # every node is in fold 1, which fold model 2 must not learn from
    learns = torch.arange(3) != fold[:, None] + 1
    own, message = aggregators.project_own(features), aggregators.project_message(features)
    hidden = aggregators.embed(own, message.roll(1, 0), torch.ones(6), aggregators.bias)
    CLASSIFICATION.loss(aggregators.logits(hidden), torch.arange(6) % 2, learns).backward()
    for matrix in (aggregators.weight, aggregators.self_weight):
        by_fold_model = matrix.grad.unflatten(1, (3, 3)).abs().sum(dim=(0, 2))
        assert by_fold_model[2] == 0
        assert bool((by_fold_model[:2] > 0).all())
    for part in (aggregators.bias, aggregators.head_weight, aggregators.head_bias):
        by_fold_model = part.grad.flatten(1).abs().sum(dim=1)
        assert by_fold_model[2] == 0
        assert bool((by_fold_model[:2] > 0).all())


# --- scores ---


def test_a_score_is_the_hit_or_the_probability_of_the_true_class():
    probabilities, label = torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([1, 1])
    assert CLASSIFICATION.score(probabilities, label, "hit").tolist() == [0.0, 1.0]
    assert CLASSIFICATION.score(probabilities, label, "probability").tolist() == pytest.approx([0.3, 0.6])


def test_micro_f1_is_the_accuracy():
    predicted, labels = torch.eye(3)[[0, 1, 2, 1]], torch.tensor([0, 1, 1, 1])
    assert CLASSIFICATION.quality(predicted, labels) == 0.75
    assert math.isnan(CLASSIFICATION.quality(predicted[:0], labels[:0]))


# --- messages ---


def encode_all(graph: Graph, prepared, aggregators: Aggregators):
    """Return the episodes of all nodes and their encoded candidates."""
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=0)
    return episodes, make_view(aggregators, prepared).encode(episodes)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 500), st.booleans(), st.booleans())
def test_a_message_is_the_weighted_neighbourhood_mean_without_the_target(seed, directed, self_weight):
    graph = random_graph(seed, directed=directed)
    config = config_of(self_weight=self_weight)
    _, aggregators, prepared = random_setup(graph, config, seed=seed)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    episodes, encoded = encode_all(graph, with_neighbourhoods(prepared, weight), aggregators)
    for candidate, edge in enumerate(episodes.edge.tolist()):
        target, neighbour = int(graph.target[edge]), int(graph.neighbour[edge])
        total, share = prepared.features[neighbour].clone(), 1.0
        for other in range(int(graph.row_ptr[neighbour]), int(graph.row_ptr[neighbour + 1])):
            if int(graph.neighbour[other]) != target:
                total += weight[other] * prepared.features[graph.neighbour[other]]
                share += float(weight[other])
        assert torch.allclose(
            encoded.message[candidate], total / share @ aggregators.weight.detach(), atol=1e-5
        )


def test_a_targets_features_never_return_to_it_through_a_neighbour():
    graph, config = random_graph(2), config_of()
    _, aggregators, prepared = random_setup(graph, config)
    episodes, encoded = encode_all(graph, prepared, aggregators)
    for target in range(graph.num_nodes):
        features = prepared.features.clone()
        features[target] += 100.0
        changed = with_neighbourhoods(replace(prepared, features=features), torch.ones(graph.num_edges))
        _, encoded_changed = encode_all(graph, changed, aggregators)
        mine = episodes.target[episodes.owner] == target
        assert torch.allclose(encoded.message[mine], encoded_changed.message[mine], atol=1e-3)
        about_target = episodes.row == target
        if bool(about_target.any()):
            assert not torch.allclose(
                encoded.message[about_target], encoded_changed.message[about_target], atol=1e-3
            )


@pytest.mark.parametrize("hops", [1, 2])
def test_keeping_all_candidates_equals_representing_with_all_weights_one(hops):
    graph, config = random_graph(4), config_of(hops=hops)
    _, aggregators, prepared = random_setup(graph, config)
    view = make_view(aggregators, prepared)
    episodes, encoded = encode_all(graph, prepared, aggregators)
    total = sum_by_owner(encoded.message, episodes.owner, episodes.count)
    count = torch.bincount(episodes.owner, minlength=episodes.count).float()
    seen, probabilities = view.observe(episodes.target_row, total, count)
    embedded, expected = aggregate(aggregators, prepared, episodes.target, torch.ones(graph.num_edges))
    assert torch.allclose(seen, embedded, atol=1e-5)
    assert torch.allclose(probabilities, expected, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("self_weight", [False, True])
def test_sparse_and_dense_features_give_the_same_representations(hops, self_weight):
    graph, config = random_graph(6), config_of(hops=hops, self_weight=self_weight)
    features = torch.where(graph.features > 0, graph.features, 0.0)
    dense = replace(graph, features=features)
    sparse = replace(graph, features=SparseRows.from_scipy(sp.csr_matrix(features.numpy())))
    _, aggregators, prepared = random_setup(dense, config)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    expected = aggregate(aggregators, prepared, torch.arange(6), weight)
    found = aggregate(aggregators, prepare(sparse, config, CPU), torch.arange(6), weight)
    assert torch.allclose(found[0], expected[0], atol=1e-5)
    assert torch.allclose(found[1], expected[1], atol=1e-5)


def test_aggregating_in_batches_equals_aggregating_at_once(monkeypatch):
    graph, config = random_graph(5), config_of()
    _, aggregators, prepared = random_setup(graph, config)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    whole = aggregate(aggregators, prepared, torch.arange(6), weight)
    monkeypatch.setattr("gdpnet.inference.ensemble._TARGETS_AT_ONCE", 2)
    parts = aggregate(aggregators, prepared, torch.arange(6), weight)
    assert torch.allclose(whole[0], parts[0], atol=1e-6)
    nothing = aggregate(aggregators, prepared, torch.arange(0), weight)
    assert (nothing[0].shape, nothing[1].shape) == ((0, 4), (0, 3))
