"""The compiled engine against the reference engine, decision by decision."""

import hashlib
import multiprocessing
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core import device
from gdpnet._core.random import gumbels, uniforms
from gdpnet.config import Config
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.selection.engines import numba_engine as compiled
from gdpnet.selection.engines.numba_engine import can_compile, play_compiled
from gdpnet.selection.engines.reference import play_stepwise
from gdpnet.selection.episodes import begin_episodes, split_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import engine_of, roll_out
from helpers.worlds import OWN, PAPER, PLAYS, SHIPPED, random_graph, random_world

pytest.importorskip("numba", reason="numba is not installed")

WORLDS = {
    "shipped": SHIPPED,
    "paper": PAPER,
    "own matrix": OWN,
    "several panels": {"policy": {"hidden": [70, 45]}, "representation": {"width": 9, "hops": 1}},
}


def world(values, *, graph=None, seed=1, members=2, max_candidates=256):
    """Return a random policy, its view of a graph, and episodes of all nodes as each member sees them."""
    config = Config().with_values(values)
    graph = random_graph(seed, 12, 30) if graph is None else graph
    policy, aggregators, prepared = random_world(graph, config, members)
    view = make_view(aggregators, prepared, slice(None))
    nodes = graph.num_nodes
    member = torch.arange(members).repeat_interleave(nodes)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        torch.arange(nodes).repeat(members),
        row_shift=member * nodes,
        copy=member,
        max_candidates=max_candidates,
        seed=3,
    )
    with torch.no_grad():  # about half of the candidates shall be kept
        scores = play_stepwise(policy, view, episodes, view.meet(episodes), Play(early_stop=False)).scores
        policy.score_bias.sub_(scores.median() + 0.003)  # none shall lie on the bound
    return policy, view, episodes


def hub(leaves):
    """Return a graph whose node 0 is linked with all others."""
    graph = random_graph(2, leaves + 1, 3)
    links = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    return type(graph).build(links, graph.features, graph.labels, directed=False)


def assert_alike(one, other):
    for name in ("episode", "step", "candidate", "kept"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("score", "scores", "ending"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), msg=name)
    torch.testing.assert_close(one.weight.log(), other.weight.log())


def assert_same(one, other):
    for name, column in vars(one).items():
        assert torch.equal(column, getattr(other, name)), name


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def kept_by(number):
    """Play with so many threads; return what was kept."""
    policy, view, episodes = world(SHIPPED, graph=random_graph(1, 40, 400))
    with torch.no_grad(), threads(number):
        return play_compiled(policy, view, episodes, view.meet(episodes), Play()).kept.tolist()


# --- the same decisions ---


@pytest.mark.parametrize("play", PLAYS, ids=str)
@pytest.mark.parametrize("values", WORLDS.values(), ids=WORLDS.keys())
@torch.no_grad()
def test_compiled_episodes_decide_as_the_reference_does(values, play):
    policy, view, episodes = world(values)
    met = view.meet(episodes)
    plain = play_stepwise(policy, view, episodes, met, play)
    assert 0 < int(plain.kept.sum()) < plain.kept.numel()
    assert_alike(play_compiled(policy, view, episodes, met, play), plain)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.sampled_from(PLAYS), st.sampled_from(list(WORLDS)), st.integers(1, 40))
@torch.no_grad()
def test_on_any_graph_both_engines_decide_alike(seed, play, name, links):
    graph = random_graph(seed, 6, links)
    if graph.num_edges == 0:
        return
    policy, view, episodes = world(WORLDS[name], graph=graph)
    met = view.meet(episodes)
    assert_alike(
        play_compiled(policy, view, episodes, met, play), play_stepwise(policy, view, episodes, met, play)
    )


@torch.no_grad()
def test_weights_of_edges_count_as_they_do_for_the_reference():
    graph = random_graph(1, 12, 30)
    weight = 4.0 ** (2.0 * torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) - 1.0)
    policy, view, episodes = world(WORLDS["own matrix"], graph=replace(graph, edge_weight=weight))
    met = view.meet(episodes)
    assert met.weight is not None
    for play in PLAYS:
        plain = play_stepwise(policy, view, episodes, met, play)
        assert_alike(play_compiled(policy, view, episodes, met, play), plain)
    light = replace(met, weight=torch.ones_like(met.weight))
    assert not torch.equal(play_compiled(policy, view, episodes, light, play).scores, plain.scores)


@torch.no_grad()
def test_a_hub_is_one_episode_however_many_neighbours_it_has():
    policy, view, episodes = world(SHIPPED, graph=hub(1500), members=1, max_candidates=5000)
    assert int(episodes.length[0]) == 1500
    met = view.meet(episodes)
    plain = play_stepwise(policy, view, episodes, met, Play(early_stop=False))
    assert_alike(play_compiled(policy, view, episodes, met, Play(early_stop=False)), plain)


@torch.no_grad()
def test_of_candidates_that_draw_level_the_first_is_drawn():
    policy, view, episodes = world(SHIPPED)
    policy.score_weight.zero_()
    policy.score_bias.fill_(0.5)
    played = play_compiled(policy, view, episodes, view.meet(episodes), Play(greedy=True, early_stop=False))
    assert played.candidate.tolist() == list(range(episodes.row.numel()))
    assert bool(played.kept.all())


@torch.no_grad()
def test_a_roll_out_on_the_cpu_is_played_by_the_compiled_engine():
    policy, view, episodes = world(SHIPPED)
    assert engine_of(view, episodes) == "compiled"
    assert engine_of(replace(view, tables=None), episodes) == "stepwise"
    ours, plain = (roll_out(policy, one, episodes, Play()) for one in (view, replace(view, tables=None)))
    assert torch.equal(ours.visited_at, plain.visited_at)
    torch.testing.assert_close(ours.keep_probability, plain.keep_probability)


# --- the same draws ---


@settings(max_examples=200, deadline=None)
@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 1 << 20))
def test_draws_are_those_of_the_reference(key, counter):
    from gdpnet.selection.engines.numba_kernel import _gumbel, _uniform

    tensor = torch.tensor([key], dtype=torch.int32)
    bits = np.uint32(key & 0xFFFFFFFF)
    assert _uniform(bits, counter) == uniforms(tensor, counter).item()
    # logarithms differ in the last place between libraries
    assert _gumbel(bits, counter) == pytest.approx(gumbels(tensor, counter).item(), rel=1e-6, abs=1e-6)


# --- one episode is one piece of work ---


@torch.no_grad()
def test_threads_change_nothing():
    policy, view, episodes = world(SHIPPED, graph=random_graph(1, 40, 400))
    met = view.meet(episodes)
    alone = play_compiled(policy, view, episodes, met, Play())
    for number in (2, 3, 8):
        with threads(number):
            cuts = compiled._cuts(episodes, number)
            assert len(cuts) > number
            assert cuts[0] == 0
            assert cuts[-1] == episodes.count
            assert_same(play_compiled(policy, view, episodes, met, Play()), alone)


@torch.no_grad()
def test_a_batch_and_its_parts_decide_alike():
    policy, view, episodes = world(SHIPPED, graph=random_graph(1, 40, 200))
    whole = play_compiled(policy, view, episodes, view.meet(episodes), Play())
    parts = split_episodes(episodes, 60)
    assert len(parts) > 3
    played = [play_compiled(policy, view, part, view.meet(part), Play()) for part in parts]
    assert torch.equal(torch.cat([part.kept for part in played]), whole.kept)
    torch.testing.assert_close(torch.cat([part.score for part in played]), whole.score)


@torch.no_grad()
def test_several_threads_of_a_program_may_play_at_once():
    policy, view, episodes = world(SHIPPED, graph=random_graph(1, 40, 400))
    met = view.meet(episodes)
    alone = play_compiled(policy, view, episodes, met, Play())

    def play(_):
        with torch.no_grad():
            return play_compiled(policy, view, episodes, met, Play())

    with threads(2), ThreadPoolExecutor(4) as pool:
        for played in pool.map(play, range(16)):
            assert_same(played, alone)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_play_after_this_one_has(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    expected = kept_by(2)
    # torch itself waits for ever where a fork of a process with threads wants threads
    number = 1 if method == "fork" else 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, of forks beside threads
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            found = [pool.submit(kept_by, number) for _ in range(2)]
            assert [one.result(timeout=120) for one in found] == [expected] * 2


# --- what cannot be played ---


@pytest.mark.parametrize("name", ["score_bias", "target_weight", "hidden_weight"])
@pytest.mark.parametrize("play", [Play(), Play(learned_order=False)], ids=str)
@torch.no_grad()
def test_scores_that_are_no_numbers_are_refused(name, play):
    policy, view, episodes = world(SHIPPED)
    getattr(policy, name).fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        play_compiled(policy, view, episodes, view.meet(episodes), play)


@torch.no_grad()
def test_a_neighbour_that_gives_no_numbers_is_refused():
    policy, view, episodes = world(SHIPPED)
    met = view.meet(episodes)
    for column in (met.given, met.embedded):
        broken = replace(met, **{"given" if column is met.given else "embedded": column * torch.nan})
        for engine in (play_stepwise, play_compiled):
            with pytest.raises(GDPNetError, match="training diverged"):
                engine(policy, view, episodes, broken, Play(early_stop=False))


@torch.no_grad()
def test_where_numba_is_missing_the_reference_plays(monkeypatch):
    policy, view, episodes = world(SHIPPED)
    expected = roll_out(policy, view, episodes, Play())
    monkeypatch.setitem(sys.modules, "numba", None)
    device.has_numba.cache_clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not can_compile(view, episodes)
            assert torch.equal(roll_out(policy, view, episodes, Play()).kept, expected.kept)
    finally:
        device.has_numba.cache_clear()


def test_only_tables_in_single_precision_are_compiled():
    _, view, episodes = world(SHIPPED)
    assert can_compile(view, episodes)
    assert not can_compile(replace(view, tables=None), episodes)
    double = replace(view.tables, own=view.tables.own.double())
    assert not can_compile(replace(view, tables=double), episodes)
    none = begin_episodes(
        torch.zeros(2, dtype=torch.long),
        torch.zeros(0, dtype=torch.long),
        torch.zeros(1, dtype=torch.long),
        max_candidates=4,
        seed=0,
    )
    assert not can_compile(view, none)


def test_what_numba_keeps_is_compiled_anew_when_its_parts_change():
    native = pytest.importorskip("gdpnet.selection.engines.numba_kernel")
    here = Path(native.__file__).parent
    parts = b"".join((here / name).read_bytes() for name in ("lanes.py", "layout.py"))
    assert hashlib.sha256(parts).hexdigest()[:16] == native.BUILT_ON
