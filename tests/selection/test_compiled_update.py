"""The compiled update of the policy against the one with PyTorch, weight by weight."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core.csr import running_sum_before
from gdpnet._core.threads import Team
from gdpnet.config import Config, PPOSettings
from gdpnet.inference.observation import make_view
from gdpnet.selection import compiled_update, update
from gdpnet.selection.buffer import cut_bounds, gather_batch
from gdpnet.selection.compiled_gather import gather_decisions
from gdpnet.selection.compiled_update import CompiledSteps, can_compile
from gdpnet.selection.engines.numba_update_arrays import CHUNK, TILE
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.ppo import Advantages
from gdpnet.selection.rollout import roll_out
from gdpnet.selection.update import RaggedSteps, update_policy
from helpers.setups import OWN, PAPER, SHIPPED, known_policy, random_graph, random_setup, star, table_view

pytest.importorskip("numba", reason="numba is not installed")

PLAYS = [Play(), Play(learned_order=False), Play(early_stop=False)]
NAMES = ["learned", "random order", "no early stop"]
PANELS: dict = {"policy": {"hidden": [70, 45]}, "representation": {"width": 9, "hops": 1}}
SETTINGS = {"shipped": SHIPPED, "paper": PAPER, "own matrix": OWN, "several panels": PANELS}


def played(play=PLAYS[0], values=PANELS, *, seed=0, nodes=12, links=45, weighted=False, max_candidates=256):
    """Return a policy, its roll-out on a random graph, and the view it was played in."""
    graph = random_graph(seed, nodes=nodes, links=links)
    if weighted:
        draws = torch.Generator().manual_seed(seed)
        graph = replace(graph, edge_weight=4.0 ** (2.0 * torch.rand(graph.num_edges, generator=draws) - 1.0))
    policy, aggregators, prepared = random_setup(graph, Config().with_values(values), seed=seed)
    with torch.no_grad():  # draws are nearly uniform, so that episodes do not end at once
        policy.score_weight.mul_(0.2)
        policy.score_bias.mul_(0.2)
    view = make_view(aggregators, prepared)
    episodes = begin_episodes(
        graph.row_ptr, graph.neighbour, torch.arange(nodes), max_candidates=max_candidates, seed=seed
    )
    return policy, roll_out(policy, view, episodes, play), view


def updated(policy, rollout, view, kind=torch.optim.SGD, learning_rate=0.05, **options):
    """Update a copy of the policy; return the outcome, its weights, and its optimiser."""
    policy = copy.deepcopy(policy)
    optimiser = kind(policy.parameters(), lr=learning_rate, weight_decay=0.01)
    reward = torch.linspace(-1.0, 1.0, rollout.decisions) * ~rollout.is_ending
    generator = torch.Generator().manual_seed(0)
    options = {"batch_size": 5, "kl_limit": 10.0, **options}
    outcome = update_policy(policy, optimiser, rollout, view, reward, PPOSettings(**options), generator)
    return outcome, torch.cat([weight.detach().flatten() for weight in policy.parameters()]), optimiser


@pytest.fixture
def with_torch(monkeypatch):
    """Return a function that updates as `updated` does, but never in compiled steps."""

    def run(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(update, "can_compile", lambda *_: False)
            return updated(*arguments, **options)

    return run


def assert_same(found, expected, atol=2e-6):
    assert found[0].passes == expected[0].passes
    assert found[0].backtracks == expected[0].backtracks
    assert found[0].loss == pytest.approx(expected[0].loss, abs=1e-5)
    assert found[0].kl == pytest.approx(expected[0].kl, abs=1e-5)
    torch.testing.assert_close(found[1], expected[1], atol=atol, rtol=1e-4)


# --- the same update ---


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
def test_compiled_steps_give_the_weights_that_pytorch_gives(values, play, weighted, with_torch):
    setup = played(play, values, weighted=weighted)
    assert (setup[1].encoded.weight is not None) == weighted
    found = updated(*setup)
    before = torch.cat([weight.detach().flatten() for weight in setup[0].parameters()])
    assert float((found[1] - before).abs().max()) > 1e-3
    assert_same(found, with_torch(*setup))


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.sampled_from(PLAYS), st.sampled_from(list(SETTINGS)), st.integers(1, 60))
def test_on_any_graph_both_give_the_same_weights(seed, play, name, links):
    setup = played(play, SETTINGS[name], seed=seed, nodes=8, links=links)
    found = updated(*setup, passes=1, batch_size=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "can_compile", lambda *_: False)
        assert_same(found, updated(*setup, passes=1, batch_size=3), atol=1e-5)


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_a_graph_of_many_chunks_lanes_and_tiles_gives_the_same_weights(play, with_torch):
    setup = played(play, nodes=60, links=900)
    assert setup[1].visited_at.numel() > 10 * CHUNK
    assert_same(updated(*setup, batch_size=30), with_torch(*setup, batch_size=30))


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_an_episode_longer_than_a_chunk_gives_the_same_weights(play, with_torch):
    leaves = 2 * max(CHUNK, TILE)
    values = torch.randn(leaves + 1, generator=torch.Generator().manual_seed(0))
    view, policy = table_view(values), known_policy(-2.0, 0.5)
    rollout = roll_out(policy, view, star(leaves, copies=3), play)
    options = {"learning_rate": 1e-3, "batch_size": 2}
    assert_same(updated(policy, rollout, view, **options), with_torch(policy, rollout, view, **options))


def test_a_batch_of_many_pairs_is_cut_as_without_compiling(monkeypatch, with_torch):
    monkeypatch.setattr("gdpnet.selection.buffer._PAIRS_AT_ONCE", 20)
    setup = played()
    begins = gather_batch(*setup, torch.arange(setup[1].episodes.count)).begins
    assert len(cut_bounds(begins, 256)) > 3
    assert_same(updated(*setup, batch_size=256), with_torch(*setup, batch_size=256))


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_a_step_beyond_the_kl_limit_is_halved_as_often(play, with_torch):
    setup = played(play)
    options = {"learning_rate": 0.5, "kl_limit": 0.002}
    found = updated(*setup, **options)
    assert found[0].backtracks > 0
    assert_same(found, with_torch(*setup, **options))


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_moments_of_adam_are_those_of_pytorch(play, with_torch):
    setup = played(play)
    found, expected = (
        run(*setup, torch.optim.Adam, learning_rate=1e-3, passes=2) for run in (updated, with_torch)
    )
    assert_same(
        found, expected, atol=1e-4
    )  # where a gradient is nearly zero, Adam takes its rounding for a slope
    moments, others = (one[2].state_dict()["state"] for one in (found, expected))
    assert moments.keys() == others.keys()
    for number, state in moments.items():
        for name, value in state.items():
            torch.testing.assert_close(value, others[number][name], atol=1e-5, rtol=1e-3)


def test_scores_at_their_bound_have_no_gradient(with_torch):
    policy, rollout, view = played()
    with torch.no_grad():
        policy.score_weight.mul_(60.0)
    rollout = roll_out(policy, view, rollout.episodes, rollout.play)
    assert bool((rollout.score.abs() == 30.0).any())
    assert bool((rollout.score.abs() < 30.0).any())
    options = {"learning_rate": 1e-4, "passes": 1}
    assert_same(updated(policy, rollout, view, **options), with_torch(policy, rollout, view, **options))


def test_an_infinite_weight_has_no_kl_even_if_a_relu_hides_it():
    policy, rollout, view = played()
    steps = compiled(policy, rollout, view)
    assert steps.mean_kl() == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        policy.hidden_bias[0] = -torch.inf
    assert np.isnan(steps.mean_kl())


# --- when it is used ---


def test_an_entropy_bonus_is_left_to_pytorch(with_torch):
    setup = played()
    assert can_compile(setup[0], PPOSettings())
    assert not can_compile(setup[0], PPOSettings(entropy=0.1))
    found, expected = (run(*setup, entropy=0.1) for run in (updated, with_torch))
    assert found[0] == expected[0]
    assert torch.equal(found[1], expected[1])


def test_double_precision_is_left_to_pytorch():
    assert not can_compile(known_policy().double(), PPOSettings())


def test_without_numba_pytorch_updates(monkeypatch, with_torch):
    setup = played()
    expected = with_torch(*setup)
    monkeypatch.setattr(compiled_update, "has_numba", lambda: False)
    found = updated(*setup)
    assert found[0] == expected[0]
    assert torch.equal(found[1], expected[1])


def test_an_update_is_compiled_by_default(monkeypatch):
    def fail(*_):
        raise AssertionError("the update was not compiled")

    monkeypatch.setattr(RaggedSteps, "__init__", fail)
    assert updated(*played())[0].passes == 3


# --- threads ---


@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
def test_the_number_of_threads_does_not_change_a_bit(play):
    setup = played(play, nodes=60, links=900)
    assert len(compiled(*setup).total) > 2
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(updated(*setup, torch.optim.Adam, learning_rate=0.01, batch_size=30))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert other[0] == found[0][0]
        assert torch.equal(other[1], found[0][1])


def compiled(policy, rollout, view):
    """Return the compiled steps of an update in one thread."""
    worth = Advantages(*torch.randn(2, rollout.decisions, generator=torch.Generator().manual_seed(1)))
    sequence = torch.arange(rollout.episodes.count)
    gathered = gather_decisions(policy, rollout, view, worth, sequence, 0.2, Team(1))
    optimiser = torch.optim.SGD(policy.parameters(), lr=0.01)
    return CompiledSteps(policy, optimiser, gathered, PPOSettings(), Team(1))


# --- what it reads ---


@pytest.mark.parametrize("max_candidates", [3, 256])
@pytest.mark.parametrize("play", PLAYS, ids=NAMES)
@torch.no_grad()
def test_decisions_are_gathered_as_with_pytorch(play, max_candidates):
    policy, rollout, view = played(play, max_candidates=max_candidates)
    sequence = torch.randperm(rollout.episodes.count, generator=torch.Generator().manual_seed(2))
    worth = Advantages(*torch.randn(2, rollout.decisions, generator=torch.Generator().manual_seed(1)))
    batch = gather_batch(policy, rollout, view, sequence)
    begins, inputs, found = gather_decisions(policy, rollout, view, worth, sequence, 0.2, Team(1))
    assert torch.equal(begins[:, :3], batch.begins)
    assert found.place.tolist() == batch.place.tolist()
    owner = np.repeat(np.arange(len(found.sign)), np.diff(found.decision_pair))
    assert owner.tolist() == batch.owner.tolist()
    drew = batch.drew.numpy() > 0
    assert ((found.taken >= 0) == drew).all()
    assert found.taken[drew].tolist() == batch.place[batch.taken].numpy()[drew].tolist()
    states = found.state_decision[:-1]
    states_of = torch.from_numpy(np.repeat(states, np.diff(found.state_decision)))
    torch.testing.assert_close(torch.from_numpy(inputs.target[: len(states)]), batch.target_input[states])
    torch.testing.assert_close(batch.target_input[states_of], batch.target_input)
    neighbours = torch.from_numpy(inputs.neighbour[: batch.neighbour_input.shape[0]])
    torch.testing.assert_close(neighbours, batch.neighbour_input)
    torch.testing.assert_close(torch.from_numpy(found.agreement), batch.agreement)
    assert torch.equal(torch.from_numpy(found.keep_advantage), worth.keep[batch.chosen])


@pytest.mark.parametrize("weighted", [False, True])
@torch.no_grad()
def test_states_are_the_running_sums_of_what_was_kept(weighted):
    _, rollout, _ = played(weighted=weighted)
    drawn = rollout.candidate.clamp(min=0)
    sums, counts = rollout.states
    message = rollout.encoded.message[drawn] * rollout.kept[:, None]
    torch.testing.assert_close(sums, running_sum_before(message, rollout.episode))
    counted = rollout.encoded.counted[drawn] * rollout.kept
    torch.testing.assert_close(counts, running_sum_before(counted, rollout.episode))
    assert float(counts.max()) > 1.0


@given(st.lists(st.integers(1, 300), min_size=1, max_size=80), st.integers(1, 40))
@settings(deadline=None)
def test_lanes_and_chunks_cover_every_batch_without_crossing_its_bounds(lengths, batch_size):
    begins = torch.zeros(len(lengths) + 1, 4, dtype=torch.long)
    begins[1:] = torch.tensor(lengths)[:, None].cumsum(0)
    bounds = cut_bounds(begins, batch_size).numpy()
    chunks, lane_chunk, batch_lane = compiled_update._split(begins.numpy(), bounds)
    assert chunks[0].tolist() == [0] * 4
    assert chunks[-1].tolist() == begins[-1].tolist()
    assert (np.diff(chunks[:, 2]) > 0).all()
    assert (np.diff(chunks[:, 2]) < CHUNK + max(lengths)).all()
    assert (np.diff(lane_chunk) > 0).all()
    assert len(batch_lane) == len(bounds)
    assert chunks[lane_chunk[batch_lane]].tolist() == bounds.tolist()
