"""What the policy is shown: how the circles of two linked nodes compare, by hand."""

import math

import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.data.prepare import Prepared, prepare, with_circle
from gdpnet.inference.observation import make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.episodes import Episodes, Met, begin_episodes
from helpers.worlds import CPU

# the path 0 - 1 - 2, whose nodes show (1,0), (0,1), (0,1)
PATH = Graph.build([[0, 1], [1, 2]], [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 1])

OF_THE_GRAPH = len(PAIR_NAMES["structure"])
"""Pair features that need nothing learned."""


def believer(bias: float = 0.0) -> Aggregators:
    """Return a member that takes features as they are and holds (1,0) for the first class with 3 to 1."""
    bank = Aggregators(2, 2, 2, 1, self_weight=False)
    with torch.no_grad():
        bank.weight.copy_(torch.eye(2))
        bank.bias.fill_(bias)
        bank.head_weight.copy_(math.log(3.0) * torch.eye(2)[None])
    return bank


def world(state: str = "circles", hops: int = 2) -> Prepared:
    config = Config().with_values(
        {
            "features": {"normalise": "none"},
            "policy": {"state": state},
            "representation": {"width": 2, "hops": hops},
        }
    )
    return prepare(PATH, config, CPU)


def meet(prepared: Prepared, bank: Aggregators) -> tuple[Episodes, Met]:
    episodes = begin_episodes(prepared.row_ptr, prepared.neighbour, torch.arange(3), max_candidates=9, seed=0)
    return episodes, make_view(bank, prepared).meet(episodes)


def learned(prepared: Prepared, bank: Aggregators | None = None) -> dict[tuple[int, int], list[float]]:
    """Return agreement, cosine and sureness of each target and neighbour."""
    episodes, met = meet(prepared, bank or believer())
    rows = met.pairs[:, OF_THE_GRAPH:].tolist()
    targets = episodes.target[episodes.owner].tolist()
    return dict(zip(zip(targets, episodes.row.tolist(), strict=True), rows, strict=True))


def test_circles_are_compared_each_without_the_other_node():
    found = learned(world())
    half = math.sqrt(0.5)
    # circle of 0 without 1: (1,0), chances 3/4 1/4; 1 without 0 gives (0,1), chances 1/4 3/4
    assert found[0, 1] == pytest.approx([3 / 8, 0.0, 3 / 4])
    # the other way the target is 1, as sure as 0 was
    assert found[1, 0] == pytest.approx([3 / 8, 0.0, 3 / 4])
    # circle of 1 without 2: the mean of (0,1) and (1,0), chances 1/2 1/2; 2 without 1 gives (0,1)
    assert found[1, 2] == pytest.approx([1 / 2, half, 1 / 2])
    # here the target is sure and the neighbour is not
    assert found[2, 1] == pytest.approx([1 / 2, half, 3 / 4])


def test_a_circle_holds_its_nodes_with_the_weight_that_they_were_selected_with():
    # edges by target: 1->0 | 0->1 2->1 | 1->2; node 1 selected 0 with chance 1/3
    found = learned(with_circle(world(), torch.tensor([1.0, 1 / 3, 1.0, 1.0])))
    # circle of 1 without 2: (0,1) + (1,0)/3 over 4/3 is (1/4, 3/4), the second class ahead by the root of 3
    sure = math.sqrt(3) / (1 + math.sqrt(3))
    agreement = sure * 3 / 4 + (1 - sure) / 4
    cosine = 0.75 / math.hypot(0.25, 0.75)
    assert found[1, 2] == pytest.approx([agreement, cosine, sure])
    assert found[2, 1] == pytest.approx([agreement, cosine, 3 / 4])
    # 0 does not enter where 0 itself is looked at
    assert found[0, 1] == pytest.approx([3 / 8, 0.0, 3 / 4], abs=1e-6)


def test_circles_that_say_nothing_agree_as_chance_would_and_point_nowhere():
    found = learned(world(), believer(bias=-9.0))
    assert all(row == pytest.approx([1 / 2, 0.0, 1 / 2]) for row in found.values())


def test_with_one_hop_there_are_no_circles_to_compare():
    prepared = world(hops=1)
    assert prepared.learned_pairs == 0
    assert all(row == [0.0, 0.0, 0.0] for row in learned(prepared).values())


@pytest.mark.parametrize("state", ["paper", "pairs", "structure"])
def test_other_states_are_shown_what_the_graph_tells_and_no_more(state):
    prepared = world(state)
    assert prepared.learned_pairs == 0
    episodes, met = meet(prepared, believer())
    assert torch.equal(met.pairs, prepared.pairs[episodes.edge])


def test_looking_does_not_change_what_the_graph_tells():
    prepared = world()
    before = prepared.pairs.clone()
    episodes, met = meet(prepared, believer())
    assert torch.equal(prepared.pairs, before)
    assert torch.equal(met.pairs[:, :OF_THE_GRAPH], before[episodes.edge, :OF_THE_GRAPH])


def test_trust_counts_the_other_links_of_both_nodes_by_what_is_kept_of_them():
    # edges by target: 1->0 | 0->1 2->1 | 1->2; node 1 selected 0 with chance 1/3
    found = learned(with_circle(world("trust"), torch.tensor([1.0, 1 / 3, 1.0, 1.0])))
    third, one = math.log(4 / 3), math.log(2.0)
    # 0 has no other link than that to 1; 1 has that to 2, which is kept
    assert found[0, 1][3:] == pytest.approx([0.0, one])
    assert found[1, 0][3:] == pytest.approx([one, 0.0])
    # without 2, node 1 is left with a third of the link to 0
    assert found[1, 2][3:] == pytest.approx([third, 0.0])
    assert found[2, 1][3:] == pytest.approx([0.0, third])


def test_trust_is_shown_what_circles_say_as_well():
    trusting, comparing = learned(world("trust")), learned(world("circles"))
    assert {ends: row[:3] for ends, row in trusting.items()} == comparing
