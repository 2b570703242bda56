"""Fetch the JavaScript libraries of the explorer with npm and write them, with a manifest, into the package.

    python tools/vendor.py           # the versions of the manifest again; fails if a byte differs
    python tools/vendor.py --update  # the versions below; writes a new manifest

A user needs neither npm nor this script: the files are part of the package.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "src" / "gdpnet" / "web" / "vendor"
MANIFEST = FOLDER / "manifest.json"

WANTED: dict[str, tuple[str, dict[str, str]]] = {
    "cytoscape": (
        "3.34.4",
        {"dist/cytoscape.min.js": "cytoscape.min.js", "LICENSE": "cytoscape.LICENSE.txt"},
    ),
    "uplot": (
        "1.6.32",
        {
            "dist/uPlot.iife.min.js": "uplot.iife.min.js",
            "dist/uPlot.min.css": "uplot.min.css",
            "LICENSE": "uplot.LICENSE.txt",
        },
    ),
}
"""Version of each package, and the name here of each of its files that is used."""


def sha256(content: bytes) -> str:
    """Return a checksum in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def fetch(name: str, version: str, folder: Path) -> Path:
    """Download the archive of a package; return its path."""
    words = ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"]
    said = subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return folder / said.stdout.split()[-1]


def unpack(name: str, version: str, files: dict[str, str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the entry of a package in the manifest, and the contents of its files by their names here."""
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(name, version, Path(folder))
        with tarfile.open(archive) as opened:
            found = {path: opened.extractfile(f"package/{path}") for path in [*files, "package.json"]}
            content = {path: one.read() for path, one in found.items() if one is not None}
        archived = sha256(archive.read_bytes())
    about = json.loads(content["package.json"])
    entry = {
        "name": name,
        "version": about["version"],
        "licence": about["license"],
        "archive_sha256": archived,
        "files": [
            {"file": here, "from": path, "sha256": sha256(content[path])} for path, here in files.items()
        ],
    }
    return entry, {here: content[path] for path, here in files.items()}


def main() -> int:
    """Write the files and compare or write the manifest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write a new manifest")
    update = parser.parse_args().update
    wanted, known = WANTED, None
    if not update:
        known = json.loads(MANIFEST.read_text(encoding="utf-8"))["packages"]
        wanted = {
            one["name"]: (one["version"], {file["from"]: file["file"] for file in one["files"]})
            for one in known
        }
    entries, contents = [], dict[str, bytes]()
    for name, (version, files) in wanted.items():
        entry, content = unpack(name, version, files)
        entries.append(entry)
        contents |= content
    if known is not None and entries != known:
        print(f"the packages differ from {MANIFEST}: nothing was written", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)
    MANIFEST.write_text(json.dumps({"packages": entries}, indent=2) + "\n", encoding="utf-8")
    print(", ".join(f"{one['name']} {one['version']} ({one['licence']})" for one in entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
