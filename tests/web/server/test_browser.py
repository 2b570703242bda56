"""The served explorer in Chromium: it loads what it shows from this server alone."""

from dataclasses import replace

import pytest
import torch
from tools.chromium import browser, chromium_path

from gdpnet.data.graph import Truth
from gdpnet.data.io.store import open_store, write_store
from helpers.server import ServerProcess, need_server

need_server()
pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed (extra dev)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]

COLOURS = """() => Math.max(...[...document.querySelectorAll('#see canvas')].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3]) found.add(data.slice(at, at + 3).join());
    return found.size;
}))"""
"""Counts the colours of the picture; a blank one has none."""


def test_the_served_explorer_shows_a_node_as_explain_does_and_asks_nobody_else(server):
    wanted = server.results("explain", targets=["n31"])[0]
    assert len(wanted["decisions"]) > 3
    with browser() as chromium:
        page, asked, complaints = chromium.new_page(), [], []
        page.on("request", lambda one: asked.append(one.url))
        page.on("pageerror", lambda one: complaints.append(str(one)))
        page.on("dialog", lambda one: complaints.append(f"dialog {one.message}"))
        page.goto(server.url + "/")
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        page.fill("#search", "n31")
        page.wait_for_selector("#found [role=option]", timeout=60_000)
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.querySelector('#see h2 bdi')?.textContent === 'n31'", timeout=60_000
        )
        steps = page.locator(".steps tbody tr .link bdi").all_text_contents()
        assert steps == [one["neighbour"] for one in wanted["decisions"]]
        page.wait_for_function(f"() => ({COLOURS})() > 3", timeout=60_000)
        page.goto(f"{server.url}/#node=%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        page.wait_for_function(
            "() => document.querySelector('#see h2 bdi')?.textContent === '<script>alert(1)</script>'",
            timeout=60_000,
        )
        page.goto(f"{server.url}/#node=nobody")
        page.wait_for_selector("#problem:not([hidden])", timeout=60_000)
        assert complaints == []
        assert all(url.startswith((server.url + "/", "data:", "blob:")) for url in asked)


def test_the_served_explorer_judges_the_model_when_it_is_asked_to(server):
    _, told, _ = server.ask("GET", "/v1/explorer/judge")
    scores = dict(row[:2] for row in told["judge"]["scores"]["tables"][0]["rows"])
    with browser() as chromium:
        page, complaints = chromium.new_page(), []
        page.on("pageerror", lambda one: complaints.append(str(one)))
        page.goto(server.url + "/")
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        first = server.ask("GET", "/v1/explorer/summary")[1]["first"]
        page.wait_for_function(
            "(id) => document.querySelector('#see h2 bdi')?.textContent === id", arg=first, timeout=60_000
        )
        assert not page.locator(".histogram svg").count()
        page.click("[data-go=judge]")
        page.wait_for_selector("#judge .tiles", timeout=60_000)
        assert page.locator("#judge").get_attribute("aria-busy") is None
        shown = page.locator("#judge table").filter(has_text="micro f1").first.text_content()
        assert scores["micro f1"] in shown
        assert page.locator("#judge .histogram svg").count() == 1
        page.click("[data-go=explore]")
        assert (
            page.locator("#see .histogram svg").count() + page.locator("#explore .histogram svg").count() > 0
        )
        lists = page.locator("#find").text_content()
        assert all(one["title"] in lists for one in told["lists"])
        page.goto(server.url + "/#tab=judge")
        page.reload()
        page.wait_for_selector("#judge .tiles", timeout=60_000)
        assert page.locator("#problem:not([hidden])").count() == 0
        assert complaints == []


def test_the_served_explorer_marks_planted_noise_that_the_store_knows(place, tmp_path):
    graph = open_store(place / "store")
    planted = torch.zeros(graph.num_edges, dtype=torch.bool)
    planted[graph.row_ptr[31] : graph.row_ptr[32]] = True  # the edges of n31
    odd = torch.arange(graph.num_nodes) == 31
    write_store(replace(graph, truth=Truth(planted, odd, graph.labels)), tmp_path / "store")
    server = ServerProcess(place / "run", tmp_path / "store", tmp_path / "log")
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{server.url}/#node=n31&step=1")
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        page.wait_for_selector(".detail .card", timeout=60_000)
        assert "Planted noise" in page.text_content(".detail .card")
        assert "planted features" in page.text_content("#why .chips")
        assert "planted noise" in page.text_content("#see .legend")
    assert server.stop() == 0
