"""Where commands write what: results, notes and progress, JSON, and the bar of the epochs."""

import io
import json
import sys

import pytest
from rich.console import Console

from gdpnet.cli.app import app
from gdpnet.cli.output import note, print_table
from gdpnet.cli.progress import EpochProgress
from gdpnet.training.state import Epoch
from helpers.commands import call, train_words
from helpers.small import FAST

COMMANDS = {command.callback.__name__ for command in app.registered_commands}

FEW = ("--rates", "0", "--seeds", "1", "--device", "cpu")


def words_of(base, out) -> dict[str, list[object]]:
    """Return one short call of every command that needs no dataset."""
    run, graph, records = base / "run", base / "graph", out / "records.jsonl"
    fast = ("--config", base / "fast.toml")
    tuned = ("--tuned", out / "none.jsonl", "--records", records)
    return {
        "train": train_words(base, out / "run"),
        "evaluate": ["evaluate", run],
        "predict": ["predict", run, "--out", out / "p.csv"],
        "embed": ["embed", run, "--out", out / "e.csv"],
        "denoise": ["denoise", run, "--out", out / "d.csv"],
        "explain": ["explain", run, graph, "--node", "007"],
        "datasets": ["datasets"],
        "noise": ["noise", graph, "--kind", "random-links=0.5", "--out", out / "noisy"],
        "generate": ["generate", "--nodes", 100, "--edges", 200, "--out", out / "big"],
        "store": ["store", graph, "--out", out / "store"],
        "tune": ["tune", "--dataset", graph, "--methods", "lr", "--rates", "0", "--records", records],
        "robustness": ["robustness", "--dataset", graph, "--methods", "lr,gdpnet", *fast, *tuned, *FEW],
        "attack": [
            "attack", "--dataset", graph, "--methods", "gcn", "--attacks", "random", "--rates", "0.2",
            "--seeds", "1", "--device", "cpu", *tuned,
        ],
        "tasks": [
            "tasks", "links", "--dataset", graph, "--methods", "common-neighbours", "--records", records, *FEW,
        ],
        "reproduce": [
            "reproduce", "table2", "--datasets", "cora", "--report-only", "--results", out / "results",
        ],
        "report": ["report", run, "--out", out / "report.html"],
        "explore": ["explore", run, "--out", out / "explorer.html"],
        "plan": ["plan", "--nodes", "1e6", "--edges", "1e7", "--features", "16", "--machines", "2"],
        "settings": ["settings", "ppo"],
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(COMMANDS - {"demo", "serve"}))
def test_json_is_alone_on_standard_output_and_quiet_says_results_only(command, base, tmp_path, capsys):
    words = words_of(base, tmp_path)[command]
    code, out, err = call(capsys, *words, "--json")
    assert code == 0, err
    assert isinstance(json.loads(out, parse_constant=pytest.fail), dict)
    assert out.count("\n") == 1
    again = words_of(base, tmp_path / "again")[command]
    code, out, err = call(capsys, *again, "--json", "--quiet")
    assert (code, err) == (0, "")
    json.loads(out)
    code, out, err = call(capsys, "-q", *words_of(base, tmp_path / "more")[command])
    assert (code, err) == (0, "")
    assert out


@pytest.mark.slow
def test_results_go_to_standard_output_and_notes_and_progress_to_standard_error(base, tmp_path, capsys):
    code, out, err = call(capsys, *train_words(base, tmp_path / "run"))
    assert code == 0
    assert "80 nodes, 336 directed edges" in err
    assert [line.split()[1] for line in err.splitlines() if line.startswith("epoch ")] == [
        "1/3",
        "2/3",
        "3/3",
    ]
    assert "epoch 1" not in out
    assert "micro f1: " in out
    assert out.endswith(f"run folder: {tmp_path / 'run'}\n")


def test_a_command_that_is_refused_writes_nothing_to_standard_output(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "train", "cra", "--out", "run", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("odd", ["[/]", "[bold]x", "[red", ":smile:", "a\x1b[2Jb", "two\nlines"])
def test_ids_classes_and_columns_are_shown_as_they_are_and_never_acted_on(odd, capsys):
    print_table(f"title {odd}", ["id", f"p_{odd}"], [[odd, 1.0]])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    shown = odd.replace("\x1b", "\\x1b").replace("\n", " ")
    assert out.count(shown) == 3


def test_a_note_with_an_escape_sequence_does_not_reach_the_terminal(capsys):
    note("class 'a\x1b[2J'")
    assert capsys.readouterr().err == "class 'a\\x1b[2J'\n"


# --- the bar ---


def shown_at(width: int, epochs: int = 60) -> str:
    """Return the last state of the bar on a terminal of some width."""
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with EpochProgress(epochs, console) as progress:
        for number in range(1, 13):
            progress(Epoch(number, 0.512, 0.8421, 0.0123, 0.71, 0.0031, 900, 0.913))
    lines = [line for line in screen.getvalue().replace("\r", "\n").splitlines() if "epoch" in line]
    return lines[-1]


def test_at_80_columns_the_bar_shows_epoch_score_and_time_left():
    line = shown_at(80, epochs=1200)
    assert "epoch 12/1200" in line
    assert "validation F1 0.842" in line
    assert "0:00:0" in line
    assert " left" in line
    assert "…" not in line
    assert len(line.split("\x1b")[0]) <= 80


def test_a_wider_terminal_shows_more():
    assert "KL" not in shown_at(80)
    wide = shown_at(160)
    for part in ("loss 0.512", "reward +0.0123", "kept 0.71", "KL 0.0031", "injected-edge AUC 0.913"):
        assert part in wide


def test_elsewhere_there_is_one_line_per_epoch(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    total = FAST.training.epochs
    with EpochProgress(total) as progress:
        progress(Epoch(1, 0.5, float("nan"), 0.0, 1.0, 0.0, 0))
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        said.err
        == f"epoch 1/{total}  loss 0.500  aggregator alone, validation F1 -  reward +0.0000  kept 1.00  KL 0.0000\n"
    )
