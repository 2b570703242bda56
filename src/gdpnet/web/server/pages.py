"""The pages of the server: the explorer, and its documentation, which needs nothing from elsewhere."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Query, Response
from fastapi.responses import HTMLResponse

from gdpnet.web.explorer.page import content_policy, json_text, render_page

if TYPE_CHECKING:
    from gdpnet.web.server.server import Server

EXPLORER = "/v1/explorer/"
"""Below this the explorer's page asks for its data."""

_SCRIPT = re.compile(r"<script(?:\s[^>]*)?>(.*?)</script>", re.DOTALL)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1rem .3rem}:root{color-scheme:light dark}"
)


def policy_for(page: str) -> str:
    """Return a content security policy that lets run the scripts of a page, and no others."""
    hashes = [
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in _SCRIPT.findall(page)
    ]
    scripts = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


async def _json(compute: Callable[[], Any]) -> Response:
    """Compute something in another thread and return it as JSON."""
    found = await asyncio.get_running_loop().run_in_executor(None, compute)
    return Response(json_text(found), media_type="application/json")


def page_of(text: str) -> HTMLResponse:
    """Return a page with its policy."""
    return HTMLResponse(text, headers={"Content-Security-Policy": policy_for(text)})


def add_pages(app: FastAPI, server: Server) -> None:
    """Add the routes of the pages."""

    @app.get("/", include_in_schema=False)
    async def explorer() -> HTMLResponse:
        page = render_page(None, api=EXPLORER)
        return HTMLResponse(page, headers={"Content-Security-Policy": content_policy(EXPLORER)})

    @app.get(EXPLORER + "summary", include_in_schema=False)
    async def summary() -> Response:
        return await _json(lambda: server.served.summary | {"can_judge": server.can_judge})

    @app.get(EXPLORER + "judge", include_in_schema=False)
    async def judge() -> Response:
        return Response(await server.judge(), media_type="application/json")

    @app.get(EXPLORER + "search", include_in_schema=False)
    async def search(q: str = Query("", max_length=1_000)) -> Response:
        return await _json(partial(server.served.search, q))

    @app.get(EXPLORER + "neighbourhood", include_in_schema=False)
    async def neighbourhood(node: str = Query(max_length=1_000)) -> Response:
        return Response(await server.explore(node), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page_of(documentation(app))


def documentation(app: FastAPI) -> str:
    """Return all routes with their fields as one plain page, made from the OpenAPI description."""
    schema = app.openapi()
    parts = [
        _route(method, path, about)
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
    ]
    models = [_model(name, about) for name, about in schema.get("components", {}).get("schemas", {}).items()]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>gdpnet server</title><style>{_STYLE}</style>'
        f"<h1>gdpnet {escape(schema['info']['version'])}</h1><p>{escape(schema['info']['summary'])} "
        'The description for programs is <a href="/openapi.json">openapi.json</a>.</p>'
        f"<h2>Routes</h2>{''.join(parts)}<h2>Bodies</h2>{''.join(models)}</html>"
    )


def _route(method: str, path: str, about: dict[str, Any]) -> str:
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = str(body.get("$ref", "")).rsplit("/", 1)[-1]
    takes = f' Body: <a href="#{escape(name)}">{escape(name)}</a>.' if name else ""
    said = escape(about.get("description", ""))
    return f"<h3><code>{method.upper()} {escape(path)}</code></h3><p>{said}{takes}</p>"


def _model(name: str, about: dict[str, Any]) -> str:
    needed = set(about.get("required", []))
    rows = "".join(
        f"<li><code>{escape(field)}</code>{' (required)' if field in needed else ''} "
        f"{escape(one.get('description', ''))}"
        for field, one in about.get("properties", {}).items()
    )
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(about.get("description", ""))}</p><ul>{rows}</ul>'
