"""Generated graphs have the requested size, no repeated edges, both directions and known noise."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet.cli import main
from gdpnet.data.datasets import streamed as generated
from gdpnet.data.datasets.streamed import Buckets, GeneratedSettings, generate_store
from gdpnet.data.io.store import open_store
from gdpnet.errors import GraphError
from helpers.graphs import assert_same

SMALL = GeneratedSettings(nodes=400, edges=6000, features=6, classes=4, noise=0.25)


def made(folder: Path, settings: GeneratedSettings = SMALL, seed: int = 0):
    generate_store(settings, seed, folder)
    return open_store(folder)


def test_a_generated_graph_has_the_requested_size_and_noise(tmp_path):
    graph = made(tmp_path / "g")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (400, 6000, 6)
    assert int(graph.truth.spurious.sum()) == 1500
    assert torch.bincount(graph.labels).tolist() == [100] * 4
    assert torch.bincount(graph.split.long()).tolist() == [240, 80, 40, 40]
    assert sorted(entry.suffix for entry in (tmp_path / "g").iterdir()) == [".json"] + [".npy"] * 6


def test_every_edge_has_a_reverse_edge_with_the_same_noise_flag(tmp_path):
    graph = made(tmp_path / "g")  # opening checks that no neighbour is repeated
    back = graph.reverse
    assert bool((back >= 0).all())
    assert torch.equal(graph.truth.spurious[back], graph.truth.spurious)


def test_genuine_links_mostly_stay_within_their_class_and_degrees_have_a_heavy_tail(tmp_path):
    graph = made(tmp_path / "g", GeneratedSettings(nodes=4000, edges=60_000, features=2, classes=4))
    same = (graph.labels[graph.target] == graph.labels[graph.neighbour]).float()
    genuine = ~graph.truth.spurious
    assert float(same[genuine].mean()) > 0.9
    assert abs(float(same[~genuine].mean()) - 0.25) < 0.05
    degree = graph.degree.double()
    assert float(degree.max()) > 10 * float(degree.mean())
    assert float(degree.median()) < float(degree.mean())


def test_features_separate_classes_but_not_perfectly(tmp_path):
    graph = made(tmp_path / "g", GeneratedSettings(nodes=2000, edges=100, features=16, classes=2, signal=3.0))
    centres = torch.stack([graph.features[graph.labels == k].mean(dim=0) for k in (0, 1)])
    found = torch.cdist(graph.features, centres).argmin(dim=1)
    assert 0.75 < float((found == graph.labels).float().mean()) < 0.999


def test_a_seed_gives_one_graph_whatever_the_chunk_sizes(tmp_path, monkeypatch):
    first = made(tmp_path / "a")
    assert_same(made(tmp_path / "b"), first)
    assert not torch.equal(made(tmp_path / "c", seed=1).neighbour, first.neighbour)
    monkeypatch.setattr(generated, "_BUCKET", 500)
    parts = made(tmp_path / "d")  # with other buckets, other repeated links are replaced
    assert parts.num_edges == first.num_edges
    assert int(parts.truth.spurious.sum()) == int(first.truth.spurious.sum())
    assert torch.equal(parts.features, first.features)


def test_a_dense_graph_is_generated_and_an_impossible_one_is_refused(tmp_path):
    dense = made(tmp_path / "g", GeneratedSettings(nodes=40, edges=380, features=2, classes=2, noise=0.5))
    assert dense.num_edges == 380
    with pytest.raises(GraphError, match="do not fit among 40 nodes in 20 classes"):
        made(tmp_path / "h", GeneratedSettings(nodes=40, edges=380, classes=20, noise=0.0, homophily=1.0))
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"nodes": 5}, "needs 10 nodes"),
        ({"classes": 1}, "2 classes"),
        ({"noise": 1.5}, "between 0 and 1"),
        ({"noise": float("nan")}, "between 0 and 1"),
        ({"nodes": 10**6, "classes": 200_000}, "100,000 classes"),
        ({"features": 2**63 - 1}, "1,048,576 features, found"),
        ({"nodes": 20, "edges": 200}, "of 20 nodes can have at most 95 edges, found 200"),
        (
            {"nodes": 2**30 + 1},
            "at most 1,073,741,824 nodes, 100,000 classes and 1,048,576 features, found 1,073,741,825",
        ),
        ({"exponent": 2.0}, "exponent"),
    ],
)
def test_impossible_settings_are_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(GraphError, match=sentence):
        GeneratedSettings(**wrong)


def test_the_largest_key_of_a_link_fits_64_bits():
    most = generated._MOST_NODES
    assert ((most - 1) * most + most - 1) * 2 + 1 < 2**63
    assert (most - 1) * generated._stride(most) < 2**63


def test_buckets_return_the_values_put_into_them(tmp_path):
    buckets = Buckets(tmp_path, "x", 3)
    values = np.arange(10)
    buckets.put(values, values % 2)
    buckets.put(values, values % 2)
    assert buckets.take(1).tolist() == [1, 3, 5, 7, 9] * 2
    assert buckets.take(1).tolist() == []
    assert buckets.take(2).tolist() == []


def test_generate_writes_a_store(tmp_path, capsys):
    words = ["generate", "--nodes", "200", "--edges", "1001", "--features", "4", "--out", str(tmp_path / "g")]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "200 nodes, 1,000 directed edges, 4 features, 8 classes" in said.err
    assert json.loads(said.out)["edges"] == 1000
    assert main(words) == 2
