"""The command that writes the explorer: a page to look at a graph, the decisions on it, and their reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from gdpnet._core.files import is_stream
from gdpnet.cli import options as opt
from gdpnet.cli import replacing
from gdpnet.cli.output import print_graph
from gdpnet.cli.progress import doing
from gdpnet.errors import ConfigError


def explore(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    out: Annotated[Path, opt.output("--out FILE", "HTML file to write.")] = Path("explorer.html"),
    force: opt.Force = False,
    nodes: Annotated[
        str | None,
        opt.output(
            "--nodes IDS",
            "Comma-separated ids of the nodes to explain; the page shows them and the nodes around them.",
            show_default="all nodes",
        ),
    ] = None,
    nodes_from: Annotated[
        Path | None, opt.output("--nodes-from FILE", "Text file with the ids of these nodes, one per line.")
    ] = None,
    hops: Annotated[
        int,
        opt.output("--hops N", "How far around the nodes of --nodes the page shows the graph.", min=1, max=3),
    ] = 2,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Write a page to explore the graph of a run in a browser: its nodes, which edges are kept, why, and how well.

    The page is one file that needs no server and asks for nothing from the network. A graph with more than 200,000
    directed edges needs --nodes. Every node is explained, which takes a while on a large graph.
    """
    if out.suffix.lower() not in (".html", ".htm") and not is_stream(out):
        raise ConfigError(f"--out must end in .html, found '{out.name}'")
    replacing.check_explorer(out, force)

    from gdpnet._core.files import write_text
    from gdpnet.cli.runs import model_and_graph, node_numbers
    from gdpnet.web.explorer.page import render_page
    from gdpnet.web.explorer.part import MOST_EDGES
    from gdpnet.web.explorer.payload import build_payload

    model, loaded, name = model_and_graph(run, graph, device, source, split)
    print_graph(name, loaded)
    asked = node_numbers(loaded, nodes, nodes_from)
    title = run.resolve().name if graph is None else f"{run.resolve().name} on {Path(name).name}"
    with doing("explaining nodes"):
        payload = build_payload(model, loaded, nodes=asked, hops=hops, title=title, most_edges=MOST_EDGES)
    page = render_page(payload)
    write_text(out, page)
    shown, size = payload["nodes"]["count"], len(page.encode())
    print(f"page with {shown:,} nodes written to {out} ({size / 1e6:.1f} MB); open it in a browser")
    return {"run": str(run), "graph": name, "out": str(out), "nodes": shown, "bytes": size}
