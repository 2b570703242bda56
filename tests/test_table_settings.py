"""Settings of the encoding of tables reach the model, whatever the graph came from, and are saved with it."""

import numpy as np
import pytest

from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph
from gdpnet.estimator import GDPNet
from helpers.commands import succeed
from helpers.small import FAST, fitted

pytestmark = pytest.mark.slow  # every test trains a model


def shop(folder):
    """Write a table of 60 nodes with twelve towns and two numbers of unlike scale."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = [
        f"n{node},{'ab'[node % 2]},{node % 2 + rng.normal():.3f},{1000 * rng.normal():.1f},town{node % 12}"
        for node in range(60)
    ]
    (folder / "nodes.csv").write_text("id,label,small,large,town\n" + "\n".join(rows) + "\n")
    edges = [f"n{node},n{(node + step) % 60}" for node in range(60) for step in (2, 4, 7)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return folder


def test_a_model_reads_a_table_with_its_settings_after_it_was_saved(tmp_path):
    graph = read_graph(shop(tmp_path / "shop"))
    model = fitted(graph, FAST.with_values({"features": {"max_categories": 3, "bound": 1.0}}))
    model.save(tmp_path / "model.safetensors")
    read = GDPNet.load(tmp_path / "model.safetensors")
    assert read.config_.features.max_categories == 3
    assert [name for name in read.feature_names_in_ if "town" in name][-1] == "town=other"
    assert read.n_features_in_ == 2 + 3 + 1
    features = read.predictor(graph).graph.features
    assert float(features[:, :2].abs().max()) <= 1.0
    np.testing.assert_array_equal(read.predict(graph), model.predict(graph))


def test_a_setting_can_switch_the_scaling_of_an_array_off_and_on():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 2)) * [1.0, 20.0]
    ends = np.stack([np.arange(60), (np.arange(60) + 2) % 60])
    graph = Graph.build(ends, values, np.arange(60) % 2)
    assert fitted(graph).trained_.encoding.scaled
    assert fitted(graph, FAST.with_values({"features": {"unlike_spread": 50.0}})).trained_.encoding is None


def test_train_prints_the_columns_as_the_settings_encode_them(tmp_path, capsys):
    folder, words = shop(tmp_path / "shop"), ["--set", "training.epochs=1", "--no-check"]
    said = succeed(
        capsys, "train", folder, "--out", tmp_path / "run", *words, "--set", "features.max_categories=3"
    )
    assert "3 of 12 categories, the others together" in said
