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


@pytest.fixture(params=[True, False], ids=["decided", "undecided"])
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
                    "/v1/explorer/summary": lambda: build_summary(
                        predictor, title="run", decided=request.param
                    ),
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
