"""Self-training: which nodes get a pseudo-label, that no true label is read, and that it helps with few labels."""

from dataclasses import asdict, replace

import pytest
import torch

from gdpnet.benchmark.baselines import filters
from gdpnet.benchmark.baselines.fitting import Fitted, Settings, inputs_of, make_task, mean_loss
from gdpnet.benchmark.baselines.methods import METHODS, SELF_TRAINED, run_method
from gdpnet.benchmark.baselines.self_training import (
    SelfTrainingSettings,
    confident,
    self_trained,
    unlabelled,
    with_pseudo_labels,
)
from gdpnet.benchmark.cases import Setting
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.robustness import Trial, plan
from gdpnet.benchmark.tuning import CANDIDATES, DEPTHS, SELF_TRAINING, search_tasks, searched_settings
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from helpers.setups import CPU
from helpers.small import write_folder

QUICK = {"width": 16, "epochs": 40, "patience": 20, "dropout": 0.2}


def path_graph(*, transductive: bool = False) -> Graph:
    """Return a path of six nodes: 0 and 1 train, 2 validates, 3 tests, 4 and 5 are context."""
    return Graph.build(
        [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]],
        torch.eye(6),
        [0, 1, 0, 1, -1, -1],
        split=[1, 1, 2, 3, 0, 0],
        transductive=transductive,
    )


def few_labels(seed: int = 0, per_class: int = 3, *, transductive: bool = True) -> Graph:
    """Return a graph of three classes where only some training nodes of each class have a label."""
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=3, words=200, wrong_labels=0.0), seed)
    graph = replace(graph, truth=None, transductive=transductive)
    train, split = graph.nodes_in("train"), graph.split.clone()
    split[train] = 0
    for value in range(3):
        split[train[graph.labels[train] == value][:per_class]] = 1
    hidden = (graph.split == 1) & (split == 0)
    return replace(graph, split=split, labels=graph.labels.masked_fill(hidden, -1))


# --- which nodes ---


def test_candidates_are_context_nodes_and_in_a_transductive_graph_test_nodes_but_never_validation():
    inductive, whole = (make_task(path_graph(transductive=one), 0) for one in (False, True))
    assert inductive.seen[unlabelled(inductive)].tolist() == [4, 5]
    assert whole.seen[unlabelled(whole)].tolist() == [3, 4, 5]


def test_the_most_confident_share_is_chosen_of_all_or_of_each_predicted_class():
    probability = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.45, 0.55], [0.48, 0.52]])
    nodes, classes = confident(probability, torch.arange(6), 0.5)
    assert (nodes.tolist(), classes.tolist()) == ([0, 1, 2], [0, 0, 0])
    nodes, classes = confident(probability, torch.arange(6), 0.5, balanced=True)
    assert (nodes.tolist(), classes.tolist()) == ([0, 1, 4], [0, 0, 1])
    nodes, classes = confident(probability, torch.tensor([2, 4]), 0.5)
    assert (nodes.tolist(), classes.tolist()) == ([2], [0])


def test_pseudo_labels_are_targets_with_a_weight_and_leave_all_other_labels_alone():
    task = make_task(path_graph(transductive=True), 0)
    more = with_pseudo_labels(task, torch.tensor([3, 5]), torch.tensor([0, 1]), 0.25)
    assert more.targets.tolist() == [0, 1, 3, 5]
    assert more.weight.tolist() == [1.0, 1.0, 0.25, 0.25]
    assert inputs_of(more, CPU).labels.tolist() == [0, 1, 0, 1]
    assert more.whole.labels[more.validation].tolist() == [0]
    assert task.train.labels.tolist() == [0, 1, -1, -1, -1, -1]
    assert more.origin is task
    assert with_pseudo_labels(more, torch.tensor([4]), torch.tensor([0])).origin is task


def test_a_weighted_loss_is_the_weighted_mean():
    logits, labels = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0])
    one, two = (float(mean_loss(logits[[row]], labels[[row]], None)) for row in (0, 1))
    found = float(mean_loss(logits, labels, torch.tensor([1.0, 0.5])))
    assert found == pytest.approx((one + 0.5 * two) / 1.5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pseudo_shares": [0.5, 1.5]}, r"above 0 and up to 1, found \[0\.5, 1\.5\]"),
        ({"pseudo_weight": 0.0}, r"pseudo_weight must be above 0, found 0\.0"),
    ],
)
def test_impossible_settings_of_self_training_are_refused(change, reason):
    with pytest.raises(ConfigError, match=reason):
        SelfTrainingSettings(**change)


# --- rounds ---


def scripted(scores: list[float]):
    """Return a method whose fits have these validation scores, and the tasks that it was given."""
    tasks = []

    def run(task, seed, device, settings):
        tasks.append(task)
        logits = torch.nn.functional.one_hot(torch.arange(6) % 2, 2).float()
        return Fitted(logits, scores[len(tasks) - 1], 1.0, 1, chosen={"fit": len(tasks)})

    return run, tasks


@pytest.mark.parametrize(
    ("scores", "fit", "rounds"),
    [([0.5, 0.6, 0.7], 3, 2), ([0.5, 0.6, 0.55], 2, 1), ([0.5, 0.4, 0.3], 1, 0), ([0.5, 0.5, 0.5], 3, 2)],
)
def test_the_round_that_is_best_on_validation_is_returned_and_of_equals_the_last(scores, fit, rounds):
    run, tasks = scripted(scores)
    task = make_task(path_graph(transductive=True), 0)
    found = self_trained(run)(task, 0, CPU, SelfTrainingSettings(pseudo_shares=(0.34, 1.0)))
    assert found.chosen["fit"] == fit
    assert found.chosen["rounds"] == rounds
    assert [one.targets.numel() - 2 for one in tasks] == [0, 1, 3]
    assert found.chosen["pseudo_labels"] == [0, 1, 3][rounds]


def test_without_unlabelled_nodes_there_is_one_fit():
    graph = Graph.build([[0, 1], [1, 2]], torch.eye(3), [0, 1, 0], split=[1, 1, 2])
    run, tasks = scripted([0.5])
    found = self_trained(run)(make_task(graph, 0), 0, CPU, Settings())
    assert len(tasks) == 1
    assert found.chosen == {"fit": 1, "rounds": 0, "pseudo_labels": 0}


# --- whole methods ---


@pytest.mark.slow
@pytest.mark.parametrize("transductive", [False, True])
@pytest.mark.parametrize("name", SELF_TRAINED)
def test_no_label_of_a_test_node_is_read_and_in_an_inductive_graph_none_of_its_edges(name, transductive):
    graph = few_labels(transductive=transductive)
    test, labels = graph.nodes_in("test"), graph.labels.clone()
    labels[test] = (labels[test] + 1) % 3
    settings = SelfTrainingSettings(**QUICK, choice=0.7 if METHODS[name].chooses else None)
    one, other = (
        run_method(f"{name}-self", each, 0, "cpu", settings)
        for each in (graph, replace(graph, labels=labels))
    )
    assert torch.equal(one.logits, other.logits)


@pytest.mark.slow
def test_inductive_pseudo_labels_are_read_on_the_training_graph_alone(monkeypatch):
    graph = few_labels(transductive=False)
    outside = torch.isin(graph.split, torch.tensor([2, 3], dtype=graph.split.dtype))
    bare = graph.keep_edges(~(outside[graph.target] | outside[graph.neighbour]))
    given = []
    base = METHODS["gcn"].run

    def watched(task, seed, device, settings):
        given.append(task.train.labels[task.targets].tolist())
        # the epoch is chosen on validation nodes, whose edges differ
        return base(replace(task, validation=task.validation[:0]), seed, device, settings)

    for one in (graph, bare):
        self_trained(watched)(make_task(one, 0), 0, CPU, SelfTrainingSettings(**QUICK))
    assert len(given) == 6
    assert given[:3] == given[3:]


@pytest.mark.slow
def test_self_training_helps_where_labels_are_few():
    gains = []
    for seed in range(4):
        graph = few_labels(seed, per_class=5)
        test = graph.nodes_in("test")
        plain, own = (
            float(
                (run_method(name, graph, seed).logits[test].argmax(dim=1) == graph.labels[test])
                .float()
                .mean()
            )
            for name in ("gcn", "gcn-self")
        )
        gains.append(own - plain)
    assert sum(gains) / len(gains) > 0.01


@pytest.mark.slow
def test_scores_that_read_no_label_are_computed_once_for_all_rounds():
    filters.structural_scores.cache_clear()
    run_method("structural-gcn-self", few_labels(), 0, "cpu", SelfTrainingSettings(**QUICK, choice=0.7))
    assert filters.structural_scores.cache_info().misses == 1


# --- search and records ---


@pytest.mark.slow
def test_a_search_tries_rounds_and_weights_with_the_best_network_of_a_self_trained_method_alone(monkeypatch):
    outcome = run_method("lr", few_labels())
    tried = []

    def record(name, task, seed, device, settings=None):
        tried.append(settings)
        best = settings.layers == 3 and settings.pseudo_balanced
        return replace(outcome, validation_f1=0.9 if best else 0.5 + settings.layers / 100)

    monkeypatch.setattr("gdpnet.benchmark.tuning.run_task", record)
    found, scored = search_tasks("gcn-self", [(make_task(few_labels(), 0), 0)])
    assert len(scored) == len(CANDIDATES) + len(DEPTHS) + len(SELF_TRAINING)
    assert [one.layers for one in tried[-len(SELF_TRAINING) :]] == [3] * len(SELF_TRAINING)
    assert (found.layers, found.pseudo_balanced, found.pseudo_shares) == (3, True, (0.5, 0.8))


@pytest.mark.slow
def test_settings_of_self_training_are_recorded_found_again_and_part_of_the_key(tmp_path):
    mine, path = write_folder(tmp_path / "graph"), tmp_path / "records.jsonl"
    setting = Setting(str(mine), "paper", "random-links", 0.0, 0)
    searched = {"gcn-self": SelfTrainingSettings(**QUICK, pseudo_shares=(0.5,))}
    (trial,) = plan([setting], ["gcn-self"], Config(), "cpu", path, searched)
    (record,) = trial.run()
    assert record["config"]["pseudo_shares"] == (0.5,)
    assert "rounds" in record["config"]
    append_record(path, record)
    assert plan([setting], ["gcn-self"], Config(), "cpu", path, searched) == []
    assert len(plan([setting], ["gcn-self"], Config(), "cpu", path)) == 1
    append_record(path, read_records(path)[0] | {"kind": "search", "rates": [0.0]})
    assert searched_settings(path)[record["graph"], "gcn-self"] == searched["gcn-self"]


def test_methods_without_self_training_have_the_settings_that_they_always_had():
    stub = Trial(Setting("mine", "paper", "random-links", 0.0, 0), ("gcn",), Config(), "cpu").stub
    assert stub["config"] == asdict(Settings())
    assert not any(name.startswith("pseudo") for name in stub["config"])
