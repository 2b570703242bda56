"""Predictions with stored decisions: bit for bit those that decide anew on everything, also with nodes added."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet._core.csr import place_in
from gdpnet.config import Config
from gdpnet.data.extended import Addition, ExtendedGraph, TooManyEdgesError
from gdpnet.data.features import take_rows, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import pair_features
from gdpnet.errors import RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.by_blocks import make_tables
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.evidence import COLUMNS
from gdpnet.inference.local import LocalPredictor
from gdpnet.inference.near import Near
from gdpnet.inference.stored import ChangedDecisions, StoredDecisions, can_store
from gdpnet.inference.threshold import KEEP_ALL, Choice
from gdpnet.representation.gcn import GCN
from helpers.small import FAST, fitted

pytestmark = pytest.mark.slow  # nearly every test trains a model

STORED = 105


def line_with_shortcuts(nodes: int = 120) -> Graph:
    """Return a graph in which most nodes are far apart, with a hub and some triangles."""
    rng = np.random.default_rng(0)
    here = np.arange(nodes)
    ends = np.concatenate(
        [[here[:-1], here[1:]], [here[:-2], here[2:]], [np.full(9, 60), np.arange(40, 58, 2)]], axis=1
    )
    ends = ends[:, rng.random(ends.shape[1]) < 0.85]
    labels = (here // 20) % 3
    rows = np.abs(np.eye(6)[labels] + 0.6 * rng.normal(size=(nodes, 6))).astype(np.float32)
    # added nodes have the last numbers, and lie between the others
    order = np.argsort(here % 8 == 5, kind="stable")
    place = np.argsort(order)
    return Graph.build(place[ends], rows[order], labels[order], split=rng.choice([1, 1, 2, 3], size=nodes))


def weighted(graph: Graph) -> Graph:
    """Return a graph with a weight per edge, the same in both directions."""
    low, high = torch.minimum(graph.target, graph.neighbour), torch.maximum(graph.target, graph.neighbour)
    return replace(graph, edge_weight=0.5 + ((low * 7 + high * 3) % 11).float() / 10)


def with_gcn(model: GDPNet, threshold: float = 0.5) -> GDPNet:
    """Give a model a GCN head, with weights as they are drawn, that reads the cleaned graph."""
    trained = model.trained_
    trained.networks.gcn = GCN(6, 8, 3)
    trained.networks.gcn.initialise(torch.Generator().manual_seed(0))
    first = "aggregator" if trained.networks.hopwise is None else "hopwise"
    weights = HeadWeights(**{"aggregator": 0.0, first: 0.5}, gcn=0.5)
    model._set_trained(replace(trained, weights=weights, threshold=Choice(threshold)))
    return model


def cut(graph: Graph) -> tuple[Graph, ExtendedGraph]:
    """Return the first nodes as a graph of their own, and that graph with all others added again."""
    stored, new = graph.induced(torch.arange(STORED)), torch.arange(STORED, graph.num_nodes)
    added = (graph.edge_index >= STORED).any(dim=0)
    weight = None if graph.edge_weight is None else graph.edge_weight[added]
    more = Addition.of(
        stored,
        graph.node_ids[STORED:].astype(str),
        take_rows(graph.features, new),
        graph.edge_index[:, added],
        weight,
    )
    return stored, ExtendedGraph(stored, more)


def variants() -> dict[str, tuple[Graph, Config]]:
    """Return graphs and settings that read other tables."""
    graph = line_with_shortcuts()
    names = ("greedy", "few candidates", "self weight", "hop-wise", "paper", "pairs", "neighbourhood")
    settings = (
        {"inference": {"mode": "greedy"}},
        {"policy": {"max_candidates": 2}},
        {"representation": {"self_weight": True}},
        {"hopwise": {"use": True}},
        *({"policy": {"state": state}} for state in names[4:]),
    )
    found = {name: (graph, FAST.with_values(one)) for name, one in zip(names, settings, strict=True)}
    sparse = replace(graph, features=to_sparse(graph.features))
    return found | {"usual": (graph, FAST), "weighted": (weighted(graph), FAST), "sparse": (sparse, FAST)}


@pytest.mark.parametrize("name", variants())
def test_predictions_have_the_bits_of_the_whole_graph(name, tmp_path):
    """Nodes near added ones and far from them, together and alone; nothing is stored of the larger graph."""
    graph, config = variants()[name]
    model = with_gcn(fitted(graph, config)).trained_
    stored, extended = cut(graph)
    assert can_store(model, stored, directed=False)
    decisions = StoredDecisions(make_tables(model, stored, tmp_path / "tables"), stored)
    for asked in ([107], [STORED, 119], [0], [3, 50, 60, 61, 100, 110], list(range(120 - 64, 120))):
        nodes = torch.tensor(asked)
        whole = LocalPredictor(model, ExtendedGraph(graph)).probabilities(nodes)
        with_tables = LocalPredictor(model, extended, stored=decisions).probabilities(nodes)
        assert np.array_equal(with_tables, whole)
    alone = torch.tensor([2, 60, 104])
    plain = [LocalPredictor(model, ExtendedGraph(stored), stored=one) for one in (None, decisions)]
    assert np.array_equal(*(one.probabilities(alone) for one in plain))


def test_predictions_are_those_of_the_model_on_the_whole_graph(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph))
    stored, extended = cut(graph)
    decisions = StoredDecisions(make_tables(model.trained_, stored, tmp_path / "tables"), stored)
    asked = torch.tensor([STORED, 60, 119])
    found = LocalPredictor(model.trained_, extended, stored=decisions).probabilities(asked)
    assert np.allclose(found, model.predict_proba(graph, asked), atol=1e-6)


def test_an_added_edge_between_stored_nodes_changes_what_it_would_change(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    ends = torch.tensor([[20], [70]])
    larger = Graph.build(
        torch.cat([graph.edge_index, ends, ends.flip(0)], dim=1),
        graph.features,
        graph.labels,
        split=graph.split,
    )
    nothing = (np.zeros(0, dtype=str), graph.features[:0])
    extended = ExtendedGraph(graph, Addition.of(graph, *nothing, ends))
    decisions = StoredDecisions(make_tables(model, graph, tmp_path / "tables"), graph)
    asked = torch.tensor([20, 22, 71])
    found = LocalPredictor(model, extended, stored=decisions).probabilities(asked)
    assert np.array_equal(found, LocalPredictor(model, ExtendedGraph(larger)).probabilities(asked))
    assert not np.array_equal(found, LocalPredictor(model, ExtendedGraph(graph)).probabilities(asked))


def test_an_added_node_without_edges_is_predicted_too(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    decisions = StoredDecisions(make_tables(model, graph, tmp_path / "tables"), graph)
    more = Addition.of(graph, np.array(["new"]), graph.features[:1], torch.zeros(2, 0, dtype=torch.long))
    whole = Graph.build(graph.edge_index, torch.cat([graph.features, graph.features[:1]]), [*graph.labels, 0])
    asked = torch.tensor([7, 120])
    found = LocalPredictor(model, ExtendedGraph(graph, more), stored=decisions).probabilities(asked)
    assert np.array_equal(found, LocalPredictor(model, ExtendedGraph(whole)).probabilities(asked))


def test_edges_that_would_make_too_many_decide_anew_are_refused(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    decisions = StoredDecisions(make_tables(model, graph, tmp_path / "tables"), graph)
    ends = torch.stack([torch.full((60,), 120), torch.arange(60)])
    more = Addition.of(graph, np.array(["new"]), graph.features[:1], ends)
    alone = torch.tensor([100])  # far from all of them
    local = LocalPredictor(model, ExtendedGraph(graph, more), 150, decisions)
    with pytest.raises(TooManyEdgesError):
        local.probabilities(alone)
    assert LocalPredictor(model, ExtendedGraph(graph), 150, decisions).probabilities(alone).shape == (1, 3)


def test_only_nodes_within_two_hops_of_added_edges_decide_anew(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    stored, _ = cut(graph)
    job = make_tables(model, stored, tmp_path / "tables")
    ends = torch.tensor([[STORED], [10]])
    extended = ExtendedGraph(stored, Addition.of(stored, np.array(["new"]), graph.features[:1], ends))
    changed = ChangedDecisions(job, extended, torch.tensor([STORED]), torch.arange(STORED + 1))
    near = {10, STORED}
    for _ in range(2):
        near |= {two for one in near if one < STORED for two in neighbours(stored, one)}
    assert changed.deciding.targets.tolist() == sorted(near)
    few = ChangedDecisions(job, extended, torch.tensor([10]), torch.tensor([10, 90]))
    assert few.deciding.targets.tolist() == [10]
    assert not ChangedDecisions(
        job, ExtendedGraph(stored), torch.tensor([0]), torch.arange(STORED)
    ).deciding.targets.numel()


@pytest.mark.parametrize("dense", [True, False])
def test_pair_features_near_added_edges_are_those_of_the_whole_graph(dense, tmp_path):
    """Those of edges between nodes next to added ones are new, all others stored."""
    graph = line_with_shortcuts() if dense else variants()["sparse"][0]
    model = with_gcn(fitted(graph)).trained_
    stored, extended = cut(graph)
    changed = ChangedDecisions(
        make_tables(model, stored, tmp_path / "tables"), extended, torch.tensor([0]), torch.arange(120)
    )
    near, around = changed.context, Near.of(extended, extended.touched).nodes
    found = changed.pairs.of(near, around)
    whole = pair_features(graph, model.config.policy.state)[near.rows.number, :COLUMNS]
    assert torch.equal(found, whole)
    between = place_in(around, near.rows.neighbour) >= 0
    new = pair_features(stored, model.config.policy.state)
    assert 0 < int(between.sum()) < between.numel()
    assert torch.equal(found[~between], new[near.rows.place[~between], :COLUMNS])


def neighbours(graph: Graph, node: int) -> list[int]:
    """Return the neighbours of a node."""
    return graph.neighbour[int(graph.row_ptr[node]) : int(graph.row_ptr[node + 1])].tolist()


def test_tables_are_made_once_and_belong_to_a_model_and_a_graph(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    written = []
    for _ in range(2):
        make_tables(model, graph, tmp_path / "tables")
        files = sorted((tmp_path / "tables" / "work").glob("*.npy"))
        written.append({path.name: path.stat().st_mtime_ns for path in files})
    assert "decision-00000.npy" in written[0]
    assert written[0] == written[1]
    with pytest.raises(RunFolderError, match="another graph"):
        make_tables(model, cut(graph)[0], tmp_path / "tables")


def test_a_damaged_table_is_made_again(tmp_path):
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    job = make_tables(model, graph, tmp_path / "tables")
    path = job.files.path("decision", 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] + b"\x00\x00\x00\x00")
    make_tables(model, graph, tmp_path / "tables")
    assert path.read_bytes() == whole


def test_tables_are_kept_where_they_shorten_predictions_alone():
    graph = line_with_shortcuts()
    model = with_gcn(fitted(graph)).trained_
    assert can_store(model, graph, directed=False)
    assert not can_store(model, graph, directed=True)
    assert not can_store(replace(model, threshold=Choice(KEEP_ALL)), graph, directed=False)
    assert not can_store(replace(model, weights=HeadWeights()), graph, directed=False)
    both = with_gcn(fitted(graph, FAST.with_values({"inference": {"symmetrise": True}}))).trained_
    assert not can_store(both, graph, directed=False)
