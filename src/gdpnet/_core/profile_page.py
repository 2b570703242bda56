"""A profile as one HTML page that any browser opens without a network: a timeline to zoom into, and a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdpnet._core.profiling import Event, Row

HEADER = ("phase", "calls", "seconds", "own seconds", "share of fit")

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d5d9de; --soft: #f3f5f7; --light: 78% }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #14171a; --line: #3a4047; --soft: #1e2327; --light: 32% }
}
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem } button { font: inherit; min-width: 2.2rem }
svg { display: block; width: 100%; margin: .6rem 0 1.5rem; border: 1px solid var(--line); cursor: grab;
  touch-action: none }
svg text { font-size: 12px; fill: var(--ink); pointer-events: none } svg line { stroke: var(--line) }
rect { stroke: var(--paper); stroke-width: .5 } rect:hover { stroke: var(--ink); stroke-width: 1.5 }
#tip { position: fixed; padding: .2rem .5rem; border: 1px solid var(--line); background: var(--soft);
  pointer-events: none; white-space: nowrap }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); text-align: right }
th:first-child, td:first-child { text-align: left; white-space: pre }
"""

_SCRIPT = """
const { names, events, total } = JSON.parse(document.getElementById("data").textContent);
const svg = document.querySelector("svg"), tip = document.getElementById("tip"), row = 22, top_ = 24;
const depth = Math.max(0, ...events.map(event => event[0])) + 1;
let from = 0, to = total, drag = null;
svg.setAttribute("height", top_ + depth * row + 4);
const make = (kind, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return svg.appendChild(node);
};
const hue = number => (number * 137.5) % 360;
function draw() {
  svg.replaceChildren();
  const width = svg.clientWidth, scale = width / (to - from);
  const unit = 10 ** Math.floor(Math.log10((to - from) / 4)), step = (to - from) / unit > 20 ? 5 * unit : unit;
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    const x = (time - from) * scale;
    make("line", { x1: x, x2: x, y1: 0, y2: top_ + depth * row });
    make("text", { x: x + 3, y: 14 }, `${+time.toPrecision(6)} s`);
  }
  events.forEach(([level, start, seconds, name], number) => {
    const left = Math.max(0, (start - from) * scale), right = Math.min(width, (start + seconds - from) * scale);
    if (right < 0 || left > width || right - left < 0.3) return;
    const y = top_ + level * row;
    make("rect", { x: left, y, width: right - left, height: row - 2, "data-number": number,
      style: `fill: hsl(${hue(name)} 60% var(--light))` });
    const room = Math.floor((right - left - 8) / 7);
    if (room > 2) make("text", { x: left + 4, y: y + 14 }, names[name].slice(0, room));
  });
}
function zoom(factor, place) {
  const middle = from + place * (to - from), span = Math.min(total, Math.max(total / 1e6, (to - from) * factor));
  from = Math.min(Math.max(0, middle - place * span), total - span); to = from + span; draw();
}
svg.addEventListener("wheel", event => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / svg.clientWidth);
}, { passive: false });
svg.addEventListener("pointerdown", event => { drag = [event.clientX, from]; });
window.addEventListener("pointerup", () => { drag = null; });
svg.addEventListener("pointermove", event => {
  if (drag) {
    const span = to - from, moved = (drag[0] - event.clientX) / svg.clientWidth * span;
    from = Math.min(Math.max(0, drag[1] + moved), total - span); to = from + span; draw();
  }
  const found = events[event.target.dataset.number];
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = `${names[found[3]]}: ${found[2].toPrecision(4)} s, from ${found[1].toFixed(3)} s`;
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 16}px`;
});
svg.addEventListener("pointerleave", () => { tip.hidden = true; });
document.getElementById("in").onclick = () => zoom(0.5, 0.5);
document.getElementById("out").onclick = () => zoom(2, 0.5);
document.getElementById("all").onclick = () => zoom(Infinity, 0);
addEventListener("resize", draw);
draw();
"""


def page_of(title: str, events: Sequence[Event], rows: Sequence[Row]) -> str:
    """Return the page; nothing in it can leave its place, whatever the phases are called."""
    names = sorted({event.path[-1] for event in events})
    number = {name: place for place, name in enumerate(names)}
    deepest = max((len(event.path) for event in events if not event.is_beside), default=0)
    shown = [
        [_level(event, deepest), round(event.start, 6), round(event.seconds, 6), number[event.path[-1]]]
        for event in sorted(events, key=lambda event: (event.start, -event.seconds))
    ]
    total = max((event.start + event.seconds for event in events), default=1.0)
    data = json.dumps({"names": names, "events": shown, "total": total}).replace("<", "\\u003c")
    return f"""<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>
<meta name=viewport content="width=device-width, initial-scale=1"><style>{_STYLE}</style>
<h1>{escape(title)}</h1>
<p>Phases over time, {total:.1f} s in all. Zoom with the wheel or
<button id=in title="zoom in">+</button> <button id=out title="zoom out">&minus;</button>
<button id=all>whole</button>, drag to move, point at a bar for its time.</p>
<svg role=img aria-label="Timeline of the phases; the table below has their times"></svg><div id=tip hidden></div>
<div class=wide>{_table(rows)}</div>
<script type="application/json" id=data>{data}</script><script>{_SCRIPT}</script></html>
"""


def _level(event: Event, deepest: int) -> int:
    """Return the line of an event in the timeline; other threads are below the caller's phases."""
    return deepest + event.lane - 1 if event.is_beside else len(event.path) - 1


def _table(rows: Sequence[Row]) -> str:
    lines = [cells_of(row) for row in rows]
    head = "".join(f"<th>{name}" for name in HEADER)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in line) for line in lines)
    return f"<table><tr>{head}{body}</table>"


def cells_of(row: Row) -> tuple[str, ...]:
    """Return a row of the table as text, its phase indented by what it lies within."""
    phase = "  " * row.depth + row.name
    return phase, f"{row.calls:,}", f"{row.seconds:.3f}", f"{row.own_seconds:.3f}", f"{row.share:.1%}"
