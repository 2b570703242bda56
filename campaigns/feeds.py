"""Hand an input to the package as a user would, and say what came of it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from campaigns.cases import Case
from campaigns.invariants import graph_faults, own_npz_faults, table_faults
from campaigns.objects import feed_object
from campaigns.questions import feed_request
from campaigns.verdict import PREFIX, sentence_faults
from gdpnet.cli import main
from gdpnet.config import read_config
from gdpnet.data.io.files import read_graph
from gdpnet.errors import GDPNetError
from gdpnet.estimator import GDPNet


class Answer(NamedTuple):
    """Whether an input was accepted, and what was wrong with the answer."""

    accepted: bool
    problems: list[str]


def answer_to(case: Case, base: Path, folder: Path) -> Answer:
    """Feed a case; an exception that is none of the package's own escapes."""
    try:
        return Answer(True, FEEDS[case.feed](case, base, folder))
    except GDPNetError as error:
        return Answer(False, sentence_faults(str(error)))


def _graph(case: Case, base: Path, folder: Path) -> list[str]:
    options = dict(case.values.get("options", {}))
    path = folder / "in" / case.values.get("path", "")
    graph = read_graph(path, **options)
    faults = graph_faults(graph)
    if faults:
        return faults
    if path.suffix == ".npz":
        return own_npz_faults(path, graph)
    return table_faults(case.values["expected"], graph) if "expected" in case.values else []


def _special(case: Case, base: Path, folder: Path) -> list[str]:
    """Put a pipe, a device or a folder in the place of a file, and run a command, which must not wait for it."""
    path = folder / "in" / case.values["place"]
    path.unlink(missing_ok=True)
    made = case.values["special"]
    if made == "pipe":
        os.mkfifo(path)
    elif made == "folder":
        path.mkdir()
    else:
        path.symlink_to(made)
    return _command(case, base, folder)


def _settings(case: Case, base: Path, folder: Path) -> list[str]:
    config = read_config(folder / "in" / "settings.toml")
    (folder / "again.toml").write_text(config.to_toml(), encoding="utf-8")
    return (
        [] if read_config(folder / "again.toml") == config else ["settings differ after writing and reading"]
    )


def _model(case: Case, base: Path, folder: Path) -> list[str]:
    model = GDPNet.load(folder / "in" / "model.safetensors", device="cpu")
    rows = model.predict_proba(read_graph(base / "graph"))
    return [] if abs(rows.sum(1) - 1).max() < 1e-4 else ["probabilities do not sum to 1"]


def _command(case: Case, base: Path, folder: Path) -> list[str]:
    """Run a command line; what it says and its exit code are the answer."""
    words = [word.format(base=base, folder=folder) for word in case.values["words"]]
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, *case.values.get("raw", [])])
    lines = [line for line in err.getvalue().splitlines() if line.strip()]
    if code == 0:
        return _shard_faults(case, base, folder) if "shards" in case.values else []
    if code not in (1, 2) or not lines or not lines[-1].startswith(PREFIX):
        return [f"exit code {code}: {lines[-1][:300] if lines else 'nothing was said'}"]
    raise GDPNetError(lines[-1].removeprefix(PREFIX))


def _shard_faults(case: Case, base: Path, folder: Path) -> list[str]:
    """Return which shards differ from those of an undisturbed run."""
    return [
        f"{part.name} differs from an undisturbed run"
        for part in sorted((base / "shards").glob("part-*"))
        if not (folder / "in" / part.name).is_file()
        or (folder / "in" / part.name).read_bytes() != part.read_bytes()
    ]


def _object(case: Case, base: Path, folder: Path) -> list[str]:
    return feed_object(case.values, base)


FEEDS: dict[str, Callable[[Case, Path, Path], list[str]]] = {
    "graph": _graph,
    "settings": _settings,
    "model": _model,
    "command": _command,
    "special": _special,
    "object": _object,
    "request": feed_request,
}
"""What reads an input, by name; each returns what was wrong with an accepted one."""
