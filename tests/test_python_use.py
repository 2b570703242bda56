"""GDPNet as people write it: single settings, graphs of other libraries, nodes by id, run folders, messages."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from gdpnet.config import PPOSettings
from gdpnet.data.graph import Graph
from gdpnet.data.io.networkx import to_networkx
from gdpnet.data.io.pyg import to_pyg
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import EarlyStopping, MLflowCallback, Progress, TensorBoardCallback
from gdpnet.training.run_folder import RunFolder
from helpers.small import FAST, fitted, noisy_graph, write_folder

# --- modules ---


def test_model_selection_is_a_module_of_its_own_and_light_until_a_name_is_used():
    code = (
        "import sys, gdpnet.model_selection as chosen; assert 'torch' not in sys.modules; "
        "from gdpnet.model_selection import GridSearch, OptunaSearch, cross_validate; "
        "import gdpnet; assert gdpnet.GridSearch is GridSearch; assert set(chosen.__all__) == set(dir(chosen)); "
        "assert all(getattr(chosen, name) is not None for name in chosen.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_model_selection_is_an_attribute_of_the_package():
    code = "import gdpnet; print(gdpnet.model_selection.cross_validate.__name__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "cross_validate"


# --- what is asked for ---


@pytest.mark.parametrize(
    "nodes", ["nobody", "", "x" * 100_000, [["0"], ["1", "2"]], [[0, 1]], 10**30, 1.5, b"0", object()]
)
def test_nodes_that_do_not_exist_are_refused_in_one_sentence_by_every_method(nodes):
    graph = noisy_graph(60)
    model = fitted(graph)
    for method in (model.embed, model.predict, model.predict_proba):
        with pytest.raises(GraphError) as caught:
            method(graph, nodes)
        assert len(str(caught.value)) <= 300


# --- settings ---


def test_single_settings_are_arguments():
    model = GDPNet(epochs=20, ppo__discount=0.5, seed=3)
    assert (model.config.training.epochs, model.config.ppo.discount, model.seed) == (20, 0.5, 3)
    assert GDPNet(training__epochs=20).config == GDPNet(epochs=20).config
    assert GDPNet(ppo=PPOSettings(clip=0.1), discount=0.5).ppo == PPOSettings(clip=0.1, discount=0.5)


def test_a_single_setting_changes_the_preset_of_the_task_whatever_the_order():
    assert GDPNet(epochs=3, task="links").config == GDPNet(task="links").set_params(epochs=3).config
    assert GDPNet().set_params(epochs=3, task="links").config == GDPNet(epochs=3, task="links").config


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"epohcs": 2}, "GDPNet has no parameter 'epohcs'; did you mean 'epochs'?"),
        (
            {"hidden": 2},
            "several sections have a setting 'hidden': choose one of policy__hidden, links__hidden",
        ),
        ({"epochs": 0.5}, "training.epochs must be a whole number, found 0.5"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(params, sentence):
    with pytest.raises(ConfigError) as refusal:
        GDPNet(**params)
    assert str(refusal.value) == sentence


def test_a_clone_has_the_single_settings():
    model = GDPNet(epochs=20, task="links", verbose=1)
    assert clone(model).get_params() == model.get_params()


def test_an_unfitted_model_prints_what_was_set():
    assert repr(GDPNet()) == "GDPNet()"
    assert repr(GDPNet(epochs=20, policy__hidden=[8, 6], task="links", seed=1)) == (
        "GDPNet(task='links', policy__hidden=[8, 6], epochs=20, seed=1)"
    )


# --- graphs and nodes ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


@pytest.mark.slow
def test_a_fitted_model_prints_what_it_learned(model):
    last = repr(model).splitlines()[-1]
    assert last.startswith("  fitted: 3 classes, 3 epochs (best ")
    assert last.endswith("heads aggregator 1.00")


@pytest.mark.slow
def test_a_graph_may_be_of_another_library_or_a_path(model, graph, tmp_path):
    expected = model.predict_proba(graph)
    assert np.allclose(model.predict_proba(to_pyg(graph)), expected)
    assert np.allclose(model.predict_proba(to_networkx(graph)), expected)
    folder = str(write_folder(tmp_path / "graph"))
    assert model.score(folder) == model.score(graph)
    assert model.denoise(folder).kept.shape == (graph.num_edges,)
    assert model.explain(folder, "003") is not None
    assert clone(model).fit(folder).classes_.tolist() == model.classes_.tolist()


@pytest.mark.slow
def test_nodes_are_named_by_id_or_by_number(model, graph):
    everyone = model.predict(graph)
    assert model.predict(graph, ["003", "007"]).tolist() == everyone[[3, 7]].tolist()
    assert model.predict(graph, [3, 7]).tolist() == everyone[[3, 7]].tolist()
    assert np.array_equal(model.embed(graph, "003"), model.embed(graph, np.array([3])))
    with pytest.raises(GraphError, match="the graph has no node 'nobody'"):
        model.predict_proba(graph, ["nobody"])


@pytest.mark.slow
def test_a_model_is_read_from_its_run_folder(model, graph, tmp_path):
    model.save(RunFolder(str(tmp_path)).model)
    assert np.array_equal(GDPNet.load(str(tmp_path)).predict(graph), model.predict(graph))


# --- messages and callbacks ---


def fit(graph: Graph, *callbacks, verbose: int = 0, epochs: int = 2) -> GDPNet:
    changed = FAST.with_values({"training": {"epochs": epochs}})
    return (
        GDPNet.from_config(changed, device="cpu").set_params(verbose=verbose).fit(graph, callbacks=callbacks)
    )


@pytest.mark.slow
def test_a_verbose_model_writes_a_line_per_epoch_to_stderr(graph, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    fit(graph)
    assert capsys.readouterr().err == ""
    fit(graph, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    said = [line.split(":")[1].strip() for line in lines]
    assert [one for one in said if one.startswith("epoch")] == ["epoch 1", "epoch 2", "epoch 3"]
    assert {"data", "best epoch", "threshold", "ensemble"} <= set(said)
    fit(graph)
    assert capsys.readouterr().err == ""
    assert [type(one) for one in logging.getLogger("gdpnet").handlers] == [logging.NullHandler]


@pytest.mark.slow
def test_progress_goes_to_the_logger_of_the_package(graph, caplog):
    with caplog.at_level(logging.INFO, logger="gdpnet"):
        fit(graph, Progress(every=2))
    assert {record.name for record in caplog.records} == {"gdpnet"}
    said = [record.getMessage() for record in caplog.records]
    assert [one.split(":")[0] for one in said if one.startswith("epoch ")] == ["epoch 2"]


@pytest.mark.slow
def test_training_stops_early_when_a_metric_does_not_improve(graph):
    class Worse(EarlyStopping):
        def _count(self, value):
            super()._count(0.0)

    assert len(fit(graph, Worse("reward", patience=2), epochs=10).history_) == 3
    assert len(fit(graph, EarlyStopping("loss", patience=5), epochs=2).history_) == 3


def test_early_stopping_refuses_a_metric_that_no_epoch_has():
    with pytest.raises(
        ConfigError, match="an epoch has no metric 'validation'; did you mean 'validation_f1'"
    ):
        EarlyStopping("validation")
    with pytest.raises(
        ConfigError, match="the patience, in epochs, must be a whole number of at least 1, found 0"
    ):
        EarlyStopping(patience=0)


@pytest.mark.slow
def test_epochs_are_written_for_tensorboard(graph, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'gdpnet[tracking]'")
    fit(graph, TensorBoardCallback(tmp_path))
    assert list(tmp_path.glob("events*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # raised inside MLflow, not by ours
def test_epochs_are_logged_to_mlflow(graph, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'gdpnet[tracking]'")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    fit(graph, MLflowCallback(run_name="small"))
    assert mlflow.active_run() is None
    assert "metrics.loss" in mlflow.search_runs().columns
