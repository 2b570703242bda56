"""Cases: drawn from a seed, kept in files, and judged."""

import random
from dataclasses import replace

import pytest
import torch

from helpers.graphs import small_graph

pytest.importorskip("fastapi", reason="requests to the server are among the cases (gdpnet[serve])")

from campaigns.bench import Bench
from campaigns.cases import BASE, Case
from campaigns.feeds import answer_to
from campaigns.fuzz import REGRESSIONS
from campaigns.invariants import graph_faults
from campaigns.kinds import make_case
from campaigns.mutations import damage, damage_json
from campaigns.objects import draw_object


def test_a_case_is_kept_in_a_file(tmp_path):
    case = Case("npz", "graph", "npz:3", "base", {"a/b": bytes(range(256))}, {"path": "a"})
    assert Case.from_text(case.to_text("why")) == case


def test_the_base_of_a_case_is_put_in_when_it_is_laid_out(tmp_path):
    Case("json", "command", files={"run.json": b'{"graph": "' + BASE + b'/graph"}'}).lay_out(
        tmp_path / "base", tmp_path / "case"
    )
    assert (tmp_path / "case/in/run.json").read_text() == f'{{"graph": "{tmp_path}/base/graph"}}'


def test_the_same_seed_gives_the_same_damage():
    for seed in range(50):
        content = b'{"a": [1, 2, {"b": "text"}], "c": 0.5}'
        assert damage(content, random.Random(seed)) == damage(content, random.Random(seed))
        assert damage_json(content, random.Random(seed)) == damage_json(content, random.Random(seed))
        assert draw_object(random.Random(seed)) == draw_object(random.Random(seed))


def test_a_good_graph_has_no_fault_and_broken_ones_are_found():
    graph = small_graph()
    assert graph_faults(graph) == []
    wrong = replace(graph, neighbour=graph.neighbour.flip(0))
    assert graph_faults(wrong)
    wrong = replace(graph, features=torch.full_like(graph.features, torch.nan))
    assert graph_faults(wrong) == ["a feature is not finite"]
    wrong = replace(graph, labels=torch.full_like(graph.labels, 7))
    assert graph_faults(wrong) == ["labels are outside the classes"]


def test_a_refusal_is_an_answer_and_a_long_one_a_problem(tmp_path):
    case = Case("settings", "settings", files={"settings.toml": b"[ppo]\nclip = -1\n"})
    case.lay_out(tmp_path, tmp_path / "case")
    assert answer_to(case, tmp_path, tmp_path / "case") == (False, [])


def test_every_kept_finding_can_be_read_and_names_no_machine():
    for path in sorted(REGRESSIONS.glob("*.json")):
        case = Case.from_text(path.read_text(encoding="utf-8"))
        content = path.read_bytes() + b"".join(case.files.values())
        assert b"/tmp/gdpnet" not in content, path.name


@pytest.mark.slow
def test_every_kept_finding_is_answered_rightly(tmp_path):
    """Replay what was found before, as `make fuzz-quick` does first."""
    import json
    import subprocess
    import sys
    from pathlib import Path

    count = len(list(REGRESSIONS.glob("*.json")))
    words = ["-m", "campaigns.fuzz", "--rounds", str(count), "--jobs", "1", "--findings", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert json.loads(ended.stdout)["violations"] == []


def test_a_damaged_copy_of_a_table_need_not_hold_what_was_written(tmp_path):
    bench, case = Bench(tmp_path, tmp_path, 1 << 30, 60.0), make_case("table written", 1, 0, tmp_path)
    bench.corpus["table written"] = [case]
    copies = [bench.guided("table written", number, 0) for number in range(100)]
    damaged = [copy for copy in copies if copy is not None]
    assert damaged
    assert "expected" in case.values
    assert all("expected" not in copy.values and copy.kind == case.kind for copy in damaged)
