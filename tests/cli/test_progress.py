"""Progress: a bar on a terminal, few lines elsewhere, nothing if quiet, and never on standard output."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gdpnet._core.progress import advance, limit, part
from gdpnet.cli import progress
from gdpnet.cli.output import results_to
from gdpnet.cli.progress import EpochProgress, ShardProgress, TrialProgress, doing
from gdpnet.training.callbacks import Step
from helpers.commands import call, train_words


@pytest.fixture
def often(monkeypatch) -> float:
    """Let lines come every 50 milliseconds."""
    monkeypatch.setattr(progress, "_EVERY", 0.05)
    return 0.05


# --- without a terminal ---


def test_short_work_says_nothing(capsys):
    with doing("predicting"):
        advance(1, 2)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_how_far_it_is_but_not_too_often(capsys, often):
    with doing("predicting"):
        time.sleep(0.15)
        advance(1, 4)
        time.sleep(0.25)
        lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "predicting: 0:00:00 so far"
    assert re.fullmatch(r"predicting: 25 %, 0:00:0[12] left", lines[-1])
    assert len(lines) <= 0.4 / often


def test_the_time_left_is_no_more_than_the_limit(capsys, often):
    with limit(1.0), doing("fitting"):
        advance(1, 1000)
        time.sleep(0.2)
    assert re.fullmatch(r"fitting: 0 %, 0:00:0[01] left", capsys.readouterr().err.splitlines()[-1])


def test_quiet_work_says_nothing_however_long_it_takes(capsys, often):
    with results_to(as_json=False, quiet=True), doing("predicting"), EpochProgress(3) as shown:
        shown.on_step(Step("data", "preparing the graph"))
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "")


def test_the_line_of_a_short_step_begins_with_the_step_and_ends_with_its_result(capsys):
    with EpochProgress(3) as shown:
        shown.on_step(Step("GCN head", "fitting the GCN head"))
        assert capsys.readouterr().err == "fitting the GCN head ... "
        shown.on_step(Step("GCN head", "fitting the GCN head", result="joins", seconds=0.1))
    assert capsys.readouterr().err == "joins (0.1 s)\n"


def test_the_line_of_a_step_that_fails_ends(capsys):
    with suppress(ValueError), EpochProgress(2) as shown:
        shown.on_step(Step("heads", "fitting heads"))
        raise ValueError
    assert capsys.readouterr().err == "fitting heads ... \n"


def test_a_long_step_has_lines_of_its_own(capsys, often):
    begun = Step("GCN head", "fitting the GCN head")
    with EpochProgress(3) as shown:
        shown.on_step(begun)
        shown.on_progress(Step("GCN head", begun.doing, done=0.5))
        time.sleep(0.2)
        shown.on_step(Step("GCN head", begun.doing, result="joins", seconds=0.2))
    first, *between, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("fitting the GCN head ... ", "fitting the GCN head ... joins (0.2 s)")
    assert between
    assert all(re.fullmatch(r"fitting the GCN head: 50 %, 0:00:00 left", line) for line in between)


def test_trials_and_shards_are_counted(capsys, often):
    with TrialProgress(4), part(1, 4):
        advance(1, 2)
        time.sleep(0.15)
    with ShardProgress() as shards:
        shards("first", 3, 4)
        shards("decided", 1, 2)
        time.sleep(0.15)
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(r"trial 1 of 4: 38 %, 0:00:0\d left", line) for line in lines)
    assert any(line.startswith("deciding on every edge, shard 1 of 2: 50 %, ") for line in lines)


def test_passes_over_blocks_tell_the_time_left_of_what_a_stopped_run_left(capsys, often):
    with ShardProgress() as shards:
        shards("task pairs", 60, 100)
        shards("task decide", 80, 100)
        time.sleep(0.15)
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(r"deciding on every edge: 50 %, 0:00:00 left", line) for line in lines)


# --- on a terminal ---


def in_terminal(words: list[str], width: int = 80) -> tuple[str, list[str]]:
    """Run a command whose standard error is a terminal; return its standard output, and what the terminal shows."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "CI")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-m", "gdpnet", *words],
        stdout=subprocess.PIPE,
        stderr=its,
        env=environment | {"TERM": "xterm"},
    )
    os.close(its)
    said: list[bytes] = []

    def read() -> None:
        try:
            while part_read := os.read(ours, 1 << 16):
                said.append(part_read)
        except OSError:  # the process has ended
            pass

    reader = threading.Thread(target=read)
    reader.start()
    out, code = process.communicate()[0].decode(), process.returncode
    reader.join()
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(said).decode())
    assert code == 0, text
    return out, [line for line in re.split(r"[\r\n]+", text) if line]


@pytest.mark.slow
def test_every_step_has_a_bar_of_80_columns_and_standard_output_has_the_result_alone(base, tmp_path):
    heads = ("hopwise.use=true", "hopwise.steps=2000", "hopwise.patience=2000")
    words = [*train_words(base, tmp_path / "run"), *(f"--set={one}" for one in heads), "--json"]
    out, lines = in_terminal(words)
    assert json.loads(out)["run"] == str(tmp_path / "run")
    bars = [line for line in lines if "━━" in line and not set("┃┏┡") & set(line)]
    assert all(len(line) <= 80 for line in bars)
    for what in ("preparing the graph", "epoch 3/3", "fitting the hop-wise head", "scoring simple methods"):
        assert any(line.startswith(what) for line in bars), what
    shares = [int(one) for line in bars for one in re.findall(r"hop-wise head .* (\d+) %", line)]
    assert len(set(shares)) > 2
    assert shares == sorted(shares)
    assert any(line.startswith("fitting the hop-wise head ... ") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "embed", "denoise"])
def test_commands_that_use_a_model_show_bars_too(command, base, tmp_path):
    out, lines = in_terminal([command, str(base / "run"), "--out", str(tmp_path / "out.csv")])
    assert "written to" in out
    assert any("━━" in line and line.startswith("reading the graph") for line in lines)
    _, lines = in_terminal([command, str(base / "run"), "--out", str(tmp_path / "out.csv"), "--quiet"])
    assert lines == []


# --- a budget and a profile ---


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60.0),
        ("2m", 120.0),
        ("1.5h", 5400.0),
        ("90", 90.0),
        (" 0.5 min ", 30.0),
        (".5", 0.5),
        ("3S", 3.0),
    ],
)
def test_a_budget_is_a_number_with_or_without_a_unit(text, seconds):
    from gdpnet.cli.train import seconds_of

    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "abc", "-5s", "0", "0m", "5d", "1:30", "nan", "inf", "1e3", "s"])
def test_another_budget_is_refused_in_one_sentence(text, base, tmp_path, capsys):
    code, out, err = call(capsys, *train_words(base, tmp_path / "run"), f"--budget={text}")
    assert (code, out) == (2, "")
    sentence = f"--budget must be a time above zero such as 60s, 2m or 1.5h, found '{text}'"
    assert err == f"gdpnet: {sentence}\n"
    assert not (tmp_path / "run").exists()


def history_of(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_run_that_its_budget_ended_goes_further_with_a_larger_one(base, tmp_path, capsys):
    more = ("--set=training.epochs=100000", "--set=training.patience=100000", "--no-check")
    words = [*train_words(base, tmp_path / "run"), *more]
    code, _, err = call(capsys, *words, "--budget", "2s")
    assert code == 0
    assert "epochs in time ... epochs " in err
    assert "had not improved" not in err
    first = history_of(tmp_path / "run")
    code, out, err = call(capsys, *words, "--budget", "1s", "--resume")
    assert code == 2
    assert "training.seconds must be that of the run, 2.0, found 1.0" in err
    code, out, err = call(capsys, *words, "--budget", "2s", "--resume")
    assert (code, "nothing was changed" in out) == (0, True)
    code, _, err = call(capsys, *words, "--budget", "4s", "--resume")
    assert code == 0
    second = history_of(tmp_path / "run")
    assert second[: len(first)] == first
    assert len(second) > len(first)


@pytest.mark.slow
def test_a_profile_is_printed_and_written_to_the_run_folder(base, tmp_path, capsys):
    code, out, _ = call(capsys, *train_words(base, tmp_path / "run"), "--profile")
    assert code == 0
    for name in (
        "fit",
        "  data",
        "  networks",
        "  warm-up",
        "    representation",
        "      playing",
        "saving the model",
    ):
        assert any(line.startswith(f"│ {name} ") for line in out.splitlines()), name
    assert f"profile: {tmp_path / 'run' / 'profile.html'}, {tmp_path / 'run' / 'profile.json'}" in out
    events = json.loads((tmp_path / "run" / "profile.json").read_text())["traceEvents"]
    assert {"fit", "ensemble", "scoring the model", "drawing figures"} <= {event["name"] for event in events}
    code, out, _ = call(capsys, *train_words(base, tmp_path / "other"), "--profile", "--json")
    rows = json.loads(out)["profile"]
    assert rows[0]["phase"] == "fit"
    assert rows[0]["share"] == 1.0
    within = sum(
        row["seconds"] for row in rows if row["phase"].count(" / ") == 1 and row["phase"].startswith("fit")
    )
    assert 0.5 * rows[0]["seconds"] < within <= rows[0]["seconds"]
