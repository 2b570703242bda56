"""The genuine probability of edges: fitted with a model, saved with it, and told wherever edges are."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score

from gdpnet import GDPNet
from gdpnet.benchmark.evaluation import calibration_error, evaluate
from gdpnet.cli.tables import write_edges
from gdpnet.config import Config, task_config
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.splits import with_split
from gdpnet.inference import model_file
from gdpnet.inference.model_file import checksum
from gdpnet.inference.streaming import denoise_to
from gdpnet.training import fit_genuine
from gdpnet.training.callbacks import Callback, Step
from gdpnet.training.fit_genuine import NOTHING_TO_LEARN
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # every test trains a model

EVIDENT = FAST.with_values({"evidence": {"use": True, "trees_per_pass": 10}})


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph(150)


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph, EVIDENT)


def genuine(model: GDPNet, graph: Graph) -> np.ndarray:
    found = model.denoise(graph).genuine_probability
    assert found is not None
    return found


def test_every_edge_has_a_probability_which_both_directions_share(model, graph):
    found = torch.from_numpy(genuine(model, graph))
    assert found.shape == (graph.num_edges,)
    assert bool(((found >= 0) & (found <= 1)).all())
    assert torch.equal(found[graph.reverse], found)


def test_it_does_not_depend_on_whether_keep_probabilities_are_averaged(model, graph):
    one_way = model.denoise(graph, symmetric=False)
    assert np.array_equal(one_way.genuine_probability, genuine(model, graph))


def test_few_drawn_nodes_have_own_and_injected_edges_as_all_nodes_have(monkeypatch):
    shares, decide = [], fit_genuine._decide_on_injected

    def noticed(*given):
        found = decide(*given)
        shares.append(float(found.own.double().mean()))
        return found

    monkeypatch.setattr(fit_genuine, "_decide_on_injected", noticed)
    # a ring with many triangles: the edges between two neighbours of drawn nodes are nearly all genuine
    node = torch.arange(3000)
    ends = torch.cat([torch.stack([node, (node + step) % 3000]) for step in (1, 2, 3)], dim=1)
    graph = with_split(Graph.build(ends, torch.randn(3000, 4), (node // 100) % 2), "60/20/20", 0)
    fitted(graph, EVIDENT.with_values({"evidence": {"targets": 30}}))
    assert shares == [pytest.approx(1 / 1.5, abs=0.06)]  # half as many edges are injected as there are


def test_saving_and_loading_changes_nothing(model, graph, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(genuine(again, graph), genuine(model, graph))


def test_a_model_file_of_format_6_is_read_and_has_no_genuine_probabilities(graph, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(graph).save(path)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    about = json.loads(metadata["about"])
    del about["config"]["evidence"]
    text = json.dumps(about, sort_keys=True)
    told = {"about": text, "sha256": checksum(tensors, text), "format_version": "6"}
    save_file(tensors, path, metadata | told)
    old = GDPNet.load(path, device="cpu").denoise(graph)
    assert old.genuine_probability is None
    assert "genuine_probability" not in old.to_pyg()
    assert model_file.FORMAT_VERSION == 7


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("state", ["trust", "pairs"])
def test_shards_hold_what_denoise_returns(tmp_path, directed, state):
    graph = random_graph(7, nodes=60, links=200, directed=directed)
    model = fitted(graph, EVIDENT.with_values({"policy": {"state": state}}))
    denoise_to(model.trained_, graph, tmp_path / "shards", all_edges=True, edges_per_shard=70)
    parts = [pq.read_table(path) for path in sorted((tmp_path / "shards").glob("part-*.parquet"))]
    found = np.concatenate([part.column("genuine_probability").to_numpy() for part in parts])
    assert len(parts) > 2
    # products of other shapes round differently, and the combination multiplies that by its weights
    steep = float(model.networks_.genuine.weight.abs().sum())
    np.testing.assert_allclose(found, genuine(model, graph), atol=1e-6 + 4e-7 * steep)


def test_a_stopped_run_is_resumed_with_the_same_probabilities(model, graph, tmp_path, monkeypatch):
    from gdpnet.inference import in_memory

    whole, written = in_memory.write_table, []

    def stop(table, path):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        return whole(table, path)

    monkeypatch.setattr(in_memory, "write_table", stop)
    given = {"all_edges": True, "edges_per_shard": 100}
    with pytest.raises(KeyboardInterrupt):
        denoise_to(model.trained_, graph, tmp_path / "shards", **given)
    assert list((tmp_path / "shards" / "work").glob("classes-*.npy"))
    monkeypatch.undo()
    next((tmp_path / "shards" / "work").glob("classes-*.npy")).unlink()
    denoise_to(model.trained_, graph, tmp_path / "shards", **given)
    parts = [pq.read_table(path) for path in sorted((tmp_path / "shards").glob("part-*.parquet"))]
    found = np.concatenate([part.column("genuine_probability").to_numpy() for part in parts])
    np.testing.assert_allclose(found, genuine(model, graph), atol=1e-6)


def test_frames_data_and_networks_hold_it(model, graph):
    cleaned = model.denoise(graph)
    expected = cleaned.genuine_probability
    assert np.array_equal(cleaned.to_pandas()["genuine_probability"], expected)
    data = cleaned.to_pyg()
    assert np.array_equal(data.genuine_probability.numpy(), expected[cleaned.kept])
    assert np.array_equal(data.keep_probability.numpy(), cleaned.keep_probability[cleaned.kept])
    network, ids = cleaned.to_networkx(), graph.node_ids
    edges = zip(graph.neighbour[cleaned.kept].tolist(), graph.target[cleaned.kept].tolist(), strict=True)
    for (source, target), one in zip(edges, expected[cleaned.kept], strict=True):
        assert network.edges[ids[source], ids[target]]["genuine_probability"] == pytest.approx(one)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_of_edges_have_a_column(model, graph, tmp_path, kind):
    out = tmp_path / f"edges.{kind}"
    write_edges(model, graph, out, None, True, True)
    read = pq.read_table if kind == "parquet" else pyarrow.csv.read_csv
    found = read(out).column("genuine_probability").to_numpy()
    np.testing.assert_allclose(found, genuine(model, graph), atol=1e-6)


def test_explanations_tell_it(model, graph):
    node = int(graph.degree.argmax())
    found = model.explain(graph, str(graph.node_ids[node]))
    expected = genuine(model, graph)[graph.row_ptr[node] : graph.row_ptr[node + 1]]
    ids = graph.node_ids[graph.neighbour[graph.row_ptr[node] : graph.row_ptr[node + 1]].numpy()].tolist()
    told = {one.neighbour: one.genuine_probability for one in found.decisions}
    assert told == pytest.approx(dict(zip(ids, expected.tolist(), strict=True)), abs=1e-6)
    assert "genuine" in found.table()[0]
    assert found.to_dict()["decisions"][0]["genuine_probability"] is not None


def test_candidates_beyond_neighbours_have_none(graph):
    model = fitted(graph, EVIDENT.with_values({"policy": {"hops": 2}}))
    decisions = model.explain(graph, str(graph.node_ids[int(graph.degree.argmax())])).decisions
    assert {one.distance == 1 for one in decisions} == {True, False}
    assert all((one.genuine_probability is None) == (one.distance > 1) for one in decisions)


@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_tasks_without_labels_have_it(kind):
    graph = noisy_graph(200)
    config = task_config(kind).with_values(
        {"training": {"epochs": 2, "warmup": 1}, "task": {"rank": 16}, "links": {"steps": 20}}
    )
    model = GDPNet.from_config(config, device="cpu").fit(graph)
    assert np.isfinite(genuine(model, graph)).all()


def test_without_selection_there_is_none(graph):
    model = fitted(graph, EVIDENT.with_values({"training": {"selection": False}}))
    assert model.denoise(graph).genuine_probability is None


class Told(Callback):
    """Keeps the results of steps."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def on_step(self, step: Step) -> None:
        if step.result is not None:
            self.results[step.name] = step.result


def test_a_graph_with_all_edges_has_none_and_a_sentence_says_so():
    ends = np.array([(a, b) for a in range(12) for b in range(a)]).T
    graph, told = Graph.build(ends, np.eye(12), np.arange(12) % 2), Told()
    model = GDPNet.from_config(EVIDENT, device="cpu").fit(graph, callbacks=[told])
    assert model.denoise(graph).genuine_probability is None
    assert told.results["evidence"] == NOTHING_TO_LEARN


def test_evaluation_scores_both_probabilities(model, graph):
    found = evaluate(model.predictor(graph))
    truth = ~graph.truth.spurious.numpy()
    assert found["genuine_auc"] == pytest.approx(roc_auc_score(truth, genuine(model, graph)))
    assert {"keep_calibration_error", "genuine_calibration_error"} <= found.keys()


@pytest.mark.skipif("GDPNET_DATA" not in os.environ, reason="GDPNET_DATA does not say where the datasets are")
def test_on_noisy_cora_it_is_better_than_policy_and_evidence_and_calibrated():
    from gdpnet.data.datasets.citation import load_dataset

    clean = load_dataset("cora", Path(os.environ["GDPNET_DATA"]), download=False)
    graph = corrupt(clean, "random-links", 1.0, 0).graph
    config = Config().with_values({"hopwise": {"use": False}, "gcn": {"use": False}})
    predictor = GDPNet.from_config(config, device="cpu").fit(graph).predictor(graph)
    cleaned, truth = predictor.denoise(), ~graph.truth.spurious.numpy()
    evidence = predictor.model.networks.evidence.genuine(predictor._evidence).numpy()
    parts = [roc_auc_score(truth, one) for one in (cleaned.keep_probability, evidence)]
    assert roc_auc_score(truth, cleaned.genuine_probability) > max(parts)
    assert calibration_error(cleaned.genuine_probability, truth) <= 0.05
