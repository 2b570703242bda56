"""Filters: scores of edges by similarity, by structure, and learned from labels."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

from gdpnet._core.csr import symmetrise
from gdpnet.benchmark.baselines.filters import (
    kept_share,
    similarity_scores,
    structural_scores,
    supervised_scores,
)
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, run_method
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from helpers.setups import CPU

pytestmark = pytest.mark.slow  # nearly every test trains a model

QUICK = Settings(width=16, epochs=30, patience=10)


@pytest.fixture(scope="module")
def graph():
    """A graph in which every other edge is spurious, and known to be."""
    setting = SyntheticSettings(nodes=600, classes=3, topics_per_class=4, words=200, topic_share=0.6)
    return synthetic_graph(setting, seed=1)


def area(graph: Graph, score: torch.Tensor) -> float:
    """Return the AUC of a score of genuine against spurious edges."""
    return roc_auc_score((~graph.truth.spurious).numpy(), score.numpy())


def test_similarity_is_that_of_the_two_feature_rows():
    features = torch.tensor([[2.0, 1.0, 0.0, 0.0], [0.0, 1.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    graph = Graph.build([[0, 1], [1, 2]], features)
    cosine = 1.0 / (5.0**0.5 * 10.0**0.5)
    torch.testing.assert_close(
        similarity_scores(graph, "cosine"), torch.tensor([cosine, cosine, 0.0, 0.0]), atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(similarity_scores(graph, "jaccard"), torch.tensor([1 / 3, 1 / 3, 0.0, 0.0]))
    rows = SparseRows(torch.tensor([0, 2, 4, 4]), torch.tensor([0, 1, 1, 2]), torch.tensor([2.0, 1, 1, 3]), 4)
    sparse = replace(graph, features=rows)
    for kind in ("cosine", "jaccard"):
        torch.testing.assert_close(similarity_scores(sparse, kind), similarity_scores(graph, kind))


def test_an_unknown_similarity_is_one_sentence(graph):
    with pytest.raises(ConfigError, match=r"^there is no similarity 'jacard'; did you mean 'jaccard'\?$"):
        similarity_scores(graph, "jacard")


@pytest.mark.parametrize("kind", ["cosine", "jaccard"])
def test_similar_nodes_rarely_share_a_spurious_edge(graph, kind):
    assert area(graph, similarity_scores(graph, kind)) > 0.6


def test_structure_learned_without_labels_finds_spurious_edges_in_an_unseen_graph(graph):
    task = make_task(graph, 0)
    blind = replace(task, train=replace(task.train, labels=torch.full_like(task.train.labels, -1)))
    score = structural_scores(blind, 0, CPU)[1]
    assert area(graph, score) > 0.75
    assert area(graph, score) > area(graph, similarity_scores(graph, "cosine"))
    assert torch.equal(score, score[graph.reverse])
    assert torch.equal(score, structural_scores(task, 0, CPU)[1])
    assert not torch.equal(score, structural_scores(task, 1, CPU)[1])


def test_a_graph_without_edges_or_with_all_of_them_gets_equal_scores():
    bare = Graph.build([[], []], torch.eye(3))
    full = Graph.build([[0, 0, 1], [1, 2, 2]], torch.eye(3))
    for train in (bare, full):
        task = Task(train, full, *[torch.zeros(0, dtype=torch.long)] * 3)
        assert torch.equal(structural_scores(task, 0, CPU)[1], torch.ones(6))


def test_labels_teach_which_edges_stay_within_a_class(graph):
    task = make_task(graph, 0)
    train, whole = supervised_scores(task, 0, CPU, QUICK)
    assert train.shape == (task.train.num_edges,)
    same = (graph.truth.clean_labels[graph.target] == graph.truth.clean_labels[graph.neighbour]).numpy()
    assert roc_auc_score(same, whole.numpy()) > 0.7
    assert area(graph, whole) > 0.6
    assert torch.equal(whole, whole[graph.reverse])


def test_if_all_edges_stay_within_a_class_scores_are_equal():
    label = torch.arange(12) % 2
    graph = Graph.build([list(range(10)), list(range(2, 12))], torch.eye(12), label, split=[1] * 8 + [2] * 4)
    train, whole = supervised_scores(make_task(graph, 0), 0, CPU, Settings(epochs=1))
    assert bool((train == 1).all())
    assert bool((whole == 1).all())


def test_the_best_share_is_kept_and_equals_stay_together():
    score = torch.tensor([0.1, 0.9, 0.5, 0.5, 0.7])
    assert kept_share(score, 1.0).tolist() == [True] * 5
    assert kept_share(score, 0.4).tolist() == [False, True, False, False, True]
    assert kept_share(score, 0.6).tolist() == [False, True, True, True, True]
    assert kept_share(score, 0.0).tolist() == [False, True, False, False, False]
    assert kept_share(torch.zeros(0), 0.5).numel() == 0


def test_both_directions_of_a_link_have_the_mean_and_a_single_edge_its_own():
    graph = Graph.build([[0, 1, 2], [1, 0, 1]], torch.eye(3), directed=True)
    assert graph.neighbour.tolist() == [1, 0, 2]
    assert symmetrise(torch.tensor([0.2, 0.4, 0.9]), graph.reverse).tolist() == pytest.approx([0.3, 0.3, 0.9])


def test_a_filter_under_heavy_noise_keeps_a_part_and_mostly_genuine_edges(graph):
    settings = replace(METHODS["structural-gcn"].settings, width=16, epochs=60, patience=20)
    outcome = run_method("structural-gcn", graph, 0, "cpu", settings)
    assert outcome.settings["kept_share"] < 1.0
    genuine = ~graph.truth.spurious
    assert float(genuine[outcome.kept].float().mean()) > float(genuine.float().mean()) + 0.1
    assert torch.equal(outcome.kept, outcome.kept[graph.reverse])
