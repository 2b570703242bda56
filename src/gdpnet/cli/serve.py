"""The command that serves a trained model over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from gdpnet._core.threads import threads_here
from gdpnet.cli import options as opt
from gdpnet.errors import ConfigError


def serve(
    run: opt.RunPath,
    *,
    graph: Annotated[
        Path, opt.data("--graph STORE", "Folder of a stored graph, which is mapped (gdpnet store).")
    ],
    host: Annotated[
        str,
        opt.output("--host ADDRESS", "Address to bind; one that other machines can reach needs a token."),
    ] = "127.0.0.1",
    port: Annotated[int, opt.output("--port N", "Port to bind; 0 for a free one.", min=0, max=65535)] = 8765,
    token_file: Annotated[
        Path | None,
        opt.output(
            "--token-file FILE",
            "File with the token that requests must have; without it that of the variable GDPNET_TOKEN.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        opt.output(
            "--allowed-host NAME", "Further name in the Host header to answer to; repeat for several."
        ),
    ] = None,
    max_bytes: Annotated[int, opt.computing("--max-bytes N", "Largest request in bytes.")] = 8 << 20,
    max_nodes: Annotated[
        int, opt.computing("--max-nodes N", "Most new nodes, and targets, per request.")
    ] = 1_000,
    max_edges: Annotated[int, opt.computing("--max-edges N", "Most edges per request.")] = 10_000,
    max_surroundings: Annotated[
        int,
        opt.computing(
            "--max-surroundings N", "Most edges around 64 targets that their answers are computed from."
        ),
    ] = 2_000_000,
    max_requests: Annotated[
        int, opt.computing("--max-requests N", "Most requests that are computed or wait at a time.")
    ] = 64,
    seconds: Annotated[float, opt.computing("--seconds S", "Longest time of a request.")] = 30.0,
    threads: Annotated[
        int | None,
        opt.computing(
            "--threads N",
            "Threads that compute a request (default: one per core, eight at most); answers do not depend on it.",
            min=1,
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        opt.computing(
            "--tables FOLDER",
            "Folder for decisions on the stored graph, made at the start if the model reads them (default: beside "
            "the store, its name and .tables).",
        ),
    ] = None,
    no_tables: Annotated[
        bool, opt.computing("--no-tables", "Keep no decisions: decide anew for each request.")
    ] = False,
    device: opt.DeviceName = "cpu",
) -> dict[str, Any]:
    r"""Answer questions about new and stored nodes over HTTP, until SIGTERM or Ctrl-C.

    Needs the packages of gdpnet\[serve]. SIGHUP loads model and graph anew. Requests are logged on standard error.
    """
    try:
        from gdpnet.inference.kept_tables import tables_beside
        from gdpnet.web.server.guard import Access
        from gdpnet.web.server.limits import Limits
        from gdpnet.web.server.process import read_token
        from gdpnet.web.server.process import serve as serve_model
        from gdpnet.web.server.served import Place
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gdpnet"):
            raise
        raise ConfigError(
            f"gdpnet serve needs the package {error.name}: install it with pip install 'gdpnet[serve]'"
        ) from error
    limits = Limits(max_bytes, max_nodes, max_edges, max_surroundings, max_requests, seconds)
    access = Access(host, tuple(allowed_host or ()), read_token(token_file))

    def say(url: str) -> None:
        print(f"serving {run} on {url}", flush=True)

    kept = None if no_tables else tables or tables_beside(graph)
    place = Place(run, graph, device, kept, threads or threads_here(), tables_named=tables is not None)
    serve_model(place, access, port, limits, say)
    return {"run": str(run), "graph": str(graph)}
