"""One update of the policy: it recomputes the observations, learns, and stays within the KL limit."""

import copy

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from gdpnet.config import Config, PPOSettings
from gdpnet.inference.observation import make_view
from gdpnet.selection.buffer import cut_batch, gather_batch, score_batch, score_candidates
from gdpnet.selection.episodes import Encoded, Episodes, View, begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Advantages, clipped_surrogate, joint_entropy
from gdpnet.selection.rollout import Rollout, roll_out
from gdpnet.selection.update import Gain, Update, update_policy
from helpers.setups import joint_logits, known_policy, random_graph, random_setup, score_all, star, table_view

PLAYS = [Play(), Play(learned_order=False), Play(early_stop=False)]
NAMES = ["learned", "random order", "no early stop"]


def played(play: Play, state: str = "structure", seed: int = 0, max_candidates: int = 256):
    """Return a policy, its roll-out on a random graph of ten nodes, and the view it was played in."""
    config = Config().with_values(
        {"representation": {"width": 4}, "policy": {"hidden": [6, 5], "state": state}}
    )
    graph = random_graph(seed, nodes=10, links=24)
    policy, aggregators, prepared = random_setup(graph, config, seed=seed)
    view = make_view(aggregators, prepared)
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(
        graph.row_ptr, graph.neighbour, everyone, max_candidates=max_candidates, seed=seed
    )
    rollout = roll_out(policy, view, episodes, play)
    assert bool(rollout.is_ending.any()) == play.can_end
    return policy, rollout, view


def updated(policy: Policy, rollout: Rollout, view: View, *, learning_rate: float, **options) -> Update:
    """Update the policy with rewards between -1 and 1."""
    settings = PPOSettings(learning_rate=learning_rate, **options)
    optimiser = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    reward = torch.linspace(-1.0, 1.0, rollout.decisions) * ~rollout.is_ending
    generator = torch.Generator().manual_seed(0)
    return update_policy(policy, optimiser, rollout, view, reward, settings, generator)


@torch.no_grad()
def enumerated_kl(before: Policy, after: Policy, rollout: Rollout, view: View) -> float:
    """Return the mean KL over all visited states by enumeration of every joint action."""
    old, new = (
        Categorical(logits=joint_logits(score_all(one, rollout, view), rollout.play))
        for one in (before, after)
    )
    return float(kl_divergence(old, new).mean())


# --- recomputed states and scores ---


@pytest.mark.parametrize("state", ["paper", "structure"])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_scoring_under_the_policy_that_acted_gives_its_log_probabilities(play, state):
    policy, rollout, view = played(play, state)
    scored = score_all(policy, rollout, view)
    assert float((scored.order_log_prob - rollout.order_log_prob).abs().max()) < 1e-5
    assert float((scored.keep_log_prob - rollout.keep_log_prob).abs().max()) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("most_episodes", [1, 2, 4, None])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_scores_do_not_depend_on_the_order_and_split_of_episodes(play, most_episodes):
    policy, rollout, view = played(play)
    count = rollout.episodes.count
    sequence = torch.randperm(count, generator=torch.Generator().manual_seed(3))
    whole = gather_batch(policy, rollout, view, sequence)
    parts = cut_batch(whole, most_episodes)
    assert len(parts) == -(-count // (most_episodes or count))
    assert rollout.episode[whole.chosen].unique_consecutive().tolist() == sequence.tolist()
    assert torch.equal(torch.cat([part.chosen for part in parts]), whole.chosen)
    for part in parts:
        scored = score_batch(policy, part)
        assert torch.allclose(scored.order_log_prob, rollout.order_log_prob[part.chosen], atol=1e-5)
        assert torch.allclose(scored.keep_log_prob, rollout.keep_log_prob[part.chosen], atol=1e-5)


def test_a_part_of_a_batch_has_a_bounded_number_of_pairs(monkeypatch):
    policy, rollout, view = played(Play())
    everyone = torch.arange(rollout.episodes.count)
    monkeypatch.setattr("gdpnet.selection.buffer._PAIRS_AT_ONCE", 12)
    parts = cut_batch(gather_batch(policy, rollout, view, everyone))
    longest = int(rollout.episodes.length.max())
    assert len(parts) > 1
    assert max(part.owner.numel() for part in parts) < 12 + longest * (longest + 1) // 2


def test_the_parts_of_a_hub_are_scored_as_they_were_played():
    policy, rollout, view = played(Play(), max_candidates=2)
    assert int(rollout.episodes.length.max()) == 2
    scored = score_all(policy, rollout, view)
    assert float((scored.order_log_prob - rollout.order_log_prob).abs().max()) < 1e-5


def test_a_decision_chooses_among_the_candidates_not_yet_visited():
    values = torch.tensor([0.0, 1.0, 3.0, 2.0])
    policy, view = known_policy(0.0), table_view(values)
    rollout = roll_out(policy, view, star(3), Play(greedy=True))
    batch = gather_batch(policy, rollout, view, torch.tensor([0]))
    # visited in the order of nodes 2, 3, 1; no end is drawn, since no candidate remains
    assert batch.owner.tolist() == [0, 0, 0, 1, 1, 2]
    assert batch.place.tolist() == [0, 1, 2, 0, 2, 0]
    assert rollout.states[1].tolist() == [0.0, 1.0, 2.0]
    assert batch.target_input[:, 0].tolist() == pytest.approx([0.0, 3.0 / 2.0, 5.0 / 3.0])


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_entropy_bonus_increases_the_entropy(play):
    policy, rollout, view = played(play)
    other = copy.deepcopy(policy)
    for one, entropy in ((policy, 0.0), (other, 5.0)):
        updated(one, rollout, view, learning_rate=0.01, entropy=entropy, kl_limit=10.0, passes=3)
    with torch.no_grad():
        without, with_bonus = (
            float(joint_entropy(score_all(one, rollout, view)).mean()) for one in (policy, other)
        )
    assert with_bonus > without + 0.01


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_written_out_gradient_equals_automatic_differentiation(play):
    policy, rollout, view = played(play)
    draws = torch.Generator().manual_seed(5)
    with torch.no_grad():  # away from the policy that acted, so that some ratios are clipped
        for weight in policy.parameters():
            weight.add_(0.6 * torch.randn(weight.shape, generator=draws))
    everyone = torch.arange(rollout.episodes.count)
    with torch.no_grad():
        batch = gather_batch(policy, rollout, view, everyone)
    order, keep = (torch.randn(rollout.decisions, generator=draws) for _ in range(2))
    worth = Advantages(order, keep)
    scored = score_batch(policy, batch)
    gain, slope = clipped_surrogate(scored.keep_log_prob, rollout.keep_log_prob, keep, 0.2)
    clipped = slope == 0.0
    if play.learned_order:
        drawn, slope = clipped_surrogate(scored.order_log_prob, rollout.order_log_prob, order, 0.2)
        gain, clipped = drawn + torch.where(rollout.is_ending, 0.0, gain), clipped | (slope == 0.0)
    assert bool(clipped.any())
    assert not bool(clipped.all())
    expected = torch.autograd.grad(gain.mean(), list(policy.parameters()), allow_unused=True)
    mine = Gain.apply(*score_candidates(policy, batch), batch, worth, 0.2)
    found = torch.autograd.grad(mine, list(policy.parameters()), allow_unused=True)
    torch.testing.assert_close(mine.detach(), gain.mean().detach())
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


# --- the KL limit ---


@pytest.mark.parametrize("learning_rate", [0.1, 10.0, 1e6, 1e30])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_an_enormous_step_is_halved_until_it_is_within_the_kl_limit(play, learning_rate):
    policy, rollout, view = played(play)
    acted = copy.deepcopy(policy)
    result = updated(policy, rollout, view, learning_rate=learning_rate, kl_limit=0.01, batch_size=4)
    measured = enumerated_kl(acted, policy, rollout, view)
    assert measured <= 0.01 + 1e-6
    assert result.kl == pytest.approx(measured, abs=1e-5)
    assert result.backtracks > 0
    assert all(bool(torch.isfinite(weight).all()) for weight in policy.parameters())


def test_a_step_too_long_for_eight_halvings_is_undone():
    policy, rollout, view = played(Play())
    acted = copy.deepcopy(policy)
    result = updated(policy, rollout, view, learning_rate=1e6, kl_limit=0.01)
    assert result.backtracks == 9
    assert result.kl == 0.0
    assert all(
        torch.equal(weight, before)
        for weight, before in zip(policy.parameters(), acted.parameters(), strict=True)
    )


def test_a_small_step_is_not_halved_and_changes_the_policy():
    policy, rollout, view = played(Play())
    acted = copy.deepcopy(policy)
    result = updated(policy, rollout, view, learning_rate=1e-4, passes=3)
    assert (result.passes, result.backtracks) == (3, 0)
    assert 0.0 < enumerated_kl(acted, policy, rollout, view) < 0.05
    assert result.kl == pytest.approx(enumerated_kl(acted, policy, rollout, view), abs=1e-6)


def test_passes_stop_at_the_kl_limit():
    policy, rollout, view = played(Play())
    acted = copy.deepcopy(policy)
    result = updated(policy, rollout, view, learning_rate=0.01, passes=200, kl_limit=0.02)
    assert 1 < result.passes < 200
    assert 0.005 < enumerated_kl(acted, policy, rollout, view) <= 0.02 + 1e-6


def test_a_kl_limit_of_zero_leaves_the_policy_unchanged():
    policy, rollout, view = played(Play())
    acted = copy.deepcopy(policy)
    updated(policy, rollout, view, learning_rate=0.1, kl_limit=0.0)
    assert enumerated_kl(acted, policy, rollout, view) == pytest.approx(0.0, abs=1e-7)


def test_an_empty_roll_out_changes_nothing():
    policy = known_policy()
    episodes = begin_episodes(
        torch.tensor([0, 0]),
        torch.zeros(0, dtype=torch.long),
        torch.tensor([0]),
        max_candidates=4,
        seed=0,
    )
    view = table_view(torch.tensor([0.0]))
    rollout = roll_out(policy, view, episodes, Play())
    assert updated(policy, rollout, view, learning_rate=0.1) == Update(0.0, 0.0, 0, 0)


def test_the_same_seed_gives_the_same_update():
    first, rollout, view = played(Play())
    second = copy.deepcopy(first)
    updated(first, rollout, view, learning_rate=0.01, batch_size=4)
    updated(second, rollout, view, learning_rate=0.01, batch_size=4)
    assert all(
        torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True)
    )


# --- learning a trivial task ---


def two_kinds(leaves: int) -> View:
    """Return the view of a star whose odd leaves are of kind A and even ones of kind B, encoded as one-hot rows."""
    table = torch.zeros(leaves + 1, 2)
    table[1::2, 0] = 1.0
    table[2::2, 1] = 1.0

    def encode(episodes: Episodes) -> Encoded:
        message = table[episodes.row]
        return Encoded(
            message, message, torch.full((message.shape[0], 2), 0.5), torch.zeros(message.shape[0], 0)
        )

    def observe(row, total, kept):
        return (table[row] + total) / (1.0 + kept[:, None]), torch.full((row.numel(), 2), 0.5)

    return View(encode, observe)


@pytest.mark.parametrize("advantage", ["exact", "sampled"])
def test_a_policy_learns_to_keep_positive_and_drop_negative_rewards(advantage):
    view = two_kinds(6)
    policy = Policy(2, 0, (16, 8), extras=False)
    policy.initialise(torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.02)
    settings = PPOSettings(advantage=advantage, discount=0.0, kl_limit=0.1, batch_size=32)
    generator = torch.Generator().manual_seed(0)
    for seed in range(20):
        rollout = roll_out(policy, view, star(6, copies=32, seed=seed), Play())
        leaf = rollout.episodes.row[rollout.candidate.clamp(min=0)]
        reward = torch.where(leaf % 2 == 1, 1.0, -1.0) * ~rollout.is_ending
        update_policy(policy, optimiser, rollout, view, reward, settings, generator)
    rollout = roll_out(policy, view, star(6, copies=64, seed=999), Play(early_stop=False))
    kind_a = rollout.episodes.row % 2 == 1
    assert float(rollout.keep_probability[kind_a].mean()) > 0.9
    assert float(rollout.keep_probability[~kind_a].mean()) < 0.1
