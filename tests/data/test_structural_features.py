"""Structural features of graphs without features, and the limits of one-hot ones."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch

from gdpnet.cli import main
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.data.io.store import open_store
from gdpnet.data.schema import Columns
from gdpnet.data.structural_features import STRUCTURAL, WIDTH, _in_bins, _statistics, structural_rows
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to
from gdpnet.training.data import make_training_data
from helpers.setups import CPU, random_graph
from helpers.small import FAST, fitted, noisy_graph

STRUCTURE = FAST.with_values({"features": {"missing": "structural"}})


def bare(graph: Graph) -> Graph:
    """Return the graph without its features."""
    return replace(graph, features=SparseRows.identity(graph.num_nodes))


def statistics(graph: Graph) -> dict[str, torch.Tensor]:
    return dict(zip([name for name, _, _ in STRUCTURAL], _statistics(graph), strict=True))


# --- the statistics ---


def test_the_statistics_of_a_triangle_with_a_tail_are_right():
    found = statistics(Graph.build([[0, 1, 2, 2], [1, 2, 0, 3]], torch.ones(4, 1)))
    log3, log4 = np.log2(3), 2.0
    assert found["degree"].tolist() == pytest.approx([log3, log3, log4, 1.0])
    assert found["out-degree"].tolist() == pytest.approx([log3, log3, log4, 1.0])
    assert found["mean degree of neighbours"].tolist() == pytest.approx(
        [(log3 + log4) / 2, (log3 + log4) / 2, (2 * log3 + 1) / 3, log4]
    )
    assert found["largest degree of a neighbour"].tolist() == pytest.approx([log4, log4, log3, log4])
    assert found["closed triangles"].tolist() == pytest.approx([1.0, 1.0, 1 / 3, 0.0])
    assert found["return in two steps"].tolist() == pytest.approx([5 / 12, 5 / 12, 2 / 3, 1 / 3])
    assert found["return in three steps"].tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 0.0])


def test_one_way_edges_distinguish_in_and_out_degree():
    found = statistics(Graph.build([[1, 2, 0], [0, 0, 3]], torch.ones(4, 1), directed=True))
    assert found["degree"].tolist() == pytest.approx([np.log2(3), 0.0, 0.0, 1.0])
    assert found["out-degree"].tolist() == pytest.approx([1.0, 1.0, 1.0, 0.0])
    assert found["return in two steps"].tolist() == [0.0] * 4


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_return_probabilities_are_those_of_torch_geometric(seed, directed):
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE

    graph = random_graph(seed, nodes=12, links=30, directed=directed)
    # a walk goes from a node to one of its neighbours
    data = Data(edge_index=torch.stack([graph.target, graph.neighbour]), num_nodes=12)
    expected = AddRandomWalkPE(3, attr_name="walk")(data).walk
    found = statistics(graph)
    torch.testing.assert_close(found["return in two steps"], expected[:, 1])
    torch.testing.assert_close(found["return in three steps"], expected[:, 2])


@pytest.mark.parametrize("seed", range(3))
def test_closed_triangles_are_networkx_clustering(seed):
    graph = random_graph(seed, nodes=12, links=30)
    network = nx.Graph(zip(graph.neighbour.tolist(), graph.target.tolist(), strict=True))
    network.add_nodes_from(range(12))
    expected = nx.clustering(network)
    assert statistics(graph)["closed triangles"].tolist() == pytest.approx(
        [expected[node] for node in range(12)]
    )


def test_a_value_is_interpolated_between_two_bins():
    rows = _in_bins(torch.tensor([0.0, 0.6, 1.0, 9.0]), 3, 0.5)
    torch.testing.assert_close(
        rows, torch.tensor([[1.0, 0, 0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    )


def test_rows_depend_neither_on_blocks_nor_on_node_numbers(monkeypatch):
    graph = noisy_graph()
    whole = structural_rows(graph)
    assert whole.shape == (80, WIDTH)
    monkeypatch.setattr("gdpnet.data.structural_features._EDGES", 7)
    assert torch.equal(structural_rows(graph), whole)
    order = torch.randperm(80, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    moved = Graph.build(place[torch.stack([graph.neighbour, graph.target])], torch.ones(80, 1))
    torch.testing.assert_close(structural_rows(moved), whole[order])


# --- training and predicting ---


def test_training_sees_structure_of_the_training_graph_alone():
    graph = bare(noisy_graph())
    scene = make_training_data(graph, STRUCTURE.with_values({"features": {"normalise": "none"}}), 0, CPU)
    inner = graph.induced(scene.seen)
    assert torch.equal(scene.train.features, structural_rows(inner))
    assert torch.equal(scene.whole.features, structural_rows(graph))
    assert not torch.equal(scene.train.features, scene.whole.features[scene.seen])


@pytest.mark.slow
def test_a_structural_model_reads_new_nodes_and_other_graphs(tmp_path):
    graph = bare(noisy_graph())
    model = fitted(graph, STRUCTURE)
    assert model.n_features_in_ == WIDTH
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    larger = bare(noisy_graph(120, seed=1))
    assert again.predict(larger).shape == (120,)
    assert np.array_equal(again.predict_proba(larger), model.predict_proba(larger))
    some = torch.tensor([100, 3])
    np.testing.assert_allclose(again.embed(larger, some), again.embed(larger)[some], atol=1e-5)
    said = "the model was trained on structural features .* without features, found 300"
    with pytest.raises(GraphError, match=said):
        again.predict(noisy_graph())


@pytest.mark.slow
def test_a_graphs_own_features_are_used_whatever_the_setting_for_missing_ones():
    graph = noisy_graph()
    model = fitted(graph, STRUCTURE)
    assert model.trained_.columns == Columns("own", 300)
    assert np.array_equal(model.predict(graph), fitted(graph).predict(graph))


@pytest.mark.slow
def test_a_one_hot_model_refuses_new_nodes_and_other_graphs(tmp_path):
    graph = bare(noisy_graph())
    fitted(graph).save(tmp_path / "model.safetensors")
    model = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert model.predict(graph).shape == (80,)
    renamed = replace(graph, node_ids=graph.node_ids[::-1].copy())
    for other in (bare(noisy_graph(81)), renamed, graph.induced(torch.arange(70))):
        with pytest.raises(
            GraphError,
            match="the same nodes in the same order, without features; train with --features struct",
        ):
            model.predict(other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_tasks_without_labels_read_structure_too(kind):
    graph = bare(noisy_graph())
    model = GDPNet(task=kind, device="cpu").set_params(
        training__epochs=1, training__warmup=1, features__missing="structural", task__clusters=3
    )
    assert np.isfinite(model.fit(graph).embed(bare(noisy_graph(90, seed=3)))).all()


@pytest.mark.slow
def test_a_mapped_graph_without_features_is_cleaned_as_one_in_memory(tmp_path):
    generate_store(GeneratedSettings(nodes=200, edges=1200, features=0, classes=3), 0, tmp_path / "store")
    stored = open_store(tmp_path / "store")
    assert not stored.has_features
    write_npz(replace(stored, neighbour=stored.neighbour.long()), tmp_path / "graph.npz")
    graph = read_graph(tmp_path / "graph.npz")
    model = fitted(stored, STRUCTURE)
    cleaned = model.denoise(graph, threshold=0.5)
    found = denoise_to(model.trained_, stored, tmp_path / "out", threshold=0.5, edges_per_shard=100)
    assert found["kept"] == int(cleaned.kept.sum())


# --- the command line ---


def without_features(folder, graph):
    write_tables(replace(graph, features=torch.zeros(graph.num_nodes, 1)), folder, "csv")
    lines = (folder / "nodes.csv").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n"
    (folder / "nodes.csv").write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.slow
def test_the_command_trains_on_structure_alone_and_a_one_hot_model_refuses_other_graphs(tmp_path, capsys):
    graph = without_features(tmp_path / "graph", noisy_graph())
    other = without_features(tmp_path / "other", noisy_graph(100, seed=2))
    fast = [f"--set={part}" for part in ("training.epochs=1", "training.warmup=1", "representation.width=8")]
    for kind in ("structural", "one-hot"):
        run, out = str(tmp_path / kind), str(tmp_path / f"{kind}.csv")
        assert main(["train", graph, "--out", run, "--features", kind, *fast]) == 0
        assert main(["predict", run, "--out", out]) == 0
        capsys.readouterr()
        code = main(["predict", run, other, "--out", out])
        said = capsys.readouterr().err
        assert code == (0 if kind == "structural" else 2)
        assert kind == "structural" or ("--features structural" in said and said.count("\n") == 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--features", "structural"], "leave it out, this graph has 300"),
        (["--features", "degree"], "must have a column 'degree', found no feature column"),
    ],
)
def test_the_flag_is_for_graphs_without_features(tmp_path, capsys, words, sentence):
    write_tables(noisy_graph(), tmp_path / "graph", "csv")
    assert main(["train", str(tmp_path / "graph"), "--out", str(tmp_path / "run"), *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
