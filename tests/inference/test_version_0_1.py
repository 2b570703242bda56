"""Files that GDPNet 0.1 wrote: its models and run folders are read, its checkpoints are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gdpnet import GDPNet, read_graph
from gdpnet.config import Config
from gdpnet.errors import ConfigError
from helpers.commands import refuse, rows_of, succeed

FILES = Path(__file__).parent / "files"
RUN, GRAPH = FILES / "run-0.1", FILES / "graph-0.1"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))


def test_a_model_of_0_1_predicts_what_it_predicted_then():
    model, graph = GDPNet.load(RUN / "model.safetensors", device="cpu"), read_graph(GRAPH)
    assert model.networks_.gcn is not None
    assert model.config_.policy.state == "neighbourhood"
    assert model.config_.inference.symmetrise
    assert model.config_.training.label_error_gap == 0.2
    np.testing.assert_allclose(model.predict_proba(graph), EXPECTED["probabilities"], atol=2e-6)
    found = model.denoise(graph, threshold=0.5).keep_probability
    np.testing.assert_allclose(found, EXPECTED["keep_probability"], atol=2e-6)


def test_the_run_folder_of_a_model_of_0_1_is_read_by_the_commands(tmp_path, capsys):
    succeed(capsys, "predict", RUN, GRAPH, "--out", tmp_path / "predictions.csv", "--device", "cpu")
    assert len(rows_of(tmp_path / "predictions.csv")) == 40


def test_a_run_of_0_1_cannot_be_continued(tmp_path, capsys):
    shutil.copytree(RUN, tmp_path / "run")
    sentence = refuse(capsys, "train", GRAPH, "--out", tmp_path / "run", "--resume", "--device", "cpu")
    assert "is of another version of GDPNet" in sentence


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "reader.use=false",
            "there is no section 'reader' of settings; its settings are in 'hopwise' and 'gcn' now",
        ),
        ("training.doubt=1", "there is no setting 'training.doubt'; it is 'training.label_error_gap' now"),
    ],
)
def test_an_old_name_of_a_setting_is_refused_with_its_new_one(override, sentence):
    with pytest.raises(ConfigError) as error:
        Config().with_overrides([override])
    assert str(error.value) == sentence
