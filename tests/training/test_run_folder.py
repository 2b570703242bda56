"""Run folders without training: what a process leaves that ends between two files, and what is deleted."""

import pytest

from gdpnet._core.files import write_json
from gdpnet.benchmark.figures import new_figure, save_figure
from gdpnet.errors import RunFolderError
from gdpnet.training import run_folder
from gdpnet.training.run_folder import (
    RunFolder,
    check_free,
    create_run,
    extend_run,
    has_settings,
    open_run,
)
from helpers.small import FAST, noisy_graph

GRAPH = noisy_graph()
OTHER = FAST.with_values({"training": {"epochs": 7}})


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_process_that_ends_while_it_replaces_a_run_leaves_one_run_with_its_own_settings(
    tmp_path, monkeypatch
):
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    for name, settings, seed in (("write_json", FAST, 0), ("write_text", OTHER, 1)):
        with monkeypatch.context() as patch:
            patch.setattr(run_folder, name, stop)
            with pytest.raises(KeyboardInterrupt):
                create_run(tmp_path, OTHER, "mine", GRAPH, seed=1, force=True)
        _, found, about = open_run(tmp_path)
        assert (found, about["seed"]) == (settings, seed)


def test_a_description_that_a_process_had_no_time_to_write_is_known(tmp_path, monkeypatch):
    run = create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    about = open_run(tmp_path)[2]
    monkeypatch.setattr(run_folder, "write_json", stop)
    with pytest.raises(KeyboardInterrupt):
        extend_run(run, OTHER, about)
    _, found, about = open_run(tmp_path)
    assert found == OTHER
    assert not has_settings(about, found)
    assert has_settings(about, FAST)
    assert not has_settings(about | {"config": {"training": {"epochs": "many"}}}, FAST)
    del about["config"]  # of versions that wrote none
    assert has_settings(about, OTHER)


def test_a_run_that_replaces_another_keeps_none_of_its_figures_and_profiles(tmp_path):
    run = create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    save_figure(new_figure(1, 1)[0], run.figures / "reliability.png")
    (tmp_path / "profile.html").write_text("<!doctype html><title>gdpnet train cora</title>")
    (tmp_path / "profile.json").write_text('{"traceEvents": []}')
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "config.toml"}


def test_pictures_and_profiles_of_the_user_stay(tmp_path):
    run = create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    run.figures.mkdir()
    mine = [
        run.figures / "mine.png",
        tmp_path / "profile.html",
        tmp_path / "profile.json",
        tmp_path / "demo.json",
    ]
    for path in mine:
        path.write_text("mine")
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0, force=True)
    assert [path.read_text() for path in mine] == ["mine"] * 4


def test_a_run_that_replaces_a_demo_is_no_demo(tmp_path):
    write_json(tmp_path / "demo.json", {"format": "gdpnet-demo", "seed": 0})
    assert RunFolder(tmp_path).is_demo
    create_run(tmp_path, FAST, "mine", GRAPH, seed=0, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "config.toml"}


@pytest.mark.parametrize(
    "name", ["checkpoint.safetensors", "history.jsonl", "config.toml", "figures/training.png"]
)
def test_a_folder_in_place_of_a_file_is_refused_before_anything_is_deleted(name, tmp_path):
    run = create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    run.metrics.write_text("{}")
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(RunFolderError, match=f"^a run needs a file called '{name}', found a folder in"):
        check_free(tmp_path, force=True)
    assert run.metrics.exists()


def test_a_file_in_place_of_the_folder_of_figures_is_refused(tmp_path):
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(RunFolderError, match=r"^a run needs a folder called 'figures', found a file in"):
        create_run(tmp_path, FAST, "mine", GRAPH, seed=0, force=True)
