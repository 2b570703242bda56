"""Rewards of decisions, by hand and along real episodes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet.config import Config
from gdpnet.inference.observation import make_view
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import ENDING, Play
from gdpnet.selection.rewards import counterfactual_reward, marginal_reward, paper_reward
from gdpnet.selection.rollout import roll_out
from gdpnet.training.selection_phase import reward_if_kept
from helpers.setups import random_graph, random_setup

SHARES = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=6)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values)


# --- by hand ---


def test_the_paper_reward_is_the_neighbours_share_of_all_scores_kept_and_its_own():
    reward = paper_reward(tensor(0.5, 0.5, 0.25, 0.0), tensor(0.0, 0.5, 0.75, 0.6))
    assert reward.tolist() == [1.0, 0.5, 0.25, 0.0]


def test_the_paper_reward_of_a_miss_with_nothing_kept_is_nothing():
    assert paper_reward(tensor(0.0), tensor(0.0)).tolist() == [0.0]


def test_the_counterfactual_reward_is_what_a_neighbour_adds_to_the_node_alone():
    score, alone, kept = tensor(0.8, 0.8, 0.5, 0.2), tensor(0.4, 0.4, 0.5, 0.6), tensor(0.0, 0.8, 1.0, 0.4)
    # (.8-.4)/.8, (.8-.4)/1.6, nothing added, and one that hurts: (.2-.6)/(.4+.6)
    assert counterfactual_reward(score, alone, kept).tolist() == pytest.approx([0.5, 0.25, 0.0, -0.4])


def test_a_counterfactual_miss_where_the_node_alone_hits_costs_one_and_no_more():
    assert counterfactual_reward(tensor(0.0), tensor(1.0), tensor(0.0)).tolist() == [-1.0]


def test_the_marginal_reward_is_the_change_of_the_log_probability():
    reward = marginal_reward(tensor(0.25, 0.5, 0.5), tensor(0.5, 0.25, 0.5), clip=2.0)
    assert reward.tolist() == pytest.approx([math.log(2), -math.log(2), 0.0])


def test_the_marginal_reward_is_clipped_on_both_sides():
    reward = marginal_reward(tensor(0.01, 0.99, 0.0), tensor(0.99, 0.01, 1.0), clip=0.5)
    assert reward.tolist() == [0.5, -0.5, 0.5]


@given(SHARES, st.data())
def test_paper_rewards_are_shares_and_diminish_with_what_was_kept(scores, data):
    score = torch.tensor(scores)
    kept = torch.tensor(data.draw(st.lists(st.floats(0, 9), min_size=len(scores), max_size=len(scores))))
    reward = paper_reward(score, kept)
    assert bool(((reward >= 0) & (reward <= 1 + 1e-6)).all())
    assert bool((paper_reward(score, kept + 1.0) <= reward + 1e-6).all())


@given(SHARES, st.data())
def test_a_counterfactual_reward_has_the_sign_of_what_was_added_and_never_exceeds_one(scores, data):
    score = torch.tensor(scores)
    alone = torch.tensor(data.draw(st.lists(st.floats(0, 1), min_size=len(scores), max_size=len(scores))))
    reward = counterfactual_reward(score, alone, torch.zeros(len(scores)))
    assert bool((reward.abs() <= 1 + 1e-6).all())
    assert bool(((reward > 0) <= (score > alone)).all())
    assert bool(((reward < 0) <= (score < alone)).all())


# --- along episodes ---


def played(kind: str, *, score: str = "probability", clip: float = 100.0, seed: int = 0):
    """Return a roll-out on a small random graph, its view, labels and settings."""
    config = Config().with_values(
        {
            "reward": {"kind": kind, "score": score, "clip": clip},
            "representation": {"width": 4},
            "policy": {"hidden": [6, 5]},
        }
    )
    graph = random_graph(1, nodes=6, links=12)
    policy, aggregators, prepared = random_setup(graph, config, seed=seed)
    view = make_view(aggregators, prepared)
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=seed)
    return roll_out(policy, view, episodes, Play()), view, graph.labels, config


@torch.no_grad()
def chance_of_label(rollout, view, labels, episode: int, message: list[torch.Tensor]) -> float:
    """Return the probability of the true class of an episode's target with these neighbours."""
    row = rollout.episodes.target_row[episode][None]
    total = torch.stack([torch.zeros(4), *message]).sum(dim=0)[None]
    probabilities = view.observe(row, total, torch.tensor([float(len(message))]))[1]
    return float(probabilities[0, labels[rollout.episodes.target[episode]]])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_unclipped_marginal_rewards_add_up_to_the_gain_of_the_whole_episode(seed):
    rollout, view, labels, config = played("marginal", seed=seed)
    gain = reward_if_kept(rollout, view, labels, config) * rollout.kept
    for episode in range(rollout.episodes.count):
        mine = rollout.episode == episode
        kept = rollout.encoded.message[rollout.candidate[mine & rollout.kept]]
        end = chance_of_label(rollout, view, labels, episode, list(kept))
        start = chance_of_label(rollout, view, labels, episode, [])
        assert float(gain[mine].sum()) == pytest.approx(math.log(end) - math.log(start), abs=1e-4)


def expected_gain(kind: str, score: float, alone: float, kept: float) -> float:
    if kind == "paper":
        return score / max(kept + score, 1e-6)
    return (score - alone) / max(kept + max(score, alone), 1e-6)


@pytest.mark.parametrize("kind", ["paper", "counterfactual"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ratio_rewards_along_an_episode_divide_by_what_was_kept_before(kind, seed):
    rollout, view, labels, config = played(kind, seed=seed)
    gain = reward_if_kept(rollout, view, labels, config)
    kept_scores = [0.0] * rollout.episodes.count
    for decision in range(rollout.decisions):
        episode, candidate = int(rollout.episode[decision]), int(rollout.candidate[decision])
        if candidate == ENDING:
            assert float(gain[decision]) == 0.0
            continue
        score = chance_of_label(rollout, view, labels, episode, [rollout.encoded.message[candidate]])
        alone = chance_of_label(rollout, view, labels, episode, [])
        wanted = expected_gain(kind, score, alone, kept_scores[episode])
        assert float(gain[decision]) == pytest.approx(wanted, abs=1e-4)
        kept_scores[episode] += score * bool(rollout.kept[decision])


def test_hits_make_the_first_paper_reward_all_or_nothing():
    rollout, view, labels, config = played("paper", score="hit")
    first = (rollout.step == 0) & ~rollout.is_ending
    gain = reward_if_kept(rollout, view, labels, config)[first]
    assert set(gain.tolist()) == {0.0, 1.0}


def test_a_reward_is_known_whether_or_not_the_neighbour_was_kept():
    rollout, view, labels, config = played("marginal")
    gain = reward_if_kept(rollout, view, labels, config)
    dropped = ~rollout.kept & ~rollout.is_ending
    assert bool((gain[dropped] != 0).any())
    assert bool(rollout.is_ending.any())
    assert bool((gain[rollout.is_ending] == 0).all())


def test_the_configured_clip_bounds_the_marginal_reward():
    rollout, view, labels, config = played("marginal", clip=0.01)
    gain = reward_if_kept(rollout, view, labels, config)
    assert float(gain.abs().max()) == pytest.approx(0.01)
