"""A self-contained HTML page, rendered from Markdown."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from pathlib import Path

from markdown_it import MarkdownIt

COLOURS = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d5d9de; --soft: #f3f5f7; --bold: #0a5cad }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #14171a; --line: #3a4047; --soft: #1e2327; --bold: #7db8f0 }
}
"""
"""The colours of all pages."""

_STYLE = """
@media (prefers-color-scheme: dark) { img { background: #fff; border-radius: 6px } }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 100% }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap }
td:first-child { min-width: 8rem; white-space: normal } td strong { color: var(--bold) }
th { background: var(--soft) } small { opacity: .75; display: block }
img { max-width: 100%; height: auto } p:has(img) { margin: 1.5rem 0 0 }
p:has(img) + p { margin-top: 0; opacity: .85; font-size: .9rem }
"""


def page_of(markdown: str, title: str) -> str:
    """Return Markdown as one HTML page; ``<br>`` in a cell begins its small print."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r"&lt;br&gt;(.*?)</td>", r"<small>\1</small></td>", body)  # the only HTML in the Markdown
    body = body.replace("<table>", "<div class=wide><table>").replace("</table>", "</table></div>")
    head = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f'<meta name=viewport content="width=device-width, initial-scale=1"><style>{COLOURS}{_STYLE}</style>\n'
    )
    return f"{head}{body}</html>\n"


def as_text(value: object) -> str:
    """Return a text that Markdown, with or without HTML in it, shows as it is, on one line."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text)


def table_lines(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table as lines of Markdown, with an empty line after it."""
    header = list(columns)
    lines = ["| " + " | ".join(line) + " |" for line in (header, *rows)]
    return [lines[0], "|" + "---|" * len(header), *lines[1:], ""]


def inlined(picture: Path) -> str:
    """Return a picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def linked(picture: Path, page: Path) -> str:
    """Return the address of a picture from a page: relative if it lies beside or below it."""
    return (picture.relative_to(page.parent) if picture.is_relative_to(page.parent) else picture).as_posix()
