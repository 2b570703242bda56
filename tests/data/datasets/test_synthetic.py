"""The synthetic graph depends on its seed alone, and its noise is marked correctly."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.errors import GraphError
from helpers.graphs import assert_same

SMALL = SyntheticSettings(nodes=600)


def links_of(graph):
    """Return the two nodes of each link, once, and whether it is spurious."""
    once = graph.target < graph.neighbour
    return graph.target[once], graph.neighbour[once], graph.truth.spurious[once]


def test_one_seed_makes_one_graph_and_another_seed_another():
    graph = synthetic_graph(SMALL, seed=3)
    assert_same(graph, synthetic_graph(SMALL, seed=3))
    other = synthetic_graph(SMALL, seed=4)
    assert graph.neighbour.tolist() != other.neighbour.tolist()
    assert graph.labels.tolist() != other.labels.tolist()


def test_the_default_graph_has_the_default_sizes():
    graph, default = synthetic_graph(), SyntheticSettings()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (
        default.nodes,
        default.words,
        default.classes,
    )
    assert isinstance(graph.features, SparseRows)
    assert torch.equal(graph.reverse >= 0, torch.ones(graph.num_edges, dtype=torch.bool))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), st.integers(0, 100))
def test_spurious_links_are_the_requested_share_of_the_genuine_ones(rate, seed):
    graph = synthetic_graph(replace(SMALL, nodes=200, spurious_links=rate), seed=seed)
    left, right, spurious = links_of(graph)
    planted, genuine = int(spurious.sum()), int((~spurious).sum())
    assert planted == round(rate * genuine)
    assert torch.unique(left * 200 + right).numel() == planted + genuine
    assert torch.equal(graph.truth.spurious, graph.truth.spurious[graph.reverse])


def test_spurious_links_join_random_classes_and_genuine_ones_follow_homophily():
    setting = SyntheticSettings(nodes=3000, classes=4, homophily=0.8, spurious_links=1.0)
    graph = synthetic_graph(setting, seed=1)
    left, right, spurious = links_of(graph)
    same = (graph.truth.clean_labels[left] == graph.truth.clean_labels[right]).float()
    # a link that may leave its class still ends there by chance about one time in four
    assert float(same[~spurious].mean()) == pytest.approx(0.8 + 0.2 / 4, abs=0.04)
    assert float(same[spurious].mean()) == pytest.approx(1 / 4, abs=0.03)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_corrupted_nodes_and_wrong_labels_have_the_requested_shares(rate):
    setting = SyntheticSettings(nodes=4000, corrupted_features=rate, wrong_labels=rate)
    graph = synthetic_graph(setting, seed=2)
    assert float(graph.truth.corrupted.float().mean()) == pytest.approx(rate, abs=0.025)
    wrong = graph.labels != graph.truth.clean_labels
    assert not bool(wrong[graph.nodes_in("test")].any())
    for split in ("train", "validation"):
        assert float(wrong[graph.nodes_in(split)].float().mean()) == pytest.approx(rate, abs=0.04)


def test_words_reveal_the_class_of_a_node_unless_it_is_corrupted():
    # with one topic per class and only topic words, the number of a word gives the class
    setting = SyntheticSettings(
        nodes=300, classes=3, topics_per_class=1, words=60, topic_share=1.0, corrupted_features=0.3
    )
    graph = synthetic_graph(setting, seed=0)
    spoken = graph.features.column % 3 == graph.truth.clean_labels[graph.features.row]
    corrupted = graph.truth.corrupted[graph.features.row]
    assert bool(spoken[~corrupted].all())
    assert not bool(spoken[corrupted].any())
    assert set(graph.features.value.tolist()) == {1.0}


def test_degrees_have_a_heavy_tail():
    graph = synthetic_graph(SyntheticSettings(nodes=3000, spurious_links=0.0), seed=0)
    degree = graph.degree.double()
    # with equal popularity, degrees would be Poisson: the largest of 3,000 is about 3 times the mean
    assert float(degree.max()) > 5 * float(degree.mean())
    assert float(degree.var()) > 2 * float(degree.mean())


def test_the_splits_have_the_requested_sizes():
    graph = synthetic_graph(replace(SMALL, train=0.3, validation=0.1))
    assert [graph.nodes_in(split).numel() for split in ("none", "train", "validation", "test")] == [
        0,
        180,
        60,
        360,
    ]


def test_a_graph_may_be_all_training_nodes_and_without_links():
    graph = synthetic_graph(replace(SMALL, train=1.0, validation=0.0, links_per_node=0.0))
    assert graph.nodes_in("train").numel() == 600
    assert graph.num_edges == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"nodes": 9}, "10 nodes"),
        ({"classes": 1}, "2 classes"),
        ({"topics_per_class": 0}, "one topic per class"),
        ({"words_per_node": 0}, "one word per node"),
        ({"words": 10}, "one word per topic .* found 10"),
        ({"homophily": 1.1}, "between 0 and 1"),
        ({"topic_share": -0.1}, "between 0 and 1"),
        ({"wrong_labels": 1.5}, "between 0 and 1"),
        ({"corrupted_features": -1.0}, "between 0 and 1"),
        ({"train": 0.9, "validation": 0.2}, "between 0 and 1"),
        ({"train": -0.1}, "between 0 and 1"),
        ({"spurious_links": -0.5}, "negative number of links"),
        ({"links_per_node": -1.0}, "negative number of links"),
    ],
)
def test_impossible_settings_are_refused(bad, reason):
    with pytest.raises(GraphError, match=reason):
        SyntheticSettings(**bad)
