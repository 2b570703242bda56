"""Subgraphs around an ordered core: entries, bounds on nodes and edges, and samples that depend on a node alone."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core.random import mix64
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.sampling import distinct_by_key
from gdpnet.data.surroundings import surroundings

PATH = Graph.build([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], np.eye(6))
LARGE = synthetic_graph(SyntheticSettings(nodes=800, classes=3, words=100, links_per_node=3.0), seed=0)


def test_the_entry_of_a_node_is_the_length_of_the_core_from_which_on_it_belongs_to_the_subgraph():
    around = surroundings(PATH, torch.tensor([0, 5, 1]), 6, (9,), 0)
    # 0 brings 1, then 5 brings 4, and 1, which is there, brings 2
    assert around.node.tolist() == [0, 1, 2, 4, 5]
    assert around.entry.tolist() == [1, 1, 3, 2, 2]
    assert around.nodes_of.tolist() == [0, 2, 4, 5]
    assert [around.length_within(most) for most in (1, 2, 3, 4, 5)] == [1, 1, 1, 2, 3]
    # both directions of 0-1; of 4-5; of 1-2
    assert around.edges_of(PATH, 3).tolist() == [0, 2, 4, 6]


def test_edges_of_nodes_that_do_not_count_are_left_out():
    around = surroundings(PATH, torch.tensor([0, 5, 1]), 6, (9,), 0)
    counted = np.array([True, True, False, True, True, True])
    assert around.edges_of(PATH, 3, counted).tolist() == [0, 2, 4, 4]


def test_nodes_that_are_not_allowed_are_not_sampled():
    allowed = np.array([True, True, False, True, True, True])
    around = surroundings(PATH, torch.tensor([1]), 6, (9, 9), 0, allowed)
    assert around.node.tolist() == [0, 1]


def test_a_part_of_the_next_surroundings_fills_the_subgraph_up():
    star = Graph.build([np.zeros(9, dtype=int), np.arange(1, 10)], np.eye(10))
    around = surroundings(star, torch.tensor([3, 0]), 10, (9,), 0)
    # node 3 with the hub has two directed edges; the hub alone would bring sixteen more
    nodes, length = around.filled_up(star, 10, 7)
    assert length == 1
    assert star.induced(nodes).num_edges == 6
    assert around.filled_up(star, 3, 7)[0].numel() == 3


@given(st.integers(0, 50), st.integers(1, 60), st.integers(1, 60), st.integers(20, 700))
@settings(max_examples=40, deadline=None)
def test_a_longer_core_contains_the_subgraph_of_a_shorter_one_and_counts_are_right(seed, one, other, most):
    core = torch.randperm(LARGE.num_nodes, generator=torch.Generator().manual_seed(seed))
    short, long = sorted((one, other))
    around = surroundings(LARGE, core[:long], most, (4, 2), seed)
    length = min(short, around.core.size)
    alone = surroundings(LARGE, core[:length], LARGE.num_nodes, (4, 2), seed)
    assert torch.equal(around.nodes_within(length), torch.from_numpy(alone.node))
    part = LARGE.induced(around.nodes_within(length))
    assert around.nodes_of[length] == part.num_nodes
    assert around.edges_of(LARGE, length)[-1] == part.num_edges
    bound = part.num_edges // 2
    nodes, complete = around.filled_up(LARGE, most, bound)
    assert LARGE.induced(nodes).num_edges <= bound or complete == 1


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 12), st.integers(0, 2**40))
@settings(deadline=None)
def test_a_row_is_sampled_without_repeats_and_independently_of_the_other_rows(sizes, most, seed):
    size, key = np.array(sizes), np.arange(len(sizes)) * 7 + 3
    owner, place = distinct_by_key(seed, key, size, most)
    assert np.array_equal(np.bincount(owner, minlength=size.size), np.minimum(size, most))
    assert bool((place < size[owner]).all())
    rows = {(int(key[row]), int(number)) for row, number in zip(owner, place, strict=True)}
    assert len(rows) == owner.size
    last = distinct_by_key(seed, key[-1:], size[-1:], most)[1]
    assert {(int(key[-1]), int(number)) for number in last} <= rows


def test_keyed_samples_are_uniform():
    counts = np.zeros(20)
    for seed in range(100):
        counts += np.bincount(distinct_by_key(seed, np.arange(40), np.full(40, 20), 4)[1], minlength=20)
    # a fifth of 4,000 rows, within five standard deviations
    assert abs(counts - 800).max() < 5 * np.sqrt(4000 * 0.2 * 0.8)


def test_mixed_numbers_differ_by_seed_and_by_place():
    number = np.arange(1000)
    one, other = mix64(1, number), mix64(2, number)
    assert np.unique(np.concatenate([one, other, mix64(1, number, number)])).size == 3000
    # bits are set in half of the numbers, within five standard deviations
    set_ = [(one >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)]
    assert max(abs(share - 0.5) for share in set_) < 5 * 0.5 / np.sqrt(1000)
