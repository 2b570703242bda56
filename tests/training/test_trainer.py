"""Training both phases: what it may see, that it repeats itself, and that it learns to denoise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.select import select
from gdpnet.training import trainer as training
from gdpnet.training import validation as judging
from gdpnet.training.data import Scene, make_scene, split_for_training
from gdpnet.training.trainer import Epoch, TrainingState, begin_training, train_epochs
from gdpnet.training.validation import validate
from helpers.small import same_weights as same_models
from helpers.worlds import CPU

FAST = Config().with_values(
    {
        "training": {"epochs": 2, "warmup": 1, "injected": 0.0},
        "representation": {"width": 8},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
    }
)
NOISY = SyntheticSettings(nodes=120, classes=3, words=300, links_per_node=2.0)


def trained(graph: Graph, config: Config = FAST, seed: int = 0) -> tuple[TrainingState, Scene, list[Epoch]]:
    """Train on a graph to the end and return the state, the scene and the epochs that were told."""
    scene = make_scene(graph, config, seed, CPU)
    state = begin_training(graph, scene, config, seed, CPU)
    told: list[Epoch] = []
    train_epochs(state, scene, config, seed, told.append)
    return state, scene, told


# --- what training sees ---


# the path 0 - 1 - 2 - 3 - 4 - 5: two training nodes, one in no split, one to validate on, two to test on
PATH = Graph.build(
    [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]],
    np.arange(6.0)[:, None] + np.array([[0.0, 1.0]]),
    [0, 1, 0, 1, 0, 1],
    split=[1, 1, 0, 2, 3, 3],
)


def test_validation_and_test_nodes_are_not_in_the_training_graph():
    scene = make_scene(PATH, FAST, 0, CPU)
    assert scene.train.num_nodes == 3
    assert scene.train.row_ptr.tolist() == [0, 1, 3, 4]
    assert scene.train.neighbour.tolist() == [1, 0, 2, 1]
    assert torch.allclose(scene.train.features, prepare(PATH, FAST, CPU).features[:3])
    assert scene.whole.num_nodes == 6


def test_only_labelled_training_nodes_are_targets_and_context_is_seen_without_being_one():
    scene = make_scene(PATH, FAST, 0, CPU)
    assert scene.targets.tolist() == [0, 1]
    assert scene.validation.tolist() == [3]
    assert scene.validation_labels.tolist() == [1]
    unlabelled = replace(
        PATH, labels=torch.tensor([0, 1, -1, -1, 0, 1]), split=torch.tensor([1, 1, 1, 2, 3, 3])
    )
    scene = make_scene(unlabelled, FAST, 0, CPU)
    assert scene.train.num_nodes == 3
    assert scene.targets.tolist() == [0, 1]
    assert scene.validation.tolist() == []


def test_pair_features_of_training_know_nothing_of_other_nodes():
    scene = make_scene(PATH, FAST, 0, CPU)
    inner = Graph.build([[0, 1], [1, 2]], PATH.features[:3])
    assert torch.equal(scene.train.pairs, prepare(inner, FAST, CPU).pairs)


def test_what_test_nodes_hold_does_not_change_the_trained_weights():
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


def test_folds_part_the_targets_evenly_and_nobody_else():
    graph = synthetic_graph(NOISY)
    scene = make_scene(replace(graph, split=torch.where(graph.split == 3, 0, graph.split)), FAST, 0, CPU)
    assert torch.bincount(scene.fold[scene.targets]).tolist() == [20, 20, 20]
    others = torch.ones(scene.fold.numel(), dtype=torch.bool)
    others[scene.targets] = False
    assert bool(others.any())
    assert bool((scene.fold[others] == -1).all())


@pytest.mark.parametrize(
    ("values", "members"),
    [
        ({}, 4),
        ({"reward": {"folds": 1}}, 1),
        ({"reward": {"folds": 5}}, 6),
        ({"reward": {"kind": "paper"}}, 1),
        ({"reward": {"kind": "counterfactual"}}, 4),
        ({"training": {"selection": False}}, 4),
    ],
)
def test_there_is_a_member_a_fold_and_one_for_all_where_rewards_are_cross_fitted(values, members):
    graph, config = synthetic_graph(NOISY), FAST.with_values(values)
    scene = make_scene(graph, config, 0, CPU)
    assert begin_training(graph, scene, config, 0, CPU).aggregators.members == members


def test_the_member_of_a_fold_learns_nothing_from_the_labels_of_its_fold():
    graph = synthetic_graph(NOISY)
    config = FAST.with_values({"training": {"warmup": 3, "epochs": 1}})
    scene = make_scene(graph, config, 0, CPU)
    labels = torch.where(scene.fold == 1, (scene.labels + 1) % 3, scene.labels)

    class WarmedUpError(Exception):
        pass

    def stop_after_warmup(epoch: Epoch) -> None:
        if epoch.epoch == 3:
            raise WarmedUpError

    weights = []
    for chosen in (scene, replace(scene, labels=labels)):
        state = begin_training(graph, chosen, config, 0, CPU)
        with pytest.raises(WarmedUpError):
            train_epochs(state, chosen, config, 0, stop_after_warmup)
        weights.append(state.aggregators.weight.detach().unflatten(1, (4, 8)))
    same = [torch.equal(weights[0][:, member], weights[1][:, member]) for member in range(4)]
    assert same == [False, False, True, False]


def test_a_target_is_played_by_the_member_that_never_learned_its_label(monkeypatch):
    graph = synthetic_graph(NOISY)
    played = []
    plain = training.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append((targets, options["row_shift"]))
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(training, "begin_episodes", watched)
    _, scene, _ = trained(graph)
    assert len(played) == FAST.training.epochs
    for targets, shift in played:
        assert sorted(targets.tolist()) == scene.targets.tolist()
        assert torch.equal(shift, (scene.fold[targets] + 1) * scene.train.num_nodes)


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
    state, _, told = trained(graph, config)
    again, _, told_again = trained(graph, config)
    assert same_weights(state, again)
    assert told == told_again
    assert all(math.isfinite(value) for value in vars(told[-1]).values() if value is not None)
    assert all(bool(torch.isfinite(weight).all()) for weight in state.weights().values())


def test_another_seed_makes_another_model():
    graph = synthetic_graph(NOISY)
    assert not same_weights(trained(graph)[0], trained(graph, seed=1)[0])


# --- injected links ---

INJECTED = FAST.with_values({"training": {"injected": 0.5}})


def links_of(prepared) -> set[tuple[int, int]]:
    target = torch.arange(prepared.num_nodes).repeat_interleave(prepared.row_ptr.diff())
    return set(zip(prepared.neighbour.tolist(), target.tolist(), strict=True))


@pytest.mark.parametrize(
    "values", [{"injected": 0.0}, {"injected": 0.5, "selection": False}], ids=["none", "no selection"]
)
def test_there_are_no_injected_links_unless_a_policy_is_to_practise_on_them(values):
    scene = make_scene(synthetic_graph(NOISY), FAST.with_values({"training": values}), 0, CPU)
    assert (scene.injected, scene.proof) == ((), None)


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_injected_worlds_have_the_training_graphs_links_and_that_share_of_others(rate):
    config = FAST.with_values({"training": {"injected": rate}})
    scene = make_scene(synthetic_graph(NOISY), config, 0, CPU)
    own = links_of(scene.train)
    worlds = [links_of(world) for world in scene.injected]
    assert len(worlds) == 4
    for prepared, world in zip(scene.injected, worlds, strict=True):
        assert own < world
        assert {(target, neighbour) for neighbour, target in world} == world
        assert len(world - own) / 2 == pytest.approx(rate * len(own) / 2, abs=1)
        assert prepared.num_nodes == scene.train.num_nodes
        assert prepared.pairs.shape == (len(world), scene.train.pairs.shape[1])
    assert len({frozenset(world) for world in worlds}) == 4
    again = make_scene(synthetic_graph(NOISY), config, 0, CPU)
    assert [links_of(world) for world in again.injected] == worlds
    other = make_scene(synthetic_graph(NOISY), config, 1, CPU)
    assert not any(links_of(world) in worlds for world in other.injected)


def test_the_policy_is_asked_about_links_that_it_never_practised_on_and_not_about_noise_that_was_there():
    graph = synthetic_graph(NOISY)
    scene = make_scene(graph, INJECTED, 0, CPU)
    assert scene.proof is not None
    world = links_of(scene.proof.world)
    assert world not in [links_of(other) for other in scene.injected]
    own = links_of(scene.train)
    target = torch.arange(scene.proof.world.num_nodes).repeat_interleave(scene.proof.world.row_ptr.diff())
    edges = zip(scene.proof.world.neighbour.tolist(), target.tolist(), strict=True)
    # the graph has planted noise and knows it; what is asked about is not that
    assert graph.truth is not None
    assert graph.truth.spurious.any()
    assert scene.proof.genuine.tolist() == [edge in own for edge in edges]


def test_a_policy_that_keeps_what_it_is_told_to_keep_tells_injected_links_by_it(monkeypatch):
    scene = make_scene(synthetic_graph(NOISY), INJECTED, 0, CPU)
    state = begin_training(synthetic_graph(NOISY), scene, INJECTED, 0, CPU)
    genuine = scene.proof.genuine

    def played(policy, aggregators, world, config, targets, seed):
        assert torch.equal(world.train.neighbour, scene.proof.world.neighbour)
        return genuine.float() if perfect else torch.full(genuine.shape, 0.5), genuine

    monkeypatch.setattr(judging, "play_once", played)
    perfect = True
    assert judging.tell_apart(state.policy, state.aggregators, scene, INJECTED) == 1.0
    perfect = False
    assert judging.tell_apart(state.policy, state.aggregators, scene, INJECTED) == 0.5
    assert judging.tell_apart(state.policy, state.aggregators, replace(scene, proof=None), INJECTED) is None


@pytest.mark.parametrize("hops", [1, 2])
def test_features_of_injected_worlds_are_those_of_the_training_graph_and_held_once(hops):
    graph, config = synthetic_graph(NOISY), INJECTED.with_values({"representation": {"hops": hops}})
    scene = make_scene(graph, config, 0, CPU)
    for world in (*scene.injected, scene.proof.world):
        assert world.features is scene.train.features
        assert (world.circle is scene.train.features) == (hops == 1)


def test_a_graph_with_no_room_for_more_links_is_trained_without_injected_ones():
    count = 12
    links = torch.combinations(torch.arange(count)).T
    split = torch.tensor([1] * 8 + [2] * 2 + [3] * 2)
    graph = Graph.build(links, torch.eye(count), torch.arange(count) % 2, split=split)
    scene = make_scene(graph, INJECTED, 0, CPU)
    assert (scene.injected, scene.proof) == ((), None)
    assert GDPNet.from_config(INJECTED, seed=0, device="cpu").fit(graph).history_


def test_without_validation_nodes_nothing_is_asked_about_injected_links():
    graph = synthetic_graph(NOISY)
    one = torch.zeros_like(graph.split)
    one[graph.nodes_in("train")[:9]] = 1  # a tenth of nine is none
    scene = make_scene(replace(graph, split=one), INJECTED, 0, CPU)
    assert len(scene.injected) == 4
    assert scene.proof is None


def test_the_best_epoch_is_the_one_that_is_worth_most(monkeypatch):
    graph = synthetic_graph(NOISY)
    config = INJECTED.with_values({"training": {"epochs": 4, "patience": 4, "injected_weight": 2.0}})
    scores, told = iter([0.9, 0.5, 0.6, 0.5, 0.6]), iter([0.1, 0.2, 0.9, 0.1])
    monkeypatch.setattr(training, "validate", lambda *_: next(scores))
    monkeypatch.setattr(training, "tell_apart", lambda *_: next(told))
    state, _, epochs = trained(graph, config)
    assert [epoch.told for epoch in epochs] == [None, 0.1, 0.2, 0.9, 0.1]
    assert (state.best_epoch, state.best_f1) == (4, 0.5)


def test_a_training_graph_without_links_is_not_given_any():
    graph = Graph.build([[0, 1], [2, 3]], torch.eye(4), [0, 1, 0, 1], split=[1, 1, 3, 3])
    assert make_scene(graph, INJECTED, 0, CPU).injected == ()


def test_the_policy_learns_on_injected_links_too_and_the_worlds_take_turns(monkeypatch):
    graph = synthetic_graph(NOISY)
    scene = make_scene(graph, INJECTED, 0, CPU)
    played = []
    plain = training.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append(neighbour)
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(training, "begin_episodes", watched)
    injected, _, _ = trained(graph, INJECTED)
    worlds = [
        scene.train,
        scene.injected[2],
        scene.train,
        scene.injected[3],
    ]  # epochs 2 and 3, after the warm-up
    assert len(played) == len(worlds)
    assert all(torch.equal(one, world.neighbour) for one, world in zip(played, worlds, strict=True))
    plain_state, _, _ = trained(graph)
    assert not torch.equal(injected.policy.neighbour_weight, plain_state.policy.neighbour_weight)


def test_representation_never_sees_an_injected_link():
    # a policy that does not learn decides alike with and without them
    graph, still = synthetic_graph(NOISY), {"ppo": {"learning_rate": 0.0}}
    one, other = (trained(graph, config.with_values(still))[0] for config in (FAST, INJECTED))
    assert same_weights(one, other)


# --- epochs ---


def test_the_policy_rests_in_the_warm_up_and_plays_after_it():
    graph = synthetic_graph(NOISY)
    _, _, told = trained(graph, FAST.with_values({"training": {"warmup": 2, "epochs": 3}}))
    assert [epoch.epoch for epoch in told] == [1, 2, 3, 4, 5]
    assert [epoch.decisions > 0 for epoch in told] == [False, False, True, True, True]
    assert [epoch.kept_share == 1.0 for epoch in told] == [True, True, False, False, False]
    assert all(0.0 <= epoch.kl <= FAST.ppo.kl_limit + 1e-6 for epoch in told)


def test_the_best_weights_are_those_of_the_epoch_that_validated_best_after_the_warm_up():
    graph = synthetic_graph(NOISY)
    config = FAST.with_values({"training": {"epochs": 6, "patience": 6}})
    state, scene, told = trained(graph, config)
    after = told[1:]
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
    assert validate(state.policy, state.aggregators, scene, config) == best.validation_f1


def test_an_epoch_plays_no_more_targets_than_asked_for_and_others_each_time(monkeypatch):
    played = []
    plain = training.begin_episodes

    def watched(row_ptr, neighbour, targets, **options):
        played.append(targets.tolist())
        return plain(row_ptr, neighbour, targets, **options)

    monkeypatch.setattr(training, "begin_episodes", watched)
    trained(synthetic_graph(NOISY), FAST.with_values({"ppo": {"max_targets": 10, "rollout_targets": 6}}))
    assert [len(targets) for targets in played] == [6, 4, 6, 4]
    assert len(set(played[0] + played[1])) == 10
    assert set(played[0] + played[1]) != set(played[2] + played[3])


@pytest.mark.parametrize(("most", "steps"), [(30, 8), (5, 5), (1, 1)])
def test_an_epoch_takes_as_many_steps_as_its_passes_have_batches_but_no_more_than_asked_for(most, steps):
    # 60 training nodes are 4 batches of 16 or less, in each of two passes
    values = {"representation": {"batch_size": 16, "passes": 2, "max_steps": most}}
    state, _, told = trained(synthetic_graph(NOISY), FAST.with_values(values))
    taken = state.optimiser.state[state.aggregators.weight]["step"]
    assert int(taken) == steps * len(told)


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
    scene = make_scene(graph, config, 0, CPU)
    state = begin_training(graph, scene, config, 0, CPU)
    state.policy.score_weight.data.fill_(0.0)
    state.policy.score_bias.data.fill_(-30.0)  # drop everyone
    told: list[Epoch] = []
    train_epochs(state, scene, config, 0, told.append)
    assert told[-2].validation_f1 == 1.0  # of the warm-up, which keeps everyone
    assert told[-1].validation_f1 == 0.5  # a node that shows nothing, alone
    assert told[-1].kept_share == 0.0


def test_training_stops_when_validation_no_longer_improves():
    graph = synthetic_graph(NOISY)
    values = {"training": {"epochs": 30, "patience": 2}, "representation": {"learning_rate": 0.0}}
    values["ppo"] = {"learning_rate": 0.0}
    _, _, told = trained(graph, FAST.with_values(values))
    assert len(told) == FAST.training.warmup + 1 + 2


def test_without_validation_nodes_the_last_weights_are_the_best():
    graph = synthetic_graph(NOISY)
    # an unlabelled validation node is one in name only
    labels = torch.where(graph.split == 2, -1, graph.labels)
    state, _, told = trained(replace(graph, labels=labels))
    assert math.isnan(told[-1].validation_f1)
    assert state.best_epoch == told[-1].epoch == 3
    assert all(torch.equal(state.best[name], value) for name, value in state.weights().items())


def test_a_run_taken_up_again_ends_where_it_would_have_ended():
    graph, config = synthetic_graph(NOISY), FAST.with_values({"training": {"epochs": 3}})
    whole, scene, _ = trained(graph, config)
    state = begin_training(graph, scene, config, 0, CPU)

    class InterruptedError(Exception):
        pass

    def interrupt(epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train_epochs(state, scene, config, 0, interrupt)
    assert state.epoch == 2
    train_epochs(state, scene, config, 0, lambda epoch: None)
    assert same_weights(state, whole)
    assert state.history == whole.history


# --- graphs that are hardly any ---


def test_training_nodes_without_labels_are_refused():
    with pytest.raises(GraphError, match="at least one training node must have a label, found none"):
        make_scene(replace(PATH, labels=torch.full((6,), -1)), FAST, 0, CPU)


def test_a_single_class_is_refused():
    with pytest.raises(GraphError, match="two classes or more, found one class alone"):
        make_scene(replace(PATH, labels=torch.tensor([0, 0, 1, 1, 1, 1])), FAST, 0, CPU)


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
    state, _, told = trained(graph, config.with_values({"training": {"epochs": 8}}))
    assert told[-1].decisions == 0
    assert all(math.isfinite(epoch.loss) for epoch in told)
    assert sparse or state.best_f1 == 1.0


def test_training_nodes_whose_links_all_lead_elsewhere_train_alone():
    # 0 and 1 are linked only to test nodes, so the training graph has no edge
    graph = Graph.build([[0, 1], [2, 3]], torch.eye(4), [0, 1, 0, 1], split=[1, 1, 3, 3])
    _, scene, told = trained(graph)
    assert scene.train.neighbour.numel() == 0
    assert told[-1].decisions == 0


def test_a_hub_is_played_in_parts_and_trains():
    links = [[0] * 40, list(range(1, 41))]
    graph = Graph.build(
        links, torch.randn(41, 4, generator=torch.Generator().manual_seed(0)), [0, *[0, 1] * 20]
    )
    _, _, told = trained(graph, FAST.with_values({"policy": {"max_candidates": 8}}))
    assert told[-1].decisions > 0


# --- learning ---


def test_a_learned_policy_drops_planted_links_more_often_than_genuine_ones():
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=4, topics_per_class=5))
    config = Config().with_values(
        {
            "training": {"epochs": 10, "warmup": 5},
            "representation": {"width": 32},
            "inference": {"episodes": 4},
        }
    )
    scene = make_scene(graph, config, 0, CPU)
    state = begin_training(graph, scene, config, 0, CPU)

    def area() -> float:
        everyone = torch.arange(graph.num_nodes)
        chosen = select(state.policy, state.aggregators, scene.whole, everyone, config, seed=1)
        return float(roc_auc_score(~graph.truth.spurious.numpy(), chosen.probability.numpy()))

    before = area()
    train_epochs(state, scene, config, 0, lambda epoch: None)
    after = area()
    assert after > 0.6
    assert after > before


def test_the_best_epoch_is_looked_for_after_the_policy_has_settled() -> None:
    graph = synthetic_graph(SyntheticSettings(nodes=120, words=200, topics_per_class=5))
    model = GDPNet(seed=0).set_params(training__warmup=1, training__epochs=5, training__settle=3)
    model.fit(graph)
    assert model.best_epoch_ > 1 + 3


def test_two_runs_agree_in_every_bit_also_on_two_threads():
    graph = synthetic_graph(seed=0)
    config = Config().with_values({"training": {"warmup": 4, "epochs": 1}, "reader": {"use": False}})
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        models = [GDPNet.from_config(config, seed=0, device="cpu").fit(graph) for _ in range(3)]
    finally:
        torch.set_num_threads(threads)
    assert all(same_models(models[0], other) for other in models[1:])
