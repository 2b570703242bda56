"""Refuse to replace files that the command did not write, before anything is computed; --force replaces them.

A file is taken for the command's own by its content: the columns of a table, the title of a page, the first line of
settings, the program named in a picture. Empty files, devices and pipes may always be written to.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from gdpnet._core.files import is_stream
from gdpnet.errors import ConfigError

TUNED = "# Settings found by gdpnet tune"
"""The first line of the settings that `gdpnet tune` writes."""

DRAWN = "GDPNet"
"""The program that pictures name."""

_HEAD = 1 << 14

Columns = tuple[str, ...]


def check_table(
    out: Path, is_ours: Callable[[Columns], bool], force: bool, inputs: Iterable[Path] = ()
) -> None:
    """Refuse a table whose columns are not those that the command writes, and one of its ``inputs``."""
    if force or not _would_be_lost(out):
        return
    _refuse_inputs(out, inputs)
    _refuse_unless(is_ours(_columns_of(out)), out)


def check_not_read(out: Path, graph: str, force: bool) -> None:
    """Refuse a table that is one of the files of a graph, by the name that the graph was read by."""
    if not force and _would_be_lost(out):
        from gdpnet.data.io.files import files_of

        _refuse_inputs(out, files_of(Path(graph)))


def _refuse_inputs(out: Path, inputs: Iterable[Path]) -> None:
    for path in inputs:
        if path.exists() and path.samefile(out):
            raise ConfigError(f"--out {out} is also read; choose another --out, or replace it with --force")


def is_prediction(columns: Columns) -> bool:
    """Return whether a table has the columns that `gdpnet predict` writes."""
    starts = (("id", "predicted"), ("id", "prediction", "low", "high"))
    return columns == ("source", "target", "probability") or any(
        columns[: len(start)] == start for start in starts
    )


def is_embedding(columns: Columns) -> bool:
    """Return whether a table has the columns that `gdpnet embed` writes."""
    return columns[:2] == ("id", "h0")


def is_cleaned(columns: Columns) -> bool:
    """Return whether a table has the columns that `gdpnet denoise` writes."""
    return columns[:2] == ("source", "target") and "keep_probability" in columns[2:4]


def is_explanation(columns: Columns) -> bool:
    """Return whether a table has the columns that `gdpnet explain` writes."""
    return columns[:4] == ("node", "node_predicted", "explained", "value")


def check_page(out: Path, force: bool) -> None:
    """Refuse an HTML file that is no report."""
    if not force and _would_be_lost(out):
        _refuse_unless("<title>GDPNet: " in _head(out), out)


def check_explorer(out: Path, force: bool) -> None:
    """Refuse an HTML file that is no page of the explorer."""
    if not force and _would_be_lost(out):
        _refuse_unless("<title>GDPNet explorer: " in _head(out), out)


def check_two_files(out: Path, markdown: Path) -> None:
    """Refuse one file for both pages of a report, of which the second would replace the first."""
    if not is_stream(out) and out.resolve() == markdown.resolve():
        raise ConfigError(f"--out and --markdown must be two files, found {out} for both")


def check_markdown(out: Path, force: bool) -> None:
    """Refuse a Markdown file that is no report."""
    if not force and _would_be_lost(out):
        ours = r"# Results\n\nMade by gdpnet report |# Run [^\n]*\n\n(Not f|F)inished after \d+ of at most "
        _refuse_unless(re.match(ours, _head(out)) is not None, out, "--markdown")


def check_pictures(folder: Path, names: Iterable[str], force: bool) -> None:
    """Refuse to replace pictures that GDPNet did not draw."""
    for path in (folder / name for name in names):
        if not force and _would_be_lost(path):
            _refuse_unless(f"Software\0{DRAWN}" in _head(path), path, "--figures")


def check_settings(out: Path, force: bool) -> None:
    """Refuse a TOML file that `gdpnet tune` did not write."""
    if not force and _would_be_lost(out):
        _refuse_unless(_head(out).startswith(TUNED), out)


def _would_be_lost(path: Path) -> bool:
    return path.is_file() and not is_stream(path) and path.stat().st_size > 0


def _refuse_unless(ours: bool, path: Path, option: str = "--out") -> None:
    if not ours:
        raise ConfigError(
            f"{path} exists, and this command did not write it; choose another {option}, or replace it with --force"
        )


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf-8", errors="replace").removeprefix("\ufeff")
    except OSError as error:
        raise ConfigError(f"cannot read {path}, which would be replaced: {error.strerror}") from error


def _columns_of(path: Path) -> Columns:
    """Return the first columns of a table; none if it cannot be read."""
    if path.suffix != ".parquet":
        return tuple(next(csv.reader(_head(path).splitlines()[:1], strict=False), ()))

    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:  # pyarrow refuses names that are no UTF-8
            return tuple(pq.read_schema(file).names)
    except (pa.ArrowException, OSError, ValueError):
        return ()
