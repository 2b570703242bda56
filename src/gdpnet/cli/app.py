"""The program that the commands belong to, and its options of no command in particular."""

from __future__ import annotations

from typing import Annotated

import typer

from gdpnet._core.version import __version__

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Learn which neighbours of a noisy graph to trust: train, predict, and clean the graph. "
    "Every command takes --debug for a full traceback.",
)


def _show_version(wanted: bool | None) -> None:
    if wanted:
        print(f"gdpnet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_show_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """Hold the options of no command in particular."""
