"""A graph, settings and a run that the tests of the commands share."""

from pathlib import Path

import pytest

from gdpnet.cli import main
from gdpnet.cli.output import set_quiet
from helpers.commands import train_words
from helpers.small import FAST, write_folder


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """Return a folder with a graph, settings and a run; tests must not change it."""
    base = tmp_path_factory.mktemp("cli")
    write_folder(base / "graph")
    (base / "fast.toml").write_text(FAST.to_toml())
    assert main(train_words(base, base / "run")) == 0
    return base


@pytest.fixture(autouse=True)
def _loud():
    """Undo ``--quiet`` of a command that a test called in this process."""
    yield
    set_quiet(False)
