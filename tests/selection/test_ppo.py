"""The formulas of PPO: by hand, by enumeration, and against torchrl's losses."""

from dataclasses import replace

import pytest
import torch
from torch.distributions import Bernoulli, Categorical

from gdpnet._core.csr import offsets_of
from gdpnet.config import Config, PPOSettings
from gdpnet.inference.observation import make_view
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.ppo import (
    Scored,
    advantages,
    bernoulli_kl,
    clipped_surrogate,
    discounted_returns,
    joint_entropy,
    joint_kl,
    step_baseline,
)
from gdpnet.selection.rollout import roll_out
from gdpnet.selection.update import update_policy
from helpers.setups import (
    joint_logits,
    known_policy,
    order_logits,
    random_graph,
    random_setup,
    score_all,
    star,
    table_view,
)

PLAYS = [Play(), Play(learned_order=False), Play(early_stop=False)]
NAMES = ["learned", "random order", "no early stop"]


# --- by hand ---


def test_returns_are_discounted_within_each_episode():
    reward, offsets = torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([0, 3, 3, 4])
    returns = discounted_returns(reward, offsets, 0.5)
    assert returns.tolist() == [1.0 + 0.5 * 2.0 + 0.25 * 4.0, 2.0 + 0.5 * 4.0, 4.0, 8.0]


def test_returns_without_discount_add_up_and_with_discount_zero_are_rewards():
    reward, offsets = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 3])
    assert discounted_returns(reward, offsets, 1.0).tolist() == [7.0, 6.0, 4.0]
    assert discounted_returns(reward, offsets, 0.0).tolist() == [1.0, 2.0, 4.0]
    assert reward.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95, 1.0])
def test_returns_of_long_episodes_are_those_of_a_loop_over_steps(discount):
    generator = torch.Generator().manual_seed(0)
    length = torch.tensor([37, 1, 16, 0, 17, 8, 2])
    offsets, reward = offsets_of(length), torch.randn(int(length.sum()), generator=generator)
    expected = reward.double().tolist()
    for start, end in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
        for step in reversed(range(start, end - 1)):
            expected[step] += discount * expected[step + 1]
    assert discounted_returns(reward, offsets, discount).tolist() == pytest.approx(expected, abs=1e-5)


def test_no_episodes_have_no_returns():
    assert discounted_returns(torch.zeros(0), torch.tensor([0]), 0.9).shape == (0,)


def test_the_baseline_is_the_mean_over_episodes_at_the_same_step():
    value, step = torch.tensor([1.0, 10.0, 3.0, 20.0, 5.0]), torch.tensor([0, 1, 0, 1, 2])
    assert step_baseline(value, step).tolist() == [2.0, 15.0, 2.0, 15.0, 5.0]
    assert step_baseline(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_the_surrogate_is_clipped_where_the_ratio_moved_in_the_direction_of_the_advantage():
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = torch.tensor([2.0, -2.0, 2.0, -2.0, 1.0])
    gain, slope = clipped_surrogate(ratio.log(), torch.zeros(5), advantage, 0.2)
    assert gain.tolist() == pytest.approx([1.2 * 2.0, 1.5 * -2.0, 0.5 * 2.0, 0.8 * -2.0, 1.1])
    assert slope.tolist() == pytest.approx([0.0, 1.5 * -2.0, 0.5 * 2.0, 0.0, 1.1])


# --- advantages ---


AS_SHIPPED = Play()


def star_rollout(play: Play = AS_SHIPPED, copies: int = 6):
    values = torch.tensor([0.0, 1.0, -0.5, 0.25])
    return roll_out(known_policy(-1.0), table_view(values), star(3, copies), play)


def test_sampled_advantages_are_normalised_returns_minus_the_mean_of_their_step():
    rollout = star_rollout(Play(early_stop=False))
    reward = torch.arange(rollout.decisions, dtype=torch.float32)
    found = advantages(rollout, reward, 0.5, exact=False)
    gained = (reward * rollout.kept).view(-1, 3)
    returns = gained.clone()
    returns[:, 1] += 0.5 * returns[:, 2]
    returns[:, 0] += 0.5 * returns[:, 1]
    above = (returns - returns.mean(dim=0)).flatten()
    expected = above / above.square().mean().sqrt()
    assert torch.allclose(found.keep, expected, atol=1e-5)
    assert torch.allclose(found.order, expected, atol=1e-5)


def test_exact_advantages_of_keep_or_drop_have_expectation_zero():
    rollout = star_rollout()
    reward = torch.where(rollout.is_ending, 0.0, torch.linspace(-1.0, 2.0, rollout.decisions))
    kept = advantages(replace(rollout, kept=~rollout.is_ending), reward, 0.0, exact=True)
    dropped = advantages(replace(rollout, kept=torch.zeros_like(rollout.is_ending)), reward, 0.0, exact=True)
    # the advantage of the draw is the same in both, which gives the scale of each
    scale = kept.order.norm() / dropped.order.norm()
    chance = rollout.keep_probability[rollout.candidate.clamp(min=0)]
    expected = chance * kept.keep + (1 - chance) * dropped.keep * scale
    assert torch.allclose(expected, torch.zeros_like(expected), atol=1e-5)
    assert float(kept.keep.abs().max()) > 0.5


def test_the_exact_advantage_of_a_draw_is_its_expected_reward_minus_the_mean_of_its_step():
    rollout = star_rollout(Play(early_stop=False))
    reward = torch.linspace(-1.0, 2.0, rollout.decisions)
    found = advantages(rollout, reward, 0.0, exact=True)
    chance = rollout.keep_probability[rollout.candidate]
    expected = (chance * reward).view(-1, 3)
    expected = (expected - expected.mean(dim=0)).flatten()
    scale = (reward * rollout.kept - chance * reward).square().mean().sqrt()
    assert torch.allclose(found.order, expected / scale, atol=1e-5)


def test_exact_advantages_include_the_sampled_future():
    rollout = star_rollout(Play(early_stop=False))
    reward = torch.linspace(-1.0, 2.0, rollout.decisions)
    now = (reward * rollout.kept - rollout.keep_probability[rollout.candidate] * reward).view(-1, 3)
    gained = (reward * rollout.kept).view(-1, 3)
    future = torch.zeros_like(gained)
    future[:, 1] = 0.5 * gained[:, 2]
    future[:, 0] = 0.5 * (gained[:, 1] + future[:, 1])
    expected = (now + future - future.mean(dim=0)).flatten()
    found = advantages(rollout, reward, 0.5, exact=True).keep
    assert torch.allclose(found, expected / expected.square().mean().sqrt(), atol=1e-5)


def test_zero_rewards_give_zero_advantages():
    rollout = star_rollout()
    for exact in (True, False):
        found = advantages(rollout, torch.zeros(rollout.decisions), 0.9, exact=exact)
        assert not found.keep.any()
        assert not found.order.any()


# --- the joint action, enumerated ---


def two_policies(play: Play, seed: int = 2):
    """Return a real roll-out, its view, and the scores of the policy that acted and of another."""
    config = Config().with_values(
        {"representation": {"width": 4}, "policy": {"hidden": [6, 5], "state": "neighbourhood"}}
    )
    graph = random_graph(seed, nodes=6, links=12)
    policy, aggregators, prepared = random_setup(graph, config, seed=seed)
    other, _, _ = random_setup(graph, config, seed=seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(9)))
    view = make_view(aggregators, prepared)
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=seed)
    rollout = roll_out(policy, view, episodes, play)
    assert bool(rollout.is_ending.any()) == play.can_end
    old, new = (score_all(one, rollout, view) for one in (policy, other))
    return rollout, view, old, new, other


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_joint_kl_equals_that_of_all_enumerated_actions(play):
    _, _, old, new, _ = two_policies(play)
    before, after = Categorical(logits=joint_logits(old, play)), Categorical(logits=joint_logits(new, play))
    expected = torch.distributions.kl_divergence(before, after)
    found = joint_kl(old, new)
    assert torch.allclose(found, expected, atol=1e-5)
    assert float(found.max()) > 0.01
    assert torch.allclose(joint_kl(old, old), torch.zeros(found.numel()))


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_joint_entropy_equals_that_of_all_enumerated_actions(play):
    _, _, old, _, _ = two_policies(play)
    expected = Categorical(logits=joint_logits(old, play)).entropy()
    assert torch.allclose(joint_entropy(old), expected, atol=1e-5)


def test_the_kl_of_keep_or_drop_is_that_of_two_bernoulli_distributions():
    old, new = torch.tensor([-3.0, 0.0, 2.0, 30.0]), torch.tensor([1.0, 0.5, 2.0, -30.0])
    expected = torch.distributions.kl_divergence(
        Bernoulli(logits=old.double()), Bernoulli(logits=new.double())
    ).float()
    assert torch.allclose(bernoulli_kl(old, new), expected, atol=1e-5)


# --- against torchrl ---


def actor_of(torchrl_logits: torch.Tensor, distribution: type):
    """Return a torchrl actor whose logits are a parameter: one row a decision."""
    from tensordict.nn import (
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
    )

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = torch.nn.Parameter(torchrl_logits.clone())

        def forward(self, row: torch.Tensor) -> torch.Tensor:
            return self.logits[row[:, 0]]

    return ProbabilisticTensorDictSequential(
        TensorDictModule(Logits(), in_keys=["row"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=distribution, return_log_prob=True
        ),
    )


def torchrl_data(action: torch.Tensor, old_log_prob: torch.Tensor, advantage: torch.Tensor):
    from tensordict import TensorDict

    count = advantage.numel()
    return TensorDict(
        {
            "row": torch.arange(count)[:, None],
            "action": action,
            "action_log_prob": old_log_prob,
            "advantage": advantage[:, None],
        },
        batch_size=[count],
    )


@pytest.fixture
def objectives():
    return pytest.importorskip("torchrl.objectives")


def clip_loss(objectives, logits, distribution, data, clip: float):
    """Return torchrl's clipped loss of each decision and the actor's logits after a backward pass."""
    actor = actor_of(logits, distribution)
    loss = objectives.ClipPPOLoss(
        actor, None, clip_epsilon=clip, entropy_bonus=False, reduction="none", functional=False
    )
    loss.set_keys(sample_log_prob="action_log_prob")
    each = loss(data)["loss_objective"]
    each.sum().backward()
    return each.detach(), actor[0].module.logits.grad


def test_the_clipped_surrogate_and_its_gradient_are_those_of_torchrl(objectives):
    generator = torch.Generator().manual_seed(0)
    logits, old_logits = torch.randn(2, 50, 4, generator=generator)
    action = torch.randint(4, (50,), generator=generator)
    advantage = torch.randn(50, generator=generator)
    old_log_prob = Categorical(logits=old_logits).log_prob(action)
    data = torchrl_data(action, old_log_prob, advantage)
    expected, gradient = clip_loss(objectives, logits, Categorical, data, 0.2)
    mine = logits.clone().requires_grad_()
    gain = clipped_surrogate(Categorical(logits=mine).log_prob(action), old_log_prob, advantage, 0.2)[0]
    (-gain).sum().backward()
    assert torch.allclose(-gain.detach(), expected.reshape(-1), atol=1e-6)
    assert torch.allclose(mine.grad, gradient, atol=1e-6)


def torchrl_parts(objectives, rollout, new: Scored, worth, clip: float) -> torch.Tensor:
    """Return torchrl's loss of each decision: of which neighbour, and of keep or drop where one was drawn.

    In a random order the draw is the environment's, and keep or drop is all of the action.
    """
    if not rollout.play.learned_order:
        data = torchrl_data(rollout.kept.float(), rollout.keep_log_prob, worth.keep)
        return clip_loss(objectives, new.score, Bernoulli, data, clip)[0].reshape(-1)
    offsets = rollout.episodes.offsets[:-1][rollout.episode]
    logits = order_logits(new, rollout.play)
    place = torch.full((rollout.decisions,), logits.shape[1] - 1)
    for decision in (~rollout.is_ending).nonzero().flatten().tolist():
        start, end = offsets[decision], rollout.candidate[decision]
        place[decision] = int((rollout.visited_at[start:end] >= rollout.step[decision]).sum())
    order_data = torchrl_data(place, rollout.order_log_prob, worth.order)
    order, _ = clip_loss(objectives, logits, Categorical, order_data, clip)
    drawn = (~rollout.is_ending).nonzero().flatten()
    score = logits.new_zeros(rollout.decisions)
    for decision in drawn.tolist():
        score[decision] = new.score[new.owner == decision][place[decision]]
    keep_data = torchrl_data(rollout.kept[drawn].float(), rollout.keep_log_prob[drawn], worth.keep[drawn])
    keep, _ = clip_loss(objectives, score[drawn], Bernoulli, keep_data, clip)
    return order.reshape(-1).index_add(0, drawn, keep.reshape(-1))


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_loss_of_an_update_is_torchrls_loss_of_both_parts_of_the_action(objectives, play):
    rollout, view, _, new, other = two_policies(play)
    reward = torch.linspace(-1.0, 1.0, rollout.decisions) * ~rollout.is_ending
    settings = PPOSettings(passes=1, batch_size=1000, learning_rate=0.0, discount=0.5)
    worth = advantages(rollout, reward, 0.5, exact=True)
    expected = torchrl_parts(objectives, rollout, new, worth, settings.clip)
    optimiser = torch.optim.Adam(other.parameters(), lr=0.0)
    generator = torch.Generator().manual_seed(0)
    found = update_policy(other, optimiser, rollout, view, reward, settings, generator)
    assert found.loss == pytest.approx(float(expected.mean()), abs=1e-5)
    assert float((new.keep_log_prob - rollout.keep_log_prob).exp().max()) > 1.0 + settings.clip


def test_the_joint_kl_is_the_one_that_torchrls_penalty_uses(objectives):
    play = Play()
    _, _, old, new, _ = two_policies(play)
    before, after = joint_logits(old, play), joint_logits(new, play)
    floor = torch.finfo(before.dtype).min  # torchrl reads the acting policy's logits from the data
    actor = actor_of(after.clamp(min=floor), Categorical)
    data = torchrl_data(torch.zeros(before.shape[0], dtype=torch.long), before[:, 0], torch.ones(len(before)))
    data["logits"] = before.clamp(min=floor)
    loss = objectives.KLPENPPOLoss(actor, None, entropy_bonus=False, reduction="none", functional=False)
    loss.set_keys(sample_log_prob="action_log_prob")
    expected = loss(data)["kl"].reshape(-1)
    assert torch.allclose(joint_kl(old, new), expected, atol=1e-5)
