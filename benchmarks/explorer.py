"""Seconds until the explorer's page of a graph with 10^5 links is drawn, and its size, in headless Chromium.

A model is trained for a few epochs on a part of a generated graph; how well does not matter here. Every opening is a
new browser context with an empty cache. The clock starts before the page is asked for and stops when the first
neighbourhood is drawn; then searching, moving the threshold and showing two hops are timed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from records import make_parser, write_record

from gdpnet import GDPNet, synthetic_graph
from gdpnet.data.datasets.synthetic import SyntheticSettings
from gdpnet.web.explorer.page import render_page
from gdpnet.web.explorer.payload import build_payload

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tools.chromium import browser

MOST_SECONDS, MOST_BYTES = 3.0, 15_000_000
READY = "body[data-ready] #see canvas"

ASKED = {
    "search": "() => { const box = document.getElementById('search'); box.value = 'topic 3'; "
    "box.dispatchEvent(new Event('input')) }",
    "threshold": "() => { const one = document.querySelector('#see input[type=range]'); one.value = 60; "
    "one.dispatchEvent(new Event('input')) }",
    "two_hops": "() => document.querySelector('#see [data-value=\"2\"]').click()",
}
"""What a reader does, as scripts that end when the page has answered."""


def make_page(links: int, seed: int) -> tuple[str, dict[str, float]]:
    """Return a page with so many links, and the seconds of its parts."""
    settings = SyntheticSettings(nodes=links // 4, links_per_node=2.1, spurious_links=1.0)
    graph = synthetic_graph(settings, seed=seed)
    seconds, start = dict[str, float](), time.perf_counter()
    few = {"training__epochs": 2, "training__warmup": 2, "training__max_nodes": 3000}
    few |= {"gcn__use": False, "all_edges__use": False}
    model = GDPNet(device="cpu", seed=seed).set_params(**few).fit(graph)
    seconds["fit"] = time.perf_counter() - start
    payload = build_payload(model, graph, title=f"{links:,} links", most_edges=4 * links)
    seconds["payload"] = time.perf_counter() - start - seconds["fit"]
    page = render_page(payload)
    seconds["render"] = time.perf_counter() - start - seconds["fit"] - seconds["payload"]
    print(f"{graph.num_edges:,} directed edges, {seconds}", file=sys.stderr)
    return page, seconds


def open_page(chromium: Any, path: Path) -> dict[str, float]:
    """Open the page once; return the seconds until it is drawn and those of what a reader does."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page, start = context.new_page(), time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector(READY, state="attached")
    seconds = {"open": time.perf_counter() - start}
    for name, script in ASKED.items():
        start = time.perf_counter()
        page.evaluate(script)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        seconds[name] = time.perf_counter() - start
    context.close()
    return seconds


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--links", type=int, default=100_000, help="links of the graph (default: 100,000)")
    parser.add_argument("--repeats", type=int, default=5, help="times that the page is opened (default: 5)")
    parser.add_argument("--page", type=Path, help="page that an earlier run kept, to open it again")
    parser.add_argument("--keep", type=Path, help="file to leave the page in")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    made = dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        path = (options.page or options.keep or Path(folder) / "explorer.html").resolve()
        if options.page is None:
            page, made = make_page(options.links, options.seed)
            path.write_text(page, encoding="utf-8")
        size = path.stat().st_size
        with browser() as chromium:
            found = [open_page(chromium, path) for _ in range(options.repeats)]
    metrics: dict[str, Any] = {
        "bytes": size,
        "made_seconds": {name: round(one, 2) for name, one in made.items()},
    }
    for name in found[0]:
        metrics[f"{name}_seconds"] = round(statistics.median(one[name] for one in found), 3)
    metrics["slowest_open_seconds"] = round(max(one["open"] for one in found), 3)
    write_record(
        options.results,
        "explorer",
        metrics,
        {"links": options.links, "repeats": options.repeats, "seed": options.seed},
    )
    if size > MOST_BYTES or metrics["open_seconds"] > MOST_SECONDS:
        raise SystemExit(f"the page must open in {MOST_SECONDS:g} s and have at most {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
