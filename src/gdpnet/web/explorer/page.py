"""The explorer's page: one HTML file with its data, styles and scripts in it, which loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from gdpnet._core.files import plain
from gdpnet.benchmark.page import COLOURS

TITLE = "GDPNet explorer: "
"""What the title of every page begins with."""

_MAIN = "main"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function |const |class )(\w+)", re.MULTILINE)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render_page(payload: dict[str, Any] | None, *, api: str | None = None) -> str:
    """Return the page as HTML.

    Args:
        payload: what `gdpnet.web.explorer.payload.build_payload` returned; None if a server is asked for everything.
        api: address that the page asks if it has no data of its own, on its own origin: ``summary``, ``judge``,
            ``search?q=`` and ``neighbourhood?node=`` below it; None if the page must ask nobody.
    """
    title = TITLE + ((payload or {}).get("about", {}).get("title") or "graph")
    parts = _parts()
    slots = {
        "policy": html.escape(content_policy(api)),
        "title": html.escape(title),
        "api": html.escape(api or ""),
        "payload": json_text(payload),
        **parts,
    }
    return _SLOT.sub(lambda found: slots[found[1]], _read("explorer", "static", "explorer.html"))


def json_text(payload: Any) -> str:
    """Return plain values as JSON that cannot end the element that holds it."""
    text = json.dumps(plain(payload), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # a lone surrogate, which JSON of a file may hold, has no UTF-8
    text = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def content_policy(api: str | None) -> str:
    """Return the content security policy: the page's own scripts and styles, and no request but to the server."""
    parts = _parts()
    scripts = " ".join(_source_of(parts[name]) for name in ("cytoscape", "uplot", "script"))
    styles = " ".join(_source_of(parts[name]) for name in ("container", "uplot_style", "style"))
    server = "'none'" if api is None else "'self'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; connect-src {server}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source_of(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _parts() -> dict[str, str]:
    """Return the styles and scripts of the page by their places in it."""
    return {
        # cytoscape adds this style unless it is there, which the policy would forbid
        "container": ".__________cytoscape_container { position: relative; }",
        "uplot_style": _read("vendor", "uplot.min.css"),
        "style": COLOURS + _read("explorer", "static", "explorer.css"),
        "cytoscape": _as_script(_read("vendor", "cytoscape.min.js")),
        "uplot": _as_script(_read("vendor", "uplot.iife.min.js")),
        "script": _as_script(bundle(_MAIN)),
    }


def bundle(main: str) -> str:
    """Return a module and those that it imports as one script, each in a scope that returns its exports."""
    return "".join(
        f"const _{name} = (() => {{\n{_scoped(text)}}})();\n" for name, text in _modules(main, set())
    )


def _scoped(text: str) -> str:
    """Return a module as the body of a function that takes imports from other modules and returns its exports."""
    exports = ", ".join(found[2] for found in _EXPORT.finditer(text))
    text = _IMPORT.sub(lambda found: f"const {found[1]} = _{found[2]};\n", text)
    return f"{_EXPORT.sub(lambda found: found[1] + found[2], text)}return {{ {exports} }};\n"


def _modules(name: str, done: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the modules that a module imports, then the module, each once."""
    done.add(name)
    text = _read("explorer", "static", f"{name}.js")
    for _, other in _IMPORT.findall(text):
        if other not in done:
            yield from _modules(other, done)
    yield name, text


def _as_script(text: str) -> str:
    """Return a script that cannot end the element that holds it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _read(*path: str) -> str:
    return files("gdpnet.web").joinpath(*path).read_text(encoding="utf-8")
