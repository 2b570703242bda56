"""Training of both phases: the data it may see, reproducibility, and that it learns to denoise."""

import math
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet._core.threads import torch_threads
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.select import select
from gdpnet.training import data as training_data
from gdpnet.training import selection_phase, trainer, validation
from gdpnet.training.callbacks import Callback, OnEpoch
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import TrainingData, is_small, make_training_data, split_for_training
from gdpnet.training.run_folder import create_run
from gdpnet.training.state import Epoch, TrainingState, begin_training
from gdpnet.training.tasks import LabelTask
from gdpnet.training.trainer import train_epochs
from gdpnet.training.validation import validate
from helpers.setups import CPU
from helpers.small import same_weights as same_models

FAST = Config().with_values(
    {
        "training": {"epochs": 2, "warmup": 1, "injected": 0.0},
        "representation": {"width": 8},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
    }
)
KEY = Key.of(0).fold_in("validation")
NOISY = SyntheticSettings(nodes=120, classes=3, words=300, links_per_node=2.0)


def trained(
    graph: Graph, config: Config = FAST, seed: int = 0
) -> tuple[TrainingState, TrainingData, list[Epoch]]:
    """Train on a graph to the end and return the state, the training data and the epochs that were reported."""
    data = make_training_data(graph, config, seed, CPU)
    state = begin(graph, data, config, seed)
    return state, data, run_epochs(state, data, config, seed)


def begin(graph: Graph, data: TrainingData, config: Config, seed: int = 0) -> TrainingState:
    """Return the state before the first epoch."""
    return begin_training(data, graph.num_classes, config, Key.of(seed), CPU)


def run_epochs(
    state: TrainingState,
    data: TrainingData,
    config: Config,
    seed: int = 0,
    on_epoch: Callable[[Epoch], object] = lambda epoch: None,
) -> list[Epoch]:
    """Train the state to the end and return the epochs that were reported."""
    epochs: list[Epoch] = []

    train_epochs(state, data, config, Key.of(seed), [OnEpoch(epochs.append), OnEpoch(on_epoch)])
    return epochs


# --- what training sees ---


# the path 0 - 1 - 2 - 3 - 4 - 5: two training nodes, one in no split, one to validate on, two to test on
PATH = Graph.build(
    [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]],
    np.arange(6.0)[:, None] + np.array([[0.0, 1.0]]),
    [0, 1, 0, 1, 0, 1],
    split=[1, 1, 0, 2, 3, 3],
)


def test_validation_and_test_nodes_are_not_in_the_training_graph():
    data = make_training_data(PATH, FAST, 0, CPU)
    assert data.train.num_nodes == 3
    assert data.train.row_ptr.tolist() == [0, 1, 3, 4]
    assert data.train.neighbour.tolist() == [1, 0, 2, 1]
    assert torch.allclose(data.train.features, prepare(PATH, FAST, CPU).features[:3])
    assert data.whole.num_nodes == 6


def test_only_labelled_training_nodes_are_targets_and_unlabelled_ones_are_context():
    data = make_training_data(PATH, FAST, 0, CPU)
    assert data.targets.tolist() == [0, 1]
    assert data.validation.tolist() == [3]
    assert data.validation_labels.tolist() == [1]
    unlabelled = replace(
        PATH, labels=torch.tensor([0, 1, -1, -1, 0, 1]), split=torch.tensor([1, 1, 1, 2, 3, 3])
    )
    data = make_training_data(unlabelled, FAST, 0, CPU)
    assert data.train.num_nodes == 3
    assert data.targets.tolist() == [0, 1]
    assert data.validation.tolist() == []


def test_pair_features_of_training_do_not_depend_on_other_nodes():
    data = make_training_data(PATH, FAST, 0, CPU)
    inner = Graph.build([[0, 1], [1, 2]], PATH.features[:3])
    assert torch.equal(data.train.pairs, prepare(inner, FAST, CPU).pairs)


def test_features_and_labels_of_test_nodes_do_not_change_the_trained_weights():
    graph = synthetic_graph(NOISY)
    test = graph.nodes_in("test")
    labels = graph.labels.clone()
    labels[test] = (labels[test] + 1) % 3
    features = graph.features.to_scipy().tolil()
    features[test.numpy(), :5] = 7.0
    changed = replace(graph, labels=labels, features=SparseRows.from_scipy(features.tocsr()))
    one_epoch = FAST.with_values({"training": {"epochs": 1}})
    state, other = trained(graph, one_epoch)[0], trained(changed, one_epoch)[0]
    assert same_weights(state, other)


def test_without_a_split_all_labelled_nodes_train_but_for_a_tenth():
    graph = Graph.build([[0], [1]], torch.ones(40, 1), [*[0, 1] * 15, *[-1] * 10])
    split = split_for_training(graph, seed=0)
    assert torch.bincount(split.long(), minlength=4).tolist() == [10, 27, 3, 0]
    assert split[30:].tolist() == [0] * 10
    assert torch.equal(split, split_for_training(graph, seed=0))
    assert not torch.equal(split, split_for_training(graph, seed=1))
    assert graph.split.tolist() == [0] * 40


def test_a_split_that_is_given_is_used_as_it_is():
    assert torch.equal(split_for_training(PATH, seed=0), PATH.split)


# --- folds ---


def test_folds_split_the_targets_evenly_and_hold_no_other_node():
    graph = synthetic_graph(NOISY)
    data = make_training_data(
        replace(graph, split=torch.where(graph.split == 3, 0, graph.split)), FAST, 0, CPU
    )
    assert torch.bincount(data.fold[data.targets]).tolist() == [20, 20, 20]
    others = torch.ones(data.fold.numel(), dtype=torch.bool)
    others[data.targets] = False
    assert bool(others.any())
    assert bool((data.fold[others] == -1).all())


@pytest.mark.parametrize(
    ("values", "fold_models"),
    [
        ({}, 4),
        ({"reward": {"folds": 1}}, 1),
        ({"reward": {"folds": 5}}, 6),
        ({"reward": {"kind": "paper"}}, 1),
        ({"reward": {"kind": "counterfactual"}}, 4),
        ({"training": {"selection": False}}, 4),
    ],
)
def test_there_is_one_fold_model_per_fold_and_one_for_all_if_rewards_are_cross_fitted(values, fold_models):
    graph, config = synthetic_graph(NOISY), FAST.with_values(values)
    data = make_training_data(graph, config, 0, CPU)
    assert begin(graph, data, config).aggregators.fold_models == fold_models


def test_the_model_of_a_fold_learns_nothing_from_the_labels_of_its_fold():
    graph = synthetic_graph(NOISY)
    config = FAST.with_values({"training": {"warmup": 3, "epochs": 1}})
    data = make_training_data(graph, config, 0, CPU)
    labels = torch.where(data.fold == 1, (data.labels + 1) % 3, data.labels)

    class WarmedUpError(Exception):
        pass

    def stop_after_warmup(epoch: Epoch) -> None:
        if epoch.epoch == 3:
            raise WarmedUpError

    weights = []
    for chosen in (data, replace(data, labels=labels)):
        state = begin(graph, chosen, config)
        with pytest.raises(WarmedUpError):
            run_epochs(state, chosen, config, on_epoch=stop_after_warmup)
        weights.append(state.aggregators.weight.detach().unflatten(1, (4, 8)))
    same = [torch.equal(weights[0][:, fold_model], weights[1][:, fold_model]) for fold_model in range(4)]
    assert same == [False, False, True, False]


def test_the_episode_of_a_target_uses_the_fold_model_that_never_learned_its_label(monkeypatch):
    graph = synthetic_graph(NOISY)
    played = []
    plain = selection_phase.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append((targets, options["row_shift"]))
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(selection_phase, "begin_episodes", watched)
    _, data, _ = trained(graph)
    assert len(played) == FAST.training.epochs
    for targets, shift in played:
        assert sorted(targets.tolist()) == data.targets.tolist()
        assert torch.equal(shift, (data.fold[targets] + 1) * data.train.num_nodes)


# --- the same seed ---


def same_weights(left: TrainingState, right: TrainingState) -> bool:
    mine, other = left.weights(), right.weights()
    return mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"representation": {"hops": 1, "self_weight": True}, "policy": {"state": "paper"}},
        {"reward": {"kind": "paper"}, "policy": {"order": "random"}},
        {"reward": {"kind": "counterfactual", "score": "hit"}, "inference": {"mode": "greedy"}},
        {"ppo": {"advantage": "sampled", "entropy": 0.01}, "policy": {"early_stop": False, "state": "pairs"}},
        {"training": {"selection": False}},
        {"training": {"injected": 0.5}},
    ],
    ids=["default", "paper state", "paper reward", "counterfactual", "sampled", "no selection", "injected"],
)
def test_two_runs_with_one_seed_agree_exactly(values):
    graph, config = synthetic_graph(NOISY), FAST.with_values(values)
    state, _, epochs = trained(graph, config)
    again, _, epochs_again = trained(graph, config)
    assert same_weights(state, again)
    assert epochs == epochs_again
    assert all(math.isfinite(value) for value in vars(epochs[-1]).values() if isinstance(value, float))
    assert all(bool(torch.isfinite(weight).all()) for weight in state.weights().values())


def test_another_seed_makes_another_model():
    graph = synthetic_graph(NOISY)
    assert not same_weights(trained(graph)[0], trained(graph, seed=1)[0])


# --- injected edges ---

INJECTED = FAST.with_values({"training": {"injected": 0.5}})


def links_of(prepared) -> set[tuple[int, int]]:
    target = torch.arange(prepared.num_nodes).repeat_interleave(prepared.row_ptr.diff())
    return set(zip(prepared.neighbour.tolist(), target.tolist(), strict=True))


@pytest.mark.parametrize(
    "values", [{"injected": 0.0}, {"injected": 0.5, "selection": False}], ids=["none", "no selection"]
)
def test_there_are_no_injected_edges_unless_a_policy_is_trained_on_them(values):
    data = make_training_data(synthetic_graph(NOISY), FAST.with_values({"training": values}), 0, CPU)
    assert (data.injected, data.held_out_graph) == ((), None)


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_perturbed_graphs_have_the_edges_of_the_training_graph_and_that_share_of_others(rate):
    config = FAST.with_values({"training": {"injected": rate}})
    data = make_training_data(synthetic_graph(NOISY), config, 0, CPU)
    own = links_of(data.train)
    links = [links_of(perturbed) for perturbed in data.injected]
    assert len(links) == 4
    for prepared, perturbed in zip(data.injected, links, strict=True):
        assert own < perturbed
        assert {(target, neighbour) for neighbour, target in perturbed} == perturbed
        assert len(perturbed - own) / 2 == pytest.approx(rate * len(own) / 2, abs=1)
        assert prepared.num_nodes == data.train.num_nodes
        assert prepared.pairs.shape == (len(perturbed), data.train.pairs.shape[1])
    assert len({frozenset(one) for one in links}) == 4
    again = make_training_data(synthetic_graph(NOISY), config, 0, CPU)
    assert [links_of(perturbed) for perturbed in again.injected] == links
    other = make_training_data(synthetic_graph(NOISY), config, 1, CPU)
    assert not any(links_of(perturbed) in links for perturbed in other.injected)


def test_the_injected_edge_auc_uses_edges_that_were_not_trained_on_and_not_noise_that_was_there():
    graph = synthetic_graph(NOISY)
    data = make_training_data(graph, INJECTED, 0, CPU)
    assert data.held_out_graph is not None
    perturbed = links_of(data.held_out_graph.perturbed)
    assert perturbed not in [links_of(other) for other in data.injected]
    own = links_of(data.train)
    target = torch.arange(data.held_out_graph.perturbed.num_nodes).repeat_interleave(
        data.held_out_graph.perturbed.row_ptr.diff()
    )
    edges = zip(data.held_out_graph.perturbed.neighbour.tolist(), target.tolist(), strict=True)
    # the graph has planted noise and knows it; what is asked about is not that
    assert graph.truth is not None
    assert graph.truth.spurious.any()
    assert data.held_out_graph.genuine.tolist() == [edge in own for edge in edges]


def test_the_injected_edge_auc_is_one_for_perfect_keep_probabilities_and_one_half_for_equal_ones(monkeypatch):
    data = make_training_data(synthetic_graph(NOISY), INJECTED, 0, CPU)
    state = begin(synthetic_graph(NOISY), data, INJECTED)
    genuine = data.held_out_graph.genuine

    def played(state, perturbed, config, targets, key):
        assert torch.equal(perturbed.train.neighbour, data.held_out_graph.perturbed.neighbour)
        return genuine.float() if perfect else torch.full(genuine.shape, 0.5), genuine

    monkeypatch.setattr(validation, "play_once", played)
    perfect = True
    assert validation.measure_injected_auc(state, data, INJECTED, KEY) == 1.0
    perfect = False
    assert validation.measure_injected_auc(state, data, INJECTED, KEY) == 0.5
    assert validation.measure_injected_auc(state, replace(data, held_out_graph=None), INJECTED, KEY) is None


@pytest.mark.parametrize("hops", [1, 2])
def test_perturbed_graphs_share_the_features_of_the_training_graph(hops):
    graph, config = synthetic_graph(NOISY), INJECTED.with_values({"representation": {"hops": hops}})
    data = make_training_data(graph, config, 0, CPU)
    for perturbed in (*data.injected, data.held_out_graph.perturbed):
        assert perturbed.features is data.train.features
        assert (perturbed.neighbourhood is data.train.features) == (hops == 1)


def test_a_complete_graph_is_trained_without_injected_edges():
    count = 12
    links = torch.combinations(torch.arange(count)).T
    split = torch.tensor([1] * 8 + [2] * 2 + [3] * 2)
    graph = Graph.build(links, torch.eye(count), torch.arange(count) % 2, split=split)
    data = make_training_data(graph, INJECTED, 0, CPU)
    assert (data.injected, data.held_out_graph) == ((), None)
    assert GDPNet.from_config(INJECTED, seed=0, device="cpu").fit(graph).history_


def test_without_validation_nodes_there_is_no_held_out_perturbed_graph():
    graph = synthetic_graph(NOISY)
    one = torch.zeros_like(graph.split)
    one[graph.nodes_in("train")[:9]] = 1  # a tenth of nine is none
    data = make_training_data(replace(graph, split=one), INJECTED, 0, CPU)
    assert len(data.injected) == 4
    assert data.held_out_graph is None


def test_the_best_epoch_maximises_validation_f1_plus_weighted_injected_edge_auc(monkeypatch):
    graph = synthetic_graph(NOISY)
    config = INJECTED.with_values({"training": {"epochs": 4, "patience": 4, "injected_weight": 2.0}})
    scores, aucs = iter([0.9, 0.5, 0.6, 0.5, 0.6]), iter([0.1, 0.2, 0.9, 0.1])
    monkeypatch.setattr(trainer, "validate", lambda *_, **__: next(scores))
    monkeypatch.setattr(trainer, "measure_injected_auc", lambda *_: next(aucs))
    state, _, epochs = trained(graph, config)
    assert [epoch.injected_auc for epoch in epochs] == [None, 0.1, 0.2, 0.9, 0.1]
    assert (state.best_epoch, state.best_f1) == (4, 0.5)


def test_no_edges_are_injected_into_a_training_graph_without_edges():
    graph = Graph.build([[0, 1], [2, 3]], torch.eye(4), [0, 1, 0, 1], split=[1, 1, 3, 3])
    assert make_training_data(graph, INJECTED, 0, CPU).injected == ()


def test_the_policy_is_also_trained_on_the_perturbed_graphs_in_turn(monkeypatch):
    graph = synthetic_graph(NOISY)
    data = make_training_data(graph, INJECTED, 0, CPU)
    played = []
    plain = selection_phase.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append(neighbour)
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(selection_phase, "begin_episodes", watched)
    injected, _, _ = trained(graph, INJECTED)
    perturbed = [
        data.train,
        data.injected[2],
        data.train,
        data.injected[3],
    ]  # epochs 2 and 3, after the warm-up
    assert len(played) == len(perturbed)
    assert all(
        torch.equal(one, perturbed.neighbour) for one, perturbed in zip(played, perturbed, strict=True)
    )
    plain_state, _, _ = trained(graph)
    assert not torch.equal(injected.policy.neighbour_weight, plain_state.policy.neighbour_weight)


def test_perturbed_graphs_are_released_before_heads_are_fitted(monkeypatch):
    perturbed, alive, plain = [], [], LabelTask.gather

    def gather(task):
        data = plain(task)
        assert data.held_out_graph is not None
        perturbed.extend(weakref.ref(one) for one in (*data.injected, data.held_out_graph.perturbed))
        return data

    class CountAlive(Callback):
        def on_step(self, step):
            if step.name == "decisions":
                alive.append(sum(one() is not None for one in perturbed))

    monkeypatch.setattr(LabelTask, "gather", gather)
    config = FAST.with_values({"training": {"injected": 0.5, "perturbed_graphs": 2}})
    GDPNet.from_config(config, device="cpu").fit(synthetic_graph(NOISY, 0), callbacks=[CountAlive()])
    assert len(perturbed) == 3
    assert set(alive) == {0}


def test_the_aggregators_never_see_an_injected_edge():
    # a policy that does not learn decides alike with and without them
    graph, still = synthetic_graph(NOISY), {"ppo": {"learning_rate": 0.0}}
    one, other = (trained(graph, config.with_values(still))[0] for config in (FAST, INJECTED))
    assert same_weights(one, other)


# --- epochs ---


def test_the_policy_is_trained_only_after_the_warm_up():
    graph = synthetic_graph(NOISY)
    _, _, epochs = trained(graph, FAST.with_values({"training": {"warmup": 2, "epochs": 3}}))
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3, 4, 5]
    assert [epoch.decisions > 0 for epoch in epochs] == [False, False, True, True, True]
    assert [epoch.kept_share == 1.0 for epoch in epochs] == [True, True, False, False, False]
    assert all(0.0 <= epoch.kl <= FAST.ppo.kl_limit + 1e-6 for epoch in epochs)


def test_the_best_weights_are_those_of_the_epoch_that_validated_best_after_the_warm_up():
    graph = synthetic_graph(NOISY)
    config = FAST.with_values({"training": {"epochs": 6, "patience": 6}})
    state, data, epochs = trained(graph, config)
    after = epochs[1:]
    best = max(after, key=lambda epoch: epoch.validation_f1)
    assert (state.best_f1, state.best_epoch) == (best.validation_f1, best.epoch)
    state.policy.load_state_dict(
        {name.removeprefix("policy."): value for name, value in state.best.items() if "policy." in name}
    )
    state.aggregators.load_state_dict(
        {
            name.removeprefix("aggregators."): value
            for name, value in state.best.items()
            if "aggregators." in name
        }
    )
    found = validate(state, data, config, Key.of(0).fold_in("validation"))
    assert found == best.validation_f1


def test_an_epoch_runs_episodes_of_at_most_max_targets_drawn_anew(monkeypatch):
    played = []
    plain = selection_phase.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append(targets.tolist())
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(selection_phase, "begin_episodes", watched)
    trained(synthetic_graph(NOISY), FAST.with_values({"ppo": {"max_targets": 10, "rollout_targets": 6}}))
    assert [len(targets) for targets in played] == [6, 4, 6, 4]
    assert len(set(played[0] + played[1])) == 10
    assert set(played[0] + played[1]) != set(played[2] + played[3])


@pytest.mark.parametrize(("most", "steps"), [(30, 8), (5, 5), (1, 1)])
def test_an_epoch_takes_as_many_steps_as_its_passes_have_batches_but_no_more_than_asked_for(most, steps):
    # 60 training nodes are 4 batches of 16 or less, in each of two passes
    values = {"representation": {"batch_size": 16, "passes": 2, "max_steps": most}}
    state, _, epochs = trained(synthetic_graph(NOISY), FAST.with_values(values))
    taken = state.optimiser.state[state.aggregators.weight]["step"]
    assert int(taken) == steps * len(epochs)


def test_validation_uses_what_the_policy_selects():
    # even nodes show their class; odd ones show nothing, and each is linked to two even ones of its class
    even = torch.arange(0, 60, 3)
    edges = torch.cat(
        [torch.stack([even, even + 1]), torch.stack([even, even + 2]), torch.stack([even + 1, even + 2])],
        dim=1,
    )
    label = (torch.arange(60) // 3) % 2
    features = torch.nn.functional.one_hot(label, 2).float()
    features[torch.arange(60) % 3 == 1] = 0.0
    split = torch.where(torch.arange(60) % 3 == 1, 2, 1)
    graph = Graph.build(edges, features, label, split=split)
    config = FAST.with_values(
        {
            "training": {"warmup": 20, "epochs": 1},
            "ppo": {"learning_rate": 0.0},
            "representation": {"learning_rate": 0.05},
        }
    )
    data = make_training_data(graph, config, 0, CPU)
    state = begin(graph, data, config)
    state.policy.score_weight.data.fill_(0.0)
    state.policy.score_bias.data.fill_(-30.0)  # drop every neighbour
    epochs = run_epochs(state, data, config)
    assert epochs[-2].validation_f1 == 1.0  # of the warm-up, which keeps every neighbour
    assert epochs[-1].validation_f1 == 0.5  # a node that shows nothing, alone
    assert epochs[-1].kept_share == 0.0


def test_training_stops_when_validation_no_longer_improves():
    graph = synthetic_graph(NOISY)
    values = {"representation": {"learning_rate": 0.0}}
    values["training"] = {"epochs": 30, "patience": 2, "patience_targets": 1}
    values["ppo"] = {"learning_rate": 0.0}
    _, _, epochs = trained(graph, FAST.with_values(values))
    assert len(epochs) == FAST.training.warmup + 1 + 2


def test_without_validation_nodes_the_last_weights_are_the_best():
    graph = synthetic_graph(NOISY)
    # an unlabelled validation node is one in name only
    labels = torch.where(graph.split == 2, -1, graph.labels)
    state, _, epochs = trained(replace(graph, labels=labels))
    assert math.isnan(epochs[-1].validation_f1)
    assert state.best_epoch == epochs[-1].epoch == 3
    assert all(torch.equal(state.best[name], value) for name, value in state.weights().items())


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one():
    graph, config = synthetic_graph(NOISY), FAST.with_values({"training": {"epochs": 3}})
    whole, data, _ = trained(graph, config)
    state = begin(graph, data, config)

    class InterruptedError(Exception):
        pass

    def interrupt(epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_epochs(state, data, config, on_epoch=interrupt)
    assert state.epoch == 2
    run_epochs(state, data, config)
    assert same_weights(state, whole)
    assert state.history == whole.history


# --- degenerate graphs ---


def test_training_nodes_without_labels_are_refused():
    with pytest.raises(GraphError, match="at least one training node must have a label, found none"):
        make_training_data(replace(PATH, labels=torch.full((6,), -1)), FAST, 0, CPU)


def test_a_single_class_is_refused():
    with pytest.raises(GraphError, match="two classes or more, found one class alone"):
        make_training_data(replace(PATH, labels=torch.tensor([0, 0, 1, 1, 1, 1])), FAST, 0, CPU)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_without_edges_trains_every_node_alone(sparse, hops):
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(10, 1)
    graph = Graph.build(
        [],
        SparseRows.identity(20) if sparse else features,
        torch.arange(20) % 2,
        split=[1] * 14 + [2] * 6,
    )
    config = FAST.with_values({"representation": {"hops": hops, "learning_rate": 0.1, "dropout": 0.0}})
    state, _, epochs = trained(graph, config.with_values({"training": {"epochs": 8}}))
    assert epochs[-1].decisions == 0
    assert all(math.isfinite(epoch.loss) for epoch in epochs)
    assert sparse or state.best_f1 == 1.0


def test_training_nodes_without_edges_between_them_are_trained_alone():
    # 0 and 1 are linked only to test nodes, so the training graph has no edge
    graph = Graph.build([[0, 1], [2, 3]], torch.eye(4), [0, 1, 0, 1], split=[1, 1, 3, 3])
    _, data, epochs = trained(graph)
    assert data.train.neighbour.numel() == 0
    assert epochs[-1].decisions == 0


def test_a_hub_is_split_into_several_episodes():
    links = [[0] * 40, list(range(1, 41))]
    graph = Graph.build(
        links, torch.randn(41, 4, generator=torch.Generator().manual_seed(0)), [0, *[0, 1] * 20]
    )
    _, _, epochs = trained(graph, FAST.with_values({"policy": {"max_candidates": 8}}))
    assert epochs[-1].decisions > 0


# --- learning ---


@pytest.mark.slow
def test_a_trained_policy_drops_planted_edges_more_often_than_genuine_ones():
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=4, topics_per_class=5))
    config = Config().with_values(
        {
            "training": {"epochs": 10, "warmup": 5},
            "representation": {"width": 32},
            "inference": {"episodes": 4},
        }
    )
    data = make_training_data(graph, config, 0, CPU)
    state = begin(graph, data, config)

    def area() -> float:
        everyone = torch.arange(graph.num_nodes)
        chosen = select(state.policy, state.aggregators, data.whole, everyone, config, Key.of(1))
        return float(roc_auc_score(~graph.truth.spurious.numpy(), chosen.probability.numpy()))

    before = area()
    run_epochs(state, data, config)
    after = area()
    assert after > 0.6
    assert after > before


@pytest.mark.slow
def test_the_best_epoch_comes_after_the_settling_epochs() -> None:
    graph = synthetic_graph(SyntheticSettings(nodes=120, words=200, topics_per_class=5))
    model = GDPNet(seed=0).set_params(training__warmup=1, training__epochs=5, training__settle=3)
    model.fit(graph)
    assert model.best_epoch_ > 1 + 3


def fitted_with(
    threads: int, graph: Graph, config: Config, callbacks: Sequence[Callback | Callable] = ()
) -> GDPNet:
    with torch_threads(threads), threadpool_limits(threads):
        return GDPNet.from_config(config, seed=0, device="cpu").fit(graph, callbacks=callbacks)


@pytest.fixture
def jobs_beside(monkeypatch) -> dict[str, bool]:
    """Return a table that says of each job of a fit whether it had a thread of its own."""
    found, start = {}, Beside.start

    def told(self: Beside, name: str, job: Callable) -> Callable:
        waiting = start(self, name, job)
        found[name] = isinstance(getattr(waiting, "__self__", None), Future)
        return waiting

    monkeypatch.setattr(Beside, "start", told)
    return found


@pytest.mark.slow
def test_a_fit_to_a_small_graph_does_not_depend_on_the_number_of_threads(jobs_beside):
    """With two threads, evidence and heads are fitted beside other steps."""
    graph = synthetic_graph(SyntheticSettings(nodes=600, words=300), seed=0)
    config = Config().with_values(
        {"training": {"warmup": 2, "epochs": 2}, "gcn": {"min_validation": 1, "epochs": 20}}
    )
    models = [fitted_with(threads, graph, config) for threads in (1, 2, 2)]
    assert models[0].networks_.evidence is not None
    assert models[0].networks_.hopwise is not None or models[0].networks_.gcn is not None
    assert all(same_models(models[0], other) for other in models[1:])
    assert jobs_beside == dict.fromkeys(("evidence", "injected-edge AUC", "all-edges head", "GCN head"), True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clusters", "links"])
def test_no_task_on_a_small_graph_depends_on_the_number_of_threads(kind):
    graph = synthetic_graph(SyntheticSettings(nodes=300, words=200), seed=0)
    config = Config().with_values({"task": {"kind": kind}, "training": {"warmup": 2, "epochs": 2}})
    models = [fitted_with(threads, graph, config) for threads in (1, 2)]
    assert same_models(*models)


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [1, 4])
def test_a_fit_with_steps_beside_others_is_resumed_to_the_same_weights(epoch, tmp_path, jobs_beside):
    graph = synthetic_graph(SyntheticSettings(nodes=300, words=200), seed=0)
    config = Config().with_values(
        {"training": {"warmup": 2, "epochs": 3}, "gcn": {"min_validation": 1, "epochs": 20}}
    )
    whole = fitted_with(2, graph, config)
    run = create_run(tmp_path / "run", config, "mine", graph, seed=0)

    def stop(told: Epoch) -> None:
        if told.epoch == epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted_with(2, graph, config, [Checkpoint(run), stop])
    assert torch.get_num_threads() == 1
    resumed = fitted_with(2, graph, config, [Checkpoint(run)])
    assert all(jobs_beside.values())
    assert same_models(whole, resumed)
    assert whole.history_ == resumed.history_


def test_graphs_with_many_columns_are_not_small():
    graph = synthetic_graph(SyntheticSettings(nodes=300, words=200), seed=0)
    assert is_small(graph, Config())
    bare = Graph.build(
        torch.stack([torch.arange(39_999), torch.arange(1, 40_000)]),
        SparseRows.identity(40_000),
        torch.zeros(40_000).long(),
    )
    assert not is_small(bare, Config())  # as many columns as nodes
    structural = Config().with_values({"features": {"missing": "structural"}})
    assert not is_small(bare, structural)
    few = Graph.build([[0], [1]], SparseRows.identity(2_000), torch.zeros(2_000).long())
    assert is_small(few, structural)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_runs_on_a_larger_graph_agree_with_equal_threads_and_else_up_to_rounding(threads, monkeypatch):
    monkeypatch.setattr(training_data, "_SMALL_VALUES", 0)
    graph = synthetic_graph(seed=0)
    config = Config().with_values(
        {
            "training": {"warmup": 2, "epochs": 2},
            "hopwise": {"use": False},
            "gcn": {"use": False},
            "all_edges": {"use": threads == 2},
        }
    )
    models = [fitted_with(number, graph, config) for number in (threads, 2)]
    if threads == 2:
        assert same_models(*models)
    for one, other in zip(*(model.history_ for model in models), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    one, other = (model.networks_.aggregators.state_dict() for model in models)
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], atol=1e-4, rtol=1e-3)
