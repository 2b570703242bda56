"""Tasks: several labels, link prediction and clusters, and the command that compares methods on them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from torch_geometric.data import Data

from gdpnet._core.progress import limit
from gdpnet._core.random import Key
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.unsupervised import summarise
from gdpnet.cli import main
from gdpnet.config import Config, PropagationSettings, task_config, upgrade_settings
from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import from_pyg
from gdpnet.data.link_split import Pairs, links_of, split_links
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to
from gdpnet.inference.unsupervised import cluster_scores
from gdpnet.representation.gcn import NormalisedAdjacency
from gdpnet.representation.propagation import Propagation
from gdpnet.representation.tasks import CLASSIFICATION, MultiLabel, Partners, Task, label_names
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.find_clusters import group_rows
from gdpnet.training.link_task import LinksTask, fit_link_predictor
from gdpnet.training.run_folder import create_run
from helpers.graphs import small_graph
from helpers.small import noisy_graph, write_folder

QUICK = {
    "training": {"epochs": 3, "warmup": 1},
    "representation": {"width": 8},
    "policy": {"hidden": [8, 6]},
    "inference": {"episodes": 2},
    "task": {"rank": 8, "refresh": 1},
}


def quick(kind: str) -> Config:
    return task_config(kind).with_values(QUICK)


def links_as_set(graph: Graph) -> set[tuple[int, int]]:
    return set(map(tuple, links_of(graph).t().tolist()))


def pairs_as_set(pairs: Pairs, linked: bool) -> set[tuple[int, int]]:
    ends = pairs.ends[:, pairs.linked == linked]
    return {(min(a, b), max(a, b)) for a, b in ends.t().tolist()}


def test_the_shipped_tasks_are_tasks():
    assert isinstance(CLASSIFICATION, Task)
    assert isinstance(Partners(3), Task)


def test_the_score_of_partners_is_the_expected_probability_under_their_distribution():
    probabilities, shares = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.5, 0.5, 0.0]])
    assert Partners(3).score(probabilities, shares, "probability").item() == pytest.approx(0.45)
    assert Partners(3).score(probabilities, shares, "hit").item() == 1.0


def test_the_loss_of_partners_is_least_if_probabilities_equal_the_shares():
    shares, learns = torch.tensor([[0.75, 0.25]]), torch.ones(1, 1, dtype=torch.bool)
    right = Partners(2).loss(shares.log()[:, None], shares, learns)
    wrong = Partners(2).loss(shares.flip(1).log()[:, None], shares, learns)
    assert right < wrong
    assert right.item() == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))


def test_no_held_out_link_is_left_in_the_training_graph_and_no_other_pair_is_a_link():
    graph = noisy_graph(200)
    split = split_links(graph, seed=3)
    everything, train = links_as_set(graph), links_as_set(split.train)
    validation, test = pairs_as_set(split.validation, True), pairs_as_set(split.test, True)
    assert len(test) == len(everything) // 10
    assert len(validation) == len(everything) // 20
    assert train | validation | test == everything
    assert not train & (validation | test)
    assert not validation & test
    others = pairs_as_set(split.validation, False) | pairs_as_set(split.test, False)
    assert len(others) == len(validation) + len(test)
    assert not others & everything


def test_a_split_of_links_follows_its_seed_and_leaves_the_callers_draws_alone():
    graph = noisy_graph(200)
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    one = split_links(graph, seed=3)
    assert torch.equal(torch.rand(1), wanted)
    assert torch.equal(one.test.ends, split_links(graph, seed=3).test.ends)
    assert not torch.equal(one.test.ends, split_links(graph, seed=4).test.ends)


def test_links_that_cannot_be_split_are_refused_in_a_sentence():
    few = Graph.build([[0, 1], [1, 2]], np.eye(3))
    with pytest.raises(GraphError, match=r"at least 20 links .* found 2"):
        split_links(few, 0)
    hop = np.arange(30)
    with pytest.raises(GraphError, match="one-way edges"):
        split_links(Graph.build([hop, np.roll(hop, 1)], np.eye(30), directed=True), 0)
    everyone = np.array([(one, other) for one in range(10) for other in range(one)]).T
    with pytest.raises(
        GraphError, match=r"as many pairs of nodes without a link as links are held out, 6, found 0"
    ):
        split_links(Graph.build(everyone, np.eye(10)), 0)


def test_supervision_edges_are_no_candidates_and_give_the_targets():
    split = split_links(noisy_graph(200), 0)
    task = LinksTask(split.train, quick("links"), 0, torch.device("cpu"), None, split.validation)
    train, supervision = task.data.train, set(map(tuple, task.supervision.t().tolist()))
    owner = torch.repeat_interleave(torch.arange(200), train.row_ptr.diff())
    candidates = set(zip(train.neighbour.tolist(), owner.tolist(), strict=True))
    assert supervision <= links_as_set(split.train)
    assert len(supervision) == int(0.3 * len(links_as_set(split.train)))
    assert not candidates & (supervision | {(b, a) for a, b in supervision})
    assert torch.allclose(task.data.labels[task.data.targets].sum(dim=1), torch.tensor(1.0))


@pytest.mark.slow
def test_clusters_do_not_depend_on_labels():
    graph = noisy_graph(80)
    blind = replace(graph, labels=torch.full_like(graph.labels, -1), split=torch.zeros_like(graph.split))
    one, other = (
        GDPNet.from_config(quick("clusters"), device="cpu").fit(seen).predict(seen) for seen in (graph, blind)
    )
    assert (one == other).all()


def test_a_model_without_labels_writes_no_shards(tmp_path):
    graph = noisy_graph(60)
    model = GDPNet.from_config(quick("clusters"), device="cpu").fit(graph)
    with pytest.raises(ConfigError, match=r"writes no shards; this one was trained for clusters$"):
        denoise_to(model.trained_, graph, tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


def test_propagation_averages_linked_rows_and_leaves_isolated_ones():
    settings = PropagationSettings(steps=1, restart=0.0)
    propagation = Propagation.over(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0]), torch.ones(2), settings)
    rows = propagation(torch.tensor([[1.0], [0.0], [5.0]]))
    assert rows.flatten().tolist() == pytest.approx([0.5, 0.5, 5.0])


def test_propagation_has_the_gradient_of_its_product():
    weight = torch.tensor([0.5, 0.5, 2.0, 2.0])
    settings = PropagationSettings(steps=2, restart=0.1)
    propagation = Propagation.over(torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1]), weight, settings)
    matrix, diagonal = propagation.adjacency.matrix, propagation.adjacency.diagonal.double()
    adjacency = NormalisedAdjacency(matrix.with_value(matrix.value.double()), diagonal)
    wide = replace(propagation, adjacency=adjacency)
    rows = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(wide, (rows,))


def test_two_far_groups_of_rows_are_two_clusters():
    rows = torch.tensor([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0]])
    numbers, centres = group_rows(rows, 2, 10, Key.of(0))
    assert numbers[0] == numbers[1] != numbers[2]
    again, _ = group_rows(rows, centres.flip(0), 10, Key.of(0))
    assert (again == 1 - numbers).all()


def test_of_random_starts_the_best_is_used_as_many_as_there_is_time_for():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32))
    seed = Key.of(0).fold_in("k-means").seed32
    best = KMeans(5, n_init=10, random_state=seed).fit(rows.numpy())
    numbers, centres = group_rows(rows, 5, 10, Key.of(0))
    assert np.array_equal(numbers, best.labels_)
    assert np.array_equal(centres, best.cluster_centers_)
    with limit(0.01):  # a billion starts would never end
        in_time, _ = group_rows(rows, 5, 10**9, Key.of(0))
    assert in_time.unique().numel() == 5


@pytest.mark.slow
def test_a_fit_that_must_end_in_time_does_not_try_every_start_before_and_after_its_epochs():
    settings = {"clusters__restarts": 10**9, "clusters__steps": 5, "training__seconds": 1.0}
    model = GDPNet(task="clusters", device="cpu", **settings).fit(noisy_graph(40))
    assert model.history_


@pytest.mark.slow
def test_a_link_predictor_predicts_edges_within_two_groups():
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 30)
    ends = rng.integers(0, 60, (2, 900))
    ends = ends[:, side[ends[0]] == side[ends[1]]]
    split = split_links(Graph.build(ends, np.eye(2)[side] + rng.normal(0, 0.1, (60, 2))), 0)
    found = fit_link_predictor(split.train, None, split.validation, Config(), Key.of(0), torch.device("cpu"))
    assert found.score > 0.6
    assert not found.selects


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_a_saved_model_of_a_task_without_labels_predicts_the_same(tmp_path, kind):
    graph = noisy_graph(120)
    model = GDPNet.from_config(quick(kind), device="cpu").fit(graph)
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(again.embed(graph), model.embed(graph))
    if kind == "clusters":
        assert np.array_equal(again.predict(graph), model.predict(graph))
        assert len(set(model.predict(graph))) <= graph.num_classes
    else:
        likely = model.predict_links(graph, [[0, 1], [2, 3]])
        assert likely.shape == (2,)
        assert ((likely > 0) & (likely < 1)).all()
        with pytest.raises(ConfigError, match="learned no labels"):
            model.predict(graph)
        one_way = graph.keep_edges(torch.arange(graph.num_edges) > 0)
        with pytest.raises(GraphError, match="must run both ways"):
            model.predict_links(one_way, [[0, 1], [2, 3]])
    assert np.array_equal(model.embed(graph, torch.tensor([7, 3])), model.embed(graph)[[7, 3]])
    with pytest.raises(GraphError, match="node numbers must lie between 0 and 119"):
        model.embed(graph, torch.tensor([-1]))


def test_the_task_may_be_a_name_and_brings_its_own_settings():
    assert GDPNet(task="links").config.representation.width == 64
    assert GDPNet().config == Config()
    with pytest.raises(ConfigError, match=r"task\.kind must be one of"):
        _ = GDPNet(task="poetry").config


def test_more_clusters_than_nodes_and_no_number_of_clusters_are_refused():
    graph = noisy_graph(30)
    many = quick("clusters").with_values({"task": {"clusters": 31}})
    with pytest.raises(GraphError, match=r"as many nodes as clusters \(31\), found 30"):
        GDPNet.from_config(many, device="cpu").fit(graph)
    nameless = Graph.build(torch.stack([graph.neighbour, graph.target]), graph.features)
    with pytest.raises(ConfigError, match="must give the number of clusters"):
        GDPNet.from_config(quick("clusters"), device="cpu").fit(nameless)


class Lenient:
    """A task of a user's own: classes, of which the first two count as one."""

    exclusive = True

    def outputs(self, graph: Graph) -> int:
        return graph.num_classes - 1

    def truth(self, graph: Graph) -> Tensor:
        return (graph.labels - 1).clamp(min=0)

    def loss(self, logits: Tensor, truth: Tensor, learns: Tensor) -> Tensor:
        return CLASSIFICATION.loss(logits, truth, learns)

    def score(self, probabilities: Tensor, truth: Tensor, kind: str) -> Tensor:
        return CLASSIFICATION.score(probabilities, truth, kind)

    def quality(self, probabilities: Tensor, truth: Tensor) -> float:
        return CLASSIFICATION.quality(probabilities, truth)


@pytest.mark.slow
def test_a_task_of_the_users_own_is_learned_and_scored():
    graph = noisy_graph(80)
    config = Config().with_values({**QUICK, "hopwise": {"steps": 50, "evaluate_every": 10}})
    model = GDPNet.from_config(config, device="cpu").set_params(task=Lenient()).fit(graph)
    assert model.predict_proba(graph).shape == (80, 2)
    assert 0.0 <= model.score(graph) <= 1.0


def test_clusters_are_matched_to_classes_before_they_are_scored():
    scores = cluster_scores(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    assert scores == {"nmi": pytest.approx(1.0), "ari": 1.0, "accuracy": 1.0}
    assert cluster_scores(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))["accuracy"] == 0.75


def test_a_record_older_than_tasks_is_one_of_classification():
    old = {"policy": {"hidden": [8, 6], "state": "circles"}, "reader": {"use": False, "look_every": 7}}
    new = upgrade_settings(old)
    assert new["task"] == Config().to_dict()["task"]
    assert new["policy"]["state"] == "neighbourhood"
    assert (new["hopwise"]["use"], new["gcn"]["use"], new["hopwise"]["evaluate_every"]) == (False, False, 7)
    assert Config().with_values(new).policy.hidden == (8, 6)
    assert upgrade_settings(new) == new
    assert upgrade_settings({"width": 64}) == {"width": 64}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["links", "clusters"])
def test_the_comparison_keeps_records_goes_on_where_it_stopped_and_reports_from_records(
    tmp_path, task, capsys
):
    path, folder = tmp_path / "tasks.jsonl", tmp_path / "graph"
    write_folder(folder, noisy_graph(120))
    methods = "gdpnet,adamic-adar" if task == "links" else "gdpnet,kmeans"
    words = [
        "tasks",
        task,
        "--dataset",
        str(folder),
        "--rates",
        "0,1",
        "--seeds",
        "1",
        "--records",
        str(path),
    ]
    words += ["--methods", methods, "--device", "cpu", "--set", "training.epochs=1", "--set", "task.rank=8"]
    assert main(words) == 0
    assert len(read_records(path)) == 4
    assert all("error" not in one["metrics"] for one in read_records(path))
    assert main([*words, "--json"]) == 0
    assert len(read_records(path)) == 4
    assert main([*words, "--report-only"]) == 0
    assert "rate 1" in capsys.readouterr().out
    failed = read_records(path)[0] | {"metrics": {"error": "no memory"}, "seed": 1}
    append_record(path, failed)
    assert max(row.failed for row in summarise(read_records(path))) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tasks", "links", "--dataset", "FOLDER"], "at least 20 links"),
        (
            ["tasks", "clusters", "--dataset", "FOLDER", "--set", "task.clusters=9"],
            "as many nodes as clusters",
        ),
        (["tasks", "clusters", "--dataset", "FOLDER", "--methods", "kmean"], "has no method 'kmean'"),
    ],
)
def test_unusable_data_is_refused_in_one_sentence_with_exit_code_2(tmp_path, words, said, capsys):
    write_folder(tmp_path / "graph", small_graph())
    words = [str(tmp_path / "graph") if word == "FOLDER" else word for word in words]
    assert main([*words, "--device", "cpu", "--records", str(tmp_path / "r.jsonl")]) == 2
    assert said in capsys.readouterr().err


def multi_label_graph() -> Graph:
    """Return two groups of nodes; all nodes of the second have two labels."""
    graph = noisy_graph(80)
    names = ("round", "red|round", "red")
    return replace(graph, class_names=names)


def test_labels_joined_in_a_class_are_several_labels():
    graph = Graph.build([[0], [1]], np.eye(3), [0, 1, -1], class_names=["red|round", "red"])
    task = MultiLabel(label_names(graph))
    assert task.names == ("red", "round")
    assert task.truth(graph)[:2].tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_f_c_of_several_labels_is_the_f1_of_a_node_or_how_likely_its_labels_are():
    task = MultiLabel(("a", "b"))
    probabilities, truth = torch.tensor([[0.8, 0.4], [0.9, 0.9]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    assert task.score(probabilities, truth, "hit").tolist() == pytest.approx([2 / 3, 2 / 3])
    wanted = [np.sqrt(0.8 * 0.4), np.sqrt(0.9 * 0.1)]
    assert task.score(probabilities, truth, "probability").tolist() == pytest.approx(wanted)
    assert task.quality(probabilities, truth) == pytest.approx(2 * 2 / (3 + 3))


def test_several_labels_are_learned_saved_and_predicted(tmp_path):
    graph = multi_label_graph()
    settings = {**QUICK, "task": {"kind": "multi-label"}, "hopwise": {"steps": 20, "evaluate_every": 10}}
    model = GDPNet.from_config(Config().with_values(settings), device="cpu").fit(graph)
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert model.classes_.tolist() == ["red", "round"]
    assert np.array_equal(again.predict_proba(graph), model.predict_proba(graph))
    assert set(again.predict(graph)) <= {"", "red", "round", "red|round"}


def test_a_column_a_label_of_torch_geometric_becomes_sets_of_labels():
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([[1, 1], [0, 1], [0, 0]]))
    graph = from_pyg(data)
    assert [graph.class_names[place] for place in graph.labels] == ["0|1", "1", ""]


@pytest.mark.slow
def test_a_resumed_clustering_run_ends_like_an_uninterrupted_one(tmp_path):
    graph, config = noisy_graph(80), quick("clusters")
    whole = GDPNet.from_config(config, device="cpu").fit(graph)
    run = create_run(tmp_path / "run", config, "small", graph, 0)

    def stop(epoch):
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GDPNet.from_config(config, device="cpu").fit(graph, callbacks=[Checkpoint(run), stop])
    again = GDPNet.from_config(config, device="cpu").fit(graph, callbacks=[Checkpoint(run)])
    assert np.array_equal(again.embed(graph), whole.embed(graph))


@pytest.mark.slow
def test_train_and_predict_take_a_task_on_the_command_line(tmp_path, capsys):
    folder, run = write_folder(tmp_path / "graph"), tmp_path / "run"
    words = ["train", str(folder), "--out", str(run), "--task", "clusters", "--device", "cpu"]
    assert main([*words, "--set", "training.epochs=1", "--set", "task.rank=8"]) == 0
    assert "nmi" in capsys.readouterr().out
    assert main(["predict", str(run), "--out", str(tmp_path / "found.csv"), "--device", "cpu"]) == 0
    assert (tmp_path / "found.csv").read_text().startswith('"id","predicted"')
    assert main([*words[:-3], "poetry", "--device", "cpu"]) == 2
