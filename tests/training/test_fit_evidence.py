"""The evidence model: injected and planted edges are found, in graphs of every kind; degenerate graphs have none."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from gdpnet._core.progress import AbandonedError, Limit, abandon, limit_by
from gdpnet._core.random import Key
from gdpnet.benchmark.evaluation import calibration_error
from gdpnet.config import Config, EvidenceSettings
from gdpnet.data.features import SparseRows, to_dense
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.prepare import prepare
from gdpnet.inference.evidence import Links, evidence_of
from gdpnet.representation.evidence import Calibration, EvidenceModel
from gdpnet.training.fit_evidence import believed_share, calibrate, fit_evidence, match_share, perturb
from helpers.setups import random_graph

CPU = torch.device("cpu")
CONFIG = Config()


def evidence(graph: Graph, config: Config = CONFIG) -> tuple[EvidenceModel | None, np.ndarray | None]:
    """Return the evidence model of a graph, and the probability that its edges are genuine."""
    prepared = prepare(graph, config, CPU)
    fitted = fit_evidence(prepared, config, Key.of(0))
    model = None if fitted is None else fitted[0]
    return model, None if model is None else model.genuine(evidence_of(model, prepared, config)).numpy()


@pytest.fixture(scope="module")
def noisy() -> Graph:
    """Return groups of 20 nodes with similar features that are linked to each other, and as many random links."""
    rng = np.random.default_rng(0)
    group = np.arange(400) // 20
    rows = np.eye(20)[group] + 0.4 * rng.normal(size=(400, 20))
    first, second = np.triu_indices(400, 1)
    linked = (group[first] == group[second]) & (rng.random(first.size) < 0.3)
    features = np.maximum(rows, 0.0) * (np.maximum(rows, 0.0) > 0.3)
    graph = Graph.build([first[linked], second[linked]], sp.csr_matrix(features), group % 4)
    return corrupt(graph, "random-links", 1.0, 0).graph


def test_planted_edges_are_found_with_calibrated_probabilities(noisy):
    model, chance = evidence(noisy)
    genuine = ~noisy.truth.spurious.numpy()
    assert model is not None
    assert float(model.second_calibration.noise_share) == pytest.approx(0.5, abs=0.08)
    assert roc_auc_score(genuine, chance) > 0.9
    assert calibration_error(chance, genuine) < 0.08


def test_a_fit_that_nobody_waits_for_ends_before_any_tree_is_fitted(noisy, monkeypatch):
    prepared, own = prepare(noisy, CONFIG, CPU), Limit()
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", Mock(side_effect=AssertionError))
    abandon(own)
    with limit_by(own), pytest.raises(AbandonedError):
        fit_evidence(prepared, CONFIG, Key.of(0))


def test_edges_that_look_random_are_not_said_to_be_noise():
    rng = np.random.default_rng(0)
    ends, rows = rng.integers(0, 300, (2, 900)), rng.normal(size=(300, 8))
    _, chance = evidence(Graph.build(ends, rows, rng.integers(0, 3, 300)))
    assert chance.mean() == pytest.approx(1.0 - CONFIG.evidence.unknown_noise, abs=0.08)


def test_scores_that_cannot_tell_do_not_make_every_edge_noise():
    settings = EvidenceSettings(max_noise=0.6, unknown_noise=0.3)
    assert [believed_share(bound, settings) for bound in (0.0, 0.5, 0.6, 0.95)] == [0.0, 0.5, 0.6, 0.3]
    alike = torch.ones(40, 1)  # own and injected edges are alike: the ratio of densities is one
    calibration, own = Calibration(1), torch.arange(40) % 2 == 0
    calibrate(calibration, alike, own, settings)
    assert float(calibration.noise_share) == pytest.approx(0.3)
    assert calibration(alike).tolist() == pytest.approx([0.7] * 40, abs=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_matched_probabilities_have_the_mean_that_the_share_of_noise_asks_for(share):
    calibration = Calibration(1)
    calibration.weight.fill_(1.0)
    calibration.noise_share.fill_(share)
    inputs = torch.randn(500, 1, generator=torch.Generator().manual_seed(0)) - 2.0
    order = calibration(inputs).argsort()
    assert abs(float(calibration(inputs).mean()) - (1.0 - share)) > 0.1
    match_share(calibration, inputs)
    assert float(calibration(inputs).mean()) == pytest.approx(1.0 - share, abs=1e-4)
    assert order.equal(calibration(inputs).argsort())


def test_without_noise_there_is_nothing_to_match():
    calibration = Calibration(1)
    match_share(calibration, torch.zeros(3, 1))
    assert float(calibration.bias) == 0.0


def test_no_label_has_a_part(noisy):
    blank = replace(noisy, labels=torch.full_like(noisy.labels, -1), truth=None)
    assert np.array_equal(evidence(noisy)[1], evidence(blank)[1])


def test_a_seed_gives_one_model(noisy):
    assert np.array_equal(evidence(noisy)[1], evidence(noisy)[1])


def test_both_directions_of_a_link_are_equally_genuine(noisy):
    chance = torch.from_numpy(evidence(noisy)[1])
    assert torch.equal(chance[noisy.reverse], chance)


KINDS = {
    "dense": lambda graph: replace(graph, features=to_dense(graph.features)),
    "one-hot": lambda graph: replace(graph, features=SparseRows.identity(graph.num_nodes)),
    "weighted": lambda graph: replace(graph, edge_weight=torch.rand(graph.num_edges)),
    "with edge features": lambda graph: replace(graph, edge_features=torch.rand(graph.num_edges, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_every_kind_have_evidence(noisy, kind):
    graph = KINDS[kind](noisy)
    chance = evidence(graph)[1]
    assert roc_auc_score(~noisy.truth.spurious.numpy(), chance) > (0.6 if kind == "one-hot" else 0.9)


def test_weights_and_edge_features_do_not_count(noisy):
    plain = evidence(noisy)[1]
    for kind in ("weighted", "with edge features"):
        np.testing.assert_allclose(evidence(KINDS[kind](noisy))[1], plain, atol=1e-6)


@pytest.mark.parametrize(
    "values",
    [{"policy": {"state": "pairs"}}, {"policy": {"hops": 2}}, {"features": {"normalise": "row"}}],
    ids=["no structure observed", "candidates two hops away", "rows that sum to one"],
)
def test_what_the_policy_observes_does_not_matter(noisy, values):
    chance, genuine = evidence(noisy, Config().with_values(values))[1], ~noisy.truth.spurious.numpy()
    assert roc_auc_score(genuine, chance) == pytest.approx(
        roc_auc_score(genuine, evidence(noisy)[1]), abs=0.01
    )


def test_directed_graphs_have_evidence():
    graph = random_graph(3, nodes=60, links=200, directed=True)
    chance = evidence(graph)[1]
    assert chance.shape == (graph.num_edges,)
    assert np.isfinite(chance).all()


def complete(nodes: int) -> Graph:
    ends = [(a, b) for a in range(nodes) for b in range(a)]
    return Graph.build(np.array(ends).T, np.eye(nodes), np.arange(nodes) % 2)


@pytest.mark.parametrize(
    "graph",
    [Graph.build([[], []], np.eye(3), [0, 1, 0]), Graph.build([[0], [1]], np.eye(2), [0, 1]), complete(8)],
    ids=["no edges", "one link", "complete"],
)
def test_a_graph_that_nothing_can_be_learned_from_has_no_model(graph):
    assert evidence(graph) == (None, None)


def test_injected_edges_are_those_that_the_graph_did_not_have(noisy):
    links = Links.of(prepare(noisy, CONFIG, CPU), CONFIG)
    found = perturb(links, 0.5, seed=1)
    assert int(found.own.sum()) == noisy.num_edges
    assert int((~found.own).sum()) == noisy.num_edges // 2
    before = set(zip(noisy.target.tolist(), noisy.neighbour.tolist(), strict=True))
    ends = found.links.ends_of(found.links.everything)
    after = zip(*(one.tolist() for one in ends), strict=True)
    assert all((pair in before) == own for pair, own in zip(after, found.own.tolist(), strict=True))


def test_a_sample_holds_both_directions_of_its_links(noisy):
    links = Links.of(prepare(noisy, CONFIG, CPU), CONFIG)
    some = perturb(links, 0.5, seed=1).sample(500, Key.of(0))
    assert 400 < some.numel() <= 500
    target, neighbour = perturb(links, 0.5, seed=1).ends(some)
    pairs = set(zip(target.tolist(), neighbour.tolist(), strict=True))
    assert {(b, a) for a, b in pairs} == pairs


def test_a_large_graph_is_learned_from_a_sample(noisy):
    few = Config().with_values({"evidence": {"rows": 2000}})
    genuine = ~noisy.truth.spurious.numpy()
    assert roc_auc_score(genuine, evidence(noisy, few)[1]) > 0.85


@pytest.mark.slow
@pytest.mark.skipif("GDPNET_DATA" not in os.environ, reason="GDPNET_DATA names no folder of datasets")
def test_random_links_of_cora_are_found_with_calibrated_probabilities():
    from gdpnet.data.datasets.citation import load_dataset

    clean = load_dataset("cora", Path(os.environ["GDPNET_DATA"]), download=False)
    graph = corrupt(clean, "random-links", 1.0, 0).graph
    (model, chance), genuine = evidence(graph), ~graph.truth.spurious.numpy()
    prepared = prepare(graph, CONFIG, CPU)
    first = prepared.symmetrise(model.first_score(prepared.pairs[:, :8])).numpy()
    assert roc_auc_score(genuine, chance) > max(0.925, roc_auc_score(genuine, first))
    assert calibration_error(chance, genuine) < 0.05
