"""Several episodes per target over the same rows, against the same episodes played one by one.

Without a GPU the kernel runs in Triton's interpreter, so graphs are small; with one, the compiled kernel runs.
"""

import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.prepare import prepare
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.selection.engines import triton_engine
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.engines.triton_engine import can_share, play_shared
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.rollout import roll_out
from helpers.setups import DEVICE, OWN, PAPER, PLAYS, SHIPPED, Play, random_graph, random_setup

pytest.importorskip("triton", reason="Triton is not installed")


def make_setup(values, *, copies, nodes=6, links=9, max_candidates=256):
    """Return a random policy, its view, and the same episodes twice: one per copy, and one for all copies."""
    config = Config().with_values(values)
    graph = random_graph(1, nodes, links)
    policy, aggregators, _ = random_setup(graph, config)
    prepared = prepare(graph, config, DEVICE)
    view = make_view(aggregators.to(DEVICE), prepared)
    targets = torch.arange(nodes, device=DEVICE)
    shape = (prepared.row_ptr, prepared.neighbour)
    each = begin_episodes(
        *shape,
        targets.repeat_interleave(copies),
        copy=torch.arange(copies, device=DEVICE).repeat(nodes),
        max_candidates=max_candidates,
        seed=3,
    )
    once = begin_episodes(*shape, targets, max_candidates=max_candidates, seed=3, shared_keys=True)
    policy = policy.to(DEVICE)
    with torch.no_grad():  # keep about half of the candidates
        scores = play_reference(policy, view, each, view.encode(each), Play(early_stop=False)).scores
        policy.score_bias.sub_(scores.median() + 0.01)  # and none exactly at one half
    return policy, view, each, once


def by_edge(edge, value, edges):
    return torch.zeros(edges, device=edge.device).index_add_(0, edge, value)


@pytest.mark.slow
@pytest.mark.parametrize("play", PLAYS, ids=str)
@pytest.mark.parametrize("values", [SHIPPED, PAPER, OWN], ids=["shipped", "paper", "own matrix"])
@pytest.mark.parametrize("copies", [1, 3])
def test_copies_over_the_same_rows_make_the_decisions_of_separate_episodes(values, play, copies):
    policy, view, each, once = make_setup(values, copies=copies)
    expected = roll_out(policy, view, each, play)
    chance, kept = play_shared(policy, view, once, play, copies)
    edges = once.edge.numel()
    assert 0 < int(expected.selected.sum()) < expected.selected.numel()
    assert torch.equal(
        by_edge(once.edge, kept, edges), by_edge(expected.episodes.edge, expected.selected.float(), edges)
    )
    torch.testing.assert_close(
        by_edge(once.edge, chance, edges), by_edge(expected.episodes.edge, expected.keep_probability, edges)
    )


def test_parts_of_hubs_and_programs_of_several_sizes_make_the_same_decisions(monkeypatch):
    policy, view, each, once = make_setup(SHIPPED, copies=2, nodes=40, links=200, max_candidates=12)
    monkeypatch.setattr(triton_engine, "_SHORTEST", 8)
    assert len(triton_engine.groups_of(once)) > 1
    expected = roll_out(policy, view, each, Play())
    chance, kept = play_shared(policy, view, once, Play(), 2)
    edges = once.edge.numel()
    assert torch.equal(
        by_edge(once.edge, kept, edges), by_edge(expected.episodes.edge, expected.selected.float(), edges)
    )
    torch.testing.assert_close(
        by_edge(once.edge, chance, edges), by_edge(expected.episodes.edge, expected.keep_probability, edges)
    )


def test_nan_weights_raise_an_error():
    policy, view, _, once = make_setup(SHIPPED, copies=1)
    with torch.no_grad():
        policy.score_bias.fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        play_shared(policy, view, once, Play(), 1)


def test_shared_episodes_need_a_gpu_and_a_bounded_length():
    _, view, _, _ = make_setup(SHIPPED, copies=1)
    assert not can_share(view, torch.device("cpu"), 8)
    assert can_share(view, torch.device("cuda"), 8)
    assert not can_share(view, torch.device("cuda"), 257)
