"""Few labels: how many are drawn of each class, who becomes context, and that the truth keeps all of them."""

import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.label_rate import LabelRate
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.splits import with_few_labels
from gdpnet.errors import ConfigError
from helpers.graphs import assert_same


def graph_of(train: int = 40, validation: int = 40, test: int = 20, small: int = 3) -> Graph:
    """Return a ring of two large classes and a third whose few nodes train; one node has no label and no split."""
    each = [1] * train + [2] * validation + [3] * test
    split = [*each, *each, *[1] * small, 0]
    labels = [*[0] * len(each), *[1] * len(each), *[2] * small, -1]
    nodes = len(labels)
    ring = torch.arange(nodes)
    return Graph.build(torch.stack([ring, (ring + 1) % nodes]), torch.ones(nodes, 2), labels, split=split)


def counts(graph: Graph, part: str) -> list[int]:
    """Return the labelled nodes of each class in a split."""
    nodes = graph.nodes_in(part)
    return [int((graph.labels[nodes] == value).sum()) for value in range(3)]


@pytest.mark.parametrize(
    ("text", "train", "validation"),
    [
        ("5-per-class", [5, 5, 3], [30, 30, 0]),
        ("1-per-class", [1, 1, 1], [30, 30, 0]),
        ("10%", [10, 10, 1], [10, 10, 0]),
        ("2.5 %", [2, 2, 1], [2, 2, 0]),
        ("100%", [40, 40, 3], [40, 40, 0]),
        ("all", [40, 40, 3], [40, 40, 0]),
    ],
)
def test_labels_are_drawn_of_each_class_and_a_class_with_fewer_gives_all(text, train, validation):
    found = with_few_labels(graph_of(), LabelRate.of(text), seed=0)
    assert counts(found, "train") == train
    assert counts(found, "validation") == validation
    assert counts(found, "test") == [20, 20, 0]


def test_other_nodes_are_context_without_labels_and_the_truth_keeps_them():
    graph = graph_of()
    found = with_few_labels(graph, LabelRate.of("5-per-class"), seed=0)
    context = found.nodes_in("none")
    assert context.numel() == graph.num_nodes - 13 - 60 - 40
    assert bool((found.labels[context] == -1).all())
    assert torch.equal(found.truth.clean_labels, graph.labels)
    assert not bool(found.truth.spurious.any())
    assert torch.equal(found.neighbour, graph.neighbour)


def test_a_seed_draws_the_same_labels_and_another_draws_others():
    first, again, other = (with_few_labels(graph_of(), LabelRate.of("10%"), seed) for seed in (1, 1, 2))
    assert_same(first, again)
    assert not torch.equal(first.split, other.split)
    assert torch.equal(first.nodes_in("test"), other.nodes_in("test"))


def test_noise_by_class_reads_the_true_labels_of_context_nodes():
    graph = with_few_labels(graph_of(), LabelRate.of("1-per-class"), seed=0)
    added = corrupt(graph, "cross-class-links", 1.0, seed=0).added
    true = graph.truth.clean_labels
    assert bool((true[added[0]] != true[added[1]]).all())
    assert bool((graph.labels[added] == -1).any())


@pytest.mark.parametrize("text", ["few", "5", "per-class", "-5-per-class", "1.5-per-class", "10/10/80", "%"])
def test_a_rate_that_is_no_rate_is_refused(text):
    with pytest.raises(ConfigError, match="--labels must be all, a number per class such as 20-per-class"):
        LabelRate.of(text)


@pytest.mark.parametrize("text", ["0-per-class", "0%", "101%"])
def test_a_rate_out_of_range_is_refused(text):
    with pytest.raises(ConfigError, match="1-per-class or more, or more than 0% and up to 100%"):
        LabelRate.of(text)
