"""The Gymnasium environments: checkers, rewards by hand, agreement with training and with each other."""

import importlib
import math
import pickle
import sys
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")

# these imports need gymnasium, so they come after the check
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from gdpnet.config import Config, RewardSettings  # noqa: E402
from gdpnet.data.graph import Graph  # noqa: E402
from gdpnet.data.pair_features import PAIR_NAMES  # noqa: E402
from gdpnet.data.prepare import prepare  # noqa: E402
from gdpnet.envs import ENVIRONMENT, Context, NeighbourSelection, NeighbourSelectionVector, make_context  # noqa: E402
from gdpnet.errors import ConfigError, GraphError  # noqa: E402
from gdpnet.estimator import GDPNet  # noqa: E402
from gdpnet.selection.episodes import Encoded, Episodes, View, begin_episodes  # noqa: E402
from gdpnet.selection.play import Play  # noqa: E402
from gdpnet.selection.rollout import roll_out  # noqa: E402
from gdpnet.training.data import make_training_data  # noqa: E402
from gdpnet.training.selection_phase import reward_if_kept  # noqa: E402
from helpers.small import FAST, fitted, noisy_graph  # noqa: E402

ORDERS = ("learned", "random")
KINDS = ("marginal", "paper", "counterfactual")


def probability_view(chance: Tensor) -> View:
    """Return a view whose nodes have these probabilities of class 0, and targets the mean with the kept ones."""
    table = chance[:, None]

    def encode(episodes: Episodes) -> Encoded:
        message = table[episodes.row]
        return Encoded(
            message, message, torch.cat([message, 1 - message], dim=1), torch.zeros(message.shape[0], 0)
        )

    def observe(row: Tensor, total: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        state = (table[row] + total) / (1.0 + kept[:, None])
        return state, torch.cat([state, 1 - state], dim=1)

    return View(encode, observe)


def star_context(kind: str = "marginal", leaves: int = 3) -> Context:
    """Return node 0 with probability .5 of class 0, and its neighbours 1, 2, 3 with 1, .5 and 0."""
    edges = [[0] * leaves, list(range(1, leaves + 1))]
    graph = Graph.build(edges, np.eye(leaves + 1, dtype=np.float32), [0] * (leaves + 1))
    config = Config().with_values({"policy": {"state": "paper"}, "representation": {"hops": 1}})
    return Context(
        graph=graph,
        prepared=prepare(graph, config, torch.device("cpu")),
        view=probability_view(torch.tensor([0.5, *torch.linspace(1.0, 0.0, leaves).tolist()])),
        targets=torch.tensor([0]),
        labels=graph.labels,
        row_shift=torch.zeros(leaves + 1, dtype=torch.long),
        reward=RewardSettings(kind=kind),
        extras=False,
    )


@cache
def trained() -> tuple[GDPNet, Graph]:
    graph = noisy_graph()
    return fitted(graph), graph


@cache
def small_context(split: str = "train", kind: str = "marginal") -> Context:
    model, graph = trained()
    return make_context(model, graph, split=split, reward=RewardSettings(kind=kind))


def slot_of(env: NeighbourSelection, node: object) -> int:
    return env.candidates.index(node)


def first_open(mask: np.ndarray) -> int:
    return int(np.flatnonzero(mask)[0])


# --- the checkers of Gymnasium and stable-baselines3 ---


@pytest.mark.parametrize("order", ORDERS)
def test_gymnasiums_checker_passes(order):
    check_env(gymnasium.make(ENVIRONMENT, context=small_context(), order=order).unwrapped)


@pytest.mark.parametrize("order", ORDERS)
def test_stable_baselines3s_checker_passes(order):
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker", reason="stable-baselines3 is not installed"
    )
    checker.check_env(NeighbourSelection(small_context(), order=order))


@pytest.mark.slow
def test_the_default_graph_is_the_synthetic_one():
    env = gymnasium.make("gdpnet.envs:gdpnet/NeighbourSelection-v0")
    assert env.action_space == gymnasium.spaces.Discrete(33)
    assert env.unwrapped.context.graph.num_nodes == 1000
    check_env(env.unwrapped)
    envs = gymnasium.make_vec(ENVIRONMENT, num_envs=3, vectorization_mode="vector_entry_point")
    assert isinstance(envs, NeighbourSelectionVector)
    seen, _ = env.reset(seed=4)
    np.testing.assert_allclose(envs.reset(seed=4)[0][0], seen, rtol=1e-5, atol=1e-6)


def test_environments_of_one_context_share_it():
    context = small_context()
    env = gymnasium.make(ENVIRONMENT, context=context)
    assert env.spec.make().unwrapped.context is context
    copied = pickle.loads(pickle.dumps(env.unwrapped))
    assert np.array_equal(copied.reset(seed=3)[0], env.reset(seed=3)[0])


# --- rewards and observations by hand ---


def test_marginal_rewards_by_hand():
    env = NeighbourSelection(star_context(), max_candidates=3)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(slot_of(env, 1))  # keep 1: .5 -> .75
    assert reward == pytest.approx(math.log(1.5))
    assert observation[0] == pytest.approx(0.75)
    observation, reward, *_ = env.step(3 + slot_of(env, 2))  # drop 2
    assert (reward, float(observation[0])) == (0.0, pytest.approx(0.75))
    observation, reward, terminated, truncated, info = env.step(slot_of(env, 3))  # keep 3: .75 -> .5
    assert reward == pytest.approx(-math.log(1.5))
    assert (terminated, truncated, info["invalid"]) == (True, False, False)
    assert sorted(env.selected) == [1, 3]
    assert observation[0] == pytest.approx(0.5)
    assert not observation[1:].any()


@pytest.mark.parametrize(("kind", "wanted"), [("paper", [1.0, 0.25]), ("counterfactual", [1 / 3, -0.2])])
def test_ratio_rewards_by_hand(kind, wanted):
    env = NeighbourSelection(star_context(kind), max_candidates=4)
    env.reset(seed=1)
    # f(1) = .75, f(3) = .25, f(none) = .5
    rewards = [env.step(slot_of(env, node))[1] for node in (1, 3)]
    assert rewards == pytest.approx(wanted)


def test_an_observation_holds_the_target_and_the_open_candidates():
    env = NeighbourSelection(star_context(), max_candidates=5)
    observation, _ = env.reset(seed=2)
    assert (env.target_columns, env.candidate_columns) == (1, 2)
    chance = {1: 1.0, 2: 0.5, 3: 0.0, None: 0.0}
    rows = observation[1:].reshape(5, 2)
    assert observation[0] == 0.5
    assert rows[:, 0].tolist() == [chance[node] for node in env.candidates]
    assert rows[:, 1].tolist() == [1, 1, 1, 0, 0]
    observation, *_ = env.step(0)
    assert observation[1:].reshape(5, 2)[:, 1].tolist() == [0, 1, 1, 0, 0]


def test_in_a_random_order_neighbours_are_presented_one_by_one():
    env = NeighbourSelection(star_context(), order="random")
    observation, _ = env.reset(seed=3)
    order = env.candidates[:3]
    assert sorted(order) == [1, 2, 3]
    chance = {1: 1.0, 2: 0.5, 3: 0.0}
    for node in order[1:]:
        observation, reward, terminated, *_ = env.step(0)
        assert (reward, terminated) == (0.0, False)
        assert observation.tolist() == [0.5, chance[node]]
    observation, _, terminated, *_ = env.step(1)
    assert terminated
    assert env.selected == (order[-1],)
    assert observation[1] == 0.0


# --- action masks and the end of episodes ---


def test_the_mask_allows_open_slots_and_the_end():
    env = NeighbourSelection(star_context(), max_candidates=4)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [True, True, True, False, True, True, True, False, True]
    info = env.step(5)[4]  # drop slot 1
    assert info["action_mask"].tolist() == [True, False, True, False, True, False, True, False, True]
    assert env.action_masks().tolist() == info["action_mask"].tolist()


@pytest.mark.parametrize(("action", "invalid"), [(8, False), (3, True), (7, True)])
def test_the_last_action_and_closed_slots_end_an_episode_with_reward_zero(action, invalid):
    env = NeighbourSelection(star_context(), max_candidates=4)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["invalid"]) == (0.0, True, invalid)
    assert info["action_mask"].tolist() == [False] * 8 + [True]


def test_a_step_outside_an_episode_raises():
    env = NeighbourSelection(star_context())
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset must begin .* before a step"):
        env.step(0)
    env.reset(seed=0)
    env.step(32)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset must begin .* before a step"):
        env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset must begin .* before a step"):
        NeighbourSelectionVector(2, star_context()).step([0, 0])


def test_a_random_part_of_a_hub_is_used_as_large_as_the_parts_of_training():
    env = NeighbourSelection(star_context(leaves=7), max_candidates=3)
    parts = set()
    for seed in range(20):
        env.reset(seed=seed)
        assert len(set(env.candidates) - {None}) == 3  # parts of 3, 2 and 2: the largest
        parts |= set(env.candidates)
    assert parts - {None} == set(range(1, 8))


# --- agreement with training ---


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_equal_those_of_training(kind):
    context, (model, _) = small_context(kind=kind), trained()
    episodes = begin_episodes(
        context.prepared.row_ptr,
        context.prepared.neighbour,
        context.targets[:12],
        row_shift=context.row_shift[context.targets[:12]],
        max_candidates=256,
        seed=5,
    )
    rollout = roll_out(model.networks_.policy, context.view, episodes, Play())
    config = FAST.with_values({"reward": {"kind": kind}})
    wanted = reward_if_kept(rollout, context.view, context.labels, config) * rollout.kept
    slots = int(episodes.length.max())
    envs = NeighbourSelectionVector(episodes.count, context, max_candidates=slots)
    ids = context.graph.node_ids
    envs.reset(seed=0, options={"target": ids[episodes.target.numpy()]})
    engine, rewards = envs._engine, np.zeros(rollout.decisions)
    edge = torch.where(rollout.is_ending, -2, episodes.edge[rollout.candidate.clamp(min=0)])
    for step in range(int(rollout.step.max()) + 1):
        now = (rollout.step == step).nonzero().flatten()
        action = np.full(episodes.count, 2 * slots)
        slot = (engine.edge[rollout.episode[now]] == edge[now, None]).int().argmax(dim=1)
        slot = slot + slots * (~rollout.kept[now])
        action[rollout.episode[now]] = torch.where(rollout.is_ending[now], 2 * slots, slot).numpy()
        reward, terminated = envs.step(action)[1:3]
        rewards[now] = reward[rollout.episode[now]]
        goes_on = (rollout.step == step + 1)[(now + 1).clamp(max=rollout.decisions - 1)]
        assert (terminated[rollout.episode[now]] == ~goes_on.numpy()).all()
    np.testing.assert_allclose(rewards, wanted.numpy(), atol=1e-5)
    assert np.abs(rewards).sum() > 0


def test_training_targets_use_the_fold_model_that_never_learned_them():
    model, graph = trained()
    context, data = small_context(), make_training_data(graph, model.config_, model.seed, torch.device("cpu"))
    assert torch.equal(context.row_shift, data.fold_model * data.train.num_nodes)
    assert set(context.targets.tolist()) <= set(data.targets.tolist())
    assert int(context.row_shift[context.targets].min()) >= data.train.num_nodes
    assert int(small_context("test").row_shift.max()) == 0


def test_a_model_without_selection_gets_pair_features():
    graph = noisy_graph()
    config = FAST.with_values({"training": {"selection": False}})
    env = NeighbourSelection(model=fitted(graph, config), graph=graph, order="random")
    assert env.observation_space.shape == (2 * 8 + 2 + len(PAIR_NAMES[config.policy.state]) + 1 + 1,)


def test_models_and_graphs_are_opened_by_their_paths(tmp_path):
    from helpers.small import write_folder

    model, graph = trained()
    model.save(tmp_path / "model.safetensors")
    folder = write_folder(tmp_path / "graph", graph)
    env = NeighbourSelection(model=tmp_path / "model.safetensors", graph=folder, split="test")
    assert env.reset(seed=0)[1]["target"] in set(graph.node_ids[graph.nodes_in("test").numpy()])


# --- single and vector environments ---


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(ORDERS), st.sampled_from(KINDS))
def test_a_vector_environment_equals_single_ones(seed, order, kind):
    context, count = small_context(kind=kind), 4
    many = NeighbourSelectionVector(count, context, order=order, max_candidates=3)
    single = SyncVectorEnv(
        [lambda: NeighbourSelection(context, order=order, max_candidates=3) for _ in range(count)]
    )
    rng = np.random.default_rng(seed)
    seen = [many.reset(seed=seed), single.reset(seed=seed)]
    for _ in range(12):
        for mine, other in zip(*seen, strict=True):
            compare(mine, other)
        weight = many.action_masks() + 0.05
        action = np.array([rng.choice(weight.shape[1], p=row / row.sum()) for row in weight])
        seen = [many.step(action), single.step(action)]
    assert many.metadata["autoreset_mode"] is single.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert (many.action_space, many.observation_space) == (single.action_space, single.observation_space)


def compare(mine, other) -> None:
    if isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for key in mine:
            compare(mine[key], other[key])
    elif mine.dtype.kind == "f":
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, atol=1e-5)
    else:
        assert mine.tolist() == other.tolist()


def test_after_the_end_the_next_step_begins_a_new_episode_whatever_the_action():
    envs = NeighbourSelectionVector(2, star_context(), max_candidates=3)
    envs.reset(seed=0)
    *_, terminated, _, _ = envs.step([6, first_open(envs.action_masks()[1])])
    assert terminated.tolist() == [True, False]
    observation, reward, terminated, _, infos = envs.step([0, 6])
    assert terminated.tolist() == [False, True]
    assert reward.tolist() == [0.0, 0.0]
    assert observation[0, 2::2].tolist() == [1, 1, 1]
    assert infos["invalid"].tolist() == [False, False]


# --- seeds ---


def episodes_of(env: NeighbourSelection, seed: int, count: int = 5) -> list:
    found = [env.reset(seed=seed)[1]["target"], env.candidates]
    for _ in range(count):
        found += [env.reset()[1]["target"], env.candidates]
    return found


def test_the_same_seed_gives_the_same_episodes_and_another_seed_others():
    env = NeighbourSelection(small_context())
    assert episodes_of(env, 1) == episodes_of(NeighbourSelection(small_context()), 1)
    assert episodes_of(env, 1) != episodes_of(env, 2)


def test_without_a_seed_two_environments_differ():
    first, second = (
        [env.reset()[1]["target"] for _ in range(8)]
        for env in (NeighbourSelection(small_context()), NeighbourSelection(small_context()))
    )
    assert first != second


def test_every_environment_can_have_its_own_seed():
    envs = NeighbourSelectionVector(3, small_context())
    wanted = envs.reset(seed=[7, 7, 8])[0]
    assert np.array_equal(wanted[0], wanted[1])
    assert np.array_equal(envs.reset(seed=[8, 7, None])[0][1], wanted[0])
    assert np.array_equal(envs.reset(seed=[8, 7, None])[0][0], wanted[2])
    with pytest.raises(ConfigError, match="one seed for each of 3 environments, found 2"):
        envs.reset(seed=[1, 2])


def test_targets_are_drawn_uniformly():
    envs = NeighbourSelectionVector(64, small_context())
    targets = np.concatenate([envs.reset(seed=64 * turn)[1]["target"] for turn in range(60)])
    names, counts = np.unique(targets, return_counts=True)
    assert len(names) == small_context().targets.numel()
    mean = targets.size / len(names)
    assert np.abs(counts - mean).max() < 5 * math.sqrt(mean)


# --- the target option, and bad arguments ---


def test_a_target_can_be_set():
    context = small_context("test")
    node = context.graph.node_ids[int(context.targets[3])]
    env = NeighbourSelection(context)
    assert env.reset(options={"target": node})[1]["target"] == node
    envs = NeighbourSelectionVector(2, context)
    assert envs.reset(options={"target": node})[1]["target"].tolist() == [node, node]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nobody"}, "no node 'nobody'"),
        ({"target": "lonely"}, "must have a neighbour to decide on"),
        ({"target": "other"}, "must be a labelled node of the split 'train'"),
        ({"goal": 1}, "takes the option 'target' only, found 'goal'"),
    ],
)
def test_impossible_targets_raise(options, message):
    context = star_context()
    ids = np.array(["centre", "other", "left", "lonely"])
    graph = Graph.build([[0, 0], [1, 2]], np.eye(4, dtype=np.float32), [0] * 4, node_ids=ids)
    env = NeighbourSelection(Context(**(vars(context) | {"graph": graph})))
    with pytest.raises((GraphError, ConfigError), match=message):
        env.reset(options=options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "alphabetical"}, "order must be one of learned, random, found 'alphabetical'"),
        ({"max_candidates": 0}, "must be 1 or more, found 0 and 1"),
        ({"graph": "synthetic"}, "a context, or a model and a graph, found both"),
    ],
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(ConfigError, match=message):
        NeighbourSelection(star_context(), **arguments)


def test_a_model_needs_a_graph_and_a_split_with_targets():
    model, graph = trained()
    with pytest.raises(ConfigError, match="must also have a graph"):
        NeighbourSelection(model=model)
    with pytest.raises(ConfigError, match="split must be one of train, validation, test, found 'none'"):
        NeighbourSelection(model=model, graph=graph, split="none")
    lonely = Graph.build(
        [[], []], np.ones((4, graph.num_features), np.float32), [0, 1, 0, 1], split=[1, 1, 3, 3]
    )
    with pytest.raises(GraphError, match="must have a neighbour, found no such node"):
        make_context(model, lonely, split="test")


def test_actions_outside_the_space_and_wrong_numbers_of_targets_raise():
    envs = NeighbourSelectionVector(2, star_context(), max_candidates=3)
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match=r"an action must be between 0 and 6, found \[0, 7\]"):
        envs.step([0, 7])
    with pytest.raises(ConfigError, match=r"one action for each of 2 environments, found .* shape \(3,\)"):
        envs.step([0, 0, 0])
    with pytest.raises(ConfigError, match="one target for each of 2 environments, found 3"):
        envs.reset(options={"target": [0, 0, 0]})


def test_without_gymnasium_the_error_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gdpnet.envs")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs gymnasium.*pip install 'gdpnet\[gym\]'"):
        importlib.import_module("gdpnet.envs")
