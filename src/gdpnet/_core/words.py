"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 node``, ``2,000 nodes``; ``many`` if the plural is more than an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
