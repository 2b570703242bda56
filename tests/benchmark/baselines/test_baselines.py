"""Baselines: each learns, depends on its seed alone, and computes the formulas of its paper."""

import importlib.util
import sys
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.transforms import GDC

from gdpnet.benchmark.baselines import robust, unsupervised
from gdpnet.benchmark.baselines.fitting import Settings, Side, fit_network, inputs_of, make_task
from gdpnet.benchmark.baselines.methods import METHODS, run_method, run_task
from gdpnet.benchmark.baselines.networks import GAT, gcn, graphsage
from gdpnet.benchmark.baselines.propagation import Links, neighbour_mean, symmetric_mean
from gdpnet.benchmark.baselines.rewiring import gdc_graph, low_rank_links, low_rank_mean
from gdpnet.benchmark.baselines.robust import neighbourhoods_of, soft_median, trust_of
from gdpnet.benchmark.baselines.sampling import (
    Block,
    Importance,
    batch_logits,
    draw_blocks,
    draw_layer,
    sample_neighbours,
    sampled_product,
    within_reach,
)
from gdpnet.benchmark.baselines.unsupervised import LINK_PREDICTORS
from gdpnet.benchmark.tuning import CANDIDATES, DEPTHS, is_whole, search_tasks
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import split_links
from gdpnet.data.validation import SPLITS
from gdpnet.errors import ConfigError, GraphError
from gdpnet.representation.sparse import Matrix, drop_values, times
from helpers.setups import CPU, random_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model

QUICK = {"width": 16, "epochs": 30, "patience": 10, "dropout": 0.2, "weight_decay": 5e-5}


@pytest.fixture(scope="module")
def graph():
    """Three classes that features and edges predict, and half as many spurious edges."""
    setting = SyntheticSettings(
        nodes=200, classes=3, topics_per_class=2, words=120, spurious_links=0.5, wrong_labels=0.0
    )
    return synthetic_graph(setting, seed=0)


def weighted(graph: Graph, seed: int = 0) -> Graph:
    """Return the graph with a random weight on each link."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(graph.num_edges, generator=generator) + 0.1
    return replace(graph, edge_weight=(weight + weight[graph.reverse]) / 2)


NO_PACKAGE = importlib.util.find_spec("deeprobust") is None

EVERY = [
    pytest.param(name, marks=pytest.mark.skipif(NO_PACKAGE, reason="deeprobust is not installed"))
    if name == "pro-gnn"
    else name
    for name in METHODS
]


def f1_of(graph, logits):
    """Return micro-F1 on the test nodes."""
    test = graph.nodes_in("test")
    return float((logits[test].argmax(dim=1) == graph.labels[test]).float().mean())


@pytest.mark.parametrize("name", EVERY)
def test_a_method_beats_chance_and_predicts_the_same_for_the_same_seed(graph, name):
    settings = replace(METHODS[name].settings, **QUICK)
    outcome = run_method(name, graph, 1, "cpu", settings)
    assert outcome.logits.shape == (graph.num_nodes, 3)
    assert bool(torch.isfinite(outcome.logits).all())
    assert f1_of(graph, outcome.logits) > 0.5
    assert outcome.validation_f1 > 0.5
    assert outcome.seconds > 0.0
    if outcome.keep_score is not None:
        assert outcome.keep_score.shape == outcome.kept.shape == (graph.num_edges,)
    state = torch.get_rng_state()
    again = run_method(name, graph, 1, "cpu", settings)
    assert torch.equal(outcome.logits, again.logits)
    assert torch.equal(state, torch.get_rng_state())


def test_pro_gnn_names_its_package_and_its_limit(graph, monkeypatch):
    for module in ("deeprobust", "deeprobust.graph"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"needs the package deeprobust, pip install 'gdpnet\[pro-gnn\]'"):
        run_method("pro-gnn", graph)
    monkeypatch.setattr(robust, "MOST_NODES", 10)
    with pytest.raises(GraphError, match=f"at most 10 nodes, found {graph.num_nodes}"):
        run_method("pro-gnn", graph)


def test_another_seed_predicts_something_else(graph):
    one, other = (run_method("gcn", graph, seed, "cpu", Settings(**QUICK)).logits for seed in (0, 1))
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", list(LINK_PREDICTORS))
def test_a_link_predictor_scores_the_same_for_the_same_seed(graph, name, monkeypatch):
    monkeypatch.setattr(unsupervised, "EPOCHS", 5)
    split = split_links(graph, 0)
    one, other = (LINK_PREDICTORS[name](split.train, split.validation, 0, CPU) for _ in range(2))
    assert torch.equal(one(split.test.ends), other(split.test.ends))


def test_training_never_reads_edges_or_labels_of_validation_and_test_nodes(graph):
    held = (graph.split == SPLITS.index("validation")) | (graph.split == SPLITS.index("test"))
    task = make_task(graph, 0)
    assert not bool(held[task.seen].any())
    test = graph.split == SPLITS.index("test")
    blind = replace(graph, labels=torch.where(test, 0, graph.labels), truth=None)
    for name in ("gcn", "supervised-gcn", "fastgcn"):
        settings = replace(METHODS[name].settings, **QUICK)
        assert torch.equal(
            run_method(name, graph, 0, "cpu", settings).logits,
            run_method(name, blind, 0, "cpu", settings).logits,
        )


def test_training_stops_after_its_patience_and_returns_its_best_epoch(graph):
    inputs = inputs_of(make_task(graph, 0), CPU)
    short = fit_network(gcn, inputs, Settings(epochs=300, patience=10), 0)
    assert short.epochs < 300
    long = fit_network(gcn, inputs, Settings(epochs=300, patience=100), 0)
    assert long.validation_f1 >= short.validation_f1
    found = (long.logits[inputs.validation].argmax(dim=1) == inputs.validation_labels).float().mean()
    assert float(found) == pytest.approx(long.validation_f1)


def test_a_graph_without_validation_nodes_gets_some(graph):
    code = torch.where(graph.split == SPLITS.index("validation"), 1, graph.split).to(torch.int8)
    task = make_task(replace(graph, split=code), 0)
    assert task.validation.numel() == int((code == 1).sum()) // 10


@pytest.mark.parametrize("seed", range(3))
def test_gcn_and_graphsage_propagate_as_torch_geometric_does(seed):
    graph = random_graph(seed)
    message = torch.randn(6, 4)
    edge_index = torch.stack([graph.neighbour, graph.target])
    links = Links.of(weighted(graph), CPU)
    convolution = GCNConv(4, 3, bias=False)
    expected = convolution(message, edge_index, links.weight)
    torch.testing.assert_close(symmetric_mean(links, message @ convolution.lin.weight.T), expected)
    mean = SAGEConv(4, 3, root_weight=False, bias=False)
    plain = Links.of(graph, CPU)
    torch.testing.assert_close(
        neighbour_mean(plain, message @ mean.lin_l.weight.T), mean(message, edge_index), atol=1e-5, rtol=1e-4
    )


def test_gat_attends_as_torch_geometric_does_and_a_weight_of_zero_removes_an_edge(graph):
    inputs = inputs_of(make_task(graph, 0), CPU)
    network = GAT(inputs, Settings(layers=1, heads=1)).eval()
    side = Side(torch.randn(6, graph.num_features), Links.of(random_graph(1), CPU))
    reference = GATConv(graph.num_features, 3, heads=1).eval()
    layer = network.layers[0]
    with torch.no_grad():
        reference.lin.weight.copy_(layer.weight.T)
        reference.att_src.copy_(layer.att_src)
        reference.att_dst.copy_(layer.att_dst)
    edge_index = torch.stack([side.links.neighbour, side.links.target])
    torch.testing.assert_close(network(side), reference(side.features, edge_index))
    kept = side.links.link != side.links.link[0]
    fewer = replace(side, links=side.links.with_weight(kept.float()))
    torch.testing.assert_close(network(fewer), reference(side.features, edge_index[:, kept]))


def test_a_sparse_product_and_its_gradient_equal_the_dense_ones():
    dense = torch.randn(5, 4) * (torch.rand(5, 4) > 0.5)
    matrix = Matrix.of(SparseRows.from_scipy(sp.csr_matrix(dense.numpy())), CPU)
    weight = torch.randn(4, 3, requires_grad=True)
    product = times(matrix, weight)
    torch.testing.assert_close(product, dense @ weight)
    (found,) = torch.autograd.grad(product.square().sum(), weight)
    (expected,) = torch.autograd.grad((dense @ weight).square().sum(), weight)
    torch.testing.assert_close(found, expected)
    dropped = drop_values(matrix, 0.5, training=True)
    assert set((dropped.value / matrix.value).tolist()) <= {0.0, 2.0}


def test_both_directions_of_a_link_are_dropped_together(graph):
    links = Links.of(graph, CPU)
    weight = links.dropped(0.4).weight
    assert torch.equal(weight, weight[graph.reverse])
    assert float(weight.mean()) == pytest.approx(0.6, abs=0.08)


def test_a_sampled_layer_of_fastgcn_is_right_on_average(graph):
    importance = Importance.of(make_task(graph, 0), CPU)
    adjacency = torch.from_numpy(importance.adjacency.to_scipy().toarray())
    torch.testing.assert_close(
        importance.chance, adjacency.square().sum(dim=0) / adjacency.square().sum(), atol=1e-6, rtol=1e-4
    )
    message = torch.randn(adjacency.shape[0], 2, generator=torch.Generator().manual_seed(0))
    nodes = torch.tensor([3, 0, 7])
    torch.manual_seed(0)
    chance = within_reach(importance.adjacency, importance.chance, nodes)
    assert torch.equal(chance > 0, (adjacency[nodes] > 0).any(dim=0))
    size = int((chance > 0).sum())
    everyone, ones = draw_layer(chance, size)
    exact = sampled_product(importance.adjacency, nodes, everyone, ones, message[everyone])
    torch.testing.assert_close(exact, (adjacency @ message)[nodes])
    total = torch.zeros(3, 2)
    rounds = 3000
    for _ in range(rounds):
        chosen, scale = draw_layer(chance, size // 2)
        total += sampled_product(importance.adjacency, nodes, chosen, scale, message[chosen])
    torch.testing.assert_close(total / rounds, (adjacency @ message)[nodes], atol=0.06, rtol=0.0)


def test_sampled_neighbours_are_different_and_no_more_than_asked_for(graph):
    nodes = torch.arange(0, graph.num_nodes, 2)
    owner, edge = sample_neighbours(graph.row_ptr, nodes, 3)
    assert torch.equal(graph.target[edge], nodes[owner])
    assert torch.unique(edge).numel() == edge.numel()
    assert torch.equal(torch.bincount(owner, minlength=nodes.numel()), graph.degree[nodes].clamp(max=3))


def test_with_all_neighbours_sampled_graphsage_is_the_whole_one(graph, monkeypatch):
    monkeypatch.setattr("gdpnet.benchmark.baselines.sampling.FAN_OUT", (10_000, 10_000))
    inputs = inputs_of(make_task(weighted(graph), 0), CPU)
    network = graphsage(inputs, Settings()).eval()
    nodes = torch.tensor([5, 2, 40])
    torch.testing.assert_close(
        batch_logits(network, inputs.train, nodes), network(inputs.train)[nodes], atol=1e-5, rtol=1e-4
    )


def test_a_block_names_the_upper_nodes_among_the_lower(graph):
    links, nodes = Links.of(graph, CPU), torch.tensor([9, 4])
    blocks, lowest = draw_blocks(links, nodes, 2)
    middle = lowest[blocks[0].own]
    assert torch.equal(middle[blocks[1].own], nodes)
    lonely = Block(torch.tensor([0]), torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0))
    assert torch.equal(lonely.mean(torch.ones(1, 2)), torch.zeros(1, 2))


@pytest.mark.parametrize("dense", [0, 1_000])
def test_a_low_rank_mean_equals_that_of_the_dense_matrix(graph, monkeypatch, dense):
    monkeypatch.setattr("gdpnet.benchmark.baselines.rewiring._DENSE_NODES", dense)
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.double)
    adjacency[graph.target, graph.neighbour] = 1.0
    left, size, right = torch.linalg.svd(adjacency)
    message = torch.randn(graph.num_nodes, 5)
    found = low_rank_links(graph, (4, 20), CPU)
    for rank in (4, 20):
        near = left[:, :rank] @ torch.diag(size[:rank]) @ right[:rank]
        degree = (near.sum(dim=1) + 1.0).clamp(min=1.0)
        looped = (near + torch.eye(graph.num_nodes)) / (degree[:, None] * degree).sqrt()
        expected = (looped @ message.double()).float()
        torch.testing.assert_close(low_rank_mean(found[rank], message), expected, atol=1e-3, rtol=1e-3)


def test_a_low_rank_graph_may_be_small_or_without_edges():
    assert list(low_rank_links(random_graph(0), (2, 100), CPU)) == [2, 5]
    bare = Graph.build([[], []], torch.eye(3))
    message = torch.randn(3, 2)
    torch.testing.assert_close(low_rank_mean(low_rank_links(bare, (2,), CPU)[2], message), message)


@pytest.mark.parametrize("restart", [0.05, 0.3])
def test_diffusion_equals_that_of_torch_geometric(graph, restart):
    transform = GDC(
        self_loop_weight=1,
        normalization_in="sym",
        normalization_out="col",
        diffusion_kwargs={"method": "ppr", "alpha": restart},
        sparsification_kwargs={"method": "topk", "k": 8, "dim": 0},
        exact=True,
    )
    data = Data(edge_index=torch.stack([graph.neighbour, graph.target]), num_nodes=graph.num_nodes)
    expected = transform(data)
    wanted = torch.zeros(graph.num_nodes, graph.num_nodes)
    wanted[expected.edge_index[1], expected.edge_index[0]] = expected.edge_attr
    found = gdc_graph(graph, restart, 8)
    dense = torch.zeros_like(wanted)
    dense[found.target, found.neighbour] = found.edge_weight
    # nodes of equal rank may be taken for each other, so the weights are compared and not the names
    torch.testing.assert_close(dense.sort(dim=1).values, wanted.sort(dim=1).values, atol=1e-4, rtol=1e-3)
    assert float(dense.max(dim=1).values.min()) > 0.0


def test_the_diffusion_of_a_directed_graph_solves_its_equation():
    graph = random_graph(4, links=12, directed=True)
    adjacency = torch.eye(6)
    adjacency[graph.target, graph.neighbour] = 1.0
    scale = adjacency.sum(dim=1).rsqrt()
    transition = scale[:, None] * adjacency * scale
    expected = 0.2 * torch.linalg.inv(torch.eye(6) - 0.8 * transition)
    found = gdc_graph(graph, 0.2, 6)
    dense = torch.zeros(6, 6)
    dense[found.target, found.neighbour] = found.edge_weight
    torch.testing.assert_close(dense, expected / expected.sum(dim=1, keepdim=True), atol=1e-3, rtol=1e-2)


def test_gnnguard_prunes_dissimilar_neighbours_and_weighs_the_rest():
    # node 0 has neighbours 1, 2, 3 of similarity .3, .1 and .05
    graph = Graph.build([[1, 2, 3], [0, 0, 0]], torch.eye(4), directed=True)
    trust, own = trust_of(Links.of(graph, CPU), torch.tensor([0.3, 0.1, 0.05]))
    torch.testing.assert_close(trust, torch.tensor([0.5, 1 / 6, 0.0]))
    torch.testing.assert_close(own[:, 0], torch.tensor([1 / 3, 1.0, 1.0, 1.0]))


def test_a_soft_median_equals_a_loop_over_nodes():
    graph = weighted(random_graph(2, nodes=9, links=20))
    message, temperature = torch.randn(9, 3), 0.5
    found = soft_median(neighbourhoods_of(graph, CPU), message, temperature)
    looped = torch.eye(9)
    looped[graph.target, graph.neighbour] = graph.edge_weight
    scale = looped.sum(dim=1).rsqrt()
    adjacency = scale[:, None] * looped * scale
    for node in range(9):
        member = adjacency[node].nonzero().flatten()
        weight, rows = adjacency[node][member], message[member]
        median = torch.zeros(3)
        for column in range(3):
            order = rows[:, column].argsort()
            place = int((weight[order].cumsum(0) >= weight.sum() / 2).nonzero()[0])
            median[column] = rows[order[place], column]
        soft = (-(rows - median).norm(dim=1) / (temperature * 3**0.5)).softmax(dim=0) * weight
        expected = weight.sum() * (soft[:, None] * rows).sum(dim=0) / soft.sum()
        torch.testing.assert_close(found[node], expected, atol=1e-5, rtol=1e-4)


def test_an_outlier_moves_a_mean_more_than_a_soft_median():
    graph = Graph.build([[1, 2, 3, 4], [0, 0, 0, 0]], torch.eye(5))
    message = torch.tensor([[1.0], [1.0], [1.0], [1.1], [50.0]])
    mean = symmetric_mean(Links.of(graph, CPU), message)
    median = soft_median(neighbourhoods_of(graph, CPU), message, 0.5)
    assert float(median[0]) < 3.0 < float(mean[0])


@pytest.mark.parametrize("name", ["gcn", "gat", "graphsage"])
def test_a_network_uses_the_weights_of_a_cleaned_graph(graph, name):
    settings = Settings(**QUICK)
    spurious = graph.truth.spurious
    whole = replace(graph, edge_weight=torch.where(spurious, 0.0, 1.0))
    task = make_task(whole, 0)
    outcome = run_task(name, task, 0, "cpu", settings)
    train = task.train.keep_edges(~task.train.truth.spurious)
    dropped = run_task(
        name, replace(task, train=train, whole=whole.keep_edges(~spurious)), 0, "cpu", settings
    )
    # an edge of weight zero is none; only the draws of dropped attention fall differently
    assert f1_of(graph, outcome.logits) == pytest.approx(f1_of(graph, dropped.logits), abs=0.1)
    assert f1_of(graph, outcome.logits) > f1_of(graph, run_method("mlp", graph, 0, "cpu").logits)


def test_a_wrong_name_gets_one_sentence_with_the_nearest(graph):
    with pytest.raises(ConfigError, match=r"^there is no method 'gnc'; did you mean 'gcn'\?$"):
        run_method("gnc", graph)
    with pytest.raises(ConfigError, match="there is no method 'cosine'"):
        search_tasks("cosine", [])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"width": 0}, "width must be 1 or more, found 0"),
        ({"dropout": 1.0}, "dropout must lie between 0 and 1, found 1.0"),
        ({"drop_edge": -0.1}, "drop_edge must lie"),
        ({"learning_rate": 0.0}, "learning rate must be above 0"),
    ],
)
def test_impossible_settings_are_refused(bad, reason):
    with pytest.raises(ConfigError, match=reason):
        Settings(**bad)


def test_a_search_tries_every_candidate_and_reads_no_test_label(graph, monkeypatch):
    tried = []

    def record(name, task, seed, device, settings=None):
        tried.append(settings)
        good = settings is not None and (settings.dropout, settings.weight_decay) == (0.3, 5e-5)
        return replace(outcome, validation_f1=0.9 if good else 0.1)

    outcome = run_method("lr", graph)
    monkeypatch.setattr("gdpnet.benchmark.tuning.run_task", record)
    found, scored = search_tasks("gcn", [(make_task(graph, seed), seed) for seed in (0, 1)])
    assert (found.dropout, found.weight_decay) == (0.3, 5e-5)
    assert len(tried) == 2 * (len(CANDIDATES) + len(DEPTHS)) == 24
    assert [score for _, score in scored] == [0.1] * 3 + [0.9] + [0.1] * 6 + [0.9] * 2
    assert [(one.dropout, one.layers) for one in tried[20:]] == [(0.3, 1), (0.3, 3)] * 2
    assert found.layers == 2  # the first of equals
    assert search_tasks("lr", [(make_task(graph, 0), 0)]) == (METHODS["lr"].settings, ())
    with pytest.raises(ConfigError, match="at least one task, found none"):
        search_tasks("gcn", [])


def test_a_search_compares_candidates_at_the_choice_that_the_method_made_once(graph, monkeypatch):
    tried = []
    chosen = {"kept_share": 0.7}

    def record(name, task, seed, device, settings=None):
        tried.append(settings)
        return replace(outcome, chosen=chosen, validation_f1=0.5)

    outcome = run_method("lr", graph)
    monkeypatch.setattr("gdpnet.benchmark.tuning.run_task", record)
    found, _ = search_tasks("cosine-gcn", [(make_task(graph, 0), 0)])
    assert tried[0] is None
    assert [one.choice for one in tried[1:]] == [0.7] * (len(CANDIDATES) + len(DEPTHS))
    assert found.choice is None


def test_a_search_goes_on_from_what_is_known(graph, monkeypatch):
    tried = []

    def record(name, task, seed, device, settings=None):
        tried.append(settings)
        return replace(outcome, validation_f1=0.8)

    outcome = run_method("lr", graph)
    monkeypatch.setattr("gdpnet.benchmark.tuning.run_task", record)
    known = [(candidate, 0.7 if candidate["width"] == 128 else 0.1) for candidate in CANDIDATES]
    found, scored = search_tasks("gcn", [(make_task(graph, 0), 0)], known=known)
    assert [(one.width, one.layers) for one in tried] == [(128, 1), (128, 3)]
    assert (found.width, found.layers) == (128, 1)
    assert scored[:10] == tuple(known)
    assert is_whole(scored)
    assert not is_whole(known)
    assert not is_whole(scored[1:])
    assert not is_whole([])


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.chooses])
def test_a_method_whose_choice_is_set_makes_no_other(graph, name):
    free = run_method(name, graph, settings=Settings(**QUICK))
    key, value = next(iter(free.chosen.items()))
    options = {"kept_share": 0.5, "drop_edge": 0.2, "restart": 0.15, "rank": 5, "temperature": 0.5}
    told = run_method(name, graph, settings=Settings(**QUICK, choice=options[key]))
    assert told.chosen[key] == options[key]
    if not METHODS[name].self_trained:  # its rounds choose one after the other
        again = run_method(name, graph, settings=Settings(**QUICK, choice=value))
        assert again.validation_f1 == free.validation_f1


def test_methods_that_choose_are_marked_as_such(graph):
    for name, method in METHODS.items():
        if name == "pro-gnn" and NO_PACKAGE:
            continue
        chosen = run_method(name, graph, settings=Settings(**QUICK)).chosen.keys()
        assert method.chooses == bool(chosen - {"rounds", "pseudo_labels"}) or name == "lr"
        assert method.self_trained == ("rounds" in chosen)


@pytest.mark.parametrize("name", ["mlp", "lr"])
def test_a_method_on_features_ignores_edges(graph, name):
    bare = graph.keep_edges(torch.zeros(graph.num_edges, dtype=torch.bool))
    one, other = (run_method(name, each, settings=Settings(**QUICK)).logits for each in (graph, bare))
    assert torch.equal(one, other)


def test_logistic_regression_agrees_on_dense_and_sparse_features(graph):
    dense = replace(graph, features=torch.from_numpy(graph.features.to_scipy().toarray()))
    one, other = (f1_of(graph, run_method("lr", each).logits) for each in (graph, dense))
    assert one == pytest.approx(other, abs=0.05)


@pytest.mark.parametrize("name", EVERY)
def test_a_graph_without_edges_and_with_dense_features_is_learned_too(name):
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(60) % 2
    graph = Graph.build(
        [[], []],
        torch.randn(60, 5, generator=generator) + 3.0 * label[:, None],
        label,
        split=[1] * 30 + [2] * 15 + [3] * 15,
    )
    settings = replace(METHODS[name].settings, width=4, epochs=10, heads=2)
    assert bool(torch.isfinite(run_method(name, graph, 0, "cpu", settings).logits).all())
