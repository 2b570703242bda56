"""Observations of the policy: how the neighbourhoods of two linked nodes compare, by hand."""

import math

import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.data.prepare import Prepared, prepare, with_neighbourhoods
from gdpnet.inference.observation import make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.episodes import Encoded, Episodes, begin_episodes
from helpers.setups import CPU

# the path 0 - 1 - 2, whose nodes show (1,0), (0,1), (0,1)
PATH = Graph.build([[0, 1], [1, 2]], [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 1])

OF_THE_GRAPH = len(PAIR_NAMES["structure"])
"""Pair features that need nothing learned."""


def confident_aggregators(bias: float = 0.0) -> Aggregators:
    """Return an aggregator with identity weights that predicts the first class for (1,0) with 3 to 1."""
    aggregators = Aggregators(2, 2, 2, 1, self_weight=False)
    with torch.no_grad():
        aggregators.weight.copy_(torch.eye(2))
        aggregators.bias.fill_(bias)
        aggregators.head_weight.copy_(math.log(3.0) * torch.eye(2)[None])
    return aggregators


def path_setup(state: str = "neighbourhood", hops: int = 2) -> Prepared:
    """Return the path prepared for a state of the policy."""
    config = Config().with_values(
        {
            "features": {"normalise": "none"},
            "policy": {"state": state},
            "representation": {"width": 2, "hops": hops},
        }
    )
    return prepare(PATH, config, CPU)


def encode(prepared: Prepared, aggregators: Aggregators) -> tuple[Episodes, Encoded]:
    episodes = begin_episodes(prepared.row_ptr, prepared.neighbour, torch.arange(3), max_candidates=9, seed=0)
    return episodes, make_view(aggregators, prepared).encode(episodes)


def learned(prepared: Prepared, aggregators: Aggregators | None = None) -> dict[tuple[int, int], list[float]]:
    """Return agreement, cosine and sureness of each target and neighbour."""
    episodes, encoded = encode(prepared, aggregators or confident_aggregators())
    rows = encoded.pairs[:, OF_THE_GRAPH:].tolist()
    targets = episodes.target[episodes.owner].tolist()
    return dict(zip(zip(targets, episodes.row.tolist(), strict=True), rows, strict=True))


def test_neighbourhoods_are_compared_each_without_the_other_node():
    found = learned(path_setup())
    half = math.sqrt(0.5)
    # neighbourhood of 0 without 1: (1,0), chances 3/4 1/4; 1 without 0 gives (0,1), chances 1/4 3/4
    assert found[0, 1] == pytest.approx([3 / 8, 0.0, 3 / 4])
    # the other way the target is 1, as sure as 0 was
    assert found[1, 0] == pytest.approx([3 / 8, 0.0, 3 / 4])
    # neighbourhood of 1 without 2: the mean of (0,1) and (1,0), chances 1/2 1/2; 2 without 1 gives (0,1)
    assert found[1, 2] == pytest.approx([1 / 2, half, 1 / 2])
    # here the target is sure and the neighbour is not
    assert found[2, 1] == pytest.approx([1 / 2, half, 3 / 4])


def test_a_neighbourhood_mean_weights_nodes_by_their_keep_probability():
    # edges by target: 1->0 | 0->1 2->1 | 1->2; node 1 selected 0 with chance 1/3
    found = learned(with_neighbourhoods(path_setup(), torch.tensor([1.0, 1 / 3, 1.0, 1.0])))
    # neighbourhood of 1 without 2: (0,1) + (1,0)/3 over 4/3 is (1/4, 3/4), the second class ahead by the root of 3
    sure = math.sqrt(3) / (1 + math.sqrt(3))
    agreement = sure * 3 / 4 + (1 - sure) / 4
    cosine = 0.75 / math.hypot(0.25, 0.75)
    assert found[1, 2] == pytest.approx([agreement, cosine, sure])
    assert found[2, 1] == pytest.approx([agreement, cosine, 3 / 4])
    # 0 does not enter where 0 itself is looked at
    assert found[0, 1] == pytest.approx([3 / 8, 0.0, 3 / 4], abs=1e-6)


def test_uninformative_neighbourhoods_agree_as_by_chance_and_have_cosine_zero():
    found = learned(path_setup(), confident_aggregators(bias=-9.0))
    assert all(row == pytest.approx([1 / 2, 0.0, 1 / 2]) for row in found.values())


def test_with_one_hop_there_are_no_neighbourhoods_to_compare():
    prepared = path_setup(hops=1)
    assert prepared.learned_pairs == 0
    assert all(row == [0.0, 0.0, 0.0] for row in learned(prepared).values())


@pytest.mark.parametrize("state", ["paper", "pairs", "structure"])
def test_other_states_hold_only_pair_features_of_the_graph(state):
    prepared = path_setup(state)
    assert prepared.learned_pairs == 0
    episodes, encoded = encode(prepared, confident_aggregators())
    assert torch.equal(encoded.pairs, prepared.pairs[episodes.edge])


def test_encoding_does_not_change_the_pair_features_of_the_graph():
    prepared = path_setup()
    before = prepared.pairs.clone()
    episodes, encoded = encode(prepared, confident_aggregators())
    assert torch.equal(prepared.pairs, before)
    assert torch.equal(encoded.pairs[:, :OF_THE_GRAPH], before[episodes.edge, :OF_THE_GRAPH])


def test_trust_sums_the_keep_probabilities_of_the_other_edges_of_both_nodes():
    # edges by target: 1->0 | 0->1 2->1 | 1->2; node 1 selected 0 with chance 1/3
    found = learned(with_neighbourhoods(path_setup("trust"), torch.tensor([1.0, 1 / 3, 1.0, 1.0])))
    third, one = math.log(4 / 3), math.log(2.0)
    # 0 has no other link than that to 1; 1 has that to 2, which is kept
    assert found[0, 1][3:] == pytest.approx([0.0, one])
    assert found[1, 0][3:] == pytest.approx([one, 0.0])
    # without 2, node 1 is left with a third of the link to 0
    assert found[1, 2][3:] == pytest.approx([third, 0.0])
    assert found[2, 1][3:] == pytest.approx([0.0, third])


def test_the_trust_state_holds_the_neighbourhood_comparison_too():
    trusting, comparing = learned(path_setup("trust")), learned(path_setup("neighbourhood"))
    assert {ends: row[:3] for ends, row in trusting.items()} == comparing
