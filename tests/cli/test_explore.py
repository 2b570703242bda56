"""gdpnet explore: the page of a run."""

import pytest

from helpers.commands import last_record, refuse, succeed
from helpers.pages import payload_of

pytestmark = pytest.mark.slow  # every test needs a run


def test_explore_writes_one_page_with_all_nodes_of_the_run(capsys, base, tmp_path):
    out = tmp_path / "explorer.html"
    said = succeed(capsys, "explore", base / "run", "--out", out, "--device", "cpu")
    assert f"page with 80 nodes written to {out}" in said
    payload = payload_of(out.read_text(encoding="utf-8"))
    assert (payload["about"]["title"], payload["nodes"]["count"]) == ("run", 80)
    assert payload["judge"]["training"]["epoch"] == [1, 2, 3]


def test_explore_of_some_nodes_shows_these_and_those_around_them(capsys, base, tmp_path):
    out, names = tmp_path / "explorer.html", tmp_path / "names.txt"
    names.write_text("040\n")
    words = ["explore", base / "run", base / "graph", "--nodes", "041", "--nodes-from", names, "--hops", 1]
    record = last_record(succeed(capsys, *words, "--out", out, "--json"))
    payload = payload_of(out.read_text(encoding="utf-8"))
    assert record["nodes"] == payload["nodes"]["count"] < 80
    assert {"040", "041"} <= set(payload["nodes"]["id"])
    assert payload["about"]["title"] == "run on graph"
    assert record["bytes"] == out.stat().st_size


def test_explore_replaces_its_own_page_and_no_other_without_force(capsys, base, tmp_path):
    out = tmp_path / "explorer.html"
    words = ["explore", base / "run", "--nodes", "041", "--out", out]
    succeed(capsys, *words)
    succeed(capsys, *words)
    out.write_text("<title>GDPNet: a report</title>")
    assert "this command did not write it" in refuse(capsys, *words)
    assert out.read_text() == "<title>GDPNet: a report</title>"
    succeed(capsys, *words, "--force")


def test_explore_refuses_what_it_cannot_write_or_find(capsys, base, tmp_path):
    assert "--out must end in .html, found 'page.txt'" in refuse(
        capsys, "explore", base / "run", "--out", tmp_path / "page.txt"
    )
    words = ["explore", base / "run", "--out", tmp_path / "page.html"]
    assert refuse(capsys, *words, "--nodes", "nobody") == "the graph has no node 'nobody'"
    assert not (tmp_path / "page.html").exists()


def test_explore_of_too_large_a_graph_names_what_to_do(capsys, base, tmp_path, monkeypatch):
    monkeypatch.setattr("gdpnet.web.explorer.part.MOST_EDGES", 100)
    said = refuse(capsys, "explore", base / "run", "--out", tmp_path / "page.html")
    assert "at most 100 directed edges, found" in said
    assert "--nodes" in said
    assert "gdpnet serve" in said
