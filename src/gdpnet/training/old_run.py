"""Delete the files of a run that another one replaces; files that no run of GDPNet wrote stay."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdpnet.training.run_folder import RunFolder

_HEAD = 1 << 14

_DRAWN = b"Software\0GDPNet"
"""What the pictures of a run name as their program."""

_PROFILES = (b"<title>gdpnet train ", b'{"traceEvents"')
"""By what the page and the trace of a profile are known."""


def delete_run(run: RunFolder, *, is_known: bool) -> None:
    """Delete what a new run would go on from or mix with; ``is_known`` says that GDPNet wrote ``run.json``.

    The settings go first: with those of the old run, a new description would be continued with them. Tables and
    pictures that a new run may not write are deleted only if a run wrote them.
    """
    for path in (run.metrics, run.config, run.checkpoint, run.history, run.model):
        path.unlink(missing_ok=True)
    if run.is_demo:
        run.demo.unlink()
    if is_known:
        for path in (run.suspected, run.split, *_drawn(run)):
            path.unlink(missing_ok=True)
        if run.figures.is_dir() and not run.figures.is_symlink():
            with suppress(OSError):  # it has pictures of the user's
                run.figures.rmdir()


def _drawn(run: RunFolder) -> list[Path]:
    """Return the pictures and profiles that a run has written, by what they hold."""
    pictures = [path for path in run.figures.glob("*.png") if _DRAWN in _head(path)]
    return pictures + [path for path, mark in zip(run.profile, _PROFILES, strict=True) if mark in _head(path)]


def _head(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(_HEAD)
