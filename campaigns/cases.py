"""A hostile input as plain data, so that a finding can be kept in a file and tried again."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE = b"@BASE@"
"""Stands for the campaign's base in the files of a case, whose path differs from run to run."""


@dataclass(frozen=True)
class Case:
    """Files that are laid over a copy of a base folder, and what is done with them."""

    kind: str
    """The kind of input, such as ``npz`` or ``settings``."""
    feed: str
    """What reads it; a name of `campaigns.feeds.FEEDS`."""
    name: str = ""
    """The kind and a number, or what a kept finding is about."""
    base: str = ""
    """A file or folder of the campaign's base that is copied first."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Contents by path below the copy."""
    values: dict[str, Any] = field(default_factory=dict)
    """Arguments of what reads it, as JSON has them."""

    def lay_out(self, base: Path, folder: Path) -> None:
        """Write the files of the case to a new folder."""
        folder.mkdir(parents=True)
        if self.base:
            source = base / self.base
            if source.is_dir():
                shutil.copytree(source, folder / "in")
            else:
                (folder / "in").mkdir()
                shutil.copy(source, folder / "in" / source.name)
        for name, content in self.files.items():
            path = folder / "in" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.replace(BASE, str(base).encode()))

    def to_text(self, why: str = "") -> str:
        """Return the case as JSON, its files compressed."""
        files = {
            name: base64.b85encode(zlib.compress(content, 9)).decode() for name, content in self.files.items()
        }
        about = {"why": why, "name": self.name, "kind": self.kind, "feed": self.feed, "base": self.base}
        return json.dumps(about | {"files": files, "values": self.values}, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Case:
        """Return the case of a text that `to_text` made."""
        about = json.loads(text)
        files = {name: zlib.decompress(base64.b85decode(content)) for name, content in about["files"].items()}
        return cls(about["kind"], about["feed"], about["name"], about["base"], files, about["values"])
