"""A model with edge features: what it gains, its file, other graphs, shards and the command line."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import roc_auc_score

from gdpnet.data.edge_features import with_edge_features, without_edge_features
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import write_tables
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.schema import EdgeColumns
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to
from helpers.commands import refuse, succeed, train_words
from helpers.small import FAST, fitted, same_weights

pytestmark = pytest.mark.slow  # every test trains a model

TYPES = ("relation=friend", "relation=stranger", "hours")


def two_relations(seed: int = 0, nodes: int = 120, links_per_node: int = 4) -> Graph:
    """Return a graph with vague features: friends are of one class, strangers are random; hours tell nothing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, nodes)
    features = np.hstack([np.eye(3)[label] + rng.normal(size=(nodes, 3)), rng.normal(size=(nodes, 5))])
    source = np.repeat(np.arange(nodes), links_per_node)
    friend = np.array([rng.choice(np.flatnonzero(label == label[node])) for node in source])
    stranger = rng.integers(0, nodes, source.size)
    ends = np.stack([np.tile(source, 2), np.concatenate([friend, stranger])])
    kind = np.repeat([[1.0, 0.0], [0.0, 1.0]], source.size, axis=0)
    rows = np.hstack([kind, rng.exponential(100.0, (ends.shape[1], 1))])
    graph = Graph.build(ends, features, label, split=rng.choice([1, 2, 3], nodes, p=[0.5, 0.2, 0.3]))
    return with_edge_features(graph, ends, rows, TYPES, directed=False)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return two_relations()


@pytest.fixture(scope="module")
def model(graph: Graph) -> GDPNet:
    return fitted(graph)


@pytest.mark.parametrize("far", [False, True])
def test_an_explanation_has_the_features_of_each_edge(far, model, graph):
    if far:
        model = fitted(graph, FAST.with_values({"policy": {"hops": 2, "far_candidates": 3}}))
    for node in (0, 7):
        row = slice(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        rows = dict(zip(graph.neighbour[row].tolist(), graph.edge_features[row].tolist(), strict=True))
        story = model.explain(graph, node)
        assert {one.edge_features is None for one in story.decisions if one.distance > 1} <= {True}
        near = {int(one.neighbour): one for one in story.decisions if one.distance == 1}
        assert {other: list(one.edge_features.values()) for other, one in near.items()} == rows
        for other, one in near.items():
            assert list(one.edge_features) == list(TYPES)
            assert ("relation=friend" in one.evidence) == (rows[other][0] == 1.0)
            assert one.evidence.endswith(f"hours {rows[other][2]:.4g}")


def test_a_model_without_edge_features_says_nothing_of_them(graph):
    story = fitted(without_edge_features(graph)).explain(graph, 0)
    assert {one.edge_features for one in story.decisions} == {None}
    assert "hours" not in str(story)


def keep_auc(model: GDPNet, graph: Graph, types: Graph) -> float:
    """Return how well keep probabilities tell friends from strangers, edges of both kinds left out."""
    friend, stranger = types.edge_features[:, 0].numpy(), types.edge_features[:, 1].numpy()
    single, probability = friend != stranger, model.predictor(graph).keep_probability().numpy()
    return float(roc_auc_score(friend[single], probability[single]))


def test_a_relation_that_is_noise_is_found_by_its_type():
    graph = two_relations(nodes=200)
    values = {"training": {"epochs": 15, "warmup": 8, "injected": 0.5}, "representation": {"width": 16}}
    config, plain = FAST.with_values(values | {"policy": {"hidden": [16, 8]}}), without_edge_features(graph)
    with_types, without = (keep_auc(fitted(one, config), one, graph) for one in (graph, plain))
    assert with_types > 0.9
    assert with_types > without + 0.2


def test_a_model_file_keeps_the_columns_and_their_scaling(graph, model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert again.trained_.edge_columns == model.trained_.edge_columns
    assert again.trained_.fingerprint() == model.trained_.fingerprint()
    assert np.array_equal(again.denoise(graph).keep_probability, model.denoise(graph).keep_probability)


def test_a_graph_without_edge_features_is_refused_and_other_orders_of_columns_are_read(graph, model):
    with pytest.raises(GraphError, match="trained with edge features and needs a graph that has them"):
        model.predictor(without_edge_features(graph))
    turned = replace(
        graph,
        edge_features=torch.cat([graph.edge_features.flip(1), torch.ones(graph.num_edges, 1)], dim=1),
        edge_feature_names=(*TYPES[::-1], "further"),
    )
    assert np.array_equal(model.denoise(turned).keep_probability, model.denoise(graph).keep_probability)


def test_a_model_without_edge_features_ignores_those_of_a_graph(graph):
    plain = without_edge_features(graph)
    model = fitted(plain)
    assert model.trained_.edge_columns is None
    assert np.array_equal(model.denoise(graph).keep_probability, model.denoise(plain).keep_probability)
    assert model.denoise(graph).graph.edge_feature_names == TYPES


def test_a_model_without_selection_reads_none(graph):
    config = FAST.with_values({"training": {"selection": False}})
    assert same_weights(fitted(graph, config), fitted(without_edge_features(graph), config))


@pytest.mark.parametrize(
    "values",
    [
        {"policy": {"hops": 2}},
        {"policy": {"state": "paper"}},
        {"representation": {"hops": 1}},
        {"training": {"injected": 0.5}},
        {"task": {"kind": "clusters"}},
        {"task": {"kind": "links"}},
    ],
)
def test_every_kind_of_model_can_have_edge_features(graph, values):
    model = fitted(graph, FAST.with_values(values))
    cleaned = model.denoise(graph, threshold=0.5)
    assert np.isfinite(cleaned.keep_probability).all()
    assert cleaned.graph.edge_features.shape == (int(cleaned.kept.sum()), 3)
    model.explain(graph, 0)


def test_shards_of_a_store_equal_the_result_in_memory(graph, model, tmp_path):
    write_store(graph, tmp_path / "store")
    denoise_to(
        model.trained_, open_store(tmp_path / "store"), tmp_path / "out", all_edges=True, edges_per_shard=100
    )
    parts = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("part-*.parquet"))]
    found = np.concatenate([part["keep_probability"].to_numpy() for part in parts])
    np.testing.assert_allclose(found, model.denoise(graph).keep_probability, atol=1e-5)


def test_commands_read_edge_columns_and_leave_them_out_if_asked(graph, tmp_path, capsys):
    def train(name: str, *words: str) -> tuple[str, GDPNet]:
        run = tmp_path / name
        out = succeed(capsys, *train_words(tmp_path, run), *words)
        return out, GDPNet.load(run / "model.safetensors", device="cpu")

    write_tables(graph, tmp_path / "graph", "csv")
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    out, model = train("all")
    assert "edge features: relation=friend, relation=stranger, hours" in out
    assert model.trained_.edge_columns.names == TYPES
    assert train("none", "--no-edge-features")[1].trained_.edge_columns is None
    dropped = train("some", "--drop-edge-column", "hours")[1]
    assert dropped.trained_.edge_columns.names == TYPES[:2]
    for name in ("all", "none", "some"):  # the run knows which columns to read
        succeed(capsys, "denoise", tmp_path / name, "--out", tmp_path / f"{name}.csv")
    write_tables(without_edge_features(graph), tmp_path / "plain", "csv")
    said = refuse(capsys, "denoise", tmp_path / "all", tmp_path / "plain", "--out", tmp_path / "x.csv")
    assert "trained with edge features" in said


def test_the_bound_of_numbers_of_edges_is_a_setting_that_is_saved(graph, tmp_path):
    found = fitted(graph, FAST.with_values({"features": {"edge_bound": 0.25}}))
    found.save(tmp_path / "model.safetensors")
    read = GDPNet.load(tmp_path / "model.safetensors").trained_
    assert read.edge_columns.bound == 0.25
    assert float(read.as_read(graph).edge_features[:, 2].abs().max()) <= 0.25


def test_a_model_from_before_the_bound_was_saved_keeps_it(model):
    values = model.trained_.edge_columns.to_dict()
    del values["bound"]
    assert EdgeColumns.from_dict(values) == model.trained_.edge_columns
