"""Run folders: their files, what is refused, and that a resumed run ends like an uninterrupted one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gdpnet._core.files import locked_folder, plain, write_json
from gdpnet._core.random import Key
from gdpnet.cli import main
from gdpnet.config import read_config
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.files import read_graph
from gdpnet.errors import GDPNetError, ModelFileError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.model_file import read_tensors, write_tensors
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import make_training_data
from gdpnet.training.run_folder import RunFolder, check_same_graph, create_run, open_run
from gdpnet.training.state import begin_training
from helpers.setups import CPU
from helpers.small import FAST, noisy_graph, same_weights, weights, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model

CONFIG = FAST.with_values({"training": {"epochs": 4}})
GRAPH = noisy_graph()


def train(path: Path, graph: Graph = GRAPH, config=CONFIG, stop_after: int | None = None) -> GDPNet:
    """Train in a run folder, new or not, and raise Ctrl-C after an epoch if asked to."""

    def on_epoch(epoch) -> None:
        if epoch.epoch == stop_after:
            raise KeyboardInterrupt

    run = RunFolder(path)
    if not run.about.exists():
        run = create_run(path, config, "mine", graph, seed=0)
    return GDPNet.from_config(config, device="cpu").fit(graph, callbacks=[Checkpoint(run), on_epoch])


def one_word_moved(row_ptr: torch.Tensor) -> torch.Tensor:
    """Return row offsets that give the first word of the second row to the first one."""
    moved = row_ptr.clone()
    moved[1] += 1
    return moved


def history(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[Path, GDPNet]:
    path = tmp_path_factory.mktemp("runs") / "whole"
    return path, train(path)


# --- what a run folder holds ---


def test_a_run_folder_holds_settings_a_description_a_checkpoint_and_one_line_per_epoch(uninterrupted):
    path, model = uninterrupted
    names = {entry.name for entry in path.iterdir()}
    assert names == {"config.toml", "run.json", "checkpoint.safetensors", "history.jsonl"}
    assert history(path) == model.history_
    assert [line["epoch"] for line in history(path)] == [1, 2, 3, 4, 5]
    assert read_config(path / "config.toml") == CONFIG


def test_a_run_is_opened_with_its_settings_and_description(uninterrupted):
    path, _ = uninterrupted
    run, config, about = open_run(path)
    assert (run.path, config) == (path, CONFIG)
    assert (about["graph"], about["seed"], about["split"]) == ("mine", 0, "paper")
    assert about["fingerprint"] == fingerprint(GRAPH)


def test_training_in_a_run_folder_learns_what_training_without_one_learns(uninterrupted):
    plain_model = GDPNet.from_config(CONFIG, device="cpu").fit(GRAPH)
    assert same_weights(uninterrupted[1], plain_model)


def test_numbers_that_json_does_not_have_are_written_as_null(tmp_path):
    record = {"f1": float("nan"), "loss": float("inf"), "share": 0.5, "name": "x", "none": None}
    assert plain(record) == {"f1": None, "loss": None, "share": 0.5, "name": "x", "none": None}
    write_json(tmp_path / "metrics.json", record)
    assert "NaN" not in (tmp_path / "metrics.json").read_text()


def test_a_run_without_validation_nodes_writes_history_that_any_json_reader_reads(tmp_path):
    labelled = torch.where(GRAPH.split == 2, -1, GRAPH.labels)
    train(tmp_path / "run", replace(GRAPH, labels=labelled), FAST)
    text = (tmp_path / "run" / "history.jsonl").read_text()
    assert [json.loads(line)["validation_f1"] for line in text.splitlines()] == [None, None, None]
    assert "NaN" not in text


# --- resuming ---


@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_run_stopped_by_ctrl_c_and_resumed_ends_with_the_same_weights(epoch, tmp_path, uninterrupted):
    path, whole = uninterrupted
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", stop_after=epoch)
    assert len(history(tmp_path / "run")) == epoch
    resumed = train(tmp_path / "run")
    assert same_weights(resumed, whole)
    assert resumed.history_ == whole.history_
    assert (resumed.best_epoch_, resumed.validation_f1_) == (whole.best_epoch_, whole.validation_f1_)
    assert history(tmp_path / "run") == history(path)


def test_a_resumed_run_begins_after_the_last_finished_epoch(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", stop_after=3)
    epochs = []
    GDPNet.from_config(CONFIG, device="cpu").fit(
        GRAPH, callbacks=[Checkpoint(RunFolder(tmp_path / "run")), lambda epoch: epochs.append(epoch.epoch)]
    )
    assert epochs == [4, 5]


def test_a_run_stopped_twice_ends_with_the_same_weights(tmp_path, uninterrupted):
    for epoch in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", stop_after=epoch)
    assert same_weights(train(tmp_path / "run"), uninterrupted[1])


def test_a_finished_run_that_is_resumed_trains_no_more(tmp_path, uninterrupted):
    path, whole = uninterrupted
    before = (path / "checkpoint.safetensors").read_bytes()
    assert same_weights(train(path), whole)
    assert (path / "checkpoint.safetensors").read_bytes() == before


def test_a_run_killed_at_any_moment_and_resumed_ends_with_the_same_weights(tmp_path, capsys):
    folder, out, epochs = write_folder(tmp_path / "graph"), tmp_path / "run", 20
    config = CONFIG.with_values({"training": {"epochs": epochs, "patience": epochs}})
    (tmp_path / "config.toml").write_text(config.to_toml())
    command = [sys.executable, "-m", "gdpnet", "train", str(folder), "--out", str(out), "--device", "cpu"]
    with subprocess.Popen(
        [*command, "--config", str(tmp_path / "config.toml")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if (out / "history.jsonl").exists() and len(history(out)) >= 3:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 3 <= len(history(out)) < epochs
    assert not (out / "model.safetensors").exists()

    assert main(["train", str(folder), "--out", str(out), "--resume", "--device", "cpu"]) == 0
    capsys.readouterr()
    resumed = GDPNet.load(out / "model.safetensors", device="cpu")
    whole = GDPNet.from_config(config, device="cpu").fit(read_graph(folder))
    assert same_weights(resumed, whole)
    assert resumed.history_ == whole.history_ == history(out)
    assert len(whole.history_) == epochs + 1


# --- what is refused ---


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(uninterrupted):
    path, _ = uninterrupted
    before = {entry.name: entry.read_bytes() for entry in path.iterdir()}
    with pytest.raises(RunFolderError) as refusal:
        create_run(path, FAST, "other", GRAPH, seed=1)
    assert str(refusal.value) == (
        f"{path} already holds a run; go on with --resume, choose another --out, or replace it with --force"
    )
    assert {entry.name: entry.read_bytes() for entry in path.iterdir()} == before


@pytest.mark.parametrize("name", ["notes.txt", "config.toml", "run.json", "metrics.json"])
def test_a_folder_with_other_things_in_it_is_refused_unless_forced(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunFolderError, match=f"needs a new or an empty folder, found '{name}' in .*--force"):
        create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]
    (tmp_path / "letters").mkdir()
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0, force=True)
    assert open_run(tmp_path)[1] == FAST
    assert (tmp_path / "letters").is_dir()
    assert name != "notes.txt" or (tmp_path / name).read_text() == "mine"


def test_a_run_that_is_replaced_by_force_starts_from_the_beginning(tmp_path, uninterrupted):
    train(tmp_path, stop_after=None, config=FAST)
    (tmp_path / "suspected_labels.csv").write_text("of the run before")
    create_run(tmp_path, CONFIG, "mine", GRAPH, seed=0, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "config.toml"}
    assert same_weights(train(tmp_path), uninterrupted[1])


def test_a_file_is_no_run_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match="is a file, a run needs a folder"):
        create_run(tmp_path / "file", FAST, "mine", GRAPH, seed=0)
    with pytest.raises(GDPNetError, match=r"^cannot write .*: Not a directory$"):
        create_run(tmp_path / "file" / "run", FAST, "mine", GRAPH, seed=0)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_a_run_cannot_be_opened(tmp_path):
    with pytest.raises(RunFolderError, match=r"holds no run: it has no run\.json"):
        open_run(tmp_path)
    with pytest.raises(RunFolderError, match="there is no run folder"):
        open_run(tmp_path / "none")


def test_a_broken_run_file_is_named(tmp_path):
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"run\.json cannot be read as JSON: "):
        open_run(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        noisy_graph(seed=1),
        replace(GRAPH, labels=GRAPH.labels.flip(0)),
        replace(GRAPH, split=GRAPH.split.flip(0)),
        replace(GRAPH, features=replace(GRAPH.features, value=GRAPH.features.value * 2)),
        replace(GRAPH, features=torch.from_numpy(GRAPH.features.to_scipy().toarray())),
        replace(GRAPH, features=replace(GRAPH.features, row_ptr=one_word_moved(GRAPH.features.row_ptr))),
        GRAPH.keep_edges(torch.arange(GRAPH.num_edges) > 0),
    ],
    ids=["graph", "labels", "split", "features", "dense", "moved", "edge"],
)
def test_a_run_does_not_go_on_with_another_graph(changed):
    about = {"graph": "mine", "fingerprint": fingerprint(GRAPH)}
    check_same_graph(about, noisy_graph())
    with pytest.raises(RunFolderError) as refusal:
        check_same_graph(about, changed)
    sentence = "the run was trained on another graph than this one (it was 'mine')"
    assert str(refusal.value) == sentence


def test_a_checkpoint_that_does_not_fit_the_settings_is_refused_in_one_line(tmp_path, uninterrupted):
    path, _ = uninterrupted
    wider = CONFIG.with_values({"representation": {"width": 9}})
    with pytest.raises(ModelFileError, match="does not fit the run's settings") as refusal:
        GDPNet.from_config(wider, device="cpu").fit(GRAPH, callbacks=[Checkpoint(RunFolder(path))])
    assert "\n" not in str(refusal.value)


def test_a_tampered_checkpoint_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", stop_after=1)
    file = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="its checksum does not fit its content"):
        train(tmp_path / "run")


def test_without_a_checkpoint_a_run_begins_at_the_beginning(tmp_path, uninterrupted):
    create_run(tmp_path / "run", CONFIG, "mine", GRAPH, seed=0)
    data = make_training_data(GRAPH, CONFIG, 0, CPU)
    state = begin_training(data, GRAPH.num_classes, CONFIG, Key.of(0), CPU)
    before = {name: value.clone() for name, value in state.weights().items()}
    Checkpoint(RunFolder(tmp_path / "run")).on_train_begin(state)
    assert (state.epoch, state.history, state.best) == (0, [], {})
    assert all(torch.equal(value, before[name]) for name, value in state.weights().items())
    assert same_weights(train(tmp_path / "run"), uninterrupted[1])
    assert len(weights(uninterrupted[1])) > 5


# --- files that are damaged, or were written by a process that ended ---


def test_a_run_whose_process_ended_before_its_settings_were_written_can_be_resumed(tmp_path):
    create_run(tmp_path, CONFIG, "mine", GRAPH, seed=0)
    (tmp_path / "config.toml").unlink()
    assert open_run(tmp_path)[1] == CONFIG


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": "0"}, "'seed' in .*run.json must be int, found str"),
        ({"seed": True}, "'seed' in .*run.json must be int, found bool"),
        ({"seed": -1}, "'seed' in .*run.json must lie between 0 and"),
        ({"seed": 2**70}, "'seed' in .*run.json must lie between 0 and"),
        ({"seed": 10**400}, "run.json cannot be read as JSON: a whole number has 401 digits"),
        ({"graph": 5}, "'graph' in .*run.json must be str, found int"),
        ({"fingerprint": None}, "'fingerprint' in .*run.json must be str, found NoneType"),
        ({"split": []}, "'split' in .*run.json must be str, found list"),
        ({"source": [1]}, "'source' in .*run.json must be dict, found list"),
        ({"source": {"columns": {}}}, "found no 'data_dir' in it"),
        (
            {"source": {"data_dir": 1, "columns": {}, "directed": True}},
            "'data_dir' in .* must be str or null",
        ),
        ({"source": {"data_dir": None, "columns": {"x": 1}, "directed": True}}, "found 'x'"),
        ({"source": {"data_dir": None, "columns": {"node": ["a"]}, "directed": True}}, "found 'node'"),
        ({"format": "other"}, "must describe a run of GDPNet"),
    ],
)
def test_a_description_of_wrong_types_is_one_sentence(changes, sentence, tmp_path):
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    about = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(about | changes))
    with pytest.raises(RunFolderError, match=sentence):
        open_run(tmp_path)


@pytest.mark.parametrize("text", ["[]", "5", '{"graph": "x"}', "[" * 100_000])
def test_a_description_that_is_none_is_one_sentence(text, tmp_path):
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"run\.json"):
        open_run(tmp_path)


def test_an_epoch_that_the_history_lacks_is_written_when_the_run_is_resumed(tmp_path, uninterrupted):
    path, _ = uninterrupted
    shutil.copytree(path, tmp_path / "run")
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "history.jsonl").write_text("".join(lines[:-1]))
    train(tmp_path / "run")
    assert history(tmp_path / "run") == history(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epoch": "5"}, "'epoch' in .* must be int, found str"),
        ({"epoch": 4}, "must have one entry per epoch, found 5 for 4"),
        ({"best_f1": None}, "'best_f1' in .* must be float, found NoneType"),
        ({"history": {}}, "'history' in .* must be list, found dict"),
        ({"history": [1, 2, 3, 4, 5]}, "must hold numbers, found something else for epoch 1"),
        ({"seconds": "long"}, "'seconds' in .* must be float, found str"),
        ({"best_f1": 10**400}, "cannot be read as JSON: a whole number has 401 digits"),
    ],
)
def test_a_checkpoint_of_wrong_types_behind_a_right_checksum_is_one_sentence(
    changes, sentence, tmp_path, uninterrupted
):
    shutil.copytree(uninterrupted[0], tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    tensors, about = read_tensors(file, "checkpoint")
    write_tensors(file, "checkpoint", tensors, about | changes)
    with pytest.raises(ModelFileError, match=sentence):
        train(tmp_path / "run")


@pytest.mark.parametrize(
    "name", ["truth", "policy_optimiser.0.exp_avg", "optimiser.x.exp_avg", "best.policy.score_bias", "best.x"]
)
def test_a_checkpoint_with_tensors_of_wrong_types_is_one_sentence(name, tmp_path, uninterrupted):
    shutil.copytree(uninterrupted[0], tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    tensors, about = read_tensors(file, "checkpoint")
    write_tensors(file, "checkpoint", tensors | {name: torch.zeros(2, 3)}, about)
    with pytest.raises(ModelFileError, match=r"checkpoint\.safetensors"):
        train(tmp_path / "run")


def test_a_second_training_in_the_same_folder_is_refused_while_the_first_runs(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "graph"), tmp_path / "run"
    with locked_folder(out):
        code = main(["train", str(folder), "--out", str(out), "--device", "cpu"])
    assert code == 2
    assert f"another process is writing to {out}; wait until it ends" in capsys.readouterr().err
    assert list(out.iterdir()) == []
