"""What commands refuse to replace, and that each replaces what it wrote itself."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gdpnet.benchmark.records import append_record
from gdpnet.cli.replacing import (
    TUNED,
    check_markdown,
    check_not_read,
    check_page,
    check_pictures,
    check_settings,
)
from gdpnet.errors import ConfigError
from helpers.commands import call, refuse, succeed, train_words
from helpers.small import FAST, write_folder

OWN = {
    "predict": "id,predicted\n1,2\n",
    "embed": "id,h0\n1,2\n",
    "denoise": "source,target\n1,2\n",
    "explain": "node,label\n1,2\n",
}
"""Tables of a user, which look like what other commands write."""


def other(command: str) -> str:
    return OWN["embed" if command == "predict" else "predict"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("command", list(OWN))
def test_a_command_replaces_what_it_wrote_but_nothing_else(command, suffix, base, tmp_path, capsys):
    out = tmp_path / f"out.{suffix}"
    words = (command, base / "run", "--out", out)
    succeed(capsys, *words)
    first = out.read_bytes()
    succeed(capsys, *words)
    assert out.read_bytes() == first
    for text in (other(command), OWN["denoise"], "my notes", "\x89PNG"):
        out.write_text(text)
        assert refuse(capsys, *words) == (
            f"{out} exists, and this command did not write it; choose another --out, or replace it with --force"
        )
        assert out.read_text() == text
    succeed(capsys, *words, "--force")
    assert out.read_bytes() == first
    out.write_text("")  # nothing to lose
    succeed(capsys, *words)
    assert sorted(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_a_table_that_is_read_is_not_replaced(base, tmp_path, capsys):
    path = tmp_path / "edges.csv"
    succeed(capsys, "denoise", base / "run", "--out", path, "--all")
    before = path.read_bytes()
    ids = tmp_path / "ids.csv"
    ids.write_text("id,predicted\n")
    said = refuse(capsys, "predict", base / "run", "--nodes-from", ids, "--out", ids)
    assert said == f"--out {ids} is also read; choose another --out, or replace it with --force"
    assert path.read_bytes() == before


@pytest.mark.slow
def test_an_own_table_in_the_folder_of_the_graph_is_replaced(base, tmp_path, capsys):
    shutil.copytree(base / "graph", tmp_path / "graph")
    words = ("predict", base / "run", tmp_path / "graph", "--out", tmp_path / "graph" / "predictions.csv")
    succeed(capsys, *words)
    succeed(capsys, *words)


def test_the_parts_of_a_linked_table_are_read(tmp_path):
    """They are not below the folder of the graph by their own name."""
    graph, parts = tmp_path / "graph", tmp_path / "parts"
    parts.mkdir()
    write_folder(graph)
    (graph / "edges.csv").rename(tmp_path / "edges.csv")
    part = parts / "1.parquet"
    pq.write_table(pa.table({"source": ["a"], "target": ["b"], "keep_probability": [0.5]}), part)
    (graph / "edges").symlink_to(parts)
    with pytest.raises(ConfigError, match="is also read"):
        check_not_read(part, str(graph), force=False)
    check_not_read(tmp_path / "edges.csv", str(graph), force=False)


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False], ids=["named", "of the run"])
def test_a_graph_that_is_read_is_not_replaced_by_its_cleaned_edges(named, base, tmp_path, capsys):
    shutil.copytree(base / "graph", tmp_path / "graph")
    cleaned = tmp_path / "graph" / "edges.csv"
    succeed(capsys, "denoise", base / "run", "--out", cleaned, "--all", "--force")
    before = cleaned.read_bytes()
    succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"))
    given = [tmp_path / "run", *([tmp_path / "graph"] if named else [])]
    said = refuse(capsys, "denoise", *given, "--out", cleaned)
    assert said.endswith("edges.csv is also read; choose another --out, or replace it with --force")
    assert cleaned.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.toml", "metrics.json", "history.jsonl", "letter.txt"])
def test_train_refuses_a_folder_of_the_user_and_leaves_it_alone(name, base, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("mine")
    for out in (Path(), tmp_path):
        said = refuse(capsys, *train_words(base, out))
        assert said.startswith(f"a run needs a new or an empty folder, found '{name}' in {out}; ")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.slow
def test_train_refuses_the_root_of_the_file_system(base, capsys):
    before = set(Path("/").iterdir())
    assert refuse(capsys, *train_words(base, Path("/"))).startswith("a run needs a new or an empty folder")
    assert set(Path("/").iterdir()) == before


@pytest.mark.slow
def test_train_by_force_keeps_other_files_and_starts_anew(base, tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("mine")
    (tmp_path / "config.toml").write_text("mine")
    for _ in range(2):
        succeed(capsys, *train_words(base, tmp_path), "--force")
        assert (tmp_path / "letter.txt").read_text() == "mine"
        assert (tmp_path / "config.toml").read_text() == FAST.to_toml()
    whole = (base / "run" / "history.jsonl").read_text()
    assert (tmp_path / "history.jsonl").read_text() == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "metrics.json", "split.csv", "figures", "figures/training.png"])
def test_a_link_in_place_of_a_file_of_a_run_is_refused_and_not_followed(name, base, tmp_path, capsys):
    out, mine = tmp_path / "run", tmp_path / "mine"
    succeed(capsys, *train_words(base, out))
    elsewhere = {"run.json": (out / "run.json").read_text()}.get(name, "mine")
    mine.mkdir() if name == "figures" else mine.write_text(elsewhere)
    link = out / name
    shutil.rmtree(link) if name == "figures" else link.unlink(missing_ok=True)
    link.symlink_to(mine)
    for option in ("--force", "--resume"):
        said = refuse(capsys, *train_words(base, out), option)
        assert said == f"{out} must hold files of its own, found the link '{name}': delete it"
    assert list(mine.iterdir()) == [] if name == "figures" else mine.read_text() == elsewhere


@pytest.mark.slow
def test_a_run_goes_on_after_its_process_ended_between_its_first_files(base, tmp_path, capsys):
    out = tmp_path / "run"
    succeed(capsys, *train_words(base, out))
    for path in out.iterdir():
        if path.is_file() and path.name != "run.json":
            path.unlink()
    succeed(capsys, *train_words(base, out), "--resume")
    assert (out / "history.jsonl").read_text() == (base / "run" / "history.jsonl").read_text()
    assert (out / "config.toml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["id\n1\n", "id,split\n001,sometimes\n", "id,split\n001,test\n", "id,split\n"]
)
def test_a_split_that_was_changed_is_one_sentence(text, base, tmp_path, capsys):
    out = tmp_path / "run"
    succeed(capsys, *train_words(base, out))
    (out / "split.csv").write_text(text)
    assert "split.csv must be a table of id and split" in refuse(capsys, "evaluate", out)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[]", "{", "5"])
def test_metrics_that_were_changed_are_one_sentence(text, base, tmp_path, capsys):
    out = tmp_path / "run"
    succeed(capsys, *train_words(base, out))
    (out / "metrics.json").write_text(text)
    for words in ([*train_words(base, out), "--resume"], ["report", out, "--out", tmp_path / "r.html"]):
        assert "metrics.json" in refuse(capsys, *words)


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [{"intervals": 5}, {"per_class": {"a": 1}}, {"check": {"methods": 1}}])
def test_scores_of_another_form_are_one_sentence(metrics, base, tmp_path, capsys):
    out = tmp_path / "run"
    succeed(capsys, *train_words(base, out))
    (out / "metrics.json").write_text(json.dumps({"micro_f1": 0.5} | metrics))
    said = refuse(capsys, "report", out, "--out", tmp_path / "r.html")
    assert "metrics.json must hold scores as a run writes them" in said


@pytest.mark.slow
def test_report_replaces_reports_only(base, tmp_path, capsys):
    words = ("report", base / "run", "--out", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    succeed(capsys, *words)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    succeed(capsys, *words)
    for name in ("r.html", "r.md"):
        (tmp_path / name).write_text("<p>my page")
        assert "this command did not write it" in refuse(capsys, *words)
        assert (tmp_path / name).read_text() == "<p>my page"
        succeed(capsys, *words, "--force")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_current_folder_that_was_deleted_is_said_before_anything_is_read(tmp_path, capsys, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for command in ("predict", "embed", "denoise"):
        for out in ("out.csv", tmp_path / "out.csv"):
            said = refuse(capsys, command, tmp_path, "--out", out)
            assert said == "the current folder was deleted: change to one that exists"


def test_a_report_is_not_replaced_by_its_own_second_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refuse(capsys, "report", tmp_path, "--out", "r.html", "--markdown", tmp_path / "r.html")
    assert said == "--out and --markdown must be two files, found r.html for both"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_report_goes_to_a_device_or_a_pipe_without_replacing_it(base, tmp_path, capsys):
    succeed(capsys, "report", base / "run", "--out", "/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    succeed(capsys, "predict", base / "run", "--out", tmp_path / "pipe")
    reader.join(20)
    assert got[0].startswith('"id","predicted"')
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.slow
def test_a_torn_record_is_said_once_and_the_report_is_written(tmp_path, capsys):
    path = tmp_path / "results" / "robustness.jsonl"
    about = {
        "kind": "robustness",
        "graph": "g",
        "noise": "random-links",
        "rate": 0.5,
        "method": "gcn",
        "seed": 0,
    }
    append_record(path, about | {"metrics": {"micro_f1": 0.5}, "config": {}, "commit": "abc"})
    with path.open("a") as file:
        file.write('{"kind": "robus')
    code, _, err = call(capsys, "report", tmp_path / "results", "--out", tmp_path / "r.html")
    assert code == 0
    assert err.count("was cut short and is left out") == 1


def test_figures_of_others_are_not_replaced(tmp_path):
    (tmp_path / "maps.png").write_bytes(b"\x89PNG mine")
    with pytest.raises(ConfigError, match=r"maps\.png exists, .* choose another --figures"):
        check_pictures(tmp_path, ["shares.png", "maps.png"], force=False)
    check_pictures(tmp_path, ["maps.png"], force=True)
    check_pictures(tmp_path, ["shares.png"], force=False)


@pytest.mark.slow
def test_our_own_figures_are_known(base):
    folder = base / "run" / "figures"
    check_pictures(folder, [path.name for path in folder.iterdir()], force=False)


@pytest.mark.parametrize("check", [check_page, check_markdown, check_settings])
def test_a_text_of_the_user_is_not_replaced(check, tmp_path):
    (tmp_path / "file").write_text("[training]\nepochs = 3\n")
    with pytest.raises(ConfigError, match="this command did not write it"):
        check(tmp_path / "file", force=False)
    check(tmp_path / "file", force=True)
    check(tmp_path / "none", force=False)


def test_settings_that_tune_wrote_are_replaced(tmp_path):
    (tmp_path / "best.toml").write_text(f"{TUNED}\n\n{FAST.to_toml()}")
    check_settings(tmp_path / "best.toml", force=False)


@pytest.mark.slow
def test_sigterm_ends_a_command_in_order(tmp_path):
    folder = write_folder(tmp_path / "graph")
    code = (
        "import os, signal, sys; from gdpnet import cli; from gdpnet._core.files import disk\n"
        "usual = disk.flush_file\n"
        "def stop(path):\n"
        "    os.kill(os.getpid(), signal.SIGTERM); usual(path)\n"
        "disk.flush_file = stop; cli.run()"
    )
    words = ["store", str(folder), "--out", str(tmp_path / "store")]
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


@pytest.mark.slow
def test_the_demo_replaces_a_demo_but_no_other_folder(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "metrics.json").write_text("mine")
    said = refuse(capsys, "demo", "--out", tmp_path / "mine")
    assert "needs a new or an empty folder, found 'metrics.json'" in said
    assert (tmp_path / "mine" / "metrics.json").read_text() == "mine"


@pytest.mark.slow
def test_an_output_folder_that_is_a_link_to_nothing_yet_is_made_where_the_link_leads(base, tmp_path, capsys):
    for name, words in (
        ("run", train_words(base, tmp_path / "run")),
        ("shards", ["denoise", base / "run", "--shards", "--out", tmp_path / "shards"]),
        ("store", ["store", base / "graph", "--out", tmp_path / "store"]),
    ):
        (tmp_path / name).symlink_to(tmp_path / f"real-{name}")
        succeed(capsys, *words)
        assert (tmp_path / name).is_symlink()
        assert any((tmp_path / f"real-{name}").iterdir())


@pytest.mark.slow
def test_a_name_that_no_table_can_have_is_refused_before_anything_is_computed(
    base, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("gdpnet.cli.runs.model_and_graph", lambda *_, **__: pytest.fail("the model was read"))
    (tmp_path / "file.csv").write_text("mine")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for out, sentence in (
        (".csv", "--out must have a name before .csv"),
        ("file.csv/x.csv", "file.csv is no folder"),
        ("loop.csv", "is a link that leads to itself"),
    ):
        assert sentence in refuse(capsys, "predict", base / "run", "--out", tmp_path / out)
