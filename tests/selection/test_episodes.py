"""The layout of the episodes of a batch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.selection.episodes import begin_episodes, split_episodes
from helpers.setups import random_graph, star

# the edges 0 - 1, 1 - 2 and 1 - 4; node 3 is isolated
ROW_PTR = torch.tensor([0, 1, 4, 5, 5, 6])
NEIGHBOUR = torch.tensor([1, 0, 2, 4, 1, 1])


def begin(targets: list[int], **options):
    chosen = {"max_candidates": 256, "seed": 0} | options
    return begin_episodes(ROW_PTR, NEIGHBOUR, torch.tensor(targets, dtype=torch.long), **chosen)


def test_the_longest_episode_comes_first_and_candidates_are_concatenated():
    episodes = begin([2, 1])
    assert episodes.target.tolist() == [1, 2]
    assert episodes.offsets.tolist() == [0, 3, 4]
    assert episodes.edge.tolist() == [1, 2, 3, 4]
    assert episodes.row.tolist() == [0, 2, 4, 1]
    assert episodes.owner.tolist() == [0, 0, 0, 1]
    assert episodes.count == 2


def test_targets_of_equal_length_keep_their_order():
    assert begin([4, 0, 2]).target.tolist() == [4, 0, 2]


def test_a_target_without_neighbours_has_no_episode():
    assert begin([3]).count == 0
    assert begin([3]).row.numel() == 0
    assert begin([3, 0]).target.tolist() == [0]


def test_no_targets_give_no_episodes():
    assert begin([]).count == 0


def test_a_row_shift_is_added_to_the_target_and_its_candidates():
    episodes = begin([2, 1], row_shift=torch.tensor([100, 0]))
    assert episodes.target_row.tolist() == [1, 102]
    assert episodes.row.tolist() == [0, 2, 4, 101]
    assert episodes.target.tolist() == [1, 2]


def test_a_hub_is_split_into_equal_parts_that_cover_each_neighbour_once():
    episodes = star(1000)
    assert episodes.length.tolist() == [250, 250, 250, 250]
    assert episodes.target.tolist() == [0, 0, 0, 0]
    assert sorted(episodes.row.tolist()) == list(range(1, 1001))
    assert episodes.row.tolist() != sorted(episodes.row.tolist())  # the parts are random
    assert torch.unique(episodes.ending_key).numel() == 4


def test_a_hub_in_the_batch_does_not_change_other_episodes():
    row_ptr = torch.tensor([0, 5, 6, 7, 8, 9, 11])
    neighbour = torch.tensor([1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 3])
    together = begin_episodes(row_ptr, neighbour, torch.tensor([0, 5]), max_candidates=3, seed=4)
    alone = begin_episodes(row_ptr, neighbour, torch.tensor([5]), max_candidates=3, seed=4)
    mine = together.target == 5
    assert together.length.tolist() == [3, 2, 2]
    assert torch.equal(together.edge[mine[together.owner]], alone.edge)
    assert torch.equal(together.key[mine[together.owner]], alone.key)
    assert torch.equal(together.ending_key[mine], alone.ending_key)


def test_the_parts_of_a_hub_do_not_depend_on_the_numbers_of_its_edges():
    row_ptr, neighbour = torch.tensor([0, 0, 9]), torch.arange(2, 11)
    numbers = torch.arange(11)
    first, later = (
        begin_episodes(
            row_ptr,
            neighbour,
            torch.tensor([1]),
            max_candidates=3,
            seed=4,
            numbers=(numbers, torch.arange(start, start + 9)),
        )
        for start in (0, 500)
    )
    assert torch.equal(first.edge, later.edge)
    assert first.edge.tolist() != list(range(9))


def test_the_parts_of_a_hub_do_not_depend_on_the_batch():
    episodes, alone = star(9, copies=2, max_candidates=4), star(9, max_candidates=4)
    parts = {frozenset(part.tolist()) for part in torch.split(episodes.row, episodes.length.tolist())}
    assert parts == {frozenset(part.tolist()) for part in torch.split(alone.row, alone.length.tolist())}


def test_copies_of_a_target_have_different_keys():
    episodes = star(3, copies=4)
    assert episodes.count == 4
    assert torch.unique(episodes.key).numel() == 12
    assert torch.unique(episodes.ending_key).numel() == 4


def test_keys_depend_on_target_and_neighbour_but_not_on_the_batch():
    together, alone = begin([2, 1]), begin([2])
    assert torch.equal(together.key[3:], alone.key)
    assert torch.equal(together.ending_key[1:], alone.ending_key)
    assert not torch.equal(begin([2], seed=1).key, alone.key)


@given(st.integers(0, 50), st.integers(1, 4), st.lists(st.integers(0, 5), max_size=8))
def test_every_edge_is_a_candidate_once_and_no_episode_is_too_long(seed, bound, targets):
    graph = random_graph(seed)
    wanted = torch.tensor(targets, dtype=torch.long)
    episodes = begin_episodes(graph.row_ptr, graph.neighbour, wanted, max_candidates=bound, seed=seed)
    expected = [edge for node in targets for edge in range(graph.row_ptr[node], graph.row_ptr[node + 1])]
    assert sorted(episodes.edge.tolist()) == sorted(expected)
    assert torch.equal(episodes.row, graph.neighbour[episodes.edge])
    assert torch.equal(episodes.target[episodes.owner], graph.target[episodes.edge])
    assert all(0 < length <= bound for length in episodes.length.tolist())
    assert episodes.length.tolist() == sorted(episodes.length.tolist(), reverse=True)


def test_a_batch_is_split_into_smaller_ones_with_the_same_episodes():
    whole = star(20, 3, max_candidates=6)
    parts = split_episodes(whole, 13)
    assert all(part.row.numel() <= 13 for part in parts)
    for name in ("target", "target_row", "row", "edge", "key", "ending_key"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    assert torch.equal(torch.cat([part.length for part in parts]), whole.length)
    assert split_episodes(whole, 60) == [whole]
