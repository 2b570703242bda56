"""Edge weights count in every mean: states, neighbourhoods, representations, losses and cleaned graphs."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from gdpnet.cli import main
from gdpnet.config import Config
from gdpnet.data.edge_weight import mutual_weights, with_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.files import write_tables
from gdpnet.data.io.networkx import from_networkx
from gdpnet.data.io.npz import write_npz
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.prepare import prepare
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.ensemble import embed_fold_models, hop_features
from gdpnet.inference.observation import make_view
from gdpnet.inference.streaming import denoise_to, embed_to
from gdpnet.inference.threshold import KEEP_ALL, Choice
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.engines.triton_engine import play_triton
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import roll_out
from gdpnet.training.choose_threshold import _propagate
from gdpnet.training.selection_phase import reward_if_kept
from helpers.setups import CPU, assert_alike, random_graph, random_setup
from helpers.small import FAST, fitted, noisy_graph, same_weights

ONE_HOP = Config().with_values(
    {
        "representation": {"hops": 1, "width": 6},
        "features": {"normalise": "none"},
        "policy": {"hidden": [5, 4], "state": "neighbourhood"},
    }
)
TWO_HOPS = ONE_HOP.with_values({"representation": {"hops": 2}})


def weighted(graph: Graph, seed: int = 0) -> Graph:
    """Give every edge a weight of its own, from a quarter to four."""
    weight = 4.0 ** (2.0 * torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed)) - 1.0)
    return replace(graph, edge_weight=weight)


def repeated(graph: Graph, times: int) -> Graph:
    """Return the graph with some copies of every neighbour, each a node with an edge to the target only."""
    copies = graph.num_edges * times
    source = torch.arange(copies) + graph.num_nodes
    target = graph.target.repeat_interleave(times)
    features = torch.cat([graph.features, graph.features[graph.neighbour].repeat_interleave(times, dim=0)])
    return Graph.build(torch.stack([source, target]), features, directed=True)


def shards_in(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def episodes_of(prepared, nodes):
    return begin_episodes(prepared.row_ptr, prepared.neighbour, nodes, max_candidates=256, seed=3)


# --- means, by hand and by repetition ---


def test_a_kept_neighbour_adds_its_weight_to_the_count_and_its_row_times_that_to_the_sum():
    graph = Graph.build([[1, 2], [0, 0]], [[1.0], [2.0], [4.0]], directed=True)
    graph = with_weights(graph, np.array([[1, 2], [0, 0]]), np.array([0.5, 3.0]), directed=True)
    _, aggregators, prepared = random_setup(replace(graph, class_names=("a", "b")), ONE_HOP)
    with torch.no_grad():
        aggregators.weight.fill_(1.0)
        aggregators.bias.fill_(0.0)
    hidden, _ = embed_fold_models(aggregators, prepared, torch.tensor([0]), torch.tensor([1.0, 0.5]))
    # (1 + 0.5 * 2 + 0.5 * 3 * 4) / (1 + 0.5 + 1.5)
    assert hidden.flatten().tolist() == pytest.approx([8.0 / 3.0] * 6)
    assert hop_features(prepared, torch.tensor([0]), torch.tensor([1.0, 0.5]))[1].item() == pytest.approx(
        8 / 3
    )
    encoded = make_view(aggregators, prepared).encode(episodes_of(prepared, torch.tensor([0])))
    assert encoded.message[:, 0].tolist() == pytest.approx([1.0, 12.0])
    assert encoded.counted.tolist() == [0.5, 3.0]
    assert encoded.embedded[:, 0].tolist() == pytest.approx([2.0, 4.0])


def test_a_weight_of_two_counts_as_the_same_neighbour_twice():
    graph = random_graph(4, directed=True)
    graph = replace(graph, edge_weight=torch.full((graph.num_edges,), 2.0))
    everyone = torch.arange(graph.num_nodes)
    _, aggregators, one = random_setup(graph, ONE_HOP)
    other = prepare(repeated(graph, 2), ONE_HOP, CPU)
    found = embed_fold_models(aggregators, one, everyone, torch.ones(graph.num_edges))
    expected = embed_fold_models(aggregators, other, everyone, torch.ones(other.neighbour.numel()))
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right)


def test_neighbourhoods_are_weighted_means():
    graph = Graph.build([[1, 2], [0, 0]], [[1.0], [2.0], [4.0]], directed=True)
    graph = with_weights(graph, np.array([[1, 2], [0, 0]]), np.array([0.5, 3.0]), directed=True)
    prepared = prepare(graph, TWO_HOPS, CPU)
    assert prepared.neighbourhood.flatten().tolist() == pytest.approx([14.0 / 4.5, 2.0, 4.0])
    assert prepared.neighbourhood_weight.tolist() == [4.5, 1.0, 1.0]


def test_the_classifier_that_chooses_the_threshold_averages_by_weight():
    graph = Graph.build([[1, 2], [0, 0]], [[1.0], [2.0], [4.0]], directed=True)
    graph = with_weights(graph, np.array([[1, 2], [0, 0]]), np.array([0.5, 3.0]), directed=True)
    rows = _propagate(graph.features, prepare(graph, ONE_HOP, CPU), torch.tensor([1.0, 0.5]))
    first = (1 + 0.5 * 2 + 1.5 * 4) / 3
    assert rows[0].item() == pytest.approx((first + 0.5 * 2 + 1.5 * 4) / 3)


# --- episodes ---


@pytest.mark.slow
@pytest.mark.parametrize("config", [ONE_HOP, TWO_HOPS], ids=["one hop", "two hops"])
@torch.no_grad()
def test_both_engines_decide_alike_on_weighted_edges(config):
    pytest.importorskip("triton", reason="Triton is not installed")
    graph = weighted(random_graph(1))
    policy, aggregators, prepared = random_setup(graph, config)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    policy, aggregators = policy.to(device), aggregators.to(device)
    prepared = prepare(graph, config, device)
    view = make_view(aggregators, prepared)
    episodes = episodes_of(prepared, torch.arange(graph.num_nodes, device=device))
    encoded = view.encode(episodes)
    scores = play_reference(policy, view, episodes, encoded, Play(early_stop=False)).scores
    policy.score_bias.sub_(scores.median())
    for play in (Play(), Play(greedy=True), Play(early_stop=False)):
        plain = play_reference(policy, view, episodes, encoded, play)
        assert 0 < int(plain.kept.sum()) < plain.kept.numel()
        assert_alike(play_triton(policy, view, episodes, encoded, play), plain)
    light = replace(encoded, weight=torch.ones_like(encoded.weight))
    assert not torch.equal(
        play_reference(policy, view, episodes, light, Play(early_stop=False)).scores, scores
    )


@torch.no_grad()
def test_states_and_rewards_of_a_roll_out_use_weights():
    graph = weighted(random_graph(2))
    config = ONE_HOP.with_values({"reward": {"kind": "marginal"}})
    policy, aggregators, prepared = random_setup(graph, config)
    view = make_view(aggregators, prepared)
    rollout = roll_out(
        policy, view, episodes_of(prepared, torch.arange(6)), Play(early_stop=False, greedy=False)
    )
    assert bool(rollout.kept.any())
    sums, counts = rollout.states
    gain = reward_if_kept(rollout, view, graph.labels, config)
    single = aggregators.project_message(prepared.features)[:, 0]
    for number in range(rollout.decisions):
        episode = int(rollout.episode[number])
        edges = rollout.episodes.edge[rollout.candidate]
        before = (rollout.episode[:number] == episode) & rollout.kept[:number]
        kept = edges[:number][before]
        weight = graph.edge_weight[kept]
        expected = (single[graph.neighbour[kept]] * weight[:, None]).sum(dim=0)
        torch.testing.assert_close(sums[number], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(counts[number], weight.sum())
        target = rollout.episodes.target[episode]
        probability = []
        for some in (kept, torch.cat([kept, edges[number : number + 1]])):
            share = torch.zeros(graph.num_edges)
            share[some] = 1.0
            probability.append(
                embed_fold_models(aggregators, prepared, target[None], share)[1][0, 0, graph.labels[target]]
            )
        expected = (probability[1].log() - probability[0].log()).clamp(
            -config.reward.clip, config.reward.clip
        )
        torch.testing.assert_close(gain[number], expected, atol=1e-5, rtol=1e-4)


# --- the model ---


def test_weights_of_one_change_nothing():
    graph = noisy_graph()
    ones = replace(graph, edge_weight=torch.ones(graph.num_edges))
    plain, other = fitted(graph), fitted(ones)
    assert same_weights(plain, other)
    assert np.array_equal(plain.embed(graph), other.embed(ones))
    assert prepare(graph, FAST, CPU).graph_weight is None


@pytest.mark.slow
def test_weights_change_what_is_learned_and_predicted():
    graph = noisy_graph()
    heavy = weighted(graph)
    model, other = fitted(graph), fitted(heavy)
    assert not same_weights(model, other)
    assert not np.array_equal(model.embed(graph), model.embed(heavy))
    assert fingerprint(graph) != fingerprint(heavy)


def test_a_neighbour_of_large_weight_decides_the_prediction():
    label = np.arange(200) % 2
    features = np.eye(2)[label]
    features[100:] = 0.0  # half of the nodes have no features, and one neighbour of each kind
    blank = np.arange(100, 200)
    alike, other = blank - 100, (blank - 99) % 100
    edges = np.stack([np.concatenate([alike, other]), np.tile(blank, 2)])
    weight = np.repeat([20.0, 0.05], 100)
    graph = Graph.build(edges, features, label, split=np.where(np.arange(200) % 7, 1, 2), directed=True)
    graph = with_weights(graph, edges, weight, directed=True)
    config = FAST.with_values({"training": {"selection": False, "epochs": 30}, "representation": {"hops": 1}})
    model = fitted(graph, config)
    truth = label[blank].astype(str)
    assert (model.predict(graph, torch.from_numpy(blank)) == truth).all()
    swapped = with_weights(graph, edges, weight[::-1].copy(), directed=True)
    assert (model.predict(swapped, torch.from_numpy(blank)) != truth).all()


def test_weights_of_the_cleaned_graph_are_keep_probability_times_weight():
    graph = weighted(noisy_graph())
    model = fitted(graph)
    cleaned = model.denoise(graph, threshold=0.5)
    expected = torch.from_numpy(cleaned.keep_probability) * graph.edge_weight
    assert torch.equal(cleaned.graph.edge_weight, expected[torch.from_numpy(cleaned.kept)])
    model._set_trained(replace(model.trained_, threshold=Choice(KEEP_ALL)))
    assert torch.equal(model.denoise(graph).graph.edge_weight, graph.edge_weight)


def test_an_explanation_lists_weights_if_there_are_any():
    graph = weighted(noisy_graph())
    model = fitted(graph)
    node = int(graph.degree.argmax())
    told = {one.neighbour: one.weight for one in model.explain(graph, str(graph.node_ids[node])).decisions}
    row = slice(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
    names = graph.node_ids[graph.neighbour[row].numpy()]
    assert told == dict(zip(names, graph.edge_weight[row].tolist(), strict=True))
    plain = replace(graph, edge_weight=None)
    assert {one.weight for one in model.explain(plain, str(graph.node_ids[node])).decisions} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_tasks_without_labels_propagate_rows_by_weight(kind):
    graph = noisy_graph()
    model = GDPNet(task=kind, device="cpu").set_params(
        training__epochs=1, training__warmup=1, representation__width=8, task__clusters=3
    )
    heavy = weighted(graph)
    heavy = replace(heavy, edge_weight=mutual_weights(heavy))
    model.fit(graph)
    assert not np.allclose(model.embed(graph), model.embed(heavy))
    assert np.isfinite(GDPNet.from_config(model.config, device="cpu").fit(heavy).embed(heavy)).all()


# --- large graphs, files, the command line ---


@pytest.mark.slow
def test_shards_of_a_weighted_store_equal_the_result_in_memory(tmp_path):
    graph = weighted(noisy_graph())
    write_store(graph, tmp_path / "store")
    stored = open_store(tmp_path / "store")
    assert torch.equal(stored.edge_weight, graph.edge_weight)
    model = fitted(graph)
    embed_to(model.trained_, stored, tmp_path / "embedded", edges_per_shard=50)
    table = shards_in(tmp_path / "embedded")
    rows = np.stack([table[f"h{place}"].to_numpy() for place in range(8)], axis=1)
    np.testing.assert_allclose(rows, model.embed(graph), atol=1e-5)
    denoise_to(model.trained_, stored, tmp_path / "cleaned", threshold=0.5, edges_per_shard=50)
    cleaned = model.denoise(graph, threshold=0.5)
    found = shards_in(tmp_path / "cleaned")["weight"].to_numpy()
    np.testing.assert_allclose(found, cleaned.graph.edge_weight.numpy(), rtol=1e-4)


@pytest.mark.slow
def test_the_command_line_trains_on_weights_and_writes_those_of_the_cleaned_graph(tmp_path, capsys):
    graph = weighted(noisy_graph())
    write_tables(graph, tmp_path / "graph", "csv")
    fast = [f"--set={part}" for part in ("training.epochs=1", "training.warmup=1", "representation.width=8")]
    run = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "graph"), "--directed", "--out", run, *fast]) == 0
    out = tmp_path / "edges.parquet"
    assert main(["denoise", run, "--out", str(out), "--threshold", "0.5", "--all"]) == 0
    table = pq.read_table(out)
    probabilities = ["keep_probability", "genuine_probability"]
    assert table.column_names == ["source", "target", "weight", *probabilities, "kept"]
    kept = table["kept"].to_numpy()
    assert table["weight"].null_count == int((~kept).sum())
    expected = (table["keep_probability"].to_numpy() * graph.edge_weight.numpy())[kept]
    np.testing.assert_allclose(table["weight"].drop_null().to_numpy(), expected, rtol=1e-5)
    node = str(graph.node_ids[int(graph.degree.argmax())])
    capsys.readouterr()
    assert main(["explain", run, str(tmp_path / "graph"), "--node", node]) == 0
    assert "weight" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_weight_that_is_not_above_zero_is_refused_by_every_reader(tmp_path, capsys, bad):
    edges = np.array([[0, 1], [1, 2]])
    graph = Graph.build(edges, np.ones((3, 1)))
    sentence = rf"edge weights must be above zero \(.*\), found {bad:g} on edge number 2"
    with pytest.raises(GraphError, match=f"^{sentence}"):
        with_weights(graph, edges, np.array([1.0, bad]), directed=False)
    network = nx.Graph()
    network.add_edge(0, 1, weight=1.0)
    network.add_edge(1, 2, weight=bad)
    with pytest.raises(GraphError, match="above zero"):
        from_networkx(network, weight="weight")
    wrong = replace(graph, edge_weight=torch.tensor([1.0, 1.0, bad, bad]))
    write_store(wrong, tmp_path / "store")
    with pytest.raises(GraphError, match=r"edge weights must be above zero"):
        open_store(tmp_path / "store")
    write_npz(wrong, tmp_path / "graph.npz")
    code = main(["train", str(tmp_path / "graph.npz"), "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert code == 2
    assert "above zero" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1.0, 1e-50], "be above zero"),
        ([1.0, 1e40], "be finite"),
        ([1.0, 2e6], "be at most 1,000,000"),
        ([1.0], r"there must be one weight per edge \(2\), found an array of shape \(1,\)"),
    ],
)
def test_weights_that_single_precision_cannot_use_are_refused(weight, sentence):
    edges = np.array([[0, 1], [1, 2]])
    with pytest.raises(GraphError, match=sentence):
        with_weights(Graph.build(edges, np.ones((3, 1))), edges, np.array(weight), directed=False)
