"""The kernel against the reference engine, decision by decision.

Without a GPU the kernel runs in Triton's interpreter, so graphs are small; where there is one, the real kernel runs.
"""

import warnings

import pytest
import torch

from gdpnet._core import device
from gdpnet.config import Config
from gdpnet.data.prepare import prepare
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.selection.engines import triton_engine as fused
from gdpnet.selection.engines.reference import play_stepwise
from gdpnet.selection.engines.triton_engine import can_fuse, play_fused
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import roll_out
from helpers.worlds import DEVICE, OWN, PAPER, PLAYS, SHIPPED, assert_alike, random_graph, random_world

pytest.importorskip("triton", reason="Triton is not installed")


def world(values, *, nodes=6, links=9, members=2, max_candidates=256):
    """Return a random policy, its view of a random graph, and episodes of all nodes as each member sees them."""
    config = Config().with_values(values)
    policy, aggregators, _ = random_world(random_graph(1, nodes, links), config, members)
    prepared = prepare(random_graph(1, nodes, links), config, DEVICE)
    view = make_view(aggregators.to(DEVICE), prepared, slice(None))
    member = torch.arange(members, device=DEVICE).repeat_interleave(nodes)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        torch.arange(nodes, device=DEVICE).repeat(members),
        row_shift=member * nodes,
        copy=member,
        max_candidates=max_candidates,
        seed=3,
    )
    policy = policy.to(DEVICE)
    with torch.no_grad():  # about half of the candidates shall be kept
        scores = play_stepwise(policy, view, episodes, view.meet(episodes), Play(early_stop=False)).scores
        policy.score_bias.sub_(scores.median())
    return policy, view, episodes


@pytest.mark.parametrize("play", PLAYS, ids=str)
@pytest.mark.parametrize("values", [SHIPPED, PAPER, OWN], ids=["shipped", "paper", "own matrix"])
@torch.no_grad()
def test_the_kernel_decides_as_the_reference_does(values, play):
    policy, view, episodes = world(values)
    met = view.meet(episodes)
    plain = play_stepwise(policy, view, episodes, met, play)
    assert 0 < int(plain.kept.sum()) < plain.kept.numel()
    assert_alike(play_fused(policy, view, episodes, met, play), plain)


@torch.no_grad()
def test_episodes_of_many_lengths_are_played_by_programs_of_several_sizes():
    policy, view, episodes = world(SHIPPED, nodes=40, links=90, members=1)
    assert int(episodes.length[0]) > 0
    met = view.meet(episodes)
    sizes, lengths = fused._SHORTEST, episodes.length.tolist()
    try:
        fused._SHORTEST = 2
        groups = fused.groups_of(episodes)
        assert len(groups) > 1
        assert sum(end - start for start, end, _ in groups) == episodes.count
        for start, end, size in groups:
            assert all(size // 2 < length <= size or (length <= size == 2) for length in lengths[start:end])
        played = play_fused(policy, view, episodes, met, Play())
    finally:
        fused._SHORTEST = sizes
    assert_alike(played, play_stepwise(policy, view, episodes, met, Play()))


@torch.no_grad()
def test_scores_that_are_no_numbers_are_refused():
    policy, view, episodes = world(SHIPPED)
    policy.score_bias.fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        play_fused(policy, view, episodes, view.meet(episodes), Play())


def test_on_the_host_the_kernel_does_not_play(monkeypatch):
    policy, view, episodes = world(SHIPPED)
    if DEVICE.type == "cuda":
        assert can_fuse(view, episodes)
        monkeypatch.setattr(fused, "LONGEST", 1)
    assert not can_fuse(view, episodes)
    assert roll_out(policy, view, episodes, Play()).decisions > 0


def test_where_triton_is_missing_it_is_said_once(monkeypatch):
    device.has_triton.cache_clear()
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="Triton is not installed"):
        assert not device.has_triton()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not device.has_triton()
    device.has_triton.cache_clear()
