"""The page with a server: it asks for a summary, searches, and loads neighbourhoods on demand."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from tools.chromium import browser, chromium_path

from gdpnet.errors import GDPNetError
from gdpnet.web.explorer.page import json_text, render_page
from gdpnet.web.explorer.payload import build_summary, neighbourhood, search_nodes

pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed (extra dev)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]


@pytest.fixture(params=["decided", "undecided", "on demand"])
def server(predictor, request) -> Iterator[str]:
    """Serve the page and what it asks for on the loopback address; yield the page's address."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            given = {name: values[0] for name, values in parse_qs(asked.query).items()}
            with lock:
                status, kind, text = self.answer(asked.path, given)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def answer(self, path: str, given: dict) -> tuple[int, str, str]:
            if path == "/":
                return 200, "text/html; charset=utf-8", render_page(None, api="/v1/explorer/")
            try:
                content = {
                    "/v1/explorer/summary": lambda: (
                        build_summary(predictor, title="run", decided=request.param == "decided")
                        | {"can_judge": request.param == "on demand"}
                    ),
                    "/v1/explorer/judge": lambda: {
                        name: build_summary(predictor)[name] for name in ("judge", "lists")
                    },
                    "/v1/explorer/search": lambda: search_nodes(predictor.graph, given["q"]),
                    "/v1/explorer/neighbourhood": lambda: neighbourhood(predictor, given["node"]),
                }[path]()
            except GDPNetError as error:
                return 404, "application/problem+json", json_text({"detail": str(error)})
            except KeyError:
                return 404, "application/problem+json", "{}"
            return 200, "application/json", json_text(content)

        def log_message(self, *words) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{opened.server_port}/"
        opened.shutdown()
        thread.join()


def test_a_page_with_a_server_loads_neighbourhoods_on_demand(server, predictor, request):
    decided = "undecided" not in request.node.name
    with browser() as chromium:
        page, asked = chromium.new_page(), []
        page.on("request", lambda one: asked.append(one.url))
        page.goto(server)
        page.wait_for_selector("body[data-ready]")
        page.wait_for_selector("#see canvas")
        page.fill("#search", "041")
        page.wait_for_selector("#found [role=option]")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('#see h2 bdi')?.textContent === '041'")
        told = predictor.explain("041")
        found = page.locator(".steps tbody tr .link bdi").all_text_contents()
        assert found == [one.neighbour for one in told.decisions]
        assert page.is_visible("[data-go=judge]") == decided
        page.goto(f"{server}#node=nobody")
        page.wait_for_selector("#problem:not([hidden])")
        assert "the graph has no node 'nobody'" in page.text_content("#problem")
        assert all(url.startswith((server, "data:", "blob:")) for url in asked)
        assert any("neighbourhood?node=041" in url for url in asked)


COLOURS = """() => [...document.querySelectorAll('.nodes .dot')].map((one) => one.style.background)"""
"""The colours of the dots in a list."""


@pytest.mark.parametrize("server", ["on demand"], indirect=True)
def test_a_served_page_offers_judge_where_the_histogram_will_be(server, predictor):
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(server)
        page.wait_for_selector("#see canvas")
        offer = page.locator("#see .histogram p")
        assert offer.text_content().startswith("Open Judge to decide on every edge")
        offer.locator("button").click()
        page.wait_for_selector("#judge .tiles")
        page.click("[data-go=explore]")
        assert page.locator("#see .histogram svg").count() == 1
        assert page.locator(".histogram p").count() == 0
        page.select_option("#list", "hubs")
        classes = predictor.model.classes.tolist()
        hubs = page.locator(".nodes .id").all_text_contents()
        predicted = predictor.predict()
        ids = predictor.graph.node_ids.tolist()
        wanted = [classes.index(predicted[ids.index(one)]) for one in hubs]
        colours = page.evaluate(COLOURS)
        pairs = set(zip(wanted, colours, strict=True))
        assert len(pairs) == len(set(wanted)) == len(set(colours))
        assert "rgb(139, 146, 154)" not in colours  # that of an unknown prediction


@pytest.mark.parametrize("server", ["on demand"], indirect=True)
def test_a_served_search_that_is_cut_says_that_it_shows_the_first_nodes(server):
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(server)
        page.wait_for_selector("body[data-ready]")
        page.fill("#search", "a")
        page.wait_for_selector("#found li.quiet")
        assert page.text_content("#found li.quiet") == "The first 50 nodes."


@pytest.mark.parametrize("server", ["undecided"], indirect=True)
def test_a_served_page_is_named_after_its_run_and_says_if_a_search_fails(server):
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(server)
        page.wait_for_selector("body[data-ready]")
        assert page.title() == "GDPNet explorer: run"
        assert (
            page.get_attribute("#search", "placeholder") == "id or label"
        )  # a server does not search predictions
        page.route("**/search?*", lambda route: route.abort())
        page.fill("#search", "04")
        page.wait_for_selector("#found li.quiet")
        assert page.text_content("#found").startswith("The search failed: ")
