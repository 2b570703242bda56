"""Methods of your own: registered by a function, a module or a file, and compared with the baselines."""

import numpy as np
import pytest
import torch

from gdpnet.benchmark.baselines.methods import METHODS, run_method
from gdpnet.benchmark.baselines.registry import load_plugins, register_method
from gdpnet.cli import main
from gdpnet.errors import ConfigError
from helpers.small import noisy_graph, write_folder


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    monkeypatch.setattr("gdpnet.benchmark.baselines.registry._OWN", set())
    monkeypatch.setenv("GDPNET_PLUGINS", "")
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def test_a_registered_function_sees_no_labels_but_those_for_training_and_validation():
    graph, seen = noisy_graph(60), []

    def majority(given, seed):
        seen.append(given)
        share = torch.bincount(given.labels[given.labels >= 0], minlength=given.num_classes).float()
        return share.repeat(given.num_nodes, 1)

    register_method("majority", majority)
    found = run_method("majority", graph)
    assert found.logits.shape == (60, 3)
    assert bool((seen[0].labels[graph.nodes_in("test")] == -1).all())
    assert bool((seen[0].labels[graph.nodes_in("train")] == graph.labels[graph.nodes_in("train")]).all())
    assert seen[0].truth is None
    assert 0 <= found.validation_f1 <= 1


def test_a_function_may_return_a_model():
    class Uniform:
        def predict_proba(self, graph):
            return np.full((graph.num_nodes, graph.num_classes), 1 / 3)

    register_method("uniform", lambda graph, seed: Uniform())
    assert float(run_method("uniform", noisy_graph(60)).logits.sum()) == pytest.approx(60)


@pytest.mark.parametrize("name", ["gcn", "gdpnet", "gdpnet-x", "all", "a>b", "a,b", "a b", ""])
def test_a_name_that_is_taken_or_cannot_be_written_is_refused(name):
    with pytest.raises(ConfigError, match="the name of a method must"):
        register_method(name, lambda graph, seed: None)


def test_scores_of_another_shape_are_refused():
    register_method("short", lambda graph, seed: np.zeros((2, 3)))
    with pytest.raises(ConfigError) as refusal:
        run_method("short", noisy_graph(60))
    assert str(refusal.value) == (
        "the method 'short' must return finite scores of 60 nodes and 3 classes, found shape (2, 3)"
    )


def test_a_plugin_that_cannot_be_imported_is_refused():
    with pytest.raises(ConfigError, match="found 'no_such_plugin'"):
        load_plugins(["no_such_plugin"])


@pytest.mark.parametrize("name", [".", "../..", ""])
def test_a_plugin_that_is_no_name_of_a_module_is_refused(name):
    with pytest.raises(ConfigError, match="a plugin must be a module that can be imported, found"):
        load_plugins([name])


def test_a_plugin_that_fails_is_refused(tmp_path):
    (tmp_path / "failing_plugin.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match=r"found '.*failing_plugin.py': division by zero$"):
        load_plugins([str(tmp_path / "failing_plugin.py")])


@pytest.mark.slow
def test_robustness_knows_the_methods_of_a_plugin(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = write_folder(tmp_path / "graph")
    (tmp_path / "plugin_of_mine.py").write_text(
        "import numpy as np\n"
        "from gdpnet import register_method\n"
        "register_method('guess', lambda graph, seed: np.eye(graph.num_classes)[np.zeros(graph.num_nodes, int)])\n"
    )
    words = ["robustness", "--dataset", str(folder), "--rates", "0", "--seeds", "2", "--jobs", "2"]
    words += ["--methods", "guess", "--plugin", "plugin_of_mine.py", "--records", "records.jsonl"]
    assert main(words) == 0
    assert "guess" in capsys.readouterr().out
