"""Explanations and cleaned graphs as notebooks show them: HTML without scripts, in the notebook's own colours."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gdpnet.inference.denoised import Denoised
    from gdpnet.inference.explanation import Decision, Explanation

_MOST_DRAWN = 40
"""Neighbours that are drawn."""

_BINS = 40
"""Bins of the histogram."""

_LOW, _MIDDLE, _HIGH = (214, 96, 30), (150, 156, 163), (33, 113, 181)
"""Colours of keep probabilities 0, 0.5 and 1."""

_TINY = 0.01
"""Of a smaller threshold, kept edges would have the colour of dropped ones."""

_CELL = "padding:2px 8px;text-align:left;white-space:nowrap"


def explanation_html(found: Explanation, most_rows: int) -> str:
    """Return an explanation as HTML: sentences, a picture of the neighbours, and a table of the decisions."""
    header, rows = found.table(most_rows)
    lines = [f"<b>{_text(found.summary[0])}</b>", *map(_text, found.summary[1:])]
    parts = ["<br>".join(lines)]
    if rows:
        parts += [_star(found), _table(header, rows, found.title), *map(_text, found.rest(most_rows))]
    return f'<div class="gdpnet-explanation">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def denoised_html(cleaned: Denoised) -> str:
    """Return a cleaned graph as HTML: a sentence, and the histogram of the keep probabilities with the threshold."""
    parts = [f"<b>{_text(cleaned.summary)}</b>"]
    if cleaned.keep_probability.size:
        parts.append(_histogram(cleaned))
    truth = None if cleaned.original is None else cleaned.original.truth
    if truth is not None and bool(truth.spurious.any()):
        noise = truth.spurious.numpy()
        removed, kept = float(np.mean(~cleaned.kept[noise])), cleaned.kept[~noise]
        said = f"{removed:.1%} of the known noise is removed"
        parts.append(
            _text(f"{said}, {float(np.mean(kept)):.1%} of the genuine edges are kept" if kept.size else said)
        )
    return f'<div class="gdpnet-denoised">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def chance_text(chance: float) -> str:
    """Return a probability with three decimals, a small one with its first three digits."""
    return f"{chance:.3g}" if 0 < chance < 0.001 else f"{chance:.3f}"


def _text(text: str) -> str:
    """Return a text that cannot be read as HTML, and whose direction of writing changes nothing around it."""
    return f"<bdi>{escape(text)}</bdi>"


def _colour(keep: float) -> str:
    """Return orange for edges that are dropped, grey in between, blue for those that are kept."""
    ends, share = ((_LOW, _MIDDLE), 2 * keep) if keep < 0.5 else ((_MIDDLE, _HIGH), 2 * keep - 1)
    mixed = (round(one + share * (other - one)) for one, other in zip(*ends, strict=True))
    return f"rgb({','.join(map(str, mixed))})"


def _level(keep: float, threshold: float) -> float:
    """Return how far an edge is from dropped to kept: its keep probability, with a tiny threshold in the middle."""
    if not 0 < threshold < _TINY:
        return keep
    return keep / threshold / 2 if keep < threshold else 1 - math.log(keep) / math.log(threshold) / 2


def _table(header: list[str], rows: list[list[str]], title: str) -> str:
    head = "".join(f'<th style="{_CELL}">{_text(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_text(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    caption = f'<caption style="text-align:left">{_text(title)}</caption>'
    return (
        f'<div style="overflow-x:auto"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _star(found: Explanation) -> str:
    """Return a picture of the node and its neighbours; edges that are surely kept are wide."""
    shown = sorted(found.decisions, key=lambda one: -abs(one.contribution))[:_MOST_DRAWN]
    spokes = "".join(_spoke(one, place, len(shown), found.threshold) for place, one in enumerate(shown))
    label = f"node {found.node} and {len(shown)} of its {len(found.decisions)} neighbours"
    centre = '<circle cx="160" cy="120" r="9" fill="currentColor"/>'
    size = 'viewBox="0 0 320 240" width="320" height="240"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{spokes}{centre}</svg>'


def _spoke(one: Decision, place: int, count: int, threshold: float) -> str:
    level = _level(one.keep_probability, threshold)
    angle = 2 * math.pi * place / count - math.pi / 2
    x, y = 160 + 95 * math.cos(angle), 120 + 95 * math.sin(angle)
    dash = "" if one.kept else ' stroke-dasharray="4 4"'
    width = 1 + 5 * level if one.kept else 1.5
    said = f"{one.neighbour}: keep {chance_text(one.keep_probability)}, {'kept' if one.kept else 'dropped'}"
    line = f'<line x1="160" y1="120" x2="{x:.1f}" y2="{y:.1f}" stroke="{_colour(level)}"'
    name = one.neighbour if len(one.neighbour) <= 10 else f"{one.neighbour[:9]}…"
    at = f'x="{x:.1f}" y="{y + 16:.1f}" font-size="9" text-anchor="middle" fill="currentColor"'
    text = f"<text {at}>{escape(name)}</text>" if count <= 20 else ""
    return (
        f'<g><title>{escape(said)}</title>{line} stroke-width="{width:.1f}"{dash}/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{_colour(level)}"/>{text}</g>'
    )


def _histogram(cleaned: Denoised) -> str:
    """Return the histogram of keep probabilities, with a line at the threshold."""
    place = np.minimum((cleaned.keep_probability * _BINS).astype(int), _BINS - 1)
    count = np.bincount(place, minlength=_BINS)
    height = 60 * np.sqrt(count / count.max())
    colours = [_colour(_level((bin_ + 0.5) / _BINS, cleaned.threshold)) for bin_ in range(_BINS)]
    bars = "".join(
        f'<rect x="{10 * bin_ + 1}" y="{62 - tall:.1f}" width="8" height="{tall:.1f}" '
        f'fill="{colours[bin_]}"><title>{count[bin_]:,} edges</title></rect>'
        for bin_, tall in enumerate(height)
    )
    x = 10 * _BINS * min(1.0, max(0.0, cleaned.threshold))
    line = f'<path d="M{x:.1f} 0V62" stroke="currentColor" stroke-dasharray="3 3"/>'
    axis = "".join(
        f'<text x="{at}" y="76" font-size="11" text-anchor="{anchor}" fill="currentColor">{text}</text>'
        for at, anchor, text in (
            (0, "start", "0"),
            (5 * _BINS, "middle", "keep probability"),
            (10 * _BINS, "end", "1"),
        )
    )
    return (
        f'<svg viewBox="0 0 {10 * _BINS} 80" width="400" height="80" role="img" '
        f'aria-label="histogram of the keep probabilities">{bars}{line}{axis}</svg>'
    )
