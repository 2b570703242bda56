"""The Triton engine against the reference engine, decision by decision.

Without a GPU the kernel runs in Triton's interpreter, so graphs are small; with one, the compiled kernel runs.
"""

import warnings

import pytest
import torch

from gdpnet._core import device
from gdpnet.config import Config
from gdpnet.data.prepare import prepare
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.selection.engines import triton_engine
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.engines.triton_engine import can_use_triton, play_triton
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import roll_out
from helpers.setups import DEVICE, OWN, PAPER, PLAYS, SHIPPED, assert_alike, random_graph, random_setup

pytest.importorskip("triton", reason="Triton is not installed")


def make_setup(values, *, nodes=6, links=9, fold_models=2, max_candidates=256):
    """Return a random policy, its view of a random graph, and episodes of all nodes for each fold model."""
    config = Config().with_values(values)
    policy, aggregators, _ = random_setup(random_graph(1, nodes, links), config, fold_models)
    prepared = prepare(random_graph(1, nodes, links), config, DEVICE)
    view = make_view(aggregators.to(DEVICE), prepared, slice(None))
    fold_model = torch.arange(fold_models, device=DEVICE).repeat_interleave(nodes)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        torch.arange(nodes, device=DEVICE).repeat(fold_models),
        row_shift=fold_model * nodes,
        copy=fold_model,
        max_candidates=max_candidates,
        seed=3,
    )
    policy = policy.to(DEVICE)
    with torch.no_grad():  # keep about half of the candidates
        scores = play_reference(policy, view, episodes, view.encode(episodes), Play(early_stop=False)).scores
        policy.score_bias.sub_(scores.median() + 0.003)  # and none exactly at one half
    return policy, view, episodes


@pytest.mark.slow
@pytest.mark.parametrize("play", PLAYS, ids=str)
@pytest.mark.parametrize("values", [SHIPPED, PAPER, OWN], ids=["shipped", "paper", "own matrix"])
@torch.no_grad()
def test_the_triton_engine_makes_the_decisions_of_the_reference(values, play):
    policy, view, episodes = make_setup(values)
    encoded = view.encode(episodes)
    expected = play_reference(policy, view, episodes, encoded, play)
    assert 0 < int(expected.kept.sum()) < int(expected.decisions.sum())
    assert_alike(play_triton(policy, view, episodes, encoded, play), expected)


@pytest.mark.slow
@torch.no_grad()
def test_episodes_of_many_lengths_are_played_by_programs_of_several_sizes(monkeypatch):
    policy, view, episodes = make_setup(SHIPPED, nodes=40, links=90, fold_models=1)
    assert int(episodes.length[0]) > 0
    encoded = view.encode(episodes)
    lengths = episodes.length.tolist()
    monkeypatch.setattr(triton_engine, "_SHORTEST", 2)
    groups = triton_engine.groups_of(episodes)
    assert len(groups) > 1
    assert sum(end - start for start, end, _ in groups) == episodes.count
    for start, end, size in groups:
        assert all(size // 2 < length <= size or (length <= size == 2) for length in lengths[start:end])
    played = play_triton(policy, view, episodes, encoded, Play())
    assert_alike(played, play_reference(policy, view, episodes, encoded, Play()))


@torch.no_grad()
def test_nan_weights_raise_an_error():
    policy, view, episodes = make_setup(SHIPPED)
    policy.score_bias.fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        play_triton(policy, view, episodes, view.encode(episodes), Play())


def test_the_triton_engine_needs_a_gpu_and_short_episodes(monkeypatch):
    policy, view, episodes = make_setup(SHIPPED)
    if DEVICE.type == "cuda":
        assert can_use_triton(view, episodes)
        monkeypatch.setattr(triton_engine, "LONGEST", 1)
    assert not can_use_triton(view, episodes)
    assert roll_out(policy, view, episodes, Play()).decisions > 0


def test_a_missing_triton_is_warned_about_once(monkeypatch):
    device.has_triton.cache_clear()
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="Triton is not installed"):
        assert not device.has_triton()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not device.has_triton()
    device.has_triton.cache_clear()
