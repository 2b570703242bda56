"""Features that came as an array are scaled like those of a table if their columns are of unlike scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet import GDPNet, Graph
from gdpnet.data.graph import with_features
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.pyg import from_pyg, to_pyg
from gdpnet.data.schema import encoded_as
from gdpnet.data.splits import fit_columns, with_split

UNLIKE = np.array([12.0, 20_000.0, 3.0, 0.1])


def _arrays(seed: int = 0, nodes: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, nodes)
    rows = (rng.normal(0, 1, (nodes, 4)) + np.array([0, 0, 1.5, 1.5]) * label[:, None]) * UNLIKE + UNLIKE * 4
    source = rng.integers(0, nodes, 5 * nodes)
    members = [np.flatnonzero(label == value) for value in (0, 1)]
    same = np.array([rng.choice(members[label[node]]) for node in source])
    target = np.where(rng.random(source.size) < 0.7, same, rng.integers(0, nodes, source.size))
    return np.stack([source, target]), rows.astype(np.float32), label


def _graph(seed: int = 0) -> Graph:
    return with_split(Graph.build(*_arrays(seed)), seed=seed)


def test_unlike_columns_are_scaled_and_like_ones_are_not():
    graph = _graph()
    assert graph.table is not None
    assert graph.table.encoding.scaled
    assert float(graph.features.abs().max()) < 3.0
    assert any("unlike scale" in note for note in graph.notes)
    edges, rows, label = _arrays()
    like = Graph.build(edges, (rows - rows.mean(axis=0)) / rows.std(axis=0), label)
    assert fit_columns(like, like.split) is like
    counts = Graph.build(edges, np.floor(np.abs(rows) / UNLIKE / 5) * np.array([1, 100, 1, 1]), label)
    assert fit_columns(counts, counts.split) is counts


def test_columns_of_zeros_and_ones_stay():
    edges, rows, label = _arrays()
    rows[:, 2] = label
    graph = fit_columns(graph := Graph.build(edges, rows, label), graph.split)
    assert torch.equal(graph.features[:, 2], torch.from_numpy(label).float())


def test_scaling_is_fitted_on_training_nodes():
    edges, rows, label = _arrays()
    split = np.where(np.arange(len(label)) < 200, 1, 3)
    moved = rows.copy()
    moved[200:] *= 50
    first, second = (
        fit_columns(graph := Graph.build(edges, one, label, split=split), graph.split).table
        for one in (rows, moved)
    )
    assert first is not None
    assert second is not None
    assert first.encoding == second.encoding


@pytest.mark.slow
def test_a_model_of_raw_arrays_reads_other_raw_arrays_as_in_training(tmp_path):
    from torch_geometric.data import Data

    edges, rows, label = _arrays()
    data = Data(x=torch.from_numpy(rows), edge_index=torch.from_numpy(edges), y=torch.from_numpy(label))
    model = GDPNet(epochs=3, device="cpu").fit(data)
    accuracy = float((model.predict(data).astype(int) == label).mean())
    assert accuracy > 0.9
    assert torch.equal(to_pyg(model.denoise(data).graph).x, data.x)  # the user's own features come back
    few = Data(x=data.x[:1], edge_index=torch.empty(2, 0).long())
    alone = Data(x=data.x, edge_index=torch.empty(2, 0).long())
    assert model.predict_proba(few)[0] == pytest.approx(model.predict_proba(alone)[0], abs=1e-5)
    model.save(tmp_path / "model")
    again = GDPNet.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(data), model.predict_proba(data))


def test_encoded_features_are_not_encoded_again(tmp_path):
    graph = _graph()
    assert graph.table is not None
    encoding = graph.table.encoding
    changed = with_features(graph, graph.features * 0.5)
    assert torch.equal(encoded_as(changed, encoding).features, changed.features)
    assert torch.equal(encoded_as(from_pyg(to_pyg(graph)), encoding).features, graph.features)
    write_tables(changed, tmp_path / "changed", format="parquet")
    back = read_graph(tmp_path / "changed")
    assert torch.equal(encoded_as(back, encoding).features, changed.features)


def test_raw_columns_are_found_by_name_or_by_place():
    edges, rows, label = _arrays()
    names = ["age", "income", "txn", "night"]
    graph = Graph.build(edges, rows, label).with_feature_names(names)
    fitted = fit_columns(graph, graph.split)
    assert fitted.table is not None
    swapped = Graph.build(edges, rows[:, ::-1].copy(), label).with_feature_names(names[::-1])
    unnamed = Graph.build(edges, rows, label)
    for other in (swapped, unnamed):
        assert torch.equal(encoded_as(other, fitted.table.encoding).features, fitted.features)
    by_place = fit_columns(unnamed, unnamed.split)
    assert by_place.table is not None
    assert torch.equal(encoded_as(graph, by_place.table.encoding).features, fitted.features)


def test_a_model_that_scales_nothing_reads_columns_of_unlike_scale_as_they_are():
    """A graph of few nodes is easily of unlike scale, though that which the model was trained on is not."""
    edges, rows, label = _arrays()
    graph = fit_columns(given := Graph.build(edges, rows, label), given.split)
    assert graph.table is not None
    assert graph.table.columns is not None
    found = encoded_as(graph, None).features
    assert torch.allclose(found, torch.from_numpy(rows), rtol=1e-5)
    table = replace(graph.table, columns=None)
    assert torch.equal(found, encoded_as(replace(graph, table=table), None).features)
