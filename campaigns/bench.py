"""Try cases, one child each: what they start from, what their lines reached, and what came of them."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp

import gdpnet
from campaigns.cases import Case
from campaigns.children import fork
from campaigns.feeds import answer_to
from campaigns.jobs import JOBS, make_base, small_graph
from campaigns.mutations import damage
from campaigns.objects import load_model
from campaigns.questions import load_served
from gdpnet.cli import main
from gdpnet.data.io.files import write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.data.io.store import write_store

_SOURCE = str(Path(gdpnet.__file__).parent)
_WATCHED = ("graph", "settings")
"""Feeds whose lines are watched; a whole command would become slow."""

_GUIDED = 4
"""One case in so many starts from one that reached new lines."""


def make_inputs(base: Path) -> Path:
    """Make inputs of every kind that are right; cases are damaged copies of them."""
    make_base(base)
    graph = small_graph(12)
    write_npz(graph, base / "graph.npz")
    _write_citation(base / "citation.npz")
    write_store(graph, base / "store")
    write_tables(graph, base / "parquet", "parquet")
    _write_separated(base)
    _run(base, "denoise-shards", base / "shards")
    _stop_early(base)
    load_model(base)
    load_served(base)
    return base


def _write_citation(path: Path) -> None:
    """Write a graph in the layout of the CitationFull datasets."""
    adjacency = sp.random(12, 12, 0.3, "csr", random_state=0)
    attributes = sp.random(12, 8, 0.5, "csr", random_state=1)
    arrays: dict[str, Any] = {"labels": np.arange(12) % 3}
    for prefix, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {
            f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")
        }
    np.savez(path, **arrays)


def _write_separated(base: Path) -> None:
    """Write the small tables with tabs, compressed, and with weights and features of edges."""
    (base / "tsv").mkdir()
    for path in (base / "numbers").iterdir():
        text = path.read_text(encoding="utf-8").replace(",", "\t")
        (base / "tsv" / f"{path.stem}.tsv").write_text(text, encoding="utf-8")
    (base / "packed").mkdir()
    for path in (base / "numbers").iterdir():
        (base / "packed" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    (base / "weighted").mkdir()
    names = "abcdef"
    nodes = [f"{name},{'xy'[place % 2]},{place},text {name}" for place, name in enumerate(names)]
    edges = [
        f"{one},{other},{place + 1}.5,{'uv'[place % 2]}"
        for place, (one, other) in enumerate(itertools.pairwise(names))
    ]
    (base / "weighted" / "nodes.csv").write_text("\n".join(["id,label,size,words", *nodes]), encoding="utf-8")
    (base / "weighted" / "edges.csv").write_text(
        "\n".join(["source,target,weight,type", *edges]), encoding="utf-8"
    )


def _run(base: Path, name: str, out: Path) -> None:
    words = [word.replace(str(base / JOBS[name].out), str(out)) for word in JOBS[name].words(base, base)]
    if code := main(words):
        raise RuntimeError(f"gdpnet {' '.join(words)} ended with {code}")


def _stop_early(base: Path) -> None:
    """Make a run that was stopped after its epochs, and shards that lack one."""
    shutil.copytree(base / "run", base / "stopped")
    for name in ("metrics.json", "model.safetensors"):
        (base / "stopped" / name).unlink()
    shutil.copytree(base / "shards", base / "partial")
    about = json.loads((base / "partial" / "shards.json").read_text(encoding="utf-8"))
    about.pop("summary", None)
    (base / "partial" / "shards.json").write_text(json.dumps(about), encoding="utf-8")
    (base / "partial" / "part-00001.parquet").unlink()


class Bench:
    """Plays cases, and remembers those that reached lines of the package that none before did."""

    def __init__(self, base: Path, folder: Path, memory: int, seconds: float) -> None:
        self.base, self.folder, self.memory, self.seconds = base, folder, memory, seconds
        self.reached: set[str] = set()
        self.corpus: dict[str, list[Case]] = {}

    def guided(self, kind: str, number: int, seed: int) -> Case | None:
        """Return a damaged copy of a case that reached new lines, one time in a few.

        What was written to the files is no longer expected of them.
        """
        known = self.corpus.get(kind)
        draw = random.Random(f"{seed} {kind} {number} guided")
        if not known or draw.randrange(_GUIDED):
            return None
        case = draw.choice(known)
        files = {name: damage(content, draw) for name, content in case.files.items()}
        values = {name: value for name, value in case.values.items() if name != "expected"}
        return replace(case, files=files, values=values, name=f"{kind}:{number}:guided")

    def play(self, case: Case) -> dict[str, Any]:
        """Feed a case in a child; return what came of it."""
        place, start = self.folder / case.name.replace(":", "-").replace(" ", "-"), time.monotonic()
        case.lay_out(self.base, place)
        said, watched = place / "answer.json", case.feed in _WATCHED

        def work() -> int:
            lines: set[str] = set()
            if watched:
                sys.settrace(lambda frame, event, _: _watch(frame, lines))
            answer = answer_to(case, self.base, place)
            sys.settrace(None)
            said.write_text(json.dumps([*answer, sorted(lines)]), encoding="utf-8")
            return 0

        ended = fork(work, place / "log", memory=self.memory, folder=place).wait(self.seconds)
        problems, accepted = [], False
        if ended.code == 0 and said.exists():
            accepted, problems, lines = json.loads(said.read_text(encoding="utf-8"))
            self._remember(case, lines)
        elif ended.hung:
            problems = [f"it hangs for more than {self.seconds:.0f} seconds"]
        else:
            last = ended.err.strip().splitlines()[-1:] or [""]
            problems = [f"signal {-ended.code}" if ended.code < 0 else f"traceback: {last[0][:300]}"]
            problems = [f"{problems[0]} at {_place_in(ended.err)}"]
        if (place / "planted").exists():
            problems.append("code of the input was run")
        shutil.rmtree(place)
        seconds = time.monotonic() - start
        about = {"round": case.name, "of": case.kind, "kind": case.feed, "problems": problems}
        return about | {"seconds": seconds, "accepted": accepted, "peak_mib": ended.peak_mib}

    def _remember(self, case: Case, lines: list[str]) -> None:
        if new := set(lines) - self.reached:
            self.reached |= new
            if case.files and sum(map(len, case.files.values())) < 1 << 16:
                self.corpus.setdefault(case.kind, []).append(case)


def _place_in(text: str) -> str:
    """Return the last line of the package that a traceback names."""
    found = [line.strip() for line in text.splitlines() if line.strip().startswith(f'File "{_SOURCE}')]
    return found[-1].replace(_SOURCE, "gdpnet") if found else "no line of the package"


def _watch(frame: FrameType, lines: set[str]) -> Any:
    """Note the lines of the package that run; other frames are not traced."""
    code = frame.f_code
    if not code.co_filename.startswith(_SOURCE):
        return None
    name = code.co_filename[len(_SOURCE) :]

    def local(inner: FrameType, event: str, _: Any) -> Any:
        lines.add(f"{name}:{inner.f_lineno}")
        return local

    return local
