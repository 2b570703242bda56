"""Compare the files of two folders bit for bit, without times, durations and commits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_VARIES = {"seconds", "time", "commit", "fit_seconds", "train_seconds", "duration", "sha256"}
"""Keys of JSON objects that differ between two runs that do the same."""

_SECONDS = re.compile(rb"\d+(\.\d+)?(?= ?(s|seconds)\b)")

Tree = dict[str, str]
"""The digest of every file by its path below a folder."""


def tree_of(folder: Path, left_out: Iterable[str] = ()) -> Tree:
    """Return the digests of all files below a folder; a link or a device is told by its kind."""
    skipped = set(left_out)
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in skipped or name.split("/")[0] in skipped:
            continue
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            found[name] = f"link {path.readlink()}"
        elif stat.S_ISREG(kind):
            found[name] = digest_of(path, folder)
        elif not stat.S_ISDIR(kind):
            found[name] = f"special {stat.S_IFMT(kind):o}"
    return found


def digest_of(path: Path, folder: Path) -> str:
    """Return the digest of a file without what varies; the folder's own path does not count."""
    content = path.read_bytes().replace(str(folder).encode(), b"FOLDER")
    if path.name == "records.jsonl":
        return hashlib.sha256(_records(content)).hexdigest()[:16]
    reader = {".json": _json, ".jsonl": _lines, ".safetensors": _tensors}.get(path.suffix, _text)
    try:
        content = reader(content)
    except (ValueError, UnicodeDecodeError, struct.error):
        content = b"unreadable " + content
    return hashlib.sha256(content).hexdigest()[:16]


def differences(found: Tree, wanted: Tree) -> list[str]:
    """Return one sentence per file that is missing, different or too many."""
    said = [f"{name} is missing" for name in wanted.keys() - found.keys()]
    said += [f"{name} was left behind" for name in found.keys() - wanted.keys()]
    said += [f"{name} differs" for name in wanted.keys() & found.keys() if wanted[name] != found[name]]
    return sorted(said)


def steady(value: Any) -> Any:
    """Return a JSON value without the keys that vary."""
    if isinstance(value, dict):
        return {key: steady(part) for key, part in value.items() if key not in _VARIES}
    return [steady(part) for part in value] if isinstance(value, list) else value


def _json(content: bytes) -> bytes:
    return json.dumps(steady(json.loads(content)), sort_keys=True).encode()


def _lines(content: bytes) -> bytes:
    return b"\n".join(_json(line) for line in content.splitlines())


def _records(content: bytes) -> bytes:
    """Return the records of a file in any order, without lines that were torn."""
    found = []
    for line in content.splitlines():
        with contextlib.suppress(ValueError):
            found.append(_json(line))
    return b"\n".join(sorted(found))


def _text(content: bytes) -> bytes:
    """Return a page without its durations; other files as they are."""
    return _SECONDS.sub(b"0", content) if content[:200].lstrip()[:1] in (b"<", b"#") else content


def _tensors(content: bytes) -> bytes:
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    about = header.get("__metadata__", {})
    if "about" in about:
        about["about"] = json.loads(about["about"])
    return json.dumps(steady(header), sort_keys=True).encode() + content[8 + size :]
