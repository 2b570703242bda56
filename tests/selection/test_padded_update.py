"""The update in steps of fixed shapes gives what the update of ragged batches gives."""

import copy
import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core.replay import Replays, round_up
from gdpnet.config import Config, PPOSettings
from gdpnet.inference.observation import make_view
from gdpnet.selection import padded_update
from gdpnet.selection.buffer import cut_bounds, gather_batch, score_batch
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.padded import PaddedBatches, Sizes, needed_sizes
from gdpnet.selection.padded_update import PaddedUpdate
from gdpnet.selection.play import Play
from gdpnet.selection.ppo import Advantages
from gdpnet.selection.rollout import roll_out
from gdpnet.selection.update import update_policy
from helpers.setups import random_graph, random_setup

PLAYS = [Play(), Play(learned_order=False), Play(early_stop=False)]
NAMES = ["learned", "random order", "no early stop"]


def played(play=PLAYS[0], state="structure", seed=0, nodes=12, links=30):
    """Return a policy, its roll-out on a random graph, and the view it was played in."""
    config = Config().with_values(
        {"representation": {"width": 4}, "policy": {"hidden": [6, 5], "state": state}}
    )
    graph = random_graph(seed, nodes=nodes, links=links)
    policy, aggregators, prepared = random_setup(graph, config, seed=seed)
    view = make_view(aggregators, prepared)
    everyone = torch.arange(graph.num_nodes)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=seed)
    return policy, roll_out(policy, view, episodes, play), view


class Run:
    """A copy of a policy with its optimiser and generator, updated again and again."""

    def __init__(self, policy, learning_rate, replays, **options):
        self.policy, self.replays = copy.deepcopy(policy), replays
        self.settings = PPOSettings(learning_rate=learning_rate, **options)
        self.optimiser = torch.optim.Adam(
            self.policy.parameters(), lr=learning_rate, weight_decay=1e-3, fused=True
        )
        self.generator = torch.Generator().manual_seed(0)

    def update(self, rollout, view):
        reward = torch.linspace(-1.0, 1.0, rollout.decisions) * ~rollout.is_ending
        return update_policy(
            self.policy,
            self.optimiser,
            rollout,
            view,
            reward,
            self.settings,
            self.generator,
            self.replays,
        )

    def numbers(self):
        """Return weights and moments in one vector."""
        moments = [value for each in self.optimiser.state.values() for value in each.values()]
        return torch.cat([value.detach().flatten() for value in [*self.policy.parameters(), *moments]])


def assert_same_outcome(one, other):
    assert (one.passes, one.backtracks) == (other.passes, other.backtracks)
    assert one.loss == pytest.approx(other.loss, abs=1e-4)
    assert one.kl == pytest.approx(other.kl, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 5, 256])
@pytest.mark.parametrize("entropy", [0.0, 0.3])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_padded_steps_give_the_same_weights_and_moments(play, entropy, batch_size):
    policy, rollout, view = played(play)
    ragged, padded = (
        Run(policy, 1e-3, replays, entropy=entropy, batch_size=batch_size, kl_limit=10.0)
        for replays in (None, Replays())
    )
    assert_same_outcome(ragged.update(rollout, view), padded.update(rollout, view))
    torch.testing.assert_close(ragged.numbers(), padded.numbers(), atol=1e-5, rtol=1e-4)
    assert not torch.equal(next(iter(policy.parameters())), next(iter(padded.policy.parameters())))


def test_a_policy_without_extras_is_updated_too():
    policy, rollout, view = played(state="paper")
    ragged, padded = (Run(policy, 1e-3, replays, batch_size=4) for replays in (None, Replays()))
    assert_same_outcome(ragged.update(rollout, view), padded.update(rollout, view))
    torch.testing.assert_close(ragged.numbers(), padded.numbers(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("learning_rate", "kl_limit", "passes", "backtracks"),
    [(0.01, 0.005, range(2, 20), range(1, 9)), (0.1, 0.01, [1], range(1, 9)), (1e6, 0.01, [1], [9])],
    ids=["a later pass", "the first pass", "undone"],
)
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_a_pass_beyond_the_limit_is_halved_and_those_after_it_are_undone(
    play, learning_rate, kl_limit, passes, backtracks
):
    policy, rollout, view = played(play)
    ragged, padded = (
        Run(policy, learning_rate, replays, passes=20, kl_limit=kl_limit, batch_size=256)
        for replays in (None, Replays())
    )
    expected, found = ragged.update(rollout, view), padded.update(rollout, view)
    assert expected.passes in passes
    assert expected.backtracks in backtracks
    assert_same_outcome(expected, found)
    assert found.kl <= kl_limit
    torch.testing.assert_close(ragged.numbers(), padded.numbers(), atol=1e-5, rtol=1e-3)
    # the next update draws the same orders
    assert torch.equal(ragged.generator.get_state(), padded.generator.get_state())


def test_steps_are_used_again_for_roll_outs_of_other_sizes():
    policy, *_ = played()
    ragged, padded = (Run(policy, 1e-3, replays, batch_size=6) for replays in (None, Replays()))
    used = set()
    for seed, links in ((0, 45), (1, 20), (2, 15)):
        graph = random_graph(seed, nodes=12, links=links)
        *_, view = played(seed=seed, links=links)
        everyone = torch.arange(graph.num_nodes)
        episodes = begin_episodes(graph.row_ptr, graph.neighbour, everyone, max_candidates=256, seed=seed)
        rollout = roll_out(ragged.policy, view, episodes, Play())
        assert_same_outcome(ragged.update(rollout, view), padded.update(rollout, view))
        used |= {id(one) for one in padded.replays._kept[PaddedUpdate]}
    torch.testing.assert_close(ragged.numbers(), padded.numbers(), atol=1e-4, rtol=1e-3)
    assert len(used) == 1


def test_steps_are_not_used_again_with_the_moments_of_a_checkpoint():
    policy, rollout, view = played()
    run = Run(policy, 1e-3, Replays())
    run.update(rollout, view)
    first = run.replays._kept[PaddedUpdate][0]
    run.update(rollout, view)
    assert run.replays._kept[PaddedUpdate] == [first]
    run.optimiser.load_state_dict(copy.deepcopy(run.optimiser.state_dict()))
    run.update(rollout, view)
    assert run.replays._kept[PaddedUpdate][0] is not first


def test_too_large_a_roll_out_is_updated_without_padding(monkeypatch):
    monkeypatch.setattr(padded_update, "_MOST_PAIRS", 10)
    policy, rollout, view = played()
    ragged, padded = (Run(policy, 1e-3, replays, batch_size=4) for replays in (None, Replays()))
    assert ragged.update(rollout, view) == padded.update(rollout, view)
    assert torch.equal(ragged.numbers(), padded.numbers())


@torch.no_grad()
@pytest.mark.parametrize("spare", [0, 1, 7])
@pytest.mark.parametrize("most_episodes", [1, 5, 256])
def test_padding_changes_no_score_and_has_finite_ones_itself(most_episodes, spare):
    policy, rollout, view = played(Play(early_stop=False))
    whole = gather_batch(policy, rollout, view, torch.arange(rollout.episodes.count))
    bounds = cut_bounds(whole.begins, most_episodes)
    needed = needed_sizes(bounds)
    sizes = Sizes(
        needed.batches + spare,
        needed.decisions + spare,
        needed.pairs + 2 * spare,
        needed.candidates + spare,
    )
    batches = PaddedBatches(rollout.play, sizes, whole)
    draws = torch.Generator().manual_seed(0)
    worth = Advantages(*(torch.randn(rollout.decisions, generator=draws) for _ in range(2)))
    batches.fill(whole, worth, bounds)
    all_of_them, real = batches.all()
    scored = score_batch(policy, all_of_them)
    assert bool(torch.isfinite(scored.order_log_prob).all())
    assert int(real.sum()) == rollout.decisions
    torch.testing.assert_close(scored.order_log_prob[real > 0], score_batch(policy, whole).order_log_prob)
    batches.begin_pass(torch.arange(needed.batches).flip(0))
    for number in reversed(range(needed.batches)):
        one, advantage, real, count = batches.next()
        chosen = whole.chosen[bounds[number, 0] : bounds[number + 1, 0]]
        assert int(count) == int(real.sum()) == chosen.numel()
        assert torch.equal(advantage.keep[: chosen.numel()], worth.keep[chosen])
        assert not bool(advantage.order[chosen.numel() :].any())
        found = score_batch(policy, one)
        assert bool(torch.isfinite(found.order_log_prob).all())
        torch.testing.assert_close(found.keep_log_prob[: chosen.numel()], rollout.keep_log_prob[chosen])


@given(*(st.integers(1, 1 << 20) for _ in range(3)))
@settings(deadline=None)
def test_rounded_sizes_hold_a_pair_for_every_padded_decision(decisions, pairs, candidates):
    needed = Sizes(3, decisions, pairs, candidates)
    rounded = needed.rounded()
    assert all(one >= other for one, other in zip(rounded, needed, strict=True))
    assert rounded.pairs - pairs >= rounded.decisions - decisions
    assert rounded.decisions <= max(1024, 2 * decisions)
    assert rounded.batches == 3


@given(st.integers(1, 10_000_000))
@settings(deadline=None)
def test_numbers_of_rows_are_rounded_to_at_most_a_quarter_more(size):
    assert size <= round_up(size) <= max(size * 1.25, size + 1)
    assert round_up(round_up(size)) == round_up(size)


def test_there_are_four_rounded_sizes_per_power_of_two():
    assert sorted({round_up(size) for size in range(65, 129)}) == [80, 96, 112, 128]


def test_the_step_that_was_not_used_for_longest_makes_room():
    replays, made = Replays(), []

    def find(number):
        return replays.find(int, lambda one: one == number, lambda: made.append(number) or number)

    for number in [*range(8), 0, 8, 0, 1]:
        assert find(number) == number
    assert made == [*range(9), 1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_captured_step_gives_what_the_host_computes():
    policy, rollout, view = played(nodes=30, links=120)
    moved = copy.deepcopy(policy).cuda()
    here, there = Run(policy, 1e-3, None, batch_size=6), Run(moved, 1e-3, Replays(), batch_size=6)
    gathered = gather_batch(policy, rollout, view, torch.arange(rollout.episodes.count))
    bounds = cut_bounds(gathered.begins, 6)
    worth = Advantages(*torch.randn(2, rollout.decisions, generator=torch.Generator().manual_seed(1)))
    columns = {
        name: value.cuda() for name, value in vars(gathered).items() if isinstance(value, torch.Tensor)
    }
    on_gpu = dataclasses.replace(gathered, **columns)
    for _ in range(3):
        outcomes = [
            padded_update.padded_update(
                run.policy, run.optimiser, batch, advantage, run.settings, run.generator, replays
            )
            for run, batch, advantage, replays in (
                (here, gathered, worth, Replays()),
                (there, on_gpu, Advantages(worth.order.cuda(), worth.keep.cuda()), there.replays),
            )
        ]
        assert outcomes[0] == pytest.approx(outcomes[1], abs=1e-4)
    assert len(bounds) > 4
    steps = there.replays._kept[PaddedUpdate][0]
    assert steps.step.graph is not None
    assert steps.measure_kl.graph is not None
    torch.testing.assert_close(here.numbers(), there.numbers().cpu(), atol=1e-4, rtol=1e-3)
