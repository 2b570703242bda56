"""Limits of what is read. Each is in the table of SECURITY.md; memory is bounded before it is allocated."""

from __future__ import annotations

EXPANSION = 100
"""Compressed content may be this many times as large as its file, beside `FREE_BYTES`."""

FREE_BYTES = 256 << 20
"""Bytes that the content of a compressed file may have in any case."""

MOST_CLASSES = 100_000
"""Classes of a graph."""

MOST_FEATURES = 1 << 20
"""Columns of sparse features, but for one-hot features, which have a column per node."""

MOST_COLUMNS = 50_000
"""Columns of a table."""

FREE_NODES = 10_000_000
"""Nodes that a sparse matrix may have in any case; more if it stores a hundredth as many values."""

NAME_BYTES = 256 << 20
"""Bytes of an array of ids or class names, whose rows are as long as the longest; more if most are that long."""

MOST_JSON_BYTES, MOST_JSON_DEPTH = 64 << 20, 100
"""Bytes and nesting of a JSON text."""

MOST_LIST_BYTES = 64 << 20
"""Bytes of a list of node ids."""

MOST_TOML_BYTES, MOST_TOML_LINE = 256 << 10, 4_000
"""Bytes of a TOML file, and characters of a line."""

MOST_DOWNLOAD_BYTES = 64 << 20
"""Bytes of a file that is downloaded."""

MOST_SEED = (1 << 63) - 1
"""The largest seed."""


def expanded(size: int) -> int:
    """Return how many bytes the content of a compressed file of some size may have."""
    return FREE_BYTES + EXPANSION * size
