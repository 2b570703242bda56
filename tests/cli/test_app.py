"""The program itself: help, version, usage errors, and how little it imports to answer them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gdpnet
from gdpnet import cli
from gdpnet._core.version import __version__
from gdpnet.cli import data
from gdpnet.cli.app import app
from gdpnet.errors import WorkError
from helpers.commands import call, refuse, succeed

COMMANDS = [command.callback.__name__ for command in app.registered_commands]
HEAVY = ("torch", "torch_geometric", "sklearn", "scipy", "numpy", "pyarrow", "networkx", "matplotlib")
SOURCE = Path(__file__).parents[2] / "src"


# --- help ---


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command(flag, capsys):
    out = succeed(capsys, flag)
    assert "Usage: gdpnet" in out
    assert all(f"│ {command} " in out for command in COMMANDS)
    assert succeed(capsys) == out  # without a word there is help too


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_a_sentence_groups_and_one_example(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = succeed(capsys, command, "-h")
    assert f"Usage: gdpnet {command}" in out
    assert out.count("Example: ") == 1
    assert f"Example: gdpnet {command}" in out
    assert "─ Output ─" in out  # every command takes --json
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out  # nothing is cut off at 80 columns


@pytest.mark.parametrize("command", app.registered_commands, ids=COMMANDS)
def test_the_example_of_a_command_names_options_that_it_has(command, capsys):
    example = re.search(r"\[bold\]gdpnet (.*)\[/bold\]", command.epilog)[1]
    shown = succeed(capsys, command.callback.__name__, "--help")
    for word in example.split()[1:]:
        assert not word.startswith("--") or f"{word} " in shown


def test_the_version_is_printed(capsys):
    assert succeed(capsys, "--version") == f"gdpnet {__version__}\n"


# --- what is imported to answer ---

ANSWERS = {
    "--help": 0,
    "--version": 0,
    "datasets": 0,
    "settings": 0,
    "settings --markdown": 0,
    **{f"{command} --help": 0 for command in COMMANDS},
    "trian": 2,
    "train cora": 2,
    "train cora --out run --sed 1": 2,
    "train cora --out run --seed x": 2,
    "train corra --out run": 2,
    "train cora --out run --set training.epoch=1": 2,
    "train cora --out run --column lable=x": 2,
    "train cora --out run --resume --hops 2": 2,
    "evaluate no-such-run": 2,
    "predict . --out p.txt": 2,
    "noise cora --out noisy --kind random-edges=0.5": 2,
    "robustness --dataset corra": 2,
    "robustness --dataset cora --rates half": 2,
    "reproduce table2 --datasets corra": 2,
    "report no-such-folder": 2,
    "settings polcy": 2,
}

PROGRAM = """
import sys
from gdpnet.cli import main
heavy, *answers = sys.argv[1:]
for words in answers:
    code = main(words.split())
    print("result:", words, code, *(name for name in heavy.split() if name in sys.modules), sep="|")
"""


def run_python(program: str, *arguments: str, folder: Path) -> list[str]:
    """Run a program in a fresh interpreter; return the lines of its stdout."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(SOURCE), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_help_and_usage_errors_are_answered_without_heavy_imports(tmp_path):
    lines = run_python(PROGRAM, " ".join(HEAVY), *ANSWERS, folder=tmp_path)
    results = [line for line in lines if line.startswith("result:")]
    assert results == [f"result:|{words}|{code}" for words, code in ANSWERS.items()]
    assert list(tmp_path.iterdir()) == []


def test_the_package_is_imported_without_torch(tmp_path):
    program = "import sys, gdpnet, gdpnet.data; print(*(name in sys.modules for name in sys.argv[1:]))"
    (line,) = run_python(program, *HEAVY, folder=tmp_path)
    assert set(line.split()) == {"False"}


def test_public_names_are_imported_when_they_are_used():
    assert all(getattr(gdpnet, name) is not None for name in gdpnet.__all__)
    with pytest.raises(AttributeError, match="module 'gdpnet' has no attribute 'GPDNet'"):
        gdpnet.GPDNet  # noqa: B018 - asking for it is the test


# --- errors ---


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "cra", "--out", "run"], "there is no dataset, file or folder 'cra'; did you mean 'cora'?"),
        (["train", "no/such", "--out", "run"], "there is no file or folder no/such"),
        (["train", "synthetic", "--out", "run", "--sed", "1"], "--seed"),
        (["trian", "synthetic"], "'train'"),
        (["train", "synthetic"], "Missing option '--out'"),
        (["train", "synthetic", "--out", "run", "--set", "training.epoch=1"], "did you mean 'epochs'?"),
        (["train", "synthetic", "--out", "run", "--set", "trainin.epochs=1"], "did you mean 'training'?"),
        (["train", "synthetic", "--out", "run", "--set", "epochs"], "has the form section.key=value"),
        (["train", "synthetic", "--out", "run", "--set", "ppo.discount=2"], "between 0.0 and 1.0, found 2"),
        (["train", "synthetic", "--out", "run", "--config", "none.toml"], "cannot read the config file"),
        (["train", "synthetic", "--out", "run", "--seed", "-1"], "'--seed'"),
        (["train", "synthetic", "--out", "run", "--seed", "x"], "'--seed'"),
        (
            ["train", "synthetic", "--out", "run", "--split", "half"],
            "--split must be paper, random or shares that sum to 100, such as 60/20/20, found 'half'",
        ),
        (["train", "synthetic", "--out", "run", "--device", "gpu"], "'cuda'"),
        (["train", "synthetic", "--out", "run", "--resume"], "there is no run folder run"),
        (["train", "synthetic", "--out", "run", "--column", "lable=x"], "did you mean 'label'?"),
        (
            ["train", "synthetic", "--out", "run", "--column", "label"],
            "--column must have the form role=name",
        ),
        (["evaluate", "run"], "there is no run folder run"),
        (["evaluate", "."], "there is no model file model.safetensors"),
        (["embed", ".", "--out", "h.txt"], "--out must end in .csv or .parquet, found 'h.txt'"),
        (["explain", ".", "synthetic"], "explain needs either --node, or --out"),
        (["robustness", "--dataset", "synthetic", "--seeds", "0"], "'--seeds'"),
        (["demo", "--set", "training.epoch=1"], "did you mean 'epochs'?"),
        (["evaluate", "run\ud800"], "an argument cannot be read: "),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_sentence_with_the_nearest_name(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refuse(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback_before_the_sentence(capsys):
    code, out, err = call(
        capsys, "train", "synthetic", "--out", "run", "--set", "training.epoch=1", "--debug"
    )
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert err.splitlines()[-1].startswith("gdpnet: there is no setting 'training.epoch'")


def fail_with(monkeypatch, error: BaseException) -> None:
    """Let the command ``datasets`` end in an error that no door has foreseen."""

    def fail(*arguments):
        raise error

    monkeypatch.setattr(data, "is_present", fail)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (IndexError("index 7 is out of bounds"), 70, "IndexError: index 7 is out of bounds"),
        (
            RecursionError("maximum recursion depth exceeded"),
            70,
            "run the same command with --debug and report",
        ),
        (EOFError(), 70, "in the issue tracker"),
        (MemoryError(), 1, "there is not enough memory for this"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            1,
            "there is not enough memory for this",
        ),
        (OSError(28, "No space left on device", "x.csv"), 1, "x.csv: No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted; what was written is kept"),
        (WorkError("x" * 5000), 1, "x … x"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_exception_is_one_sentence_of_300_characters_and_its_exit_code(
    error, code, sentence, capsys, monkeypatch
):
    fail_with(monkeypatch, error)
    found = refuse(capsys, "datasets", code=code)
    assert sentence in found
    assert len(found) <= 300


def test_debug_shows_the_traceback_of_a_mistake_of_the_program(capsys, monkeypatch):
    fail_with(monkeypatch, IndexError("index 7 is out of bounds"))
    code, _, err = call(capsys, "datasets", "--debug")
    assert code == 70
    assert "Traceback" in err
    assert "in fail" in err


def test_an_interrupt_that_a_library_turns_into_another_exception_stays_an_interrupt(capsys, monkeypatch):
    def interrupted(*arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("half a module") from None

    monkeypatch.setattr(data, "is_present", interrupted)
    assert "interrupted" in refuse(capsys, "datasets", code=130)


def test_a_termination_that_a_library_turns_into_another_exception_is_no_mistake(capsys, monkeypatch):
    def terminated(*arguments):
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:
            raise ValueError("Invalid bounding box") from None

    monkeypatch.setattr(data, "is_present", terminated)
    before = signal.signal(signal.SIGTERM, cli.terminate)
    try:
        assert cli.main(["datasets"]) == 143
        assert signal.getsignal(signal.SIGTERM) is cli.terminate
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_ends_a_command_without_a_traceback(tmp_path):
    command = f"{sys.executable} -m gdpnet settings | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env={"PYTHONPATH": str(SOURCE), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # 0 if all was written before the reader went


def test_a_full_disk_behind_the_output_is_said(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gdpnet", "datasets"],
            env={"PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "gdpnet: No space left on device\n")


def test_a_signal_that_a_destructor_swallows_is_sent_again(tmp_path):
    script = tmp_path / "swallowed.py"
    script.write_text(
        """
import os, signal, sys, time
import gdpnet.cli as cli

class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            time.sleep(0.001)

def main():
    Slow()
    time.sleep(30)
    return 0

cli.main = main
cli.run()
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_mistake_of_the_program(closed, tmp_path):
    words = f"{sys.executable} -m gdpnet generate --nodes 20 --edges 40 --out made {closed}"
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "made").is_dir()


@pytest.mark.parametrize("threads", ["abc", "0", "-1", "²"])
def test_variables_that_libraries_cannot_use_are_left_out(threads):
    code = (
        "import os, sys; sys.argv = ['gdpnet', '--version']\n"
        "import gdpnet.cli as cli\n"
        "try: cli.run()\n"
        "except SystemExit: pass\n"
        "import matplotlib, numba\n"
        "print(sorted({'MPLBACKEND', 'NUMBA_NUM_THREADS', 'NUMBA_DISABLE_JIT'} & set(os.environ)))\n"
    )
    wrong = {
        "MPLBACKEND": "nonsense",
        "NUMBA_NUM_THREADS": threads,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(SOURCE),
    }
    found = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | wrong, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "[]"
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("asked", "expected"), [({}, "gdpnet"), ({"COMP_WORDS": "gdpnet den", "COMP_CWORD": "1"}, "denoise")]
)
def test_a_request_to_complete_needs_the_words_of_a_line(asked, expected):
    given = {"_GDPNET_COMPLETE": "complete_bash", "PYTHONPATH": str(SOURCE)} | asked
    found = subprocess.run(
        [sys.executable, "-m", "gdpnet", "--version"],
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout.split()[0], found.stderr) == (0, expected, "")
