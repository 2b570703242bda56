"""Write constraints-hashes.txt: every installed package with its version and the checksum of its published wheel.

Run it in the environment that was tested. pip says which file it would install there, and that file's checksum.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "constraints-hashes.txt"
LEFT_OUT = {"gdpnet", "pip", "torch"}
"""This package, the installer, and torch, whose CPU and CUDA builds come from several places."""

HEAD = """# The wheels that continuous integration installs, by their checksums, for CPython {python} on {platform}.
# `make hashed` refuses every other file. torch is not here: its build depends on the machine, see constraints.txt.
# Written by tools/lock.py from a tested environment.
"""


def checksums(versions: dict[str, str]) -> dict[str, str]:
    """Return the SHA-256 checksum of the wheel that pip would install of each package."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "wanted.txt", Path(folder) / "report.json"
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        words = [
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        words += ["--report", str(report), "--requirement", str(wanted)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        one["metadata"]["name"].lower().replace("_", "-").replace(".", "-"): one["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for one in found
    }


def main() -> None:
    """Write the file."""
    names = {
        one.metadata["Name"].lower().replace("_", "-").replace(".", "-"): one.version
        for one in distributions()
    }
    versions = {name: version for name, version in sorted(names.items()) if name not in LEFT_OUT}
    found = checksums(versions)
    lines = [f"{name}=={version} --hash=sha256:{found[name]}\n" for name, version in versions.items()]
    head = HEAD.format(python=f"{sys.version_info.major}.{sys.version_info.minor}", platform=sys.platform)
    LOCK.write_text(head + "".join(lines), encoding="utf-8")
    print(f"{len(lines)} packages written to {LOCK.name}")


if __name__ == "__main__":
    main()
