"""The numba engine against the reference engine, decision by decision."""

import inspect
import multiprocessing
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gdpnet._core import device
from gdpnet._core.random import gumbels, uniforms
from gdpnet._core.threads import use_loop_threads
from gdpnet.config import Config
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.selection.engines import numba_engine
from gdpnet.selection.engines.numba_engine import can_use_numba, play_numba
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.episodes import begin_episodes, split_episodes
from gdpnet.selection.play import ENDING, Play
from gdpnet.selection.rollout import engine_of, roll_out
from helpers.setups import OWN, PAPER, PLAYS, SHIPPED, random_graph, random_setup

pytest.importorskip("numba", reason="numba is not installed")

SETTINGS = {
    "shipped": SHIPPED,
    "paper": PAPER,
    "own matrix": OWN,
    "several panels": {"policy": {"hidden": [70, 45]}, "representation": {"width": 9, "hops": 1}},
}


def make_setup(values, *, graph=None, seed=1, fold_models=2, max_candidates=256):
    """Return a random policy, its view of a graph, and episodes of all nodes for each fold model."""
    config = Config().with_values(values)
    graph = random_graph(seed, 12, 30) if graph is None else graph
    policy, aggregators, prepared = random_setup(graph, config, fold_models)
    view = make_view(aggregators, prepared, slice(None))
    nodes = graph.num_nodes
    fold_model = torch.arange(fold_models).repeat_interleave(nodes)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        torch.arange(nodes).repeat(fold_models),
        row_shift=fold_model * nodes,
        copy=fold_model,
        max_candidates=max_candidates,
        seed=3,
    )
    with torch.no_grad():  # keep about half of the candidates
        scores = play_reference(policy, view, episodes, view.encode(episodes), Play(early_stop=False)).scores
        policy.score_bias.sub_(scores.median() + 0.003)  # and none exactly at one half
    return policy, view, episodes


def hub(leaves):
    """Return a graph whose node 0 has an edge to every other node."""
    graph = random_graph(2, leaves + 1, 3)
    edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    return type(graph).build(edges, graph.features, graph.labels, directed=False)


def assert_equal_up_to_rounding(one, other):
    for name in ("decisions", "candidate", "kept"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("score", "scores", "ending"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), msg=name)
    torch.testing.assert_close(one.weight.log(), other.weight.log())


def assert_identical(one, other):
    for name, column in one._asdict().items():
        assert torch.equal(column, getattr(other, name)), name


def has_equal_candidates(episodes, encoded):
    """Return whether two candidates of an episode are equal up to rounding."""
    distance = torch.cdist(encoded.embedded, encoded.embedded)
    same_episode = episodes.owner[:, None] == episodes.owner[None, :]
    return bool(((distance < 1e-5) & same_episode).fill_diagonal_(False).any())


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def kept_by(number):
    """Play with this many threads; return the kept decisions."""
    policy, view, episodes = make_setup(SHIPPED, graph=random_graph(1, 40, 400))
    with torch.no_grad(), threads(number):
        return play_numba(policy, view, episodes, view.encode(episodes), Play()).kept.tolist()


def test_threads_of_the_caller_s_own_number_decide_alike():
    policy, view, episodes = make_setup(SHIPPED, graph=random_graph(1, 40, 400))
    with (
        torch.no_grad(),
        threads(1),
        ThreadPoolExecutor(1, initializer=use_loop_threads, initargs=(3,)) as pool,
    ):
        given = (policy, view, episodes, view.encode(episodes), Play())
        alone, together = play_numba(*given), pool.submit(play_numba, *given).result()
    for name, column in alone._asdict().items():
        assert torch.equal(column, getattr(together, name)), name


# --- decisions ---


@pytest.mark.parametrize("play", PLAYS, ids=str)
@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
@torch.no_grad()
def test_the_numba_engine_makes_the_decisions_of_the_reference(values, play):
    policy, view, episodes = make_setup(values)
    encoded = view.encode(episodes)
    expected = play_reference(policy, view, episodes, encoded, play)
    assert 0 < int(expected.kept.sum()) < int(expected.decisions.sum())
    assert_equal_up_to_rounding(play_numba(policy, view, episodes, encoded, play), expected)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.sampled_from(PLAYS), st.sampled_from(list(SETTINGS)), st.integers(1, 40))
@torch.no_grad()
def test_on_any_graph_both_engines_make_the_same_decisions(seed, play, name, edges):
    graph = random_graph(seed, 6, edges)
    assume(graph.num_edges > 0)
    policy, view, episodes = make_setup(SETTINGS[name], graph=graph)
    encoded = view.encode(episodes)
    # a greedy draw between candidates that are equal up to rounding is decided by rounding
    assume(not (play.greedy and has_equal_candidates(episodes, encoded)))
    assert_equal_up_to_rounding(
        play_numba(policy, view, episodes, encoded, play),
        play_reference(policy, view, episodes, encoded, play),
    )


@torch.no_grad()
def test_edge_weights_count_as_they_do_for_the_reference():
    graph = random_graph(1, 12, 30)
    weight = 4.0 ** (2.0 * torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) - 1.0)
    policy, view, episodes = make_setup(SETTINGS["own matrix"], graph=replace(graph, edge_weight=weight))
    encoded = view.encode(episodes)
    assert encoded.weight is not None
    for play in PLAYS:
        expected = play_reference(policy, view, episodes, encoded, play)
        assert_equal_up_to_rounding(play_numba(policy, view, episodes, encoded, play), expected)
    light = replace(encoded, weight=torch.ones_like(encoded.weight))
    assert not torch.equal(play_numba(policy, view, episodes, light, play).scores, expected.scores)


@torch.no_grad()
def test_a_hub_within_the_bound_is_one_episode():
    policy, view, episodes = make_setup(SHIPPED, graph=hub(1500), fold_models=1, max_candidates=5000)
    assert int(episodes.length[0]) == 1500
    encoded = view.encode(episodes)
    expected = play_reference(policy, view, episodes, encoded, Play(early_stop=False))
    assert_equal_up_to_rounding(play_numba(policy, view, episodes, encoded, Play(early_stop=False)), expected)


@torch.no_grad()
def test_the_first_of_tied_candidates_is_drawn():
    policy, view, episodes = make_setup(SHIPPED)
    policy.score_weight.zero_()
    policy.score_bias.fill_(0.5)
    played = play_numba(policy, view, episodes, view.encode(episodes), Play(greedy=True, early_stop=False))
    drawn = played.candidate != ENDING
    assert played.candidate[drawn].tolist() == list(range(episodes.row.numel()))
    assert bool(played.kept[drawn].all())


@torch.no_grad()
def test_a_roll_out_on_the_cpu_is_played_by_the_numba_engine():
    policy, view, episodes = make_setup(SHIPPED)
    assert engine_of(view, episodes) == "numba"
    assert engine_of(replace(view, tables=None), episodes) == "reference"
    found, expected = (roll_out(policy, one, episodes, Play()) for one in (view, replace(view, tables=None)))
    assert torch.equal(found.visited_at, expected.visited_at)
    torch.testing.assert_close(found.keep_probability, expected.keep_probability)


# --- random numbers ---


@settings(max_examples=200, deadline=None)
@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 1 << 20))
def test_random_numbers_are_those_of_the_reference(key, counter):
    from gdpnet.selection.engines.numba_kernel import _gumbel, _uniform

    tensor = torch.tensor([key], dtype=torch.int32)
    bits = np.uint32(key & 0xFFFFFFFF)
    assert _uniform(bits, counter) == uniforms(tensor, counter).item()
    # logarithms differ in the last digit between libraries
    assert _gumbel(bits, counter) == pytest.approx(gumbels(tensor, counter).item(), rel=1e-6, abs=1e-6)


# --- threads and processes ---


@torch.no_grad()
def test_the_number_of_threads_does_not_change_decisions():
    policy, view, episodes = make_setup(SHIPPED, graph=random_graph(1, 40, 400))
    encoded = view.encode(episodes)
    alone = play_numba(policy, view, episodes, encoded, Play())
    for number in (2, 3, 8):
        with threads(number):
            cuts = numba_engine._cuts(episodes, number)
            assert len(cuts) > number
            assert cuts[0] == 0
            assert cuts[-1] == episodes.count
            assert_identical(play_numba(policy, view, episodes, encoded, Play()), alone)


@torch.no_grad()
def test_a_batch_and_its_parts_make_the_same_decisions():
    policy, view, episodes = make_setup(SHIPPED, graph=random_graph(1, 40, 200))
    whole = play_numba(policy, view, episodes, view.encode(episodes), Play())
    parts = split_episodes(episodes, 60)
    assert len(parts) > 3
    played = [play_numba(policy, view, part, view.encode(part), Play()) for part in parts]
    assert torch.equal(torch.cat([part.kept for part in played]), whole.kept)
    torch.testing.assert_close(torch.cat([part.score for part in played]), whole.score)


@torch.no_grad()
def test_several_threads_can_play_at_the_same_time():
    policy, view, episodes = make_setup(SHIPPED, graph=random_graph(1, 40, 400))
    encoded = view.encode(episodes)
    alone = play_numba(policy, view, episodes, encoded, Play())

    def play(_):
        with torch.no_grad():
            return play_numba(policy, view, episodes, encoded, Play())

    with threads(2), ThreadPoolExecutor(4) as pool:
        for played in pool.map(play, range(16)):
            assert_identical(played, alone)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_and_spawned_processes_play_as_this_one_does(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    expected = kept_by(2)
    # torch itself deadlocks if a fork of a process with threads starts threads
    number = 1 if method == "fork" else 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about forks beside threads
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            found = [pool.submit(kept_by, number) for _ in range(2)]
            assert [one.result(timeout=120) for one in found] == [expected] * 2


# --- inputs that the engine refuses ---


@pytest.mark.parametrize("name", ["score_bias", "target_weight", "hidden_weight"])
@pytest.mark.parametrize("play", [Play(), Play(learned_order=False)], ids=str)
@torch.no_grad()
def test_nan_weights_raise_an_error(name, play):
    policy, view, episodes = make_setup(SHIPPED)
    getattr(policy, name).fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        play_numba(policy, view, episodes, view.encode(episodes), play)


@torch.no_grad()
def test_nan_messages_raise_an_error():
    policy, view, episodes = make_setup(SHIPPED)
    encoded = view.encode(episodes)
    for column in (encoded.message, encoded.embedded):
        broken = replace(
            encoded, **{"message" if column is encoded.message else "embedded": column * torch.nan}
        )
        for engine in (play_reference, play_numba):
            with pytest.raises(GDPNetError, match="training diverged"):
                engine(policy, view, episodes, broken, Play(early_stop=False))


@torch.no_grad()
def test_without_numba_the_reference_engine_plays(monkeypatch):
    policy, view, episodes = make_setup(SHIPPED)
    expected = roll_out(policy, view, episodes, Play())
    monkeypatch.setitem(sys.modules, "numba", None)
    device.has_numba.cache_clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not can_use_numba(view, episodes)
            assert torch.equal(roll_out(policy, view, episodes, Play()).kept, expected.kept)
    finally:
        device.has_numba.cache_clear()


def test_the_numba_engine_needs_tables_in_single_precision():
    _, view, episodes = make_setup(SHIPPED)
    assert can_use_numba(view, episodes)
    assert not can_use_numba(replace(view, tables=None), episodes)
    double = replace(view.tables, own=view.tables.own.double())
    assert not can_use_numba(replace(view, tables=double), episodes)
    none = begin_episodes(
        torch.zeros(2, dtype=torch.long),
        torch.zeros(0, dtype=torch.long),
        torch.zeros(1, dtype=torch.long),
        max_candidates=4,
        seed=0,
    )
    assert not can_use_numba(view, none)


def test_a_change_in_a_source_of_the_kernel_changes_its_cache_key():
    from gdpnet.selection.engines import numba_kernel

    def cache_key(kernel):
        return kernel._cache._index_key((), kernel.targetctx.codegen())

    sources = [inspect.getsource(source) for source in numba_kernel._SOURCES]
    assert ["class Slots" in source or "LANES" in source for source in sources] == [True] * 3
    assert cache_key(numba_kernel.play_range) == cache_key(numba_kernel._compile("".join(sources)))
    for number in range(len(sources)):
        changed = [source + "# changed\n" * (number == place) for place, source in enumerate(sources)]
        assert cache_key(numba_kernel.play_range) != cache_key(numba_kernel._compile("".join(changed)))
