"""What the shell completes: datasets, graphs, run folders, settings and noise. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from gdpnet.config import Config
from gdpnet.data.datasets.known import NAMED

RUN_FILES = ("run.json", "model.safetensors")
"""A folder with one of these files is a run."""


def graphs(incomplete: str) -> list[str]:
    """Return the datasets, folders and npz files that begin with a text."""
    names = [name for name in (*NAMED, "synthetic") if name.startswith(incomplete)]
    return names + [
        f"{path}/" if path.is_dir() else str(path)
        for path in _entries(incomplete)
        if path.is_dir() or path.suffix == ".npz"
    ]


def runs(incomplete: str) -> list[str]:
    """Return the run folders that begin with a text, and other folders, which may hold some."""
    found = [path for path in _entries(incomplete) if path.is_dir()]
    return [str(path) if any((path / name).is_file() for name in RUN_FILES) else f"{path}/" for path in found]


def settings(incomplete: str) -> list[str]:
    """Return the settings that begin with a text, as ``section.key=``."""
    sections = {name: fields(values) for name, values in vars(Config()).items()}
    names = [f"{section}.{one.name}=" for section, keys in sections.items() for one in keys]
    return [name for name in names if name.startswith(incomplete)]


def sections(incomplete: str) -> list[str]:
    """Return the sections of settings that begin with a text."""
    return [name for name in vars(Config()) if name.startswith(incomplete)]


def _entries(incomplete: str) -> list[Path]:
    """Return the files and folders that begin with a text, sorted; hidden ones only if it names them."""
    folder, _, start = incomplete.rpartition("/")
    place = Path(folder or ("/" if incomplete.startswith("/") else "."))
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return []
    return [
        path for path in entries if path.name.startswith(start) and (start or not path.name.startswith("."))
    ]
