"""Passes over blocks: the same bytes as with tables of all nodes in memory, whatever graph, model and block size."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gdpnet.config import Config
from gdpnet.data import schema, sums_in_parts
from gdpnet.data.features import SparseRows, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.io import store
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.schema import ScaledRows
from gdpnet.data.structural_features import StructuralRows
from gdpnet.estimator import GDPNet
from gdpnet.inference import ensemble
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.passes import edges as edge_passes
from gdpnet.inference.passes import nodes as node_passes
from gdpnet.inference.passes import outputs as output_passes
from gdpnet.inference.passes.files import BlockFiles
from gdpnet.inference.passes.job import Job
from gdpnet.inference.streaming import denoise_to, embed_to, predict_to
from gdpnet.representation.aggregator import HopwiseNetwork
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork
from gdpnet.representation.gcn import GCN
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model


def dense(directed: bool = False) -> Graph:
    return random_graph(7, nodes=40, links=110, directed=directed)


def weighted(graph: Graph) -> Graph:
    """Give every edge a weight of its own, from a quarter to four."""
    weight = 4.0 ** (2.0 * torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) - 1.0)
    return replace(graph, edge_weight=weight)


def featureless() -> Graph:
    graph = dense()
    return replace(graph, features=SparseRows.identity(graph.num_nodes))


def with_edge_features() -> Graph:
    graph = dense()
    rows = torch.randn(graph.num_edges, 2, generator=torch.Generator().manual_seed(1))
    return replace(graph, edge_features=rows, edge_feature_names=("amount", "age"))


def hub() -> Graph:
    leaves, rng = 300, np.random.default_rng(0)
    ends = np.stack([np.zeros(leaves, dtype=np.int64), np.arange(1, leaves + 1)])
    label = np.arange(leaves + 1) % 2
    return Graph.build(ends, rng.normal(size=(leaves + 1, 4)) + label[:, None], label)


EVIDENT = {"evidence": {"use": True, "trees_per_pass": 10}}

CASES: dict[str, tuple[Callable[[], Graph], dict]] = {
    "as shipped": (dense, {}),
    "one hop": (dense, {"representation": {"hops": 1, "width": 8}}),
    "greedy": (dense, {"inference": {"mode": "greedy"}}),
    "symmetrised": (dense, {"inference": {"symmetrise": True, "episodes": 2}}),
    "symmetrised, one hop": (
        dense,
        {"representation": {"hops": 1, "width": 8}, "inference": {"symmetrise": True, "mode": "greedy"}},
    ),
    "greedy and symmetrised": (dense, {"inference": {"mode": "greedy", "symmetrise": True}}),
    "a matrix of the node's own": (dense, {"representation": {"width": 8, "self_weight": True}}),
    "the paper's state, directed": (lambda: dense(directed=True), {"policy": {"state": "paper"}}),
    "pairs, directed": (lambda: dense(directed=True), {"policy": {"state": "pairs"}}),
    "rows not scaled": (dense, {"features": {"normalise": "none"}}),
    "rows that add up to one": (dense, {"features": {"normalise": "row"}} | EVIDENT),
    "weighted": (lambda: weighted(dense()), {"inference": {"symmetrise": True, "episodes": 2}}),
    "weighted and directed": (lambda: weighted(dense(directed=True)), EVIDENT),
    "no selection": (dense, {"training": {"selection": False, "epochs": 2, "injected": 0.0}}),
    "sparse": (noisy_graph, {}),
    "sparse with evidence": (noisy_graph, EVIDENT),
    "genuine probabilities": (dense, EVIDENT),
    "genuine, the paper's state": (dense, {"policy": {"state": "paper"}} | EVIDENT),
    "structural features": (featureless, {"features": {"missing": "structural"}} | EVIDENT),
    "one-hot features": (featureless, {}),
    "edge features": (with_edge_features, EVIDENT),
    "a hub": (hub, {"policy": {"max_candidates": 8, "hidden": [8, 6]}} | EVIDENT),
    "a weighted hub": (lambda: weighted(hub()), {"policy": {"max_candidates": 8, "hidden": [8, 6]}}),
    "a hub, one hop": (hub, {"representation": {"hops": 1, "width": 8}}),
    "a sparse hub": (lambda: replace(hub(), features=to_sparse(hub().features)), {}),
}


@pytest.fixture(scope="module")
def trained() -> Callable[[str], tuple[GDPNet, Graph]]:
    made: dict[str, tuple[GDPNet, Graph]] = {}

    def get(case: str) -> tuple[GDPNet, Graph]:
        if case not in made:
            graph = CASES[case][0]()
            made[case] = fitted(graph, FAST.with_values(CASES[case][1])), graph
        return made[case]

    return get


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def columns(folder: Path) -> dict[str, np.ndarray]:
    """Return the columns of all shards, one after the other."""
    parts = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    names = parts[0].column_names
    return {name: np.concatenate([part.column(name).to_numpy() for part in parts]) for name in names}


def stored(graph: Graph, folder: Path) -> Graph:
    write_store(graph, folder)
    return open_store(folder)


@pytest.mark.parametrize("case", CASES)
def test_the_cleaned_graph_is_the_same_in_every_byte(case, trained, tmp_path):
    model, graph = trained(case)
    options = {"threshold": 0.5, "all_edges": True, "edges_per_shard": 60}
    said = denoise_to(model.trained_, graph, tmp_path / "memory", **options)
    given = graph if case == "sparse" else stored(graph, tmp_path / "store")
    assert denoise_to(model.trained_, given, tmp_path / "d", **options, engine=OneProcess()) == said
    assert said["shards"] > 1
    assert contents(tmp_path / "d") == contents(tmp_path / "memory")


@pytest.mark.parametrize("case", CASES)
def test_embeddings_are_the_same_in_every_byte(case, trained, tmp_path):
    model, graph = trained(case)
    embed_to(model.trained_, graph, tmp_path / "memory", edges_per_shard=60)
    embed_to(model.trained_, graph, tmp_path / "e", edges_per_shard=60, engine=OneProcess())
    found, expected = columns(tmp_path / "e"), columns(tmp_path / "memory")
    assert found.keys() == expected.keys()
    if "sparse" in case or "one-hot" in case:  # means of a block are dense or sparse as the block has it
        for name in found.keys() - {"id"}:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    else:
        assert contents(tmp_path / "e") == contents(tmp_path / "memory")


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("case", ["as shipped", "genuine probabilities", "sparse", "a hub"])
def test_the_block_size_changes_nothing_but_rounding(size, case, trained, tmp_path):
    model, graph = trained(case)
    options = {"all_edges": True, "edges_per_shard": size, "engine": OneProcess()}
    denoise_to(model.trained_, graph, tmp_path / "d", **options)
    whole, found = model.denoise(graph), columns(tmp_path / "d")
    np.testing.assert_allclose(found["keep_probability"], whole.keep_probability, atol=1e-5)
    if whole.genuine_probability is not None:
        np.testing.assert_allclose(found["genuine_probability"], whole.genuine_probability, atol=1e-4)


SMALL = 64
"""Edges whose rows are read at a time, in tests of blocks that are larger."""


def read_little_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(edge_passes, "_MOST_BYTES", 0)
    for module in (sums_in_parts, edge_passes, node_passes):
        monkeypatch.setattr(module, "EDGES_AT_ONCE", SMALL)


BATCHED = ["as shipped", "symmetrised", "a hub", "weighted", "genuine probabilities", "one hop"]
BATCHED += ["sparse", "edge features"]


@pytest.mark.parametrize("case", BATCHED)
def test_rows_that_are_read_batch_by_batch_change_no_byte(case, trained, tmp_path, monkeypatch):
    model, graph = trained(case)
    options = {"all_edges": True, "edges_per_shard": 200}
    denoise_to(model.trained_, graph, tmp_path / "whole", **options)
    read_little_at_a_time(monkeypatch)
    denoise_to(model.trained_, graph, tmp_path / "d", **options, engine=OneProcess())
    assert contents(tmp_path / "d") == contents(tmp_path / "whole")


@pytest.mark.parametrize("case", ["a hub", "a weighted hub", "a hub, one hop"])
def test_embeddings_around_a_hub_that_is_read_in_parts_change_no_byte(case, trained, tmp_path, monkeypatch):
    model, graph = trained(case)
    model = with_heads(model, graph, aggregator=0.0)  # embeddings are those of the hop-wise head
    embed_to(model.trained_, graph, tmp_path / "whole", edges_per_shard=100)
    expected = model.predict_proba(graph)
    read_little_at_a_time(monkeypatch)
    embed_to(model.trained_, graph, tmp_path / "e", edges_per_shard=100, engine=OneProcess())
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")
    predict_to(model.trained_, graph, tmp_path / "p", edges_per_shard=100)
    found = columns(tmp_path / "p")
    for place, name in enumerate(model.classes_):
        np.testing.assert_allclose(found[f"p_{name}"], expected[:, place], atol=1e-5)


@pytest.mark.parametrize("case", ["as shipped", "genuine probabilities"])
def test_pair_features_of_an_edge_are_computed_once(case, trained, tmp_path, monkeypatch):
    model, graph = trained(case)
    computed, compute = 0, edge_passes.pairs_of_edges

    def counting(tables, target: torch.Tensor, neighbour: torch.Tensor):
        nonlocal computed
        computed += target.numel()
        return compute(tables, target, neighbour)

    monkeypatch.setattr(edge_passes, "pairs_of_edges", counting)
    denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=60, engine=OneProcess())
    assert computed == graph.num_edges


@pytest.mark.parametrize("command", [denoise_to, embed_to, predict_to])
@pytest.mark.parametrize("case", ["a hub", "a sparse hub"])
def test_rows_of_a_hub_are_never_held_at_once(case, command, trained, tmp_path, monkeypatch):
    model, graph = trained(case)
    most, hub = 0, int(graph.row_ptr.diff().max())

    def counting(read: Callable) -> Callable:
        def count(self, *given):
            nonlocal most
            most = max(most, given[-1].numel())
            return read(self, *given)

        return count

    for owner, name in ((Job, "rows_of"), (Job, "unit_rows_of"), (BlockFiles, "rows")):
        monkeypatch.setattr(owner, name, counting(getattr(owner, name)))
    read_little_at_a_time(monkeypatch)
    monkeypatch.setattr(ensemble, "_EDGES_AT_ONCE", SMALL)
    monkeypatch.setattr(output_passes, "_EDGES_AT_ONCE", 2 * SMALL)
    command(model.trained_, graph, tmp_path / "d", edges_per_shard=2 * SMALL, engine=OneProcess())
    assert SMALL <= most <= 2 * SMALL < hub


@pytest.mark.parametrize("case", ["structural features", "edge features"])
def test_rows_that_a_model_makes_are_written_some_at_a_time(case, trained, tmp_path, monkeypatch):
    model, graph = trained(case)
    given = stored(graph, tmp_path / "store")
    asked = []

    class Counting(ScaledRows if case == "edge features" else StructuralRows):
        def __getitem__(self, rows: slice) -> np.ndarray:
            found = super().__getitem__(rows)
            asked.append(len(found))
            return found

    monkeypatch.setattr(schema, Counting.__bases__[0].__name__, Counting)
    monkeypatch.setattr(store, "PIECE", 100)
    denoise_to(model.trained_, given, tmp_path / "d", edges_per_shard=60, engine=OneProcess())
    rows = graph.num_nodes if case == "structural features" else graph.num_edges
    assert sum(asked) == rows
    assert max(asked) <= 50


# --- predictions ---


def with_heads(model: GDPNet, graph: Graph, *, shared: bool = False, aggregator: float = 0.2) -> GDPNet:
    """Return a model with every head that reads neighbours, their weights drawn at random."""
    networks, width, generator = copy.deepcopy(model.networks_), graph.num_features, torch.Generator()
    classes = model.networks_.aggregators.classes
    networks.hopwise = HopwiseNetwork(width, 8, classes, 2, hops=1 + model.config_.representation.hops)
    networks.gcn = GCN(width, 6, classes)
    networks.all_edges = (SharedNetwork if shared else AllEdgesNetwork)(width, 5, classes, 2)
    for head in (networks.hopwise, networks.gcn, networks.all_edges):
        head.initialise(generator.manual_seed(0))
    weights = HeadWeights(aggregator, hopwise=0.5 - aggregator, gcn=0.2, all_edges=0.3)
    config = model.config_.with_values({"gcn": {"layers": 3}})
    found = copy.copy(model)
    found._set_trained(replace(model.trained_, networks=networks, weights=weights, config=config))
    return found


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("case", ["as shipped", "weighted and directed", "sparse", "no selection"])
def test_predictions_of_all_heads_are_those_of_the_model(case, shared, trained, tmp_path):
    model, graph = trained(case)
    model = with_heads(model, graph, shared=shared)
    model.trained_.save(tmp_path / "m")
    said = predict_to(model.trained_, stored(graph, tmp_path / "s"), tmp_path / "p", edges_per_shard=60)
    found = columns(tmp_path / "p")
    assert said["nodes"] == graph.num_nodes == len(found["id"])
    expected = model.predict_proba(graph)
    for place, name in enumerate(model.classes_):
        np.testing.assert_allclose(found[f"p_{name}"], expected[:, place], atol=1e-5)
    assert np.array_equal(found["predicted"], model.predict(graph))


def test_heads_of_own_features_have_their_part(tmp_path):
    graph = random_graph(3, nodes=60, links=150)
    config = FAST.with_values({"trees": {"use": True}, "linear": {"use": True}})
    model = fitted(graph, config)
    trained = model.trained_
    names = [name for name in ("trees", "linear") if getattr(trained.networks, name) is not None]
    weights = HeadWeights().with_head(names[0], 0.4) if names else HeadWeights()
    model._set_trained(replace(trained, weights=weights))
    predict_to(model.trained_, graph, tmp_path / "p", edges_per_shard=60)
    found, expected = columns(tmp_path / "p"), model.predict_proba(graph)
    np.testing.assert_allclose(found[f"p_{model.classes_[0]}"], expected[:, 0], atol=1e-5)


def test_numbers_are_predicted_with_their_quantiles(tmp_path):
    graph = random_graph(5, nodes=60, links=150)
    numbers = torch.randn(60, generator=torch.Generator().manual_seed(0))
    graph = replace(graph, targets=numbers, labels=torch.full((60,), -1), class_names=())
    config: Config = FAST.with_values({"task": {"kind": "regression"}})
    model = fitted(graph, config)
    predict_to(model.trained_, graph, tmp_path / "p", edges_per_shard=60)
    found, predictor = columns(tmp_path / "p"), model.predictor(graph)
    np.testing.assert_allclose(found["prediction"], predictor.predict(), atol=1e-5)
    np.testing.assert_allclose(np.stack([found["low"], found["high"]], 1), predictor.interval(), atol=1e-4)
