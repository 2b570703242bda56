"""Cross-validation over nodes, searches of settings, and the adapter for tools of scikit-learn."""

import inspect
from itertools import islice

import numpy as np
import pytest
import torch
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from gdpnet.benchmark.model_selection import SPACE, GridSearch, RandomSearch, Range, Search, cross_validate
from gdpnet.benchmark.node_classifier import NodeClassifier
from gdpnet.benchmark.optuna_search import OptunaSearch, has_optuna, settings_search
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from helpers.small import FAST, noisy_graph

MODEL = GDPNet.from_config(FAST, device="cpu")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph(60)


# --- cross-validation ---


@pytest.mark.slow
def test_every_fold_is_scored_once_per_repeat(graph):
    def tested(model, part):
        return len(part.nodes_in("test"))

    found = cross_validate(MODEL, graph, folds=3, repeats=2, scoring=["micro_f1", "log_loss", tested])
    assert [(row["repeat"], row["fold"]) for row in found.rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert sum(row["tested"] for row in found.rows[:3]) == 60
    assert found.mean["micro_f1"] == pytest.approx(np.mean([row["micro_f1"] for row in found.rows]))
    assert set(found.deviation) == {"micro_f1", "log_loss", "tested"}
    assert not hasattr(MODEL, "trained_")


def test_a_score_that_does_not_exist_is_refused_before_anything_is_trained(graph):
    with pytest.raises(ConfigError, match="there is no score 'f1'"):
        cross_validate(MODEL, graph, scoring="f1")


# --- searches ---


@pytest.mark.slow
def test_a_grid_search_tries_every_combination_and_keeps_the_best(graph):
    search = GridSearch(MODEL, {"epochs": [1, 2], "representation__width": [4, 8]}).fit(graph)
    assert len(search.results_) == 4
    assert search.best_score_ == max(row["score"] for row in search.results_)
    assert search.best_model_.validation_f1_ == search.best_score_
    assert search.best_model_.config.training.epochs == search.best_settings_["epochs"]


@pytest.mark.slow
def test_a_search_on_several_graphs_goes_by_their_mean(graph):
    search = GridSearch(MODEL, {"epochs": [1]}).fit([graph, noisy_graph(60, seed=1)])
    alone = [
        GridSearch(MODEL, {"epochs": [1]}).fit(one).best_score_ for one in (graph, noisy_graph(60, seed=1))
    ]
    assert search.best_score_ == pytest.approx(np.mean(alone))


def test_a_search_needs_validation_nodes():
    bare = Graph.build([[0, 1], [1, 2]], torch.eye(3), [0, 1, 1])
    with pytest.raises(GraphError, match="a search needs labelled validation nodes, found none"):
        GridSearch(MODEL, {"epochs": [1]}).fit(bare)


def test_random_choices_follow_their_seed_and_lie_in_the_space():
    space = {"epochs": Range(2, 9), "ppo__learning_rate": Range(1e-4, 1e-2, log=True), "hops": [1, 2]}
    space["discount"] = uniform(0.5, 0.4)
    first, again = (list(RandomSearch(MODEL, space, trials=20).choices()) for _ in range(2))
    assert first == again
    assert len(first) == 20
    assert all(2 <= one["epochs"] <= 9 and isinstance(one["epochs"], int) for one in first)
    assert all(1e-4 <= one["ppo__learning_rate"] <= 1e-2 for one in first)
    assert all(type(one["discount"]) is float for one in first)
    assert len(list(RandomSearch(MODEL, {"hops": [1, 2]}, trials=20).choices())) == 2


def test_the_usual_space_has_settings_and_values_that_exist():
    for settings in islice(RandomSearch(GDPNet(), SPACE, trials=5).choices(), 5):
        assert GDPNet(**settings)


@pytest.mark.slow
def test_without_optuna_the_search_is_random(graph, monkeypatch):
    monkeypatch.setattr("gdpnet.benchmark.optuna_search.has_optuna", lambda: False)
    assert isinstance(settings_search(MODEL), RandomSearch)
    assert isinstance(settings_search(MODEL, storage="sqlite:///tune.db"), OptunaSearch)


@pytest.mark.slow
@pytest.mark.skipif(not has_optuna(), reason="optuna is not installed: pip install 'gdpnet[tune]'")
def test_a_search_with_optuna_continues_from_its_storage(graph, tmp_path):
    space = {"representation__width": (4, 8), "policy__hidden": ([4, 4], [8, 6]), "discount": Range(0.5, 1.0)}
    storage = f"sqlite:///{tmp_path}/tune.db"
    first = OptunaSearch(MODEL, space, trials=2, storage=storage).fit(graph)
    assert len(first.results_) == 2
    second = OptunaSearch(MODEL, space, trials=3, storage=storage).fit(graph)
    assert len(second.study_.trials) == 3
    assert second.best_score_ >= first.best_score_
    assert second.best_model_.config.policy.hidden in ((4, 4), (8, 6))


@pytest.mark.skipif(not has_optuna(), reason="optuna is not installed: pip install 'gdpnet[tune]'")
@pytest.mark.parametrize(
    ("storage", "reason"),
    [
        ("trials.db", "Could not parse SQLAlchemy URL from given URL string"),
        ("sqlite:////no/such/folder/tune.db", "unable to open database file"),
        ("sqlite:///{folder}/notes.db", "file is not a database"),
        ("redis://ann:secret@127.0.0.1:1", r"RedisStorage is removed at Optuna v3\.1\.0"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused(graph, storage, reason, tmp_path):
    (tmp_path / "notes.db").write_text("mine " * 1000)
    with pytest.raises(ConfigError, match=f"^the database of trials cannot be used: {reason}$"):
        OptunaSearch(MODEL, trials=1, storage=storage.format(folder=tmp_path)).fit(graph)
    assert (tmp_path / "notes.db").read_text() == "mine " * 1000


@pytest.mark.skipif(not has_optuna(), reason="optuna is not installed: pip install 'gdpnet[tune]'")
def test_an_interrupted_search_prints_no_traceback(graph, monkeypatch, caplog):
    import optuna

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    search = OptunaSearch(MODEL, trials=1)
    monkeypatch.setattr(search, "try_settings", interrupt)
    optuna.logging.enable_propagation()
    try:
        with pytest.raises(KeyboardInterrupt):
            search.fit(graph)
    finally:
        optuna.logging.disable_propagation()
    assert caplog.records == []


def test_a_search_takes_any_seed_of_63_bits():
    assert len(list(RandomSearch(MODEL, trials=2, seed=2**63 - 1).choices())) == 2
    with pytest.raises(ConfigError, match="the seed must be a whole number"):
        OptunaSearch(MODEL, seed=-1)


@pytest.mark.slow
@pytest.mark.skipif(not has_optuna(), reason="optuna is not installed: pip install 'gdpnet[tune]'")
def test_a_hopeless_fit_is_pruned_by_epoch(graph, monkeypatch):
    import optuna

    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
    search = OptunaSearch(MODEL, {"discount": Range(0.5, 1.0)}, trials=2).fit(graph)
    assert [trial.state.name for trial in search.study_.trials] == ["COMPLETE", "PRUNED"]
    assert len(search.results_) == 1


# --- tools of scikit-learn ---


def known(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(graph.num_nodes), np.array(graph.class_names)[graph.labels.numpy()]


@pytest.mark.slow
def test_a_node_classifier_learns_from_the_labels_that_it_is_given(graph):
    nodes, classes = known(graph)
    model = NodeClassifier(graph, MODEL).fit(nodes[:40], classes[:40])
    assert model.classes_.tolist() == ["topic 0", "topic 1", "topic 2"]
    assert model.predict_proba(nodes[40:]).shape == (20, 3)
    assert (model.graph_.labels[40:] == -1).all()
    assert np.array_equal(model.predict(["001"]), model.predict(np.array([[1]])))
    assert set(model.predict(nodes)) <= set(classes)


@pytest.mark.slow
def test_classes_come_back_in_their_own_type(graph):
    nodes, _ = known(graph)
    found = NodeClassifier(graph, MODEL).fit(nodes, graph.labels.numpy() + 5).predict(nodes)
    assert set(found.tolist()) <= {5, 6, 7}


@pytest.mark.slow
def test_cross_val_score_takes_nodes_as_rows(graph):
    scores = cross_val_score(NodeClassifier(graph, MODEL), *known(graph), cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.slow
def test_grid_search_cv_reaches_the_settings_of_the_model(graph):
    search = GridSearchCV(
        NodeClassifier(graph, MODEL), {"model__epochs": [1, 2]}, cv=2, error_score="raise", refit=True
    ).fit(*known(graph))
    assert search.best_params_["model__epochs"] in (1, 2)
    assert search.best_estimator_.model_.config.training.epochs == search.best_params_["model__epochs"]


@pytest.mark.slow
def test_a_pipeline_ends_in_a_node_classifier(graph):
    nodes, classes = known(graph)
    steps = Pipeline([("nodes", FunctionTransformer()), ("model", NodeClassifier(graph, MODEL))])
    assert steps.fit(nodes, classes).predict(nodes[:3]).shape == (3,)
    assert cross_val_score(steps, nodes, classes, cv=2, error_score="raise").shape == (2,)


def test_a_clone_shares_the_graph_and_not_the_model(graph):
    model = NodeClassifier(graph, MODEL)
    copied = clone(model)
    assert copied.graph is graph
    assert copied.model is not MODEL
    assert copied.model.get_params() == MODEL.get_params()


def test_there_must_be_one_class_per_node(graph):
    with pytest.raises(GraphError, match="there must be one class per node"):
        NodeClassifier(graph, MODEL).fit([0, 1], ["a"])


@pytest.mark.parametrize("kind", [Search, GridSearch, RandomSearch, OptunaSearch])
def test_no_search_has_a_method_that_cannot_be_called(kind):
    source = inspect.getsource(kind)
    assert "NotImplementedError" not in source
    assert hasattr(kind, "choices") == (kind in (GridSearch, RandomSearch))
